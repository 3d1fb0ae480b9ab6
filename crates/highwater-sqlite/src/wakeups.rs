//! Wake-ups on SQLite: within a process at once, between processes by asking SQLite whether another connection has written.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use highwater::Appended;
use highwater::backend::{Wakeup, Wakeups, lock};
use sqlx::sqlite::SqliteConnection;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::connect::Connector;
use crate::row::unsigned;
use crate::sql;
use crate::store::SqliteEventStore;

/// How long to wait before the database is opened again.
const REOPEN: Duration = Duration::from_millis(500);
/// How long after a change another one may bear the same time.
const TICKS: Duration = Duration::from_millis(50);
/// How long nothing is asked at most.
const IN_ANY_CASE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct SqliteWakeups {
    hints: watch::Sender<u64>,
    connector: Connector,
    interval: Duration,
    /// A reader has begun to wait.
    wanted: Arc<Notify>,
    watching: Mutex<Watching>,
}

#[derive(Debug, Default)]
struct Watching {
    task: Option<JoinHandle<()>>,
    trouble: Arc<Mutex<Option<String>>>,
}

impl SqliteWakeups {
    pub(crate) fn new(connector: Connector, interval: Duration) -> Self {
        Self { hints: watch::Sender::new(0), connector, interval, wanted: Arc::default(), watching: Mutex::default() }
    }

    pub(crate) fn hints(&self) -> watch::Sender<u64> {
        self.hints.clone()
    }

    /// Watches for writes of other processes, from the first waiting reader on.
    fn watch(&self) {
        self.wanted.notify_one();
        let mut watching = lock(&self.watching);
        // One that has ended went with its runtime.
        if watching.task.as_ref().is_none_or(JoinHandle::is_finished) {
            let hints = Hints { sender: self.hints.clone(), wanted: self.wanted.clone() };
            let (connector, interval, trouble) = (self.connector.clone(), self.interval, watching.trouble.clone());
            watching.task = Some(tokio::spawn(watch(hints, connector, interval, trouble)));
        }
    }
}

impl Drop for SqliteWakeups {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.watching).task.take() {
            task.abort();
        }
    }
}

struct Hints {
    sender: watch::Sender<u64>,
    wanted: Arc<Notify>,
}

impl Hints {
    /// Waits until there is a listener. Without one there is nothing to notify.
    async fn wanted(&self) {
        while self.sender.is_closed() {
            self.wanted.notified().await;
        }
    }
}

/// Polls as long as a reader waits.
async fn watch(hints: Hints, connector: Connector, interval: Duration, trouble: Arc<Mutex<Option<String>>>) {
    loop {
        let watching = async {
            let mut connection = connector.connect().await?;
            let lookout = Lookout::start(&hints, connector.path(), interval)?;
            *lock(&trouble) = None;
            Err::<(), sqlx::Error>(watch_version(&hints, &mut connection, &lookout).await)
        };
        let Err(error) = watching.await else { return };
        tracing::debug!(%error, "cannot see what other processes write; retrying");
        *lock(&trouble) = Some(error.to_string());
        tokio::time::sleep(REOPEN).await;
    }
}

/// The version changes whenever another connection has committed, whatever it was. It is queried before the log is read:
/// what is committed in between is seen now or changes it again. The query costs two thread switches, so as long as the
/// write-ahead log is untouched it is not queried.
async fn watch_version(hints: &Hints, connection: &mut SqliteConnection, lookout: &Lookout) -> sqlx::Error {
    let mut before = None;
    loop {
        hints.wanted().await;
        lookout.resume();
        tokio::select! {
            () = lookout.touched.notified() => {}
            () = hints.wanted.notified() => continue,
        }
        let looking = async {
            let version: i64 = sqlx::query_scalar(sql::data_version).fetch_one(&mut *connection).await?;
            if before.replace(version) != Some(version) {
                let head: i64 = sqlx::query_scalar(sql::head).fetch_one(&mut *connection).await?;
                announce_up_to(&hints.sender, unsigned(head));
            }
            Ok(())
        };
        if let Err(error) = looking.await {
            return error;
        }
    }
}

/// A thread that looks at the write-ahead log from time to time, and says when it was touched. A thread, because a hundred
/// times a second it costs a fraction of what waking a task does. It ends with this.
struct Lookout {
    touched: Arc<Notify>,
    ended: Arc<AtomicBool>,
    thread: std::thread::Thread,
}

impl Lookout {
    fn start(hints: &Hints, database: &Path, interval: Duration) -> std::io::Result<Self> {
        let (touched, ended) = (Arc::<Notify>::default(), Arc::<AtomicBool>::default());
        let (telling, end, hints) = (touched.clone(), ended.clone(), hints.sender.clone());
        let mut ahead = WriteAhead::of(database);
        let thread = std::thread::Builder::new().name("highwater-watch".to_owned()).spawn(move || {
            while !end.load(Ordering::Relaxed) {
                if hints.is_closed() {
                    // There is no listener; the next one wakes this up.
                    std::thread::park_timeout(IN_ANY_CASE);
                    continue;
                }
                if ahead.may_have_changed() {
                    telling.notify_one();
                }
                std::thread::sleep(interval);
            }
        })?;
        Ok(Self { touched, ended, thread: thread.thread().clone() })
    }

    /// There is a listener again.
    fn resume(&self) {
        self.thread.unpark();
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

/// The write-ahead log, as the folder shows it. It is never opened: closing it would drop the locks that SQLite has on it.
struct WriteAhead {
    path: PathBuf,
    seen: Option<(u64, SystemTime)>,
    asked: Instant,
}

impl WriteAhead {
    fn of(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        Self { path: path.into(), seen: None, asked: Instant::now() }
    }

    /// Whether another process may have written since the last check. True for a while after each change, since its time is
    /// told in ticks and two writes may fall into one; and from time to time in any case.
    fn may_have_changed(&mut self) -> bool {
        let found = std::fs::metadata(&self.path).and_then(|found| Ok((found.len(), found.modified()?))).ok();
        let fresh = found.is_none_or(|(_, at)| at.elapsed().is_ok_and(|age| age < TICKS));
        let changed = found != self.seen || fresh || self.asked.elapsed() >= IN_ANY_CASE;
        self.seen = found;
        if changed {
            self.asked = Instant::now();
        }
        changed
    }
}

fn announce_up_to(hints: &watch::Sender<u64>, global_sequence: u64) {
    hints.send_if_modified(|highest| {
        let more = global_sequence > *highest;
        *highest = global_sequence.max(*highest);
        more
    });
}

/// After the commit: the highest number of what was newly stored.
pub(crate) fn announce<'a>(hints: &watch::Sender<u64>, answers: impl IntoIterator<Item = &'a Appended>) {
    let new = answers.into_iter().filter(|answer| !answer.repeated);
    if let Some(highest) = new.map(|answer| answer.global_sequence).max() {
        announce_up_to(hints, highest);
    }
}

impl Wakeups for SqliteEventStore {
    fn announce(&self, global_sequence: u64) {
        let hints = &self.inner.wakeups.hints;
        hints.send_modify(|highest| *highest = global_sequence.max(*highest));
    }

    fn wakeups(&self) -> Wakeup {
        let wakeup = Wakeup::new(&self.inner.wakeups.hints);
        self.inner.wakeups.watch();
        wakeup
    }

    fn push_degraded(&self) -> Option<String> {
        let watching = lock(&self.inner.wakeups.watching);
        let trouble = lock(&watching.trouble);
        trouble.as_ref().map(|error| format!("cannot see what other processes write: {error}"))
    }
}
