//! The right to write. SQLite has one writer at a time: within a process they queue here, in order, and none burns time
//! polling; between processes SQLite's own lock decides, and it is retried again and again. Nothing is written to a file that
//! other processes would not find.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use highwater::Error;
use highwater::backend::lock;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Sqlite, SqlitePool, Transaction};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task;
use tokio::time::Instant;

use crate::error::{Code, code, failed};
use crate::holder;
use crate::opened::OpenedFile;
use crate::sql;

/// How long a task waits for a transaction that it holds itself: another future in the same task may be about to end it.
const OWN_PATIENCE: Duration = Duration::from_secs(1);
/// How long to wait before another process's lock is asked for again, in microseconds: between these two, by chance.
const ASK_AGAIN_MICROS: std::ops::Range<u64> = 500..2_500;

/// What is reported of a transaction that is no longer there.
pub(crate) const ENDED_INSIDE: &str =
    "something inside has ended the transaction: a ROLLBACK, a conflict clause OR ROLLBACK, a full disk";

/// Where writers of one database queue in this process. Clones share the queue, and so do all stores on the same path.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    queue: Arc<Inner>,
    /// What the store of this gate writes to.
    file: OpenedFile,
}

#[derive(Debug)]
struct Inner {
    place: Arc<Semaphore>,
    holder: Mutex<Option<GateHolder>>,
    entered: AtomicU64,
}

#[derive(Debug)]
struct GateHolder {
    /// The task that was handed the transaction, to end it at will. A transaction that is not handed out ends by itself.
    handed_to: Option<Who>,
    /// Each gets another: the same task may have had it before.
    number: u64,
    what: Cow<'static, str>,
    since: Instant,
}

/// The task that waits for itself if it waits for this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Task(task::Id),
    /// What is not in a task, as `main` is not, stays on its thread.
    Thread(ThreadId),
}

impl Who {
    fn runs_here() -> Self {
        task::try_id().map_or_else(|| Self::Thread(thread::current().id()), Self::Task)
    }
}

/// The right to write, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Gate,
    _place: OwnedSemaphorePermit,
}

impl Gate {
    /// The gate of a file that was opened.
    pub(crate) fn of(file: OpenedFile) -> Self {
        static GATES: OnceLock<Mutex<HashMap<PathBuf, Weak<Inner>>>> = OnceLock::new();
        let mut gates = lock(GATES.get_or_init(Mutex::default));
        gates.retain(|_, gate| gate.strong_count() > 0);
        if let Some(queue) = gates.get(file.path()).and_then(Weak::upgrade) {
            return Self { queue, file };
        }
        let queue = Arc::new(Inner {
            place: Arc::new(Semaphore::new(1)),
            holder: Mutex::default(),
            entered: AtomicU64::new(0),
        });
        gates.insert(file.path().to_owned(), Arc::downgrade(&queue));
        Self { queue, file }
    }

    /// What the store has opened.
    pub(crate) fn file(&self) -> &OpenedFile {
        &self.file
    }

