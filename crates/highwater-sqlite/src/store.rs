//! The one public struct of this backend.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use highwater::Error;
use highwater::backend::{AppendQueue, KindsWritten, Prepared};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, SqlitePool};
use tokio::sync::Mutex;

use crate::appender;
use crate::config::SqliteConfig;
use crate::connect::Connector;
use crate::error::failed;
use crate::gate::{self, Gate};
use crate::migrate;
use crate::opened::OpenedFile;
use crate::place;
use crate::sql::Inserts;
use crate::transfer::unfinished;
use crate::wakeups::SqliteWakeups;

/// Connections for transactions of the application and of delivery. One at a time has a transaction open; others come back.
const WRITERS_MAX: u32 = 4;

/// An event store in a SQLite file. Clones share everything.
///
/// It keeps one connection for appending, one that checks whether other processes have written, one for writes that may be
/// lost, and small pools for reading and for transactions; all are opened when they are first needed. Each has its own
/// thread.
#[derive(Clone)]
pub struct SqliteEventStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: SqliteConfig,
    pub(crate) path: PathBuf,
    pub(crate) pool: SqlitePool,
    pub(crate) writers: SqlitePool,
    pub(crate) connector: Connector,
    /// For what may be lost when the machine crashes.
    pub(crate) light: Mutex<Option<SqliteConnection>>,
    pub(crate) gate: Gate,
    pub(crate) appends: Arc<Inserts>,
    pub(crate) appender: AppendQueue,
    pub(crate) kinds: KindsWritten,
    pub(crate) wakeups: SqliteWakeups,
}

impl SqliteEventStore {
    /// Opens a database with default settings, and creates the file if it is not there. The URL is `sqlite:shop.db` or
    /// `sqlite:///var/lib/shop.db`; a path will do.
    ///
    /// # Errors
    /// [`Error::Unfit`] for a file that is another application's, that is not a SQLite database, that a newer version has
    /// laid out, or that lies on a network file system; [`Error::Denied`] in a place that is read-only;
    /// [`Error::Invalid`] for a URL that cannot be used; [`Error::Unavailable`] when the file or its folder is not there.
    pub async fn open(url: &str) -> Result<Self, Error> {
        Self::open_with(url, SqliteConfig::default()).await
    }

    /// Opens a database with custom settings.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Error::Invalid`] for a setting that cannot work.
    pub async fn open_with(url: &str, config: SqliteConfig) -> Result<Self, Error> {
        config.validate()?;
        let path = place::canonical(&place::parse(url)?)?;
        place::check(&path, config.create, config.allow_network_file_system)?;
        let connector = Connector::new(&path, config.synchronous);
        let mut first = connector.create().await.map_err(|e| failed("open the database", e))?;
        let looked = match migrate::read_layout(&mut first, &path).await {
            Ok(0) => Ok(()),
            // A copy may have been made without.
            Ok(_) => migrate::log_ahead(&mut first, &path).await,
            Err(error) => Err(error),
        };
        // Waited for: a refused caller leaves nothing beside the file.
        let closed = first.close().await;
        looked?;
        closed.map_err(|e| failed("open the database", e))?;
        let gate = Gate::of(OpenedFile::at(&path)?);
        let appends = Arc::new(Inserts::new());
        let wakeups = SqliteWakeups::new(connector.clone(), config.watch_interval);
        let appender = appender::start(&connector, &gate, &appends, &config, &wakeups.hints());
        let inner = Inner {
            pool: connector.pool(config.pool_connections_max),
            writers: connector.writers(WRITERS_MAX),
            light: Mutex::default(),
            config,
            path,
            connector,
            gate,
            appends,
            appender,
            kinds: KindsWritten::default(),
            wakeups,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The file, by the one path that all processes know it by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// A pool of connections to the same file, for reading models and for creating their tables. Transactions that write on
    /// it must begin with `BEGIN IMMEDIATE`; what belongs together with events is written in a
    /// [`UnitOfWork`](crate::UnitOfWork) or by a transactional projection.
    #[must_use]
    pub fn pool(&self) -> &SqlitePool {
        &self.inner.pool
    }

    pub(crate) fn prepare(&self, append: &highwater::Append) -> Result<Prepared, Error> {
        let config = &self.inner.config;
        let prepared = Prepared::new(append, &config.limits, &config.upcasters, &self.inner.kinds)?;
        self.inner.kinds.look_back(self);
        Ok(prepared)
    }

    /// Writes something small that needs no transaction of a caller's, durably.
    pub(crate) async fn write<T>(
        &self,
        action: &'static str,
        patience: Duration,
        writing: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, Error> {
        let _permit = self.inner.gate.enter(action, patience).await?;
        // Inside, so that no filling begins meanwhile. Triggers fire only where there is a row.
        let mut tx = gate::begin(&self.inner.writers, patience).await?;
        if let Some(unfinished) = unfinished(&mut *tx).await? {
            return Err(unfinished.into_error());
        }
        let written = writing(&mut tx).await.map_err(|e| failed(action, e))?;
        tx.commit().await.map_err(|e| crate::error::commit_failed(action, e))?;
        Ok(written)
    }

    /// Writes something that may be lost when the machine crashes, without waiting for the disk.
    pub(crate) async fn write_lightly<T>(
        &self,
        action: &'static str,
        patience: Duration,
        writing: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, Error> {
        let mut light = self.inner.light.lock().await;
        let _permit = self.inner.gate.enter(action, patience).await?;
        // Taken out: when the caller goes away in the middle, the connection goes with it, and the transaction.
        let mut connection = match light.take() {
            Some(connection) => connection,
            None => self.inner.connector.connect_light().await.map_err(|e| failed(action, e))?,
        };
        gate::begin_on(&mut connection, patience).await?;
        let written = match writing(&mut connection).await {
            Ok(written) => gate::commit_on(&mut connection).await.map(|()| written),
            Err(error) => Err(error),
        };
        if written.is_ok() || gate::rollback_on(&mut connection).await {
            *light = Some(connection);
        }
        written.map_err(|e| failed(action, e))
    }
}

impl fmt::Debug for SqliteEventStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteEventStore").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Synchronous;

    const FULL: i64 = 2;
    const NORMAL: i64 = 1;

    async fn synchronous(connection: &mut SqliteConnection) -> i64 {
        sqlx::query_scalar(crate::sql::diagnose_synchronous).fetch_one(connection).await.unwrap()
    }

    #[tokio::test]
    async fn only_what_may_be_lost_does_not_wait_for_the_disk() {
        let folder = std::env::temp_dir().join(format!("highwater-synchronous-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (set, durable) in [(Synchronous::Full, FULL), (Synchronous::Normal, NORMAL)] {
            let config = SqliteConfig { synchronous: set, ..SqliteConfig::default() };
            let store = SqliteEventStore::open_with(folder.join("x.db").to_str().unwrap(), config).await.unwrap();
            let inner = &store.inner;
            // The appender's, and those of transactions.
            assert_eq!(synchronous(&mut inner.connector.connect_writer().await.unwrap()).await, durable);
            assert_eq!(synchronous(&mut inner.writers.acquire().await.unwrap()).await, durable);
            assert_eq!(synchronous(&mut inner.pool.acquire().await.unwrap()).await, durable);
            assert_eq!(synchronous(&mut inner.connector.connect_light().await.unwrap()).await, NORMAL);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
