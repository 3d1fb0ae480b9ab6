//! A folder for a test's database, and what every test needs.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use highwater::{CheckpointMode, CoordinatorConfig, Event, EventStore, InstanceMode, ReliableDeliveryConfig};
pub use highwater_contract::notes::{Note, eventually, new, note, one, quick, say, sequences, soak};
use highwater_sqlite::{SqliteConfig, SqliteEventStore};
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
        // After a failed test nothing is in the way if this fails.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Everything there is, in the order a reader is given it.
pub async fn everything(store: &SqliteEventStore) -> Vec<Event<Note>> {
    store.read_all_events_since::<Note>(0).collect().await.unwrap()
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

/// Instances that share the work.
pub fn coordinated(batch: usize) -> ReliableDeliveryConfig {
    ReliableDeliveryConfig {
        instance_mode: InstanceMode::Coordinated,
        coordination: CoordinatorConfig { standby_interval: Duration::from_millis(50), ..CoordinatorConfig::default() },
        checkpoint_mode: CheckpointMode::Batched { size: batch, interval: Duration::from_secs(1) },
        ..quick()
    }
}

/// The same, where a silent one is taken over from after so long.
pub fn impatient(bound: Duration, batch: usize) -> ReliableDeliveryConfig {
    let config = coordinated(batch);
    let coordination = CoordinatorConfig { takeover_bound: bound, ..config.coordination };
    ReliableDeliveryConfig { coordination, ..config }
}
