//! The two databases that the experiment can be on, and what it needs of them beyond the library.

use highwater::backend::Transactional;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use highwater::backend::Wakeups as _;
use highwater::{Append, Appended, Error};
use highwater_postgres::{PgConfig, PgEventStore, PgTx};
use highwater_sqlite::{SqliteEventStore, SqliteTx};
use serde::{Deserialize, Serialize};

/// Where the events are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// On PostgreSQL, perhaps on several hosts.
    Postgres {
        /// The database.
        url: String,
    },
    /// In a file.
    Sqlite {
        /// The file.
        file: PathBuf,
    },
}

/// The statements of the experiment itself, one a file and a dialect.
#[derive(Debug)]
pub struct Statements {
    /// Tables and triggers.
    pub tables: &'static str,
    /// A row for each event of a batch.
    pub rows: &'static str,
    /// What the batch makes of its streams.
    pub tallies: &'static str,
    /// What a rebuild removes.
    pub forget: [&'static str; 2],
}

/// The same in both dialects.
const FORGET: [&str; 2] = [include_str!("../sql/forget_rows.sql"), include_str!("../sql/forget_tallies.sql")];

/// On PostgreSQL.
const ASYNCHRONOUS: &str = include_str!("../sql/postgres/asynchronous.sql");

/// How long a transaction stays open, and how it ends.
#[derive(Debug, Clone, Copy)]
pub struct OpenFor {
    /// Before anything is appended.
    pub before: Duration,
    /// After it: readers have to wait for that.
    pub after: Duration,
    /// Whether it is committed.
    pub commit: bool,
}

/// A store that the experiment can be on.
pub trait Base: Transactional {
    /// In its dialect.
    const SQL: Statements;
    /// Whether a transaction can be committed without waiting for the disk, so that a crash of the server takes it back.
    const CAN_BE_ASYNCHRONOUS: bool;

    /// Opens it. `name`: what connections are called by, where they are called anything.
    fn open(place: &Place, name: &str) -> impl Future<Output = Result<Self, Error>> + Send;

    /// Runs a statement with text parameters in the transaction that a projection was handed.
    fn within(
        tx: &mut Self::Tx,
        sql: &'static str,
        values: &[&str],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// From here on the transaction does not wait for the disk when it is committed, where that can be.
    fn make_asynchronous(_tx: &mut Self::Tx) -> impl Future<Output = Result<(), sqlx::Error>> + Send {
        async { Ok(()) }
    }

    /// Inserts events past the library, in a transaction that does not wait for the disk; returns the place of the last one.
    /// `events`: a JSON array of `[id, stream_id, stream_version, event_type, data]`.
    fn insert_asynchronously(&self, _events: &str) -> impl Future<Output = Result<u64, sqlx::Error>> + Send {
        async { Err(sqlx::Error::Protocol("every transaction waits for the disk here".to_owned())) }
    }

    /// What happens right before an effect: nothing, unless the engine is a broken one.
    fn before_effect(&self, _subscriber_id: &str, _global_sequence: u64) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Appends in a transaction of its own. `None`: it was rolled back.
    fn append_held(
        &self,
        append: &Append,
        held: OpenFor,
    ) -> impl Future<Output = Result<Option<Appended>, Error>> + Send;
}

impl Base for PgEventStore {
    const SQL: Statements = Statements {
        tables: include_str!("../sql/postgres/tables.sql"),
        rows: include_str!("../sql/postgres/rows.sql"),
        tallies: include_str!("../sql/postgres/tallies.sql"),
        forget: FORGET,
    };
    const CAN_BE_ASYNCHRONOUS: bool = true;

    async fn open(place: &Place, name: &str) -> Result<Self, Error> {
        let Place::Postgres { url } = place else { return Err(mistaken(place)) };
        let separator = if url.contains('?') { '&' } else { '?' };
        Self::connect_with(&format!("{url}{separator}application_name={name}"), PgConfig::default()).await
    }

