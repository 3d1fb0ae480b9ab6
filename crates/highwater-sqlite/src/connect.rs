//! How connections are opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection};

use crate::Synchronous;
use crate::sql;

/// How long a reader waits in the rare cases in which it has to: while another process repairs what a crash has left, or
/// changes the layout.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for a connection of a pool.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(30);
/// How much of the database a connection keeps in memory, as SQLite counts it: less than nothing is KiB. New streams go to
/// any place of their index, and what is not in memory has to be read before it is written.
const CACHE: &str = "-8192";
/// After how many pages the write-ahead log is brought back into the database. More means that a page which changes again and
/// again is brought back once.
pub(crate) const AUTOCHECKPOINT: &str = "4000";
/// Rows that are read ahead of their consumer.
const ROWS_AHEAD: usize = 256;

/// Opens connections to one file.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    path: PathBuf,
    synchronous: SqliteSynchronous,
}

impl Connector {
    pub(crate) fn new(path: &Path, synchronous: Synchronous) -> Self {
        let synchronous = match synchronous {
            Synchronous::Full => SqliteSynchronous::Full,
            Synchronous::Normal => SqliteSynchronous::Normal,
        };
        Self { path: path.to_owned(), synchronous }
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new()
            .filename(&self.path)
            .synchronous(self.synchronous)
            .busy_timeout(BUSY_TIMEOUT)
            .row_buffer_size(ROWS_AHEAD)
            .pragma("cache_size", CACHE)
            .pragma("wal_autocheckpoint", AUTOCHECKPOINT)
            // On macOS a disk keeps what it was told to store only with this; elsewhere it does nothing.
            .pragma("fullfsync", "ON")
            .disable_statement_logging()
    }

    /// Creates the file if it is not there.
    pub(crate) async fn create(&self) -> Result<SqliteConnection, sqlx::Error> {
        self.options().create_if_missing(true).connect().await
    }

    /// A connection for reading.
    pub(crate) async fn connect(&self) -> Result<SqliteConnection, sqlx::Error> {
        self.options().connect().await
    }

    /// A connection for writing. It does not wait by itself: the writer retries at its own intervals.
    pub(crate) async fn connect_writer(&self) -> Result<SqliteConnection, sqlx::Error> {
        writing(self.options().connect().await?).await
    }

    /// A connection for writing what may be lost when the machine crashes.
    pub(crate) async fn connect_light(&self) -> Result<SqliteConnection, sqlx::Error> {
        writing(self.options().synchronous(SqliteSynchronous::Normal).connect().await?).await
    }

    /// Connections shared by all callers.
    pub(crate) fn pool(&self, connections_max: u32) -> SqlitePool {
        pool_options(connections_max).connect_lazy_with(self.options())
    }

    /// Connections for transactions that write.
    pub(crate) fn writers(&self, connections_max: u32) -> SqlitePool {
        pool_options(connections_max)
            .after_connect(|connection, _| {
                Box::pin(async { sqlx::query(sql::no_waiting).execute(connection).await.map(drop) })
            })
            .connect_lazy_with(self.options())
    }
}

/// Only now: while a connection is being opened there may be something to wait for: another process that closes its last
/// one.
async fn writing(mut connection: SqliteConnection) -> Result<SqliteConnection, sqlx::Error> {
    sqlx::query(sql::no_waiting).execute(&mut connection).await?;
    Ok(connection)
}

fn pool_options(connections_max: u32) -> SqlitePoolOptions {
    // A connection to a file does not die while idle.
    SqlitePoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
        .max_lifetime(None)
        .after_release(|connection, _| {
            Box::pin(async {
                // The driver counts a transaction that something inside has ended as open for ever, and would never begin
                // another one on that connection. A rollback may still be under way.
                if connection.is_in_transaction() {
                    connection.ping().await?;
                }
                Ok(!connection.is_in_transaction())
            })
        })
}
