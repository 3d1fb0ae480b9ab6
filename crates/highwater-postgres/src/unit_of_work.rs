//! Appends together with the application's own writes, in one transaction.

use std::time::Duration;

use highwater::backend::{Prepared, Wakeups};
use highwater::{Append, Appended, Error};
use sqlx::postgres::PgConnection;
use sqlx::{Postgres, Transaction};

use crate::announcement::Announcement;
use crate::connect;
use crate::error::{append_failed, commit_refused, failed, in_time, is_lost, sqlstate};
use crate::own_pool::ANSWER_TIMEOUT;
use crate::store::PgEventStore;
use crate::write::{self, NotAppended};

/// How long the end of a transaction may take before its outcome counts as unknown. A server that waits for a replica takes
/// long, and one that has vanished never answers.
pub(crate) const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A transaction of this backend.
pub type PgTx = Transaction<'static, Postgres>;

impl PgEventStore {
    /// Starts a unit of work on a transaction of the store's [`pool`](Self::pool) for the application.
    ///
    /// ```no_run
    /// # use highwater::prelude::*;
    /// # #[derive(serde::Serialize)] enum Order { Placed { cents: i64 } }
    /// # async fn example(store: highwater_postgres::PgEventStore) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut work = store.begin().await?;
    /// sqlx::query("UPDATE stock SET left = left - 1 WHERE sku = 'A-100'").execute(&mut **work.tx()).await?;
    /// work.append(Append::to(stream_id("order", "17")).event(Order::Placed { cents: 1299 }));
    /// let done = work.commit().await?;    // both, or neither
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When no connection can be had.
    pub async fn begin(&self) -> Result<UnitOfWork<'static>, Error> {
        let cannot_begin = |e| failed("begin a transaction", e);
        let connection = self.inner.application_pool.acquire().await.map_err(cannot_begin)?;
        // One that is given up may be inside a transaction of which the driver does not know. The pool closes it then: see
        // `connect::pool_options`.
        let beginning = async { Transaction::begin(connection, None).await.map_err(cannot_begin) };
        Ok(self.unit_of_work(in_time(ANSWER_TIMEOUT, "begin a transaction in time", beginning).await?))
    }

    /// Makes a unit of work of a transaction that the application has begun, from its own pool. Also useful without appends:
    /// unlike sqlx's, its [`commit`](UnitOfWork::commit) returns an error when nothing was committed.
    pub fn unit_of_work<'c>(&self, tx: Transaction<'c, Postgres>) -> UnitOfWork<'c> {
        UnitOfWork { store: self.clone(), tx, appends: Vec::new() }
    }

    /// Appends on a transaction of the application's, now rather than at its end.
    ///
    /// Readers of everything wait from here until that transaction ends, so end it soon: a [`UnitOfWork`] is better
    /// wherever it can be used. The server ends the transaction if it is left idle for 5 s. Readers are not notified until
    /// the [`Announcement`] is sent after the commit, or until they poll. In a handler that was handed its transaction, the
    /// bus sends it.
    ///
    /// What is returned is where the events are *if the transaction commits*. That is for the caller to see to, and sqlx's
    /// `commit` does not tell: should a later statement fail and the error be swallowed, PostgreSQL rolls back, and `commit`
    /// says `Ok`. Commit with `store.unit_of_work(tx).commit()`, which gives an error then.
    ///
    /// # Errors
    /// As [`append`](highwater::backend::Log::append); [`Error::Aborted`] when a statement in the transaction has failed before, or has
    /// ended it. The transaction must be rolled back then.
    pub async fn append_on(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        append: &Append,
    ) -> Result<(Appended, Announcement), Error> {
        let prepared = self.prepare(append)?;
        self.guard(tx).await?;
        let appended = match self.store_on(tx, &prepared).await {
            Ok(appended) => appended,
            Err(NotAppended::Error(error)) => return Err(error),
            Err(NotAppended::Failed(error)) => return Err(self.explain_failure(error, &prepared).await?.1),
        };
        highwater::backend::appended_in_handler(appended.global_sequence);
        let announcement = Announcement::new(self, appended.global_sequence);
        Ok((appended, announcement))
    }

    pub(crate) fn prepare(&self, append: &Append) -> Result<Prepared, Error> {
        let config = &self.inner.config;
        let prepared = Prepared::new(append, &config.limits, &config.upcasters, &self.inner.kinds)?;
        self.inner.kinds.look_back(self);
        Ok(prepared)
    }

    async fn guard(&self, tx: &mut Transaction<'_, Postgres>) -> Result<(), Error> {
        in_time(ANSWER_TIMEOUT, "append in time", async {
            write::still_open(tx, &self.inner.sql).await?;
            connect::guard(tx, &self.inner.sql).await
        })
        .await
    }

    /// Stores one append in a transaction of the caller's. Nothing is committed yet, so the outcome is known also when no
    /// answer comes.
    async fn store_on(&self, tx: &mut Transaction<'_, Postgres>, append: &Prepared) -> Result<Appended, NotAppended> {
        let wait = self.inner.config.append_timeout;
        let storing = write::store_within(tx, &self.inner.sql, append, wait);
        tokio::time::timeout(wait + ANSWER_TIMEOUT, storing).await.unwrap_or_else(|elapsed| {
            Err(NotAppended::Error(Error::Unavailable { action: "append in time", source: elapsed.into() }))
        })
    }

    /// What a statement's failure inside a transaction says about an append. The transaction is over, so this looks from
    /// outside: the positions of the append if it is stored already, and else the error.
    async fn explain_failure(&self, error: sqlx::Error, append: &Prepared) -> Result<(Option<Appended>, Error), Error> {
        match sqlstate(&error).as_deref() {
            Some("55P03") => Ok((None, append.held(self.inner.config.append_timeout))),
            Some("23505") => {
                let looking = async |connection: &mut PgConnection| {
                    let stored = write::stored_before(connection, &self.inner.sql, append).await?;
                    Ok((stored, write::current_conflict(connection, &self.inner.sql, append).await?))
                };
                let (stored, conflict) = self.inner.own_pool.work("look up event ids", looking).await?;
                Ok((stored, conflict.unwrap_or_else(|| append_failed(error))))
            }
            _ if is_lost(&error) => {
                // Nothing was committed yet, so the outcome is known.
                Ok((None, Error::Unavailable { action: "append", source: error.into() }))
            }
            Some("25006") => {
                // The server, or this transaction alone?
                let looking = async |connection: &mut PgConnection| self.inner.connector.read_server(connection).await;
                match self.inner.own_pool.work("identify the server", looking).await {
                    Ok(server) if server.is_writable() => Ok((None, Error::Aborted { source: error.into() })),
                    _ => Ok((None, self.noted(append_failed(error)))),
                }
            }
            _ => Ok((None, self.noted(append_failed(error)))),
        }
    }
}

