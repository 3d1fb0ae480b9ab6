//! Leadership between processes, by locks on files.

mod frozen;
mod meddling;
mod rights;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use highwater::backend::{Leader, LeaderHold, Leadership};
use highwater::{
    BoxError, Claim, Coordinator, Event, GlobalSequence, ProjectorCoordinator, SubscriptionState,
    TransactionalProjection, observer_fn,
};
use highwater_contract::notes::{
    hands_over_without_a_warning, warns_of_an_older_schema_version, warns_of_what_another_program_wrote,
    warns_of_what_was_passed_by,
};
use highwater_sqlite::{SqliteEventBus, SqliteEventStore, SqliteTx};

use crate::support::{Folder, Note, coordinated, eventually, impatient, say, sequences, soak};
use crate::worker::{Job, Orders, Task, Worker, report};

const COUNTED: &str = "projection:counted";
const EFFECTS: &str = "projection:effects";
/// After so many events a checkpoint is stored.
const BATCH: usize = 20;

/// A worker that shares the work with others: a transactional projection, one that has an effect outside, and idle ones.
pub async fn lead(store: SqliteEventStore, name: String, idle: usize, bound: Duration, mut orders: Orders) {
    let bus = SqliteEventBus::with_config(store, impatient(bound, BATCH));
    let counted = bus.subscribe(Counted(name)).await.unwrap();
    let effects = |event: Event<Note>| async move {
        report(format!("effect {}", event.global_sequence.unwrap()));
        Ok::<_, BoxError>(())
    };
    let effects = bus.subscribe(observer_fn(EFFECTS, effects)).await.unwrap();
    for n in 0..idle {
        let idle = observer_fn(format!("projection:idle-{n}"), |_: Event<Note>| async { Ok(()) });
        bus.subscribe(idle).await.unwrap();
    }
    let mut child = None;
    while let Some(order) = orders.recv().await {
        match &*order {
            "run" => {
                let started = std::process::Command::new("sleep").arg("60").stdout(std::process::Stdio::null()).spawn();
                child = Some(started.unwrap());
                report(format!("child {}", child.as_ref().unwrap().id()));
            }
            "wait to stand by" => {
                let deadline = Instant::now() + Duration::from_secs(20);
                let stands_by = |state| matches!(state, SubscriptionState::Standby { .. });
                while !(stands_by(counted.state()) && stands_by(effects.state())) {
                    assert!(Instant::now() < deadline, "they stand by");
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                report("stands by");
            }
            other => panic!("what is {other:?}?"),
        }
    }
    bus.shutdown().await.unwrap();
    if let Some(mut child) = child {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// A worker that tries to lead, and says how that went.
pub async fn try_to_lead(store: SqliteEventStore) {
    let coordinator = Coordinator::with_config(&store, &coordinated(1).coordination);
    match coordinator.try_acquire(&Claim::of(COUNTED)).await {
        Ok(Some(_)) => report("leads"),
        Ok(None) => report("does not lead"),
        Err(error) => report(format!("refused {error}: {}", std::error::Error::source(&error).unwrap())),
    }
    coordinator.close().await;
}

/// Counts every event in its transaction. The primary key makes a second count an error, and that a dead letter.
struct Counted(String);

impl TransactionalProjection<Note, SqliteTx> for Counted {
    fn subscriber_id(&self) -> &str {
        COUNTED
    }

    async fn apply(&self, tx: &mut SqliteTx, event: &Event<Note>) -> Result<(), BoxError> {
        let count = sqlx::query("INSERT INTO counted VALUES ($1, $2)").bind(event.global_sequence.unwrap() as i64);
        count.bind(&self.0).execute(&mut **tx).await?;
        Ok(())
    }
}

/// A database for workers that lead.
async fn prepared(folder: &Folder) -> SqliteEventStore {
    let store = folder.store().await;
    let table = "CREATE TABLE counted (at INTEGER PRIMARY KEY, worker TEXT NOT NULL) STRICT";
    sqlx::query(table).execute(store.pool()).await.unwrap();
    store
}

/// As it is by default.
const BOUND: Duration = Duration::from_secs(5);

fn start(folder: &Folder, name: &str) -> Worker {
    start_with(folder, name, BOUND)
}

fn start_with(folder: &Folder, name: &str, bound: Duration) -> Worker {
    Job::on(folder, Task::Lead { name: name.to_owned(), idle: 0, bound }).start()
}

/// Who leads for a subscriber now.
async fn leader(store: &SqliteEventStore, subscriber_id: &str) -> Option<Leader> {
    let leaders = store.leaders().await.unwrap();
    leaders.into_iter().find(|leader| leader.subscriber_id == subscriber_id && leader.hold == LeaderHold::Held)
}

async fn leads(store: &SqliteEventStore, subscriber_id: &str, worker: &Worker) -> u64 {
    let mut term = None;
    eventually("it leads", async || {
        let leader = leader(store, subscriber_id).await.filter(|leader| leader.instance.pid == worker.pid());
        term = leader.map(|leader| leader.term);
        term.is_some()
    })
    .await;
    term.unwrap()
}

/// Waits until everything in the log has been handled.
async fn caught_up(store: &SqliteEventStore) {
    let at = say(store, "the end").await;
    let bus = SqliteEventBus::with_config(store.clone(), crate::support::quick());
    for subscriber_id in [COUNTED, EFFECTS] {
        eventually("the subscriber is known", async || bus.wait_for(subscriber_id, GlobalSequence(at)).await.is_ok())
            .await;
    }
}

/// Every event counted once; every effect had, and at most so many more than once.
async fn assert_nothing_lost(store: &SqliteEventStore, effects: &[String], again: usize) {
    let all = sequences(store).await;
    let counted: Vec<i64> =
        sqlx::query_scalar("SELECT at FROM counted ORDER BY at").fetch_all(store.pool()).await.unwrap();
    assert_eq!(counted.into_iter().map(|at| at as u64).collect::<Vec<_>>(), all, "the read model is the log");
    let mut had = BTreeMap::<u64, usize>::new();
    effects.iter().for_each(|at| *had.entry(at.parse().unwrap()).or_default() += 1);
    assert!(had.keys().eq(all.iter()), "every event had its effect: {had:?}");
    let doubled: usize = had.values().map(|count| count - 1).sum();
    assert!(doubled <= again, "{doubled} effects more than once, where {again} may be");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_is_followed_from_its_checkpoint() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let kills = soak(2);
    let mut effects = Vec::new();
    let mut worker = start(&folder, "first");
    leads(&store, COUNTED, &worker).await;
    leads(&store, EFFECTS, &worker).await;
    for kill in 0..kills {
        let next = start(&folder, &format!("next {kill}"));
        let before = leader(&store, EFFECTS).await.map(|leader| leader.term);
        let load: Vec<_> = (0..50)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move { say(&store, &n.to_string()).await })
            })
            .collect();
        worker.says("effect", 1).await;
        effects.extend(worker.kill("effect"));
        for append in load {
            append.await.unwrap();
        }
        for subscriber_id in [COUNTED, EFFECTS] {
            assert!(Some(leads(&store, subscriber_id, &next).await) > before, "with a higher term");
        }
        worker = next;
    }
    caught_up(&store).await;
    effects.extend(worker.end().await.said("effect"));
    assert_nothing_lost(&store, &effects, BATCH * kills).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stops_hands_over_and_nothing_comes_twice() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let mut effects = Vec::new();
    let mut worker = start(&folder, "first");
    leads(&store, COUNTED, &worker).await;
    for turn in 0..3 {
        let next = start(&folder, &format!("next {turn}"));
        for n in 0..30 {
            say(&store, &n.to_string()).await;
        }
        effects.extend(worker.end().await.said("effect"));
        leads(&store, COUNTED, &next).await;
        leads(&store, EFFECTS, &next).await;
        worker = next;
    }
    caught_up(&store).await;
    effects.extend(worker.end().await.said("effect"));
    assert_nothing_lost(&store, &effects, 0).await;
    assert!(leader(&store, COUNTED).await.is_none(), "who has stopped does not lead");
    let left: i64 =
        sqlx::query_scalar("SELECT count(*) FROM event_bus_instances").fetch_one(store.pool()).await.unwrap();
    assert_eq!(left, 0, "who has stopped is not there any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_work_is_spread_over_three_processes() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let workers: Vec<_> = ["a", "b", "c"]
        .map(|name| Job::on(&folder, Task::Lead { name: name.to_owned(), idle: 7, bound: BOUND }).start())
        .into();
    eventually("each leads three of nine", async || {
        let mut led = BTreeMap::<u32, usize>::new();
        let leaders = store.leaders().await.unwrap();
        let held = leaders.iter().filter(|leader| leader.hold == LeaderHold::Held);
        held.for_each(|leader| *led.entry(leader.instance.pid).or_default() += 1);
        workers.iter().all(|worker| led.get(&worker.pid()) == Some(&3))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_the_leader_runs_does_not_keep_its_lock() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let mut worker = start(&folder, "first");
    leads(&store, COUNTED, &worker).await;
    worker.tell("run");
    let child: i32 = worker.says("child", 1).await[0].parse().unwrap();
    let next = start(&folder, "next");
    worker.kill("");
    leads(&store, COUNTED, &next).await;
    let child = rustix::process::Pid::from_raw(child).unwrap();
    rustix::process::test_kill_process(child).expect("the program still runs");
    rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_in_one_process_exclude_each_other() {
    let folder = Folder::new();
    let (one, other) = (folder.store().await, folder.store().await);
    let claim = Claim::of(COUNTED);
    let (one, other) = (
        Coordinator::with_config(&one, &coordinated(1).coordination),
        Arc::new(Coordinator::with_config(&other, &coordinated(1).coordination)),
    );
    let guard = one.try_acquire(&claim).await.unwrap().unwrap();
    assert!(other.try_acquire(&claim).await.unwrap().is_none());
    assert!(one.try_acquire(&claim).await.unwrap().is_none(), "nor does an instance lead twice");
    let (waiting, waits) = (other.clone(), claim.clone());
    let next = tokio::spawn(async move { waiting.acquire(&waits).await.unwrap().term() });
    let term = guard.term();
    drop(guard);
    assert!(next.await.unwrap() > term);
}

#[tokio::test]
async fn a_type_that_another_program_wrote_to_streams_of_another_kind_is_warned_of() {
    let folder = Folder::new();
    warns_of_what_another_program_wrote(folder.store().await, folder.store().await).await;
}

#[tokio::test]
async fn a_type_that_another_program_writes_in_a_newer_schema_version_is_warned_of() {
    let folder = Folder::new();
    warns_of_an_older_schema_version(folder.store().await, folder.store().await).await;
}

#[tokio::test]
async fn a_subscriber_that_reads_more_than_before_is_told_what_its_checkpoint_has_passed() {
    let folder = Folder::new();
    let bus = async || SqliteEventBus::with_config(folder.store().await, coordinated(BATCH));
    warns_of_what_was_passed_by(bus().await, bus().await).await;
}

#[tokio::test]
async fn joining_spreading_and_leaving_warn_of_nothing() {
    let folder = Folder::new();
    let bus = async || SqliteEventBus::with_config(folder.store().await, coordinated(BATCH));
    hands_over_without_a_warning(bus().await, bus().await).await;
}