    fn holder(&self) -> MutexGuard<'_, Option<GateHolder>> {
        lock(&self.queue.holder)
    }

    /// Waits for its turn. `what` is reported to callers whose wait times out.
    pub(crate) async fn enter(&self, what: impl Into<Cow<'static, str>>, patience: Duration) -> Result<Permit, Error> {
        let started = Instant::now();
        let entering = self.queue.place.clone().acquire_owned();
        tokio::pin!(entering);
        let place = loop {
            let (own, left) = (self.own(), patience.saturating_sub(started.elapsed()));
            let wait = if own.is_some() { left.min(OWN_PATIENCE) } else { left };
            match tokio::time::timeout(wait, &mut entering).await {
                Ok(place) => break place.expect("the gate is never closed"),
                Err(_) if own.is_some() && self.own() == own => return Err(Error::HoldsTransaction),
                Err(_) if started.elapsed() >= patience => return Err(self.held(started.elapsed())),
                Err(_) => {}
            }
        };
        self.file.still_has_its_name()?;
        let number = self.queue.entered.fetch_add(1, Ordering::Relaxed);
        *self.holder() = Some(GateHolder { handed_to: None, number, what: what.into(), since: Instant::now() });
        Ok(Permit { gate: self.clone(), _place: place })
    }

    /// Does something that will need the gate in another task, unless this very task has it all the time: then it would wait
    /// for itself. What is dropped then has not begun.
    pub(crate) async fn not_for_itself<T>(&self, doing: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::pin!(doing);
        loop {
            let Some(own) = self.own() else { return doing.await };
            match tokio::time::timeout(OWN_PATIENCE, &mut doing).await {
                Ok(done) => return done,
                Err(_) if self.own() == Some(own) => return Err(Error::HoldsTransaction),
                Err(_) => {}
            }
        }
    }

    /// The number of the holder, if that is this very task: then it may be waiting for itself.
    fn own(&self) -> Option<u64> {
        self.holder().as_ref().filter(|holder| holder.handed_to == Some(Who::runs_here())).map(|holder| holder.number)
    }

    /// What has it in this process, and for how long.
    pub(crate) fn open(&self) -> Option<(String, Duration)> {
        self.holder().as_ref().map(|holder| (holder.what.to_string(), holder.since.elapsed()))
    }

    fn held(&self, waited: Duration) -> Error {
        let source = match self.open() {
            Some((what, since)) => {
                format!("waited {waited:.1?}: a transaction of this process ({what}) has been open for {since:.1?}")
            }
            None => format!("waited {waited:.1?}"),
        };
        Error::Unavailable {
            action: "write: there is one writer at a time, and another one has not ended",
            source: source.into(),
        }
    }
}

impl Permit {
    /// The transaction is open, and this task is free to keep it.
    pub(crate) fn hand_out(&self) {
        if let Some(holder) = &mut *self.gate.holder() {
            holder.handed_to = Some(Who::runs_here());
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
            Err(error) => {
                let file = async || Some(pool.connect_options().get_filename().to_owned());
                ask_again(error, started, patience, file).await?;
            }
        }
    }
}

/// The same on a given connection, which is kept until the end of the transaction.
pub(crate) async fn begin_on(connection: &mut SqliteConnection, patience: Duration) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        match sqlx::query(sql::begin).execute(&mut *connection).await {
            Ok(_) => return Ok(()),
            Err(error) => ask_again_on(connection, error, started, patience).await?,
        }
    }
}

/// [`ask_again`] for a given connection.
pub(crate) async fn ask_again_on(
    connection: &mut SqliteConnection,
    error: sqlx::Error,
    started: Instant,
    patience: Duration,
) -> Result<(), Error> {
    ask_again(error, started, patience, async || file_of(connection).await).await
}

/// Ends a transaction on a given connection. After an error it is over as well, or the connection is unusable.
pub(crate) async fn commit_on(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query(sql::commit).execute(connection).await.map(drop)
}

/// Rolls a transaction back on a given connection. False when that is no longer usable.
pub(crate) async fn rollback_on(connection: &mut SqliteConnection) -> bool {
    match sqlx::query(sql::rollback).execute(connection).await {
        Ok(_) => true,
        // Some errors end a transaction by themselves; then there is nothing to roll back.
        Err(error) => code(&error) == Some(Code::Other),
    }
}

/// Makes sure that a foreign transaction is still open: a conflict clause or a full disk may have ended it, and later
/// statements then run outside it.
pub(crate) async fn still_open(connection: &mut SqliteConnection) -> Result<(), Error> {
    match sqlx::query(sql::still_open).execute(&mut *connection).await {
        Err(error) if code(&error) == Some(Code::Other) => Ok(()),
        Err(error) => Err(failed("look at the transaction", error)),
        Ok(_) => {
            rollback_on(connection).await;
            Err(Error::Aborted { source: ENDED_INSIDE.into() })
        }
    }
}

