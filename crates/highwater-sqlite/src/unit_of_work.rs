//! Appends together with the application's own writes, in one transaction.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use highwater::backend::Wakeups;
use highwater::{Append, Appended, Error};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Sqlite, Transaction};

use crate::error::{Code, code, commit_failed, failed};
use crate::gate::{self, Permit};
use crate::store::SqliteEventStore;
use crate::write;

/// A transaction that writes. It can be used as a connection to execute statements on: `.execute(&mut **tx)`.
///
/// While it exists no other writer can write to the database, so keep it short. Dropping it rolls back.
pub struct SqliteTx {
    tx: Transaction<'static, Sqlite>,
    /// By this the transaction knows itself again.
    pub(crate) number: i64,
    /// Released after the transaction has ended, so it comes last.
    _permit: Permit,
}

impl SqliteTx {
    /// Ends it, and keeps what was done.
    pub(crate) async fn commit(self) -> Result<(), sqlx::Error> {
        let Self { tx, number: _, _permit } = self;
        tx.commit().await
    }

    /// Ends it explicitly: a dropped transaction only queues its ROLLBACK, and the next writer would meet it.
    pub(crate) async fn roll_back(self) {
        let Self { tx, number: _, _permit } = self;
        if let Err(error) = tx.rollback().await {
            tracing::debug!(%error, "there was nothing left to roll back");
        }
    }
}

impl Deref for SqliteTx {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.tx
    }
}

impl DerefMut for SqliteTx {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.tx
    }
}

impl fmt::Debug for SqliteTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteTx").finish_non_exhaustive()
    }
}

impl SqliteEventStore {
    /// Starts a unit of work.
    ///
    /// ```no_run
    /// # use highwater::prelude::*;
    /// # #[derive(serde::Serialize)] enum Order { Placed { cents: i64 } }
    /// # async fn example(store: highwater_sqlite::SqliteEventStore) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut work = store.begin().await?;
    /// sqlx::query("UPDATE stock SET left = left - 1 WHERE sku = 'A-100'").execute(&mut **work.tx()).await?;
    /// work.append(Append::to(stream_id("order", "17")).event(Order::Placed { cents: 1299 }));
    /// let done = work.commit().await?;    // both, or neither
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::HoldsTransaction`] when this task has one already; [`Error::Unavailable`] when others did not end theirs
    /// within [`append_timeout`](crate::SqliteConfig::append_timeout).
    pub async fn begin(&self) -> Result<UnitOfWork, Error> {
        let tx = self.write_transaction("a unit of work", self.inner.config.append_timeout).await?;
        Ok(UnitOfWork { store: self.clone(), tx, appends: Vec::new() })
    }

    /// Opens a transaction that writes, when it is its turn.
    pub(crate) async fn write_transaction(
        &self,
        what: impl Into<Cow<'static, str>>,
        patience: Duration,
    ) -> Result<SqliteTx, Error> {
        let permit = self.inner.gate.enter(what, patience).await?;
        let tx = gate::begin(&self.inner.writers, patience).await?;
        permit.hand_out();
        Ok(SqliteTx { tx, number: fastrand::i64(1..), _permit: permit })
    }

    /// Appends in a transaction that is open already: one that a handler was handed, or the application's own one, which
    /// must have begun with `BEGIN IMMEDIATE`.
    ///
    /// Readers are not notified until the [`Announcement`] is sent after the commit, or until they poll. In a handler that
    /// was handed its transaction, the bus sends it.
    ///
    /// # Errors
    /// As [`append`](highwater::backend::Log::append); [`Error::Aborted`] when no transaction is open. Nothing of the append is stored
    /// then.
    pub async fn append_on(
        &self,
        tx: &mut SqliteConnection,
        append: &Append,
    ) -> Result<(Appended, Announcement), Error> {
        let prepared = self.prepare(append)?;
        self.inner.gate.file().still_has_its_name()?;
        gate::still_open(tx).await?;
        let appended = match write::store(tx, &self.inner.appends, &prepared).await {
            Ok(appended) => appended,
            Err(error) => return Err(self.say_what_fills(error).await),
        };
        highwater::backend::appended_in_handler(appended.global_sequence);
        let announcement = Announcement { store: self.clone(), global_sequence: appended.global_sequence };
        Ok((appended, announcement))
    }
}

/// Appends and the application's own writes, committed together. Dropping it rolls back.
///
/// Appends are collected and stored at the end. Other writers wait from the beginning to the end.
#[must_use = "a unit of work stores nothing unless it is committed"]
#[derive(Debug)]
pub struct UnitOfWork {
    store: SqliteEventStore,
    tx: SqliteTx,
    appends: Vec<Append>,
}

impl UnitOfWork {
    /// The transaction, for the application's own statements.
    pub fn tx(&mut self) -> &mut SqliteTx {
        &mut self.tx
    }

    /// Adds an append. It is validated when the unit of work is committed.
    pub fn append(&mut self, append: Append) {
        self.appends.push(append);
    }

    /// Stores the appends, commits, and notifies waiting readers.
    ///
    /// When the appends turn out to be stored already, by an earlier attempt whose answer was lost, then the application's
    /// writes were committed with them: this attempt is rolled back, and the positions of the first are returned.
    ///
    /// # Errors
    /// As [`append`](highwater::backend::Log::append); then everything is rolled back, the application's writes included.
    /// [`Error::Aborted`] when a deferred constraint does not hold, or when a statement of the application's has ended the
    /// transaction.
    pub async fn commit(mut self) -> Result<Vec<Appended>, Error> {
        if let Err(error) = gate::still_open(&mut self.tx).await {
            self.tx.roll_back().await;
            return Err(error);
        }
        let mut done = Vec::with_capacity(self.appends.len());
        for append in &self.appends {
            let stored = match self.store.prepare(append) {
                Ok(prepared) => write::store(&mut self.tx, &self.store.inner.appends, &prepared).await,
                Err(error) => Err(error),
            };
            match stored {
                Ok(appended) => done.push(appended),
                Err(error) => {
                    self.tx.roll_back().await;
                    return Err(self.store.say_what_fills(error).await);
                }
            }
        }
        let repeated = done.iter().filter(|appended| appended.repeated).count();
        if repeated > 0 {
            self.tx.roll_back().await;
            return match repeated == done.len() {
                true => Ok(done),
                false => Err(Error::PartlyStored { stored: repeated, total: done.len() }),
            };
        }
        self.tx.commit().await.map_err(|error| match code(&error) {
            Some(Code::Constraint | Code::Unique) => Error::Aborted { source: error.into() },
            _ => commit_failed("commit", error),
        })?;
        if let Some(highest) = done.iter().map(|appended| appended.global_sequence).max() {
            self.store.announce(highest);
        }
        Ok(done)
    }

    /// Rolls everything back.
    ///
    /// # Errors
    /// When the disk gives an error; nothing is kept then either.
    pub async fn rollback(self) -> Result<(), Error> {
        let SqliteTx { tx, number: _, _permit } = self.tx;
        tx.rollback().await.map_err(|e| failed("roll back", e))
    }
}

/// Tells that a transaction with appends has been committed. Only a hint: if it is not sent, looking finds the events.
#[derive(Debug, Clone)]
#[must_use = "send it after the commit, or subscribers learn of the events only by looking"]
pub struct Announcement {
    store: SqliteEventStore,
    global_sequence: u64,
}

impl Announcement {
    /// To be called after the commit.
    pub fn send(self) {
        self.store.announce(self.global_sequence);
    }
}
