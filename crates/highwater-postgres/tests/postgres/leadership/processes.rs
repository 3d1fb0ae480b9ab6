//! Processes that are killed, frozen, stopped and cut off while they lead.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use highwater::GlobalSequence;
use highwater_postgres::{PgEventBus, PgEventStore};

use super::leader;
use super::worker::{COUNTED, EFFECTS, Job, Worker};
use crate::bus::{quick, say};
use crate::support::{Db, eventually, sequences, soak};

/// A writer that appends all the time, and does not give up.
pub struct Load {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Load {
    pub fn on(store: &PgEventStore) -> Self {
        let (store, stop) = (store.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            while !stopped.load(Ordering::SeqCst) {
                let append = crate::support::one();
                while highwater::backend::Log::append(&store, &append).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        });
        Self { stop, task }
    }

    pub async fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.task.await.unwrap();
    }
}

/// How often an event had its effect, by event; without what is not an event's.
pub async fn effects(db: &Db) -> BTreeMap<u64, i64> {
    let mut connection = db.connection().await;
    let rows: Vec<(i64, i64)> = sqlx::query_as("SELECT at, count(*) FROM effects WHERE at > 0 GROUP BY at")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    rows.into_iter().map(|(at, count)| (at as u64, count)).collect()
}

pub async fn counted(db: &Db) -> Vec<u64> {
    let mut connection = db.connection().await;
    let rows: Vec<i64> =
        sqlx::query_scalar("SELECT at FROM counted ORDER BY at").fetch_all(&mut connection).await.unwrap();
    rows.into_iter().map(|at| at as u64).collect()
}

/// Effects that a worker had so far.
async fn had(db: &Db, worker: &str) -> i64 {
    let mut connection = db.connection().await;
    let count = sqlx::query_scalar("SELECT count(*) FROM effects WHERE worker = $1").bind(worker);
    count.fetch_one(&mut connection).await.unwrap()
}

/// Waits until everything in the log has been handled, by workers that may still be starting.
pub async fn caught_up(store: &PgEventStore) {
    let bus = PgEventBus::with_config(store.clone(), quick());
    let at = say(store, "the end").await;
    for subscriber_id in [COUNTED, EFFECTS] {
        eventually("it has been started", async || {
            highwater::backend::Checkpoints::checkpoint(store, subscriber_id).await.unwrap().is_some()
        })
        .await;
        bus.wait_for(subscriber_id, GlobalSequence(at)).await.unwrap();
    }
}

/// Every event counted once, and every effect had, `again` more in all at most.
pub async fn assert_nothing_lost(db: &Db, store: &PgEventStore, again: usize) {
    let all = sequences(store).await;
    assert_eq!(counted(db).await, all, "the read model is the log");
    let effects = effects(db).await;
    assert!(all.iter().eq(effects.keys()), "every event had its effect");
    let doubled: i64 = effects.values().map(|count| count - 1).sum();
    assert!(doubled <= again as i64, "{doubled} effects more than once, where {again} may be");
    let dead_letters =
        highwater::backend::DeadLetters::count_dead_letters(store, &highwater::operations::DeadLetterQuery::default())
            .await
            .unwrap();
    assert_eq!(dead_letters, 0, "nothing was counted twice and refused for that");
}

