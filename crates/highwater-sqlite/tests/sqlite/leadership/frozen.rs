//! Leaders that are there and do nothing: stopped by a signal, or hanging.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use highwater::backend::{Diagnose, Log, Severity};
use highwater::{Claim, Coordinator, ProjectorCoordinator};
use highwater_sqlite::{SqliteConfig, SqliteEventStore};
use sqlx::Connection;

use super::{BATCH, COUNTED, EFFECTS, assert_nothing_lost, caught_up, leader, leads, prepared, start_with};
use crate::support::{Folder, connection, eventually, execute, impatient, one, say, soak};
use crate::worker::{Job, Task, Worker};

/// After so long without a sign of life the others take over.
const BOUND: Duration = Duration::from_secs(2);
/// How much longer it may take on a machine that has other things to do.
const MARGIN: Duration = Duration::from_secs(4);

async fn instances(store: &SqliteEventStore, count: i64) {
    eventually("all instances are known", async || {
        let there = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM event_bus_instances").fetch_one(store.pool());
        there.await.unwrap() == count
    })
    .await;
}

/// Whether a writer can write. A process stopped in the middle of a transaction keeps all others from it.
async fn can_write(folder: &Folder) -> bool {
    let mut connection = connection(&folder.database()).await;
    execute(&mut connection, "PRAGMA busy_timeout = 50").await;
    let begun = sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await.is_ok();
    if begun {
        execute(&mut connection, "ROLLBACK").await;
    }
    connection.close().await.unwrap();
    begun
}

