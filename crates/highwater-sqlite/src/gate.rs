//! The right to write. SQLite has one writer at a time: within a process they queue here, in order, and nobody burns time
//! asking; between processes SQLite's own lock decides, and it is asked for again and again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use highwater::Error;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Sqlite, SqlitePool, Transaction};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task;
use tokio::time::Instant;

use crate::error::{Code, code, failed};
use crate::sql;

/// How long a task waits for a transaction that it holds itself: somebody else in the same task may be about to end it.
const OWN_PATIENCE: Duration = Duration::from_secs(1);
/// How long to wait before another process's lock is asked for again, in microseconds: between these two, by chance.
const ASK_AGAIN_MICROS: std::ops::Range<u64> = 500..2_500;

/// Where writers of one database queue in this process. Clones share it, and so do all stores on the same file.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    place: Arc<Semaphore>,
    holder: Mutex<Option<Holder>>,
}

#[derive(Debug, Clone, Copy)]
struct Holder {
    task: Option<task::Id>,
    what: &'static str,
    since: Instant,
}

/// The right to write, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Gate,
    _place: OwnedSemaphorePermit,
}

impl Gate {
    /// The gate of a file.
    pub(crate) fn of(path: &Path) -> Self {
        static GATES: OnceLock<Mutex<HashMap<PathBuf, Weak<Inner>>>> = OnceLock::new();
        let mut gates = GATES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        gates.retain(|_, gate| gate.strong_count() > 0);
        if let Some(gate) = gates.get(path).and_then(Weak::upgrade) {
            return Self(gate);
        }
        let gate = Arc::new(Inner { place: Arc::new(Semaphore::new(1)), holder: Mutex::default() });
        gates.insert(path.to_owned(), Arc::downgrade(&gate));
        Self(gate)
    }

    fn holder(&self) -> MutexGuard<'_, Option<Holder>> {
        self.0.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its turn. `what` is told to others who wait in vain.
    pub(crate) async fn enter(&self, what: &'static str, patience: Duration) -> Result<Permit, Error> {
        let started = Instant::now();
        let entering = self.0.place.clone().acquire_owned();
        tokio::pin!(entering);
        let place = loop {
            let (own, left) = (self.is_own(), patience.saturating_sub(started.elapsed()));
            let wait = if own { left.min(OWN_PATIENCE) } else { left };
            match tokio::time::timeout(wait, &mut entering).await {
                Ok(place) => break place.expect("the gate is never closed"),
                Err(_) if own && self.is_own() => return Err(Error::HoldsTransaction),
                Err(_) if started.elapsed() >= patience => return Err(self.held(started.elapsed())),
                Err(_) => {}
            }
        };
        *self.holder() = Some(Holder { task: task::try_id(), what, since: Instant::now() });
        Ok(Permit { gate: self.clone(), _place: place })
    }

    /// Does something that will need the gate in another task, unless this very task has it all the time: then it would wait
    /// for itself. What is dropped then has not begun.
    pub(crate) async fn not_for_itself<T>(&self, doing: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        if !self.is_own() {
            return doing.await;
        }
        tokio::pin!(doing);
        match tokio::time::timeout(OWN_PATIENCE, &mut doing).await {
            Ok(done) => done,
            Err(_) if self.is_own() => Err(Error::HoldsTransaction),
            Err(_) => doing.await,
        }
    }

    /// Whether it is this very task that has it.
    fn is_own(&self) -> bool {
        let own = task::try_id();
        own.is_some() && self.holder().is_some_and(|holder| holder.task == own)
    }

    fn held(&self, waited: Duration) -> Error {
        let source = match *self.holder() {
            Some(holder) => format!(
                "waited {waited:.1?}: a transaction of this process ({}) has been open for {:.1?}",
                holder.what,
                holder.since.elapsed()
            ),
            None => format!("waited {waited:.1?}"),
        };
        Error::Unavailable {
            action: "write: there is one writer at a time, and another one has not ended",
            source: source.into(),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.gate.holder() = None;
    }
}

/// Opens a transaction that writes, on a connection of the pool.
pub(crate) async fn begin(pool: &SqlitePool, patience: Duration) -> Result<Transaction<'static, Sqlite>, Error> {
    let started = Instant::now();
    loop {
        match pool.begin_with(sql::begin).await {
            Ok(tx) => return Ok(tx),
            Err(error) => ask_again(error, started, patience).await?,
        }
    }
}

/// The same on a connection of one's own, which is not left before the end of the transaction.
pub(crate) async fn begin_on(connection: &mut SqliteConnection, patience: Duration) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        match sqlx::query(sql::begin).execute(&mut *connection).await {
            Ok(_) => return Ok(()),
            Err(error) => ask_again(error, started, patience).await?,
        }
    }
}

/// Ends a transaction on a connection of one's own. After an error it is over as well, or the connection is of no more use.
pub(crate) async fn commit_on(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query(sql::commit).execute(connection).await.map(drop)
}

/// Takes a transaction back on a connection of one's own. False when that cannot be used any more.
pub(crate) async fn rollback_on(connection: &mut SqliteConnection) -> bool {
    match sqlx::query(sql::rollback).execute(connection).await {
        Ok(_) => true,
        // Some errors end a transaction by themselves; then there is nothing to take back.
        Err(error) => code(&error) == Some(Code::Other),
    }
}

/// Waits a little before the lock is asked for again, if that is what was wrong.
pub(crate) async fn ask_again(error: sqlx::Error, started: Instant, patience: Duration) -> Result<(), Error> {
    if code(&error) != Some(Code::Busy) {
        return Err(failed("begin a transaction", error));
    }
    if started.elapsed() >= patience {
        let action = "write: another process has kept the database's lock all the time; see who has it open";
        return Err(Error::Unavailable { action, source: error.into() });
    }
    tokio::time::sleep(Duration::from_micros(fastrand::u64(ASK_AGAIN_MICROS))).await;
    Ok(())
}
