//! A folder for a test's database, and what every test needs.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use highwater::backend::Log;
use highwater::{Append, CheckpointMode, Event, EventStore, InstanceMode, ReliableDeliveryConfig};
use highwater_sqlite::{SqliteConfig, SqliteEventStore};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, Connection};
use uuid::Uuid;

/// A folder that is removed with everything in it.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("highwater-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn database(&self) -> PathBuf {
        self.0.join("events.db")
    }

    pub fn url(&self) -> String {
        format!("sqlite:{}", self.database().display())
    }

    /// The database, laid out.
    pub async fn store(&self) -> SqliteEventStore {
        self.store_with(SqliteConfig::default()).await
    }

    pub async fn store_with(&self, config: SqliteConfig) -> SqliteEventStore {
        let store = SqliteEventStore::open_with(&self.url(), config).await.unwrap();
        store.initialize().await.unwrap();
        store
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Whoever looks after a failed test finds nothing in the way if this fails.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The events of these tests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Note {
    Noted { text: String },
}

pub fn note(text: impl Into<String>) -> Note {
    Note::Noted { text: text.into() }
}

/// An append of one event to a fresh stream.
pub fn one() -> Append {
    Append::to(Uuid::now_v7()).event(note("one"))
}

/// Stores one event in a stream of its own, and says where.
pub async fn say(store: &SqliteEventStore, text: &str) -> u64 {
    store.append(&Append::to(Uuid::now_v7()).event(note(text))).await.unwrap().global_sequence
}

/// Everything there is, in the order a reader is given it.
pub async fn everything(store: &SqliteEventStore) -> Vec<Event<Note>> {
    store.read_all_events_since::<Note>(0).collect().await.unwrap()
}

pub async fn sequences(store: &SqliteEventStore) -> Vec<u64> {
    everything(store).await.iter().map(|event| event.global_sequence.unwrap()).collect()
}

/// Numbers grow, versions follow each other in every stream, and no event is there twice.
pub fn assert_in_order(events: &[Event<Note>]) {
    assert!(events.is_sorted_by(|a, b| a.global_sequence < b.global_sequence), "numbers grow");
    let mut heads = std::collections::HashMap::<Uuid, u64>::new();
    for event in events {
        let head = heads.entry(event.stream_id).or_default();
        *head += 1;
        assert_eq!(event.stream_version, *head, "the versions of a stream follow each other");
    }
    let ids: std::collections::HashSet<Uuid> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids.len(), events.len(), "no event is there twice");
}

/// A connection as any other program would have it.
pub async fn connection(path: &Path) -> SqliteConnection {
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(path).create_if_missing(true)).await.unwrap()
}

pub async fn execute(connection: &mut SqliteConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Retries within milliseconds.
pub fn quick() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig {
        initial_retry_delay: Duration::from_millis(2),
        max_retry_delay: Duration::from_millis(20),
        checkpoint_mode: CheckpointMode::Synchronous,
        ..ReliableDeliveryConfig::default()
    }
}

/// Instances that share the work.
pub fn coordinated(batch: usize) -> ReliableDeliveryConfig {
    ReliableDeliveryConfig {
        instance_mode: InstanceMode::Coordinated,
        standby_interval: Duration::from_millis(50),
        checkpoint_mode: CheckpointMode::Batched { size: batch, interval: Duration::from_secs(1) },
        ..quick()
    }
}

/// How often to do what is worth doing more often.
pub fn soak(count: usize) -> usize {
    count * std::env::var("HIGHWATER_SOAK").ok().and_then(|n| n.parse().ok()).unwrap_or(1).max(1)
}

/// Waits until a condition holds; fails after twenty seconds.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "did not happen in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
