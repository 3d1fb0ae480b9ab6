//! A program with a subscriber: the test's own program started once more, so that it can be killed.

use std::process::{Child, Command, Stdio};

use highwater::{Backend, EventBus, FailurePolicy};
use highwater_postgres::{PgConfig, PgEventStore};
use highwater_sqlite::SqliteEventStore;
use serde::{Deserialize, Serialize};

use crate::support::{Kind, Mended, Place, coordinated, picky};

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

async fn work<B: Backend>(store: B) {
    let bus = EventBus::new(store, coordinated());
    picky(&bus, FailurePolicy::DeadLetter, &Mended::default()).await;
    std::future::pending().await
}

/// With a job in the environment: that worker. By itself there is nothing to do, and tests that start one see to the rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_processes_until_it_is_killed() {
    let Ok(job) = std::env::var(WORKER) else {
        assert!(std::env::current_exe().unwrap().exists(), "it can be started again");
        return;
    };
    let job: Job = serde_json::from_str(&job).unwrap();
    if job.url.starts_with("sqlite:") {
        return work(SqliteEventStore::open(&job.url).await.unwrap()).await;
    }
    let config = PgConfig { schema: job.schema, ..PgConfig::default() };
    work(PgEventStore::connect_with(&job.url, config).await.unwrap()).await;
}