/// The file that a connection is to.
async fn file_of(connection: &mut SqliteConnection) -> Option<PathBuf> {
    match sqlx::query_scalar::<_, String>(sql::file).fetch_one(connection).await {
        Ok(file) => Some(file.into()),
        Err(error) => {
            tracing::debug!(%error, "cannot query which file a connection has open");
            None
        }
    }
}

/// Waits a little before the lock is retried, if that is what was wrong. The file is needed only to name the holder of
/// the lock.
pub(crate) async fn ask_again(
    error: sqlx::Error,
    started: Instant,
    patience: Duration,
    file: impl AsyncFnOnce() -> Option<PathBuf>,
) -> Result<(), Error> {
    if code(&error) != Some(Code::Busy) {
        return Err(failed("begin a transaction", error));
    }
    if started.elapsed() >= patience {
        let action = "write: another process has kept the database's lock all the time; see who has it open";
        let source = match file().await.as_deref().and_then(holder::LockingProcess::of) {
            Some(holder) => format!("{holder} has it now: {error}").into(),
            None => error.into(),
        };
        return Err(Error::Unavailable { action, source });
    }
    tokio::time::sleep(Duration::from_micros(fastrand::u64(ASK_AGAIN_MICROS))).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// Each test has another file, and all of them are there.
    fn gate_of(path: &str) -> Gate {
        Gate::of(OpenedFile::at(path.as_ref()).unwrap())
    }

    async fn writes(gate: &Gate, takes: Duration) -> Result<(), Error> {
        let permit = gate.enter("a test", PATIENCE).await?;
        permit.hand_out();
        tokio::time::sleep(takes).await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn branches_of_one_task_wait_for_each_other() {
        let gate = gate_of("/");
        let takes = OWN_PATIENCE * 6 / 10;
        let late = gate.not_for_itself(async {
            // As the appender does, in a separate task.
            let gate = gate.clone();
            tokio::spawn(async move { writes(&gate, takes).await }).await.unwrap()
        });
        let (one, two, three, late) =
            tokio::join!(writes(&gate, takes), writes(&gate, takes), writes(&gate, takes), late);
        for done in [one, two, three, late] {
            done.expect("none of them has it all the time");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_ends_by_itself_is_waited_for() {
        let gate = gate_of("/etc");
        let waits_for_another_process = async {
            let _permit = gate.enter("a test", PATIENCE).await.unwrap();
            tokio::time::sleep(OWN_PATIENCE * 5).await;
        };
        let ((), waited) = tokio::join!(waits_for_another_process, gate.enter("a test", PATIENCE));
        waited.expect("nobody here could have ended it sooner");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_itself_is_told_so() {
        let gate = gate_of("/usr");
        let permit = gate.enter("a test", PATIENCE).await.unwrap();
        permit.hand_out();
        for refused in
            [gate.enter("a test", PATIENCE).await.map(drop), gate.not_for_itself(std::future::pending()).await]
        {
            assert!(matches!(refused, Err(Error::HoldsTransaction)), "{refused:?}");
        }
        // Another task waits for as long as it likes, and learns for which transaction.
        let other = gate.clone();
        let waited = tokio::spawn(async move { other.enter("another", PATIENCE).await.map(drop) }).await.unwrap();
        assert!(matches!(waited, Err(Error::Unavailable { .. })), "{waited:?}");
        drop(permit);
        gate.enter("a test", PATIENCE).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_leaves_nothing_behind() {
        let gate = gate_of("/bin");
        let permit = gate.enter("a test", PATIENCE).await.unwrap();
        let other = gate.clone();
        let waiting = tokio::spawn(async move { other.enter("another", PATIENCE).await.map(drop) });
        tokio::task::yield_now().await;
        waiting.abort();
        waiting.await.unwrap_err();
        drop(permit);
        gate.enter("a test", Duration::from_millis(1)).await.unwrap();
    }
}
