//! A program with a subscriber: the test's own program started once more, so that it can be killed.

use std::process::{Child, Command, Stdio};

use highwater::backend::{LeaderHold, Leadership as _, Transactional};
use highwater::{EventBus, FailurePolicy};
use highwater_postgres::{PgConfig, PgEventStore};
use highwater_sqlite::SqliteEventStore;
use serde::{Deserialize, Serialize};

use crate::support::{Fixed, Kind, Place, Postgres, Sqlite, coordinated, eventually, picky, say};

/// Tells the program that it is a worker, and where.
const WORKER: &str = "HIGHWATER_TEST_WORKER";

#[derive(Serialize, Deserialize)]
struct Job {
    url: String,
    schema: String,
}

/// A running worker. It is killed when it is dropped.
pub struct Worker(Child);

impl Worker {
    pub fn start<K: Kind>(place: &Place<K>) -> Self {
        let job = Job { url: place.url.clone(), schema: place.schema.clone() };
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker::a_worker_processes_until_it_is_killed", "--nocapture"])
            .env(WORKER, serde_json::to_string(&job).unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

async fn work<B: Transactional>(store: B) {
    let bus = EventBus::with_config(store, coordinated());
    picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
    std::future::pending().await
}

/// Waits for a worker: it has to start first.
pub async fn has_handled(store: &impl Transactional, at: u64) {
    eventually("a worker has handled that", async || {
        store.checkpoint("projection:picky").await.unwrap().is_some_and(|found| found.global_sequence == at)
    })
    .await;
}

/// By itself: workers that are started, work and are killed. With a job in the environment: that worker.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_processes_until_it_is_killed() {
    let Ok(job) = std::env::var(WORKER) else {
        starts_and_dies(&Sqlite::place()).await;
        return starts_and_dies(&Postgres::place()).await;
    };
    let job: Job = serde_json::from_str(&job).unwrap();
    if job.url.starts_with("sqlite:") {
        return work(SqliteEventStore::open(&job.url).await.unwrap()).await;
    }
    let config = PgConfig { schema: job.schema, ..PgConfig::default() };
    work(PgEventStore::connect_with(&job.url, config).await.unwrap()).await;
}

async fn starts_and_dies<K: Kind>(place: &Place<K>) {
    let store = place.store().await;
    let worker = Worker::start(place);
    let at = say(&store, "a", "good").await;
    has_handled(&store, at).await;
    let leader = store.leaders().await.unwrap().remove(0);
    assert_eq!((leader.instance.pid, leader.hold), (worker.0.id(), LeaderHold::Held));
    drop(worker);
    eventually("it leads no more", async || store.leaders().await.unwrap()[0].hold == LeaderHold::Gone).await;
}
