//! The same work by hand.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Row};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::Error;
use crate::payload::{EVENT_TYPE, Placed};

const TABLE: &str = include_str!("../../sql/sqlite_raw_table.sql");
const INSERT: &str = include_str!("../../sql/sqlite_raw_insert.sql");
const READ: &str = include_str!("../../sql/sqlite_raw_read.sql");

pub(super) struct Raw {
    connection: Mutex<SqliteConnection>,
    placed: Placed,
}

impl Raw {
    pub(super) async fn open(path: &Path, placed: &Placed) -> Result<Self, Error> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .disable_statement_logging();
        let mut connection = options.connect().await?;
        sqlx::query(TABLE).execute(&mut connection).await?;
        Ok(Self { connection: Mutex::new(connection), placed: placed.clone() })
    }

    /// One event in a transaction of its own.
    pub(super) async fn insert(self: Arc<Self>) -> Result<usize, Error> {
        insert(&mut *self.connection.lock().await, &self.placed).await?;
        Ok(1)
    }

    /// As many events as there is time for, in one transaction; how many a second.
    pub(super) async fn insert_for(&self, time: Duration) -> Result<f64, Error> {
        let mut connection = self.connection.lock().await;
        let (started, mut events) = (Instant::now(), 0);
        let mut tx = connection.begin().await?;
        while started.elapsed() < time {
            insert(&mut tx, &self.placed).await?;
            events += 1;
        }
        tx.commit().await?;
        Ok(f64::from(events) / started.elapsed().as_secs_f64())
    }

    pub(super) async fn insert_many(&self, events: usize) -> Result<(), Error> {
        let mut connection = self.connection.lock().await;
        let mut tx = connection.begin().await?;
        for _ in 0..events {
            insert(&mut tx, &self.placed).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Reads everything, decoded, and says how much that was.
    pub(super) async fn read(&self) -> Result<usize, Error> {
        let mut connection = self.connection.lock().await;
        let mut rows = sqlx::query(READ).fetch(&mut *connection);
        let mut events = 0;
        while let Some(row) = rows.try_next().await? {
            let (sequence, id, stream): (i64, Uuid, Uuid) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let (version, event_type): (i64, String) = (row.try_get(3)?, row.try_get(4)?);
            let (metadata, created_at): (String, i64) = (row.try_get(7)?, row.try_get(8)?);
            let placed: Placed = serde_json::from_str(row.try_get(6)?)?;
            black_box((sequence, id, stream, version, event_type, metadata, created_at, placed));
            events += 1;
        }
        Ok(events)
    }
}

async fn insert(connection: &mut SqliteConnection, placed: &Placed) -> Result<(), Error> {
    sqlx::query(INSERT)
        .bind(chrono::Utc::now().timestamp_micros())
        .bind(Uuid::now_v7())
        .bind(Uuid::new_v4())
        .bind(EVENT_TYPE)
        .bind(serde_json::to_string(placed)?)
        .execute(connection)
        .await?;
    Ok(())
}