/// Stops a worker outside of any transaction.
async fn freeze_between_transactions(folder: &Folder, worker: &Worker) {
    eventually("it is stopped between two transactions", async || {
        worker.freeze();
        let between = can_write(folder).await;
        if !between {
            worker.thaw();
        }
        between
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_leader_is_taken_over_within_the_bound_and_stands_by_when_it_wakes() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let mut frozen = start_with(&folder, "frozen", BOUND);
    let term = leads(&store, COUNTED, &frozen).await;
    leads(&store, EFFECTS, &frozen).await;
    caught_up(&store).await;
    let other = start_with(&folder, "other", BOUND);
    instances(&store, 2).await;
    freeze_between_transactions(&folder, &frozen).await;
    let (since, had) = (Instant::now(), frozen.said("effect").len());
    let led_by_frozen = [leader(&store, COUNTED).await, leader(&store, EFFECTS).await];
    assert!(led_by_frozen.iter().flatten().any(|leader| leader.instance.pid == frozen.pid()), "{led_by_frozen:?}");

    assert!(leads(&store, COUNTED, &other).await > term, "with a higher term");
    leads(&store, EFFECTS, &other).await;
    let took = since.elapsed();
    assert!((BOUND / 2..BOUND + MARGIN).contains(&took), "taken over after {took:?}");
    caught_up(&store).await;
    assert_eq!(frozen.said("effect").len(), had, "it still sleeps");

    frozen.thaw();
    frozen.tell("wait to stand by");
    frozen.says("stands by", 1).await;
    for subscriber_id in [COUNTED, EFFECTS] {
        let led = leader(&store, subscriber_id).await.expect("it is led");
        assert_eq!(led.instance.pid, other.pid(), "who woke takes nothing away");
    }
    assert_eq!(frozen.said("effect").len(), had, "and has handled nothing since");

    // It is a standby as any other.
    let mut effects = other.kill("effect");
    leads(&store, COUNTED, &frozen).await;
    leads(&store, EFFECTS, &frozen).await;
    caught_up(&store).await;
    effects.extend(frozen.end().await.said("effect"));
    assert_nothing_lost(&store, &effects, BATCH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_took_over_from_a_frozen_leader_is_followed_at_once_when_it_dies() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let bound = BOUND * 2;
    let frozen = start_with(&folder, "frozen", bound);
    leads(&store, COUNTED, &frozen).await;
    caught_up(&store).await;
    freeze_between_transactions(&folder, &frozen).await;
    let second = start_with(&folder, "second", bound);
    leads(&store, COUNTED, &second).await;
    leads(&store, EFFECTS, &second).await;
    let third = start_with(&folder, "third", bound);
    // The frozen one may be forgotten by now, or not yet.
    eventually("the third is known", async || {
        let there = sqlx::query_scalar::<_, i64>("SELECT pid FROM event_bus_instances").fetch_all(store.pool());
        there.await.unwrap().contains(&i64::from(third.pid()))
    })
    .await;
    let (killed, died) = (second.pid(), Instant::now());
    second.kill("");
    leads(&store, COUNTED, &third).await;
    assert!(died.elapsed() < bound, "the lock is free when process {killed} is gone: {:?}", died.elapsed());
    frozen.thaw();
    caught_up(&store).await;
    assert_eq!(leader(&store, COUNTED).await.map(|leader| leader.instance.pid), Some(third.pid()));
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_that_are_frozen_again_and_again_under_load_lose_nothing() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let bound = Duration::from_millis(500);
    let workers = ["a", "b", "c"].map(|name| start_with(&folder, name, bound));
    let rounds = soak(4);
    for round in 0..rounds {
        let mut leads = None;
        eventually("an instance leads", async || {
            leads = leader(&store, COUNTED).await;
            leads.is_some()
        })
        .await;
        let leads = leads.unwrap();
        let load: Vec<_> = (0..40)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move { say(&store, &format!("{round}-{n}")).await })
            })
            .collect();
        let worker = workers.iter().find(|worker| worker.pid() == leads.instance.pid).expect("one of them leads");
        // In the middle of anything: if that is a transaction, nobody writes, and nobody takes over until it wakes.
        worker.freeze();
        if can_write(&folder).await {
            eventually("another takes over", async || {
                leader(&store, COUNTED).await.is_some_and(|leader| leader.term > leads.term)
            })
            .await;
        }
        worker.thaw();
        for append in load {
            append.await.unwrap();
        }
    }
    caught_up(&store).await;
    let mut effects = Vec::new();
    for worker in workers {
        effects.extend(worker.end().await.said("effect"));
    }
    // Both subscribers may have moved more than once in a round.
    assert_nothing_lost(&store, &effects, BATCH * rounds * 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_stopped_inside_a_transaction_is_named_with_what_to_do() {
    let folder = Folder::new();
    let config = SqliteConfig { append_timeout: Duration::from_millis(200), ..SqliteConfig::default() };
    let store = folder.store_with(config).await;
    let holder = Job::on(&folder, Task::Hold).start();
    holder.says("held", 1).await;
    holder.freeze();
    let refused = store.append(&one()).await.unwrap_err();
    let causes = std::iter::successors(Some(&refused as &dyn std::error::Error), |error| error.source());
    let said = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let command = format!("kill -CONT {}", holder.pid());
    assert!(said.contains("which is stopped") && said.contains(&command), "{said}");
    let findings = store.diagnose().await.unwrap();
    let named = findings.iter().find(|finding| finding.topic == "writers").unwrap();
    assert!(named.severity == Severity::Warning && named.found.contains(&command), "{named:?}");
    holder.thaw();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_names_an_instance_that_gives_no_sign_of_life() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let worker = start_with(&folder, "frozen", Duration::from_millis(300));
    leads(&store, COUNTED, &worker).await;
    caught_up(&store).await;
    freeze_between_transactions(&folder, &worker).await;
    let command = format!("kill -CONT {}", worker.pid());
    eventually("it is named", async || {
        let findings = store.diagnose().await.unwrap();
        let found = findings.iter().find(|finding| finding.topic == "instances").unwrap();
        found.severity == Severity::Warning && found.advice.as_ref().is_some_and(|advice| advice.contains(&command))
    })
    .await;
}

/// Leads on a runtime of its own, and then blocks it until it is told to continue. Then says whether it still believes to
/// lead.
fn hang(store: SqliteEventStore, bound: Duration) -> (mpsc::Receiver<()>, mpsc::Sender<()>, mpsc::Receiver<bool>) {
    let ((leads, is_leading), (go_on, wait)) = (mpsc::channel(), mpsc::channel());
    let (tell, still_leads) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let coordinator = Coordinator::with_config(&store, &impatient(bound, 1).coordination);
            let guard = coordinator.acquire(&Claim::of(COUNTED)).await.unwrap();
            leads.send(()).unwrap();
            wait.recv().unwrap();
            tell.send(guard.is_held()).unwrap();
        });
    });
    (is_leading, go_on, still_leads)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_hangs_as_a_whole_gives_leadership_up() {
    let folder = Folder::new();
    let store = folder.store().await;
    // A hang counts from three seconds on, and from twelve bounds on.
    let bound = Duration::from_millis(300);
    let (is_leading, go_on, still_leads) = hang(folder.store().await, bound);
    tokio::task::spawn_blocking(move || is_leading.recv().unwrap()).await.unwrap();
    let other = Coordinator::with_config(&store, &impatient(bound, 1).coordination);
    let since = Instant::now();
    let guard = tokio::time::timeout(Duration::from_secs(20), other.acquire(&Claim::of(COUNTED))).await;
    let guard = guard.expect("it gives up").unwrap();
    assert!(since.elapsed() >= Duration::from_secs(2), "a short block costs nothing: {:?}", since.elapsed());
    assert!(guard.is_held());
    go_on.send(()).unwrap();
    assert!(!still_leads.recv().unwrap(), "and knows");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_no_instance_answers_for_is_taken_over() {
    let folder = Folder::new();
    let store = folder.store().await;
    let bound = Duration::from_millis(300);
    let claim = Claim::of(COUNTED);
    let coordinator = Coordinator::with_config(&store, &impatient(bound, 1).coordination);
    drop(coordinator.acquire(&claim).await.unwrap());
    // As a child has it that was forked from a leader and outlives it.
    let locks = folder.path().join("events.db-locks");
    let entries = std::fs::read_dir(&locks).unwrap().map(|entry| entry.unwrap().path());
    let path = entries.into_iter().find(|path| path.to_str().unwrap().contains("leader-")).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    file.lock().unwrap();
    assert!(coordinator.try_acquire(&claim).await.unwrap().is_none(), "for now it is held");
    let since = Instant::now();
    let guard = tokio::time::timeout(Duration::from_secs(20), coordinator.acquire(&claim)).await;
    let guard = guard.expect("not for ever").unwrap();
    assert!(since.elapsed() >= bound, "not before the bound: {:?}", since.elapsed());
    assert!(guard.is_held());
    drop(file);
    assert!(guard.is_held(), "what was replaced does not matter any more");
    let other = Coordinator::with_config(&folder.store().await, &impatient(bound, 1).coordination);
    assert!(other.try_acquire(&claim).await.unwrap().is_none());
}