/// Appends and the application's own writes, committed together.
///
/// Appends are collected and stored as the last statement before the COMMIT, so that readers of everything, which have to
/// wait for a transaction that has drawn a number, wait for as short a time as possible. Dropping it rolls back.
#[must_use = "a unit of work stores nothing unless it is committed"]
pub struct UnitOfWork<'c> {
    store: PgEventStore,
    tx: Transaction<'c, Postgres>,
    appends: Vec<Append>,
}

impl<'c> UnitOfWork<'c> {
    /// The transaction, for the application's own statements.
    pub fn tx(&mut self) -> &mut Transaction<'c, Postgres> {
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
    /// [`Error::Aborted`] when a statement of the application's has failed and the error was swallowed, when a statement has
    /// ended the transaction (`COMMIT`, `ROLLBACK`), or when a deferred constraint does not hold.
    /// [`Error::UnknownOutcome`] when the connection was lost during the COMMIT, or no answer came within 30 s: try the whole
    /// unit of work again with the same appends. [`Error::Unavailable`] when it was lost, or not answered, before that.
    pub async fn commit(mut self) -> Result<Vec<Appended>, Error> {
        let prepared = match self.appends.iter().map(|append| self.store.prepare(append)).collect::<Result<Vec<_>, _>>()
        {
            Ok(prepared) => prepared,
            Err(error) => return Err(self.roll_back(error).await),
        };
        let fit = match prepared.is_empty() {
            true => {
                let looking = write::still_open(&mut self.tx, &self.store.inner.sql);
                in_time(ANSWER_TIMEOUT, "commit in time", looking).await
            }
            false => self.store.guard(&mut self.tx).await,
        };
        if let Err(error) = fit {
            return Err(self.roll_back(error).await);
        }
        let mut done = Vec::with_capacity(prepared.len());
        for append in &prepared {
            match self.store.store_on(&mut self.tx, append).await {
                Ok(appended) => done.push(appended),
                Err(NotAppended::Error(error)) => return Err(self.roll_back(error).await),
                Err(NotAppended::Failed(error)) => return self.stored_before(error, &prepared, append).await,
            }
        }
        match done.iter().filter(|appended| appended.repeated).count() {
            0 => {}
            stored if stored == done.len() => {
                let store = self.store.clone();
                // First, so that nothing of ours is held while we look, and wait until it is safe.
                self.rollback().await?;
                return stored_before(&store, &prepared).await;
            }
            stored => return Err(self.roll_back(Error::PartlyStored { stored, total: done.len() }).await),
        }
        let Self { store, tx, .. } = self;
        match tokio::time::timeout(COMMIT_TIMEOUT, tx.commit()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                return Err(match sqlstate(&error) {
                    // A serialization failure is an error like any other: the whole may be retried.
                    Some(code) if !is_lost(&error) && !code.starts_with("40") => commit_refused(error),
                    _ => append_failed(error),
                });
            }
            Err(elapsed) => return Err(Error::UnknownOutcome { source: elapsed.into() }),
        }
        if let Some(highest) = done.iter().map(|appended| appended.global_sequence).max() {
            store.announce(highest);
        }
        Ok(done)
    }

    /// Rolls everything back.
    ///
    /// # Errors
    /// When the connection is lost; the server rolls back by itself then.
    pub async fn rollback(self) -> Result<(), Error> {
        let rolling_back = async { self.tx.rollback().await.map_err(|e| failed("roll back", e)) };
        in_time(ANSWER_TIMEOUT, "roll back in time", rolling_back).await
    }

    /// After a failed statement: perhaps all of this was committed by an earlier attempt.
    async fn stored_before(
        self,
        error: sqlx::Error,
        all: &[Prepared],
        failed_one: &Prepared,
    ) -> Result<Vec<Appended>, Error> {
        let store = self.store.clone();
        // First, so that nothing of ours is held while we look.
        roll_back(self.tx).await;
        let (stored, error) = store.explain_failure(error, failed_one).await?;
        if stored.is_none() {
            return Err(error);
        }
        stored_before(&store, all).await
    }

    async fn roll_back(self, error: Error) -> Error {
        // A server that cannot be reached, or does not answer, would not answer to that either.
        if !matches!(error, Error::Unavailable { .. }) {
            roll_back(self.tx).await;
        }
        error
    }
}

