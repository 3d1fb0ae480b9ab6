//! A program that processes: a transactional projection, and one that has an effect outside. It is the test's own program
//! started once more, so that it can be killed, frozen and cut off.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use highwater::{
    BoxError, CoordinatorConfig, Event, Projection, ReliableDeliveryConfig, StateIs, SubscriberOptions,
    TransactionalProjection,
};
use highwater_contract::delivered;
use highwater_postgres::{PgEventBus, PgEventStore, PgTx};
use serde::{Deserialize, Serialize};
use sqlx::AssertSqlSafe;
use throwaway_postgres::send_signal;
use tokio::signal::unix::{SignalKind, signal};

use super::processes::caught_up;
use super::{coordinated_in_batches, leader};
use crate::support::{Db, Note, eventually};

/// Tells the program that it is a worker, and which.
const WORKER: &str = "HIGHWATER_TEST_WORKER";
pub const COUNTED: &str = "projection:counted";
pub const EFFECTS: &str = "projection:effects";

/// What a worker is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    pub url: String,
    pub schema: String,
    pub name: String,
    pub bound_ms: u64,
    pub batch: usize,
    /// Subscribers that do nothing, besides those two.
    pub idle: usize,
    pub spread: bool,
}

impl Job {
    pub fn new(db: &Db, name: &str) -> Self {
        let (url, schema, name) = (db.url.clone(), db.schema.clone(), name.to_owned());
        Self { url, schema, name, bound_ms: 1_000, batch: 20, idle: 0, spread: true }
    }

    /// The tables that workers write to.
    pub async fn prepare(db: &Db) -> PgEventStore {
        let store = db.store().await;
        let mut connection = db.connection().await;
        db.execute(
            &mut connection,
            "CREATE TABLE {s}.counted (at bigint PRIMARY KEY, worker text NOT NULL);
             CREATE TABLE {s}.effects (n bigserial, at bigint NOT NULL, worker text NOT NULL,
                 seen_at timestamptz NOT NULL DEFAULT clock_timestamp())",
        )
        .await;
        store
    }

    pub fn start(&self) -> Worker {
        self.start_as(&mut Command::new(std::env::current_exe().unwrap()))
    }

    /// With a command that runs what follows it.
    pub fn start_as(&self, command: &mut Command) -> Worker {
        let child = command
            .args(["--exact", "leadership::worker::a_worker_processes_until_it_is_told_to_stop", "--nocapture"])
            .env(WORKER, serde_json::to_string(self).unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Worker { name: self.name.clone(), child }
    }

    fn config(&self) -> ReliableDeliveryConfig {
        let config = coordinated_in_batches(self.batch);
        let takeover_bound = Duration::from_millis(self.bound_ms);
        let coordination = CoordinatorConfig { takeover_bound, spread: self.spread, ..config.coordination };
        ReliableDeliveryConfig { coordination, ..config }
    }

    async fn work(self) {
        let db = std::mem::ManuallyDrop::new(Db { url: self.url.clone(), schema: self.schema.clone() });
        let store = PgEventStore::connect_with(&db.url, db.config()).await.unwrap();
        let mut stop = signal(SignalKind::terminate()).unwrap();
        let bus = PgEventBus::with_config(store.clone(), self.config());
        let job = Arc::new(self);
        bus.subscribe(Counted(job.clone(), store.clone())).await.unwrap();
        bus.subscribe(Effects(job.clone(), store.pool().clone())).await.unwrap();
        for n in 0..job.idle {
            let idle = highwater::observer_fn(format!("projection:idle-{n}"), |_: Event<Note>| async { Ok(()) });
            bus.subscribe(idle).await.unwrap();
        }
        stop.recv().await;
        bus.shutdown().await.unwrap();
    }
}

/// A running worker. It is killed when it is dropped.
pub struct Worker {
    pub name: String,
    child: Child,
}

impl Worker {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGSTOP: it is there, and does nothing any more.
    pub fn freeze(&self) {
        send_signal(self.pid(), "STOP").unwrap();
    }

    pub fn thaw(&self) {
        send_signal(self.pid(), "CONT").unwrap();
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        assert!(self.child.wait().unwrap().code().is_none(), "it was killed, and did not end by itself");
    }

    /// SIGTERM: it stops in an orderly way, and says that it could.
    pub async fn stop(mut self) {
        send_signal(self.pid(), "TERM").unwrap();
        let mut status = None;
        eventually("the worker stops", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        assert!(status.unwrap().success(), "{} did not stop in an orderly way", self.name);
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Counts every event in its transaction. An event that says so freezes the instance that gets it first, in the middle of
/// it.
struct Counted(Arc<Job>, PgEventStore);

impl TransactionalProjection<Note, PgTx> for Counted {
    fn subscriber_id(&self) -> &str {
        COUNTED
    }

    fn options(&self) -> SubscriberOptions {
        delivered(SubscriberOptions::new(), &self.0.config())
    }

    async fn apply(&self, tx: &mut PgTx, event: &Event<Note>) -> Result<(), BoxError> {
        let Note::Noted { text } = &event.data else { return Ok(()) };
        let (at, job) = (event.global_sequence.unwrap() as i64, &self.0);
        // The primary key makes a second count an error, and that a dead letter: it could not go unseen.
        let count = format!("INSERT INTO \"{}\".counted VALUES ($1, $2)", job.schema);
        sqlx::query(AssertSqlSafe(count)).bind(at).bind(&job.name).execute(&mut **tx).await?;
        if *text == format!("{} freezes", job.name) || *text == format!("{} freezes with a number", job.name) {
            if text.ends_with("number") {
                // Never committed, so there is nothing to announce.
                let (_, _announcement) = self.1.append_on(tx, &crate::support::one()).await?;
            }
            effect(self.1.pool(), job, -at).await?;
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

/// Writes down what it is handed, outside of any transaction of ours.
struct Effects(Arc<Job>, sqlx::PgPool);

impl Projection<Note> for Effects {
    const STATE: StateIs = StateIs::Outside;

    fn subscriber_id(&self) -> &str {
        EFFECTS
    }

    fn options(&self) -> SubscriberOptions {
        delivered(SubscriberOptions::new(), &self.0.config())
    }

    async fn apply(&self, event: &Event<Note>) -> Result<(), BoxError> {
        effect(&self.1, &self.0, event.global_sequence.unwrap() as i64).await
    }
}

async fn effect(pool: &sqlx::PgPool, job: &Job, at: i64) -> Result<(), BoxError> {
    let insert = format!("INSERT INTO \"{}\".effects (at, worker) VALUES ($1, $2)", job.schema);
    sqlx::query(AssertSqlSafe(insert)).bind(at).bind(&job.name).execute(pool).await?;
    Ok(())
}

/// By itself: a worker that is started, works and is stopped. With a job in the environment: that worker.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_processes_until_it_is_told_to_stop() {
    if let Ok(job) = std::env::var(WORKER) {
        return serde_json::from_str::<Job>(&job).unwrap().work().await;
    }
    let db = Db::new();
    let store = Job::prepare(&db).await;
    let worker = Job::new(&db, "a").start();
    caught_up(&store).await;
    for subscriber_id in [COUNTED, EFFECTS] {
        let leader = leader(&store, subscriber_id).await.unwrap();
        assert_eq!((leader.instance.pid, &*leader.instance.host), (worker.pid(), hostname().trim()));
    }
    worker.stop().await;
    assert!(leader(&store, COUNTED).await.is_none(), "who has stopped does not lead");
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap()
}
