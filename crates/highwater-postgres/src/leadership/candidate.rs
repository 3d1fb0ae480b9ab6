//! One instance, as it asks for locks.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use highwater::Error;
use highwater::backend::{
    BoxFuture, Candidate, HeldLock, Instance, LeadershipSettings, Seen, Validity, View, Want, lock,
};
use tokio::sync::mpsc::{self, OwnedPermit};
use tokio::sync::{Notify, oneshot, watch};
use uuid::Uuid;

use super::key::Key;
use super::session::Place;
use super::thread::{Command, Granted, Keeper, Rivals, WantedLock};
use super::{members, ring};
use crate::error::in_time;
use crate::own_pool::ANSWER_TIMEOUT;
use crate::store::PgEventStore;

/// Commands that may wait for the thread, or are reserved. Each lock that is wanted or held has one reserved, so that giving it
/// back neither waits nor fails. When there is no room for one more, wanting it is an error, and the subscriber asks again.
const COMMANDS_MAX: usize = 8_192;

pub(super) struct PgCandidate {
    pub(super) store: PgEventStore,
    pub(super) instance: Instance,
    settings: LeadershipSettings,
    state: Mutex<ThreadState>,
    /// When the application was last seen alive.
    seen: Arc<Seen>,
    /// The session that is open.
    pub(super) current: watch::Sender<Option<Uuid>>,
    /// Whom to watch: the next instance in the ring.
    pub(super) neighbour: watch::Sender<Option<Uuid>>,
    /// The instances, and what each wants.
    pub(super) rivals: watch::Sender<Rivals>,
    /// What was last told to the others.
    pub(super) entered: Mutex<Option<(Uuid, Vec<Want>)>>,
}

enum ThreadState {
    /// Nothing has been wanted yet.
    New,
    Open {
        commands: mpsc::Sender<Command>,
        /// Reserved for the last one.
        close: OwnedPermit<Command>,
    },
    Closed,
}

impl PgCandidate {
    pub(super) fn new(store: PgEventStore, instance: Instance, settings: LeadershipSettings) -> Self {
        let state = Mutex::new(ThreadState::New);
        let (current, neighbour) = (watch::Sender::new(None), watch::Sender::new(None));
        let (seen, entered, rivals) = (Arc::new(Seen::new()), Mutex::default(), watch::Sender::default());
        Self { store, instance, settings, state, seen, current, neighbour, rivals, entered }
    }

    fn schema(&self) -> &str {
        self.store.inner.schema.as_str()
    }

    /// The way to the thread. The first time there is something to tell, it is started; and when it has died, and everything
    /// that it held with it, another one begins anew.
    fn commands(&self) -> Result<mpsc::Sender<Command>, Error> {
        self.seen.now();
        let mut state = lock(&self.state);
        match &*state {
            ThreadState::Open { commands, .. } if !commands.is_closed() => return Ok(commands.clone()),
            ThreadState::Open { .. } => tracing::error!("the thread that keeps leadership has ended; starting another"),
            ThreadState::New => {}
            ThreadState::Closed => return Err(Error::ShutDown),
        }
        let commands = self.start()?;
        *state = ThreadState::Open { commands: commands.clone(), close: reserve(&commands)? };
        Ok(commands)
    }

    fn start(&self) -> Result<mpsc::Sender<Command>, Error> {
        let inner = &self.store.inner;
        let failed = |error: std::io::Error| Error::Unavailable {
            action: "start the thread that keeps leadership",
            source: error.into(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (sender, commands) = mpsc::channel(COMMANDS_MAX);
        let alarm = Arc::new(Notify::new());
        let keeper = Keeper {
            place: Place {
                connector: inner.direct.clone(),
                store: inner.connector.clone(),
                sql: inner.sql.clone(),
                schema: self.schema().to_owned(),
                bound: self.settings.takeover_bound,
                own: AtomicBool::new(false),
            },
            standby_interval: self.settings.standby_interval,
            commands,
            hints: self.store.leadership_hints(),
            rivals: self.rivals.subscribe(),
            announcer: inner.wakeups.announcer(),
            seen: self.seen.clone(),
            distrusted: None,
            current: self.current.clone(),
            alarm: alarm.clone(),
        };
        let watcher = inner.config.watch_instances.then(|| ring::Watcher {
            connector: inner.direct.clone(),
            sql: inner.sql.clone(),
            schema: self.schema().to_owned(),
            neighbour: self.neighbour.subscribe(),
            alarm,
        });
        let run = move || {
            runtime.block_on(async {
                let watching = watcher.map(|watcher| tokio::spawn(watcher.run()));
                keeper.run().await;
                if let Some(watching) = watching {
                    watching.abort();
                }
            });
        };
        std::thread::Builder::new().name("highwater-lead".to_owned()).spawn(run).map_err(failed)?;
        Ok(sender)
    }

    async fn want(&self, subscriber_id: &str, once: bool) -> Result<Option<Box<dyn HeldLock>>, Error> {
        let key = Key::subscriber(self.schema(), subscriber_id);
        let (answer, answered) = oneshot::channel();
        let commands = self.commands()?;
        let mut answered = GivesBack { key, release: Some(reserve(&commands)?), answered, commands };
        tell(&answered.commands, Command::Want(WantedLock { key, once, answer }))?;
        let granted = (&mut answered.answered).await.map_err(untold)?;
        Ok(granted?.map(|granted| answered.held(granted)))
    }
}

/// Room for a command that is told later.
fn reserve(commands: &mpsc::Sender<Command>) -> Result<OwnedPermit<Command>, Error> {
    commands.clone().try_reserve_owned().map_err(untold)
}

fn tell(commands: &mpsc::Sender<Command>, command: Command) -> Result<(), Error> {
    commands.try_send(command).map_err(untold)
}

/// The thread has ended, or has more to do than it ever should have.
fn untold(why: impl std::fmt::Display) -> Error {
    Error::Unavailable { action: "tell the thread that keeps leadership", source: why.to_string().into() }
}

/// A caller that stops waiting at the very moment of acquisition releases the lock.
struct GivesBack {
    key: Key,
    commands: mpsc::Sender<Command>,
    /// Taken with the lock.
    release: Option<OwnedPermit<Command>>,
    answered: oneshot::Receiver<Result<Option<Granted>, Error>>,
}

impl GivesBack {
    fn held(&mut self, granted: Granted) -> Box<dyn HeldLock> {
        let Granted { session, number, lost, validity } = granted;
        if let Err(error) = tell(&self.commands, Command::Collected { key: self.key, number }) {
            // It counts as never collected: the thread releases it, and says so.
            tracing::debug!(%error, "could not confirm to the lock thread that a lock was received; it releases the lock");
        }
        Box::new(PgHeldLock { key: self.key, session, number, lost, validity, release: self.release.take() })
    }
}

impl Drop for GivesBack {
    fn drop(&mut self) {
        self.answered.close();
        if let (Some(release), Ok(Ok(Some(granted)))) = (self.release.take(), self.answered.try_recv()) {
            release.send(Command::Release { key: self.key, number: granted.number, to: None, done: None });
        }
    }
}

impl Candidate for PgCandidate {
    fn ready(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            if self.current.borrow().is_some() {
                return Ok(());
            }
            let (ready, answered) = oneshot::channel();
            tell(&self.commands()?, Command::Ready(ready))?;
            answered.await.map_err(untold)?
        })
    }