/// The answers to appends that an earlier attempt has committed, all of them.
async fn stored_before(store: &PgEventStore, all: &[Prepared]) -> Result<Vec<Appended>, Error> {
    let looking = async |connection: &mut PgConnection| {
        let mut done = Vec::with_capacity(all.len());
        for append in all {
            done.extend(write::stored_before(connection, &store.inner.sql, append).await?);
        }
        Ok(done)
    };
    let done = store.inner.own_pool.work("look up event ids", looking).await?;
    if done.len() < all.len() {
        return Err(Error::PartlyStored { stored: done.len(), total: all.len() });
    }
    Ok(done)
}

/// Explicitly: a dropped transaction only queues its ROLLBACK, and readers, or the next to want a checkpoint, would wait for it.
pub(crate) async fn roll_back(tx: Transaction<'_, Postgres>) {
    match tokio::time::timeout(ANSWER_TIMEOUT, tx.rollback()).await {
        Ok(Ok(())) => {}
        Ok(Err(lost)) => {
            tracing::debug!(error = %lost, "the connection was lost before the rollback; the server rolls back by itself");
        }
        // Dropped: a pool of this store closes it, and has another in its place.
        Err(_) => tracing::debug!("a rollback was not answered in time; the server rolls back by itself"),
    }
}
