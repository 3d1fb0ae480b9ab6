//! A folder for a test's database, and what every test needs.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use highwater_sqlite::{SqliteConfig, SqliteEventStore};

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