/// The worker that leads for a subscriber, taken out of those there are.
async fn leading(store: &PgEventStore, workers: &mut Vec<Worker>, subscriber_id: &str) -> Worker {
    let mut at = None;
    eventually("an instance leads", async || {
        let leader = leader(store, subscriber_id).await;
        at = leader.and_then(|leader| workers.iter().position(|worker| worker.pid() == leader.instance.pid));
        at.is_some()
    })
    .await;
    workers.swap_remove(at.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_under_load_is_followed_and_nothing_is_lost() {
    let db = Db::new();
    let store = Job::prepare(&db).await;
    let kills = if soak(1) > 1 { 20 } else { 3 };
    let mut workers: Vec<Worker> = ["a", "b"].map(|name| Job::new(&db, name).start()).into();
    let load = Load::on(&store);
    for kill in 0..kills {
        let victim = leading(&store, &mut workers, EFFECTS).await;
        eventually("it has done something", async || had(&db, &victim.name).await > 20).await;
        let dead = victim.name.clone();
        victim.kill();
        let (other, before) = (workers[0].name.clone(), had(&db, &workers[0].name).await);
        eventually("the other takes over", async || had(&db, &other).await > before + 20).await;
        workers.push(Job::new(&db, &format!("{dead}{kill}")).start());
    }
    load.end().await;
    caught_up(&store).await;
    assert_nothing_lost(&db, &store, 20 * kills).await;
}

/// The leader for `COUNTED` is frozen while it does what `text` says of it. The other takes over; then the frozen one comes
/// back, writes nothing, and stands by.
async fn frozen(text: Option<&str>) {
    let db = Db::new();
    let store = Job::prepare(&db).await;
    // Work that is spread would move to the one that has come back.
    let stays = |name: &str| Job { spread: false, ..Job::new(&db, name) }.start();
    let mut workers = vec![stays("a")];
    let frozen = leading(&store, &mut workers, COUNTED).await;
    workers.push(stays("b"));
    caught_up(&store).await;
    if let Some(text) = text {
        let at = say(&store, &format!("a {text}")).await;
        let mut connection = db.connection().await;
        eventually("it is in the middle of it", async || {
            let begun = sqlx::query_scalar("SELECT EXISTS (SELECT FROM effects WHERE at = $1)").bind(-(at as i64));
            begun.fetch_one(&mut connection).await.unwrap()
        })
        .await;
    }
    let term = leader(&store, COUNTED).await.map(|leader| leader.term);
    let since = std::time::Instant::now();
    frozen.freeze();
    eventually("another leads", async || leader(&store, COUNTED).await.is_some_and(|now| Some(now.term) > term)).await;
    let bound = Duration::from_millis(Job::new(&db, "").bound_ms);
    eprintln!("followed after {:?}, the bound is {bound:?}", since.elapsed());
    assert!(since.elapsed() < 3 * bound, "within the bound, give or take what this machine has to do: {since:?}");
    for n in 0..10 {
        say(&store, &n.to_string()).await;
    }
    caught_up(&store).await;
    let now = leader(&store, COUNTED).await.unwrap();
    assert_eq!(now.instance.pid, workers[0].pid());
    assert!(Some(now.term) > term);
    let (effects_before, counted_before) = (had(&db, "a").await, counted(&db).await);

    frozen.thaw();
    caught_up(&store).await;
    assert_eq!(had(&db, "a").await, effects_before, "who was overtaken does nothing");
    assert_eq!(counted(&db).await.len(), counted_before.len() + 1, "and writes nothing");
    assert_eq!(leader(&store, COUNTED).await.unwrap().instance.pid, workers[0].pid(), "the leader stays");
    // It stands by: when the other is gone, it is its turn again.
    workers.remove(0).kill();
    caught_up(&store).await;
    assert_eq!(leader(&store, COUNTED).await.unwrap().instance.pid, frozen.pid());
    assert_nothing_lost(&db, &store, 40).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_leader_is_followed_and_stands_by_when_it_comes_back() {
    frozen(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_frozen_with_its_transaction_open_is_followed() {
    frozen(Some("freezes")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_frozen_with_a_number_drawn_is_followed_and_holds_nobody_back() {
    frozen(Some("freezes with a number")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_under_load_loses_and_doubles_nothing() {
    let db = Db::new();
    let store = Job::prepare(&db).await;
    let mut workers: Vec<Worker> = ["a", "b", "c"].map(|name| Job::new(&db, name).start()).into();
    let load = Load::on(&store);
    for turn in 0..3 {
        let name = format!("{}{turn}", workers[0].name);
        let before = effects(&db).await.len();
        eventually("events are handled", async || effects(&db).await.len() > before + 20).await;
        workers.remove(0).stop().await;
        workers.push(Job::new(&db, &name).start());
    }
    load.end().await;
    caught_up(&store).await;
    assert_nothing_lost(&db, &store, 0).await;
    assert!(workers.iter_mut().all(Worker::is_running));
}
