//! One instance, as it asks for locks.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use highwater::Error;
use highwater::backend::{
    BoxFuture, Candidate, Held, Instance, LeadershipSettings, Seen, Validity, View, Want as Wanted,
};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use uuid::Uuid;

use super::key::Key;
use super::session::Place;
use super::thread::{Command, Granted, Keeper, Rivals, Want};
use super::{members, ring};
use crate::store::PgEventStore;

pub(super) struct PgCandidate {
    pub(super) store: PgEventStore,
    pub(super) instance: Instance,
    settings: LeadershipSettings,
    state: Mutex<State>,
    /// When the application was last seen alive.
    seen: Arc<Seen>,
    /// The session that is open.
    pub(super) current: watch::Sender<Option<Uuid>>,
    /// Whom to watch: the next instance in the ring.
    pub(super) neighbour: watch::Sender<Option<Uuid>>,
    /// The instances, and what each wants.
    pub(super) rivals: watch::Sender<Rivals>,
    /// What was last told to the others.
    pub(super) entered: Mutex<Option<(Uuid, Vec<Wanted>)>>,
}

enum State {
    /// Nothing has been wanted yet.
    New,
    Open(mpsc::UnboundedSender<Command>),
    Closed,
}

impl PgCandidate {
    pub(super) fn new(store: PgEventStore, instance: Instance, settings: LeadershipSettings) -> Self {
        let state = Mutex::new(State::New);
        let (current, neighbour) = (watch::Sender::new(None), watch::Sender::new(None));
        let (seen, entered, rivals) = (Arc::new(Seen::new()), Mutex::default(), watch::Sender::default());
        Self { store, instance, settings, state, seen, current, neighbour, rivals, entered }
    }

    fn schema(&self) -> &str {
        self.store.inner.schema.as_str()
    }

    /// Tells the thread something. The first time there is something to tell, it is started.
    fn tell(&self, command: Command) -> Result<mpsc::UnboundedSender<Command>, Error> {
        self.seen.now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::New) {
            *state = State::Open(self.start()?);
        }
        let State::Open(commands) = &*state else { return Err(Error::ShutDown) };
        if let Err(mpsc::error::SendError(command)) = commands.send(command) {
            // It has died, and everything that it held with it. Another one starts from scratch.
            tracing::error!("the thread that keeps leadership has ended; starting another");
            let commands = self.start()?;
            commands.send(command).map_err(|_| died())?;
            *state = State::Open(commands.clone());
            return Ok(commands);
        }
        Ok(commands.clone())
    }

    fn start(&self) -> Result<mpsc::UnboundedSender<Command>, Error> {
        let inner = &self.store.inner;
        let failed = |error: std::io::Error| Error::Unavailable {
            action: "start the thread that keeps leadership",
            source: error.into(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (sender, commands) = mpsc::unbounded_channel();
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

    async fn want(&self, subscriber_id: &str, once: bool) -> Result<Option<Box<dyn Held>>, Error> {
        let key = Key::subscriber(self.schema(), subscriber_id);
        let (answer, answered) = oneshot::channel();
        let commands = self.tell(Command::Want(Want { key, once, answer }))?;
        let mut answered = GivesBack { key, commands: Some(commands), answered };
        let granted = (&mut answered.answered).await.map_err(|_| died())?;
        Ok(granted?.map(|granted| answered.held(granted)))
    }
}

fn died() -> Error {
    Error::Unavailable {
        action: "keep leadership",
        source: "the thread that does so has ended; restart the process".into(),
    }
}

/// A caller that stops waiting at the very moment of acquisition releases the lock.
struct GivesBack {
    key: Key,
    commands: Option<mpsc::UnboundedSender<Command>>,
    answered: oneshot::Receiver<Result<Option<Granted>, Error>>,
}

impl GivesBack {
    fn held(&mut self, granted: Granted) -> Box<dyn Held> {
        let Granted { session, number, lost, validity } = granted;
        if let Some(commands) = &self.commands {
            // A thread that has ended holds nothing.
            drop(commands.send(Command::Collected { key: self.key, number }));
        }
        Box::new(PgHeld { key: self.key, session, number, lost, validity, commands: self.commands.take() })
    }
}

impl Drop for GivesBack {
    fn drop(&mut self) {
        self.answered.close();
        if let (Some(commands), Ok(Ok(Some(granted)))) = (&self.commands, self.answered.try_recv()) {
            // A thread that has ended holds nothing.
            drop(commands.send(Command::Release { key: self.key, number: granted.number, to: None, done: None }));
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
            self.tell(Command::Ready(ready))?;
            answered.await.map_err(|_| died())?
        })
    }

    fn try_hold<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Box<dyn Held>>, Error>> {
        Box::pin(self.want(subscriber_id, true))
    }

    fn hold<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Box<dyn Held>, Error>> {
        Box::pin(async move {
            loop {
                if let Some(held) = self.want(subscriber_id, false).await? {
                    return Ok(held);
                }
            }
        })
    }

    fn look<'a>(&'a self, wants: &'a [Wanted]) -> BoxFuture<'a, Result<View, Error>> {
        Box::pin(async move {
            // An application that looks is alive. Recorded before, because the server may take its time.
            self.seen.now();
            let looking = members::look(self, wants);
            self.store.look("see in time which instances there are", looking).await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let state =
                std::mem::replace(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner), State::Closed);
            let State::Open(commands) = state else { return };
            let is_open = self.current.borrow().is_some();
            let (closed, is_closed) = oneshot::channel();
            if commands.send(Command::Close(closed)).is_ok() {
                // Should it have ended by itself, it is closed as well.
                drop(is_closed.await);
            }
            if is_open {
                members::leave(self).await;
            }
        })
    }
}

/// A lock on the session of this instance.
struct PgHeld {
    key: Key,
    session: Uuid,
    number: u64,
    lost: watch::Receiver<bool>,
    validity: Arc<Validity>,
    /// Taken when it is released.
    commands: Option<mpsc::UnboundedSender<Command>>,
}

impl PgHeld {
    fn give_back(&mut self, to: Option<Uuid>, done: Option<oneshot::Sender<()>>) {
        if let Some(commands) = self.commands.take() {
            // A thread that has ended holds nothing.
            drop(commands.send(Command::Release { key: self.key, number: self.number, to, done }));
        }
    }
}

impl Held for PgHeld {
    fn session(&self) -> Uuid {
        self.session
    }

    fn is_held(&self) -> bool {
        !*self.lost.borrow() && !self.validity.is_over()
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }

    fn release(mut self: Box<Self>, to: Option<Uuid>) -> BoxFuture<'static, ()> {
        let (done, is_done) = oneshot::channel();
        self.give_back(to, Some(done));
        Box::pin(async move {
            // Without an answer the thread has ended, and the lock with it.
            drop(is_done.await);
        })
    }
}

impl Drop for PgHeld {
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
    fn a_lock_is_held_until_the_clock_or_somebody_says_that_it_is_not() {
        let (tells, lost) = watch::channel(false);
        let validity = Arc::new(Validity::new(Moment::now(), Duration::from_secs(60)));
        let key = Key::subscriber("s", "x");
        let held = PgHeld { key, session: Uuid::nil(), number: 1, lost, validity: validity.clone(), commands: None };
        assert!(held.is_held());
        validity.extend(Moment::now(), Duration::ZERO);
        assert!(!held.is_held(), "nobody has answered for too long");
        validity.extend(Moment::now(), Duration::from_secs(60));
        assert!(held.is_held());
        tells.send_replace(true);
        assert!(!held.is_held(), "somebody says so");
    }
}