    fn try_hold<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> {
        Box::pin(self.want(subscriber_id, true))
    }

    fn hold<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Box<dyn HeldLock>, Error>> {
        Box::pin(async move {
            loop {
                if let Some(held) = self.want(subscriber_id, false).await? {
                    return Ok(held);
                }
            }
        })
    }

    fn view<'a>(&'a self, wants: &'a [Want]) -> BoxFuture<'a, Result<View, Error>> {
        Box::pin(async move {
            // An application that looks is alive. Recorded before, because the server may take its time.
            self.seen.now();
            in_time(ANSWER_TIMEOUT, "see in time which instances there are", members::view(self, wants)).await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let state = std::mem::replace(&mut *lock(&self.state), ThreadState::Closed);
            let ThreadState::Open { close, .. } = state else { return };
            let is_open = self.current.borrow().is_some();
            let (closed, is_closed) = oneshot::channel();
            done_or_ended(is_closed, close.send(Command::Close(closed))).await;
            if is_open {
                members::leave(self).await;
            }
        })
    }
}

/// A lock on the session of this instance.
struct PgHeldLock {
    key: Key,
    session: Uuid,
    number: u64,
    lost: watch::Receiver<bool>,
    validity: Arc<Validity>,
    /// Taken when it is given back.
    release: Option<OwnedPermit<Command>>,
}

impl PgHeldLock {
    fn give_back(&mut self, to: Option<Uuid>, done: Option<oneshot::Sender<()>>) -> Option<mpsc::Sender<Command>> {
        let release = Command::Release { key: self.key, number: self.number, to, done };
        self.release.take().map(|reserved| reserved.send(release))
    }
}

/// Waits until the thread has done what it was told. One that has ended holds nothing: then it is done as well.
async fn done_or_ended(done: oneshot::Receiver<()>, thread: mpsc::Sender<Command>) {
    tokio::select! {
        _ = done => {}
        () = thread.closed() => {}
    }
}

impl HeldLock for PgHeldLock {
    fn session(&self) -> Option<Uuid> {
        Some(self.session)
    }

    fn is_held(&self) -> bool {
        !*self.lost.borrow() && !self.validity.is_over()
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }

    fn release(mut self: Box<Self>, to: Option<Uuid>) -> BoxFuture<'static, ()> {
        let (done, is_done) = oneshot::channel();
        let thread = self.give_back(to, Some(done));
        Box::pin(async move {
            if let Some(thread) = thread {
                done_or_ended(is_done, thread).await;
            }
        })
    }
}

impl Drop for PgHeldLock {
    fn drop(&mut self) {
        self.give_back(None, None);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use highwater::backend::Moment;

    use super::*;

    #[test]
    fn a_lock_is_held_until_the_clock_or_the_session_says_that_it_is_not() {
        let (tells, lost) = watch::channel(false);
        let validity = Arc::new(Validity::new(Moment::now(), Duration::from_secs(60)));
        let key = Key::subscriber("s", "x");
        let held = PgHeldLock { key, session: Uuid::nil(), number: 1, lost, validity: validity.clone(), release: None };
        assert!(held.is_held());
        validity.extend(Moment::now(), Duration::ZERO);
        assert!(!held.is_held(), "nobody has answered for too long");
        validity.extend(Moment::now(), Duration::from_secs(60));
        assert!(held.is_held());
        tells.send_replace(true);
        assert!(!held.is_held(), "the server says so");
    }
}