    async fn within(tx: &mut PgTx, sql: &'static str, values: &[&str]) -> Result<(), sqlx::Error> {
        let query = values.iter().fold(sqlx::query(sql), |query, value| query.bind(*value));
        query.execute(&mut **tx).await.map(drop)
    }

    async fn make_asynchronous(tx: &mut PgTx) -> Result<(), sqlx::Error> {
        sqlx::query(ASYNCHRONOUS).execute(&mut **tx).await.map(drop)
    }

    async fn insert_asynchronously(&self, events: &str) -> Result<u64, sqlx::Error> {
        let mut tx = self.pool().begin().await?;
        sqlx::query(ASYNCHRONOUS).execute(&mut *tx).await?;
        let insert = sqlx::query_scalar(include_str!("../sql/postgres/insert.sql")).bind(events);
        let places: Vec<i64> = insert.fetch_all(&mut *tx).await?;
        tx.commit().await?;
        let last = places.last().copied().unwrap_or_default() as u64;
        self.announce(last);
        Ok(last)
    }

    async fn append_held(&self, append: &Append, held: OpenFor) -> Result<Option<Appended>, Error> {
        if held.after.is_zero() {
            let mut work = self.begin().await?;
            tokio::time::sleep(held.before).await;
            work.append(append.clone());
            if !held.commit {
                // As below.
                drop(work.rollback().await);
                return Ok(None);
            }
            return Ok(work.commit().await?.pop());
        }
        let unavailable = |source: sqlx::Error| Error::Unavailable { action: "begin", source: source.into() };
        let mut tx = self.pool().begin().await.map_err(unavailable)?;
        tokio::time::sleep(held.before).await;
        let (appended, announcement) = self.append_on(&mut tx, append).await?;
        tokio::time::sleep(held.after).await;
        if !held.commit {
            // If even that cannot be said, the server rolls back when it finds the connection gone.
            drop(tx.rollback().await);
            return Ok(None);
        }
        tx.commit().await.map_err(|source| Error::UnknownOutcome { source: source.into() })?;
        announcement.send();
        Ok(Some(appended))
    }
}

impl Base for SqliteEventStore {
    const SQL: Statements = Statements {
        tables: include_str!("../sql/sqlite/tables.sql"),
        rows: include_str!("../sql/sqlite/rows.sql"),
        tallies: include_str!("../sql/sqlite/tallies.sql"),
        forget: FORGET,
    };
    const CAN_BE_ASYNCHRONOUS: bool = false;

    async fn open(place: &Place, _name: &str) -> Result<Self, Error> {
        let Place::Sqlite { file } = place else { return Err(mistaken(place)) };
        Self::open(&format!("sqlite:{}", file.display())).await
    }

    async fn within(tx: &mut SqliteTx, sql: &'static str, values: &[&str]) -> Result<(), sqlx::Error> {
        let query = values.iter().fold(sqlx::query(sql), |query, value| query.bind(*value));
        query.execute(&mut **tx).await.map(drop)
    }

    async fn append_held(&self, append: &Append, held: OpenFor) -> Result<Option<Appended>, Error> {
        let mut work = self.begin().await?;
        tokio::time::sleep(held.before).await;
        if held.after.is_zero() {
            work.append(append.clone());
        } else {
            // Now rather than at the end, and then there is something to take back.
            let (appended, announcement) = self.append_on(work.tx(), append).await?;
            tokio::time::sleep(held.after).await;
            if held.commit {
                work.commit().await?;
                announcement.send();
                return Ok(Some(appended));
            }
        }
        if !held.commit {
            work.rollback().await?;
            return Ok(None);
        }
        Ok(work.commit().await?.pop())
    }
}

fn mistaken(place: &Place) -> Error {
    Error::Unfit { reason: format!("{place:?} is a place of another backend") }
}
