//! The two databases that the experiment can be on, and what it needs of them beyond the library.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use highwater::{Append, Appended, Backend, Error};
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

/// How long a transaction stays open, and how it ends.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// Before anything is appended.
    pub before: Duration,
    /// After it: readers have to wait for that.
    pub after: Duration,
    /// Whether it is committed.
    pub commit: bool,
}

/// A store that the experiment can be on.
pub trait Base: Backend {
    /// In its dialect.
    const SQL: Statements;

    /// Opens it. `name`: what connections are called by, where they are called anything.
    fn open(place: &Place, name: &str) -> impl Future<Output = Result<Self, Error>> + Send;

    /// Runs a statement with text parameters in the transaction that a projection was handed.
    fn within(
        tx: &mut Self::Tx,
        sql: &'static str,
        values: &[&str],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// What happens right before an effect: nothing, unless the engine is a broken one.
    fn before_effect(&self, _subscriber_id: &str, _global_sequence: u64) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Appends in a transaction of its own. `None`: it was rolled back.
    fn append_held(&self, append: &Append, held: Held) -> impl Future<Output = Result<Option<Appended>, Error>> + Send;
}

impl Base for PgEventStore {
    const SQL: Statements = Statements {
        tables: include_str!("../sql/postgres/tables.sql"),
        rows: include_str!("../sql/postgres/rows.sql"),
        tallies: include_str!("../sql/postgres/tallies.sql"),
        forget: [
            "DELETE FROM chaos_rows WHERE subscriber_id = $1",
            "DELETE FROM chaos_tallies WHERE subscriber_id = $1",
        ],
    };

    async fn open(place: &Place, name: &str) -> Result<Self, Error> {
        let Place::Postgres { url } = place else { return Err(mistaken(place)) };
        let separator = if url.contains('?') { '&' } else { '?' };
        Self::connect_with(&format!("{url}{separator}application_name={name}"), PgConfig::default()).await
    }

    async fn within(tx: &mut PgTx, sql: &'static str, values: &[&str]) -> Result<(), sqlx::Error> {
        let query = values.iter().fold(sqlx::query(sql), |query, value| query.bind(*value));
        query.execute(&mut **tx).await.map(drop)
    }

    async fn append_held(&self, append: &Append, held: Held) -> Result<Option<Appended>, Error> {
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
        forget: [
            "DELETE FROM chaos_rows WHERE subscriber_id = $1",
            "DELETE FROM chaos_tallies WHERE subscriber_id = $1",
        ],
    };

    async fn open(place: &Place, _name: &str) -> Result<Self, Error> {
        let Place::Sqlite { file } = place else { return Err(mistaken(place)) };
        Self::open(&format!("sqlite:{}", file.display())).await
    }

    async fn within(tx: &mut SqliteTx, sql: &'static str, values: &[&str]) -> Result<(), sqlx::Error> {
        let query = values.iter().fold(sqlx::query(sql), |query, value| query.bind(*value));
        query.execute(&mut **tx).await.map(drop)
    }

    async fn append_held(&self, append: &Append, held: Held) -> Result<Option<Appended>, Error> {
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
