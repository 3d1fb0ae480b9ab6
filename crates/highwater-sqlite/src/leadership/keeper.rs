//! What an instance holds, and the thread that keeps it: it shows the others that this instance is alive, checks whether
//! they are, and whether its locks are still held. A dedicated thread, so that a handler which blocks the application's
//! runtime does not cost leadership; so it checks as well whether the application still works.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use highwater::Error;
use highwater::backend::{BoxFuture, HeldLock, Moment, Seen, Validity, Want, lock};
use tokio::sync::watch;
use uuid::Uuid;

use super::files::{Folder, Lock, LockHolderNote};
use super::notes::Sign;
use super::silence::Silence;

/// How many signs are given within a takeover bound, and how far apart they are at most.
const SIGNS: u32 = 10;
const INTERVAL_MAX: Duration = Duration::from_millis(250);

/// What an instance holds.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) session: Uuid,
    pub(super) folder: Folder,
    bound: Duration,
    interval: Duration,
    /// When the application was last seen alive.
    pub(super) seen: Seen,
    /// Until when the others leave this instance what it holds.
    validity: Arc<Validity>,
    state: Mutex<KeeperState>,
}

#[derive(Debug)]
struct KeeperState {
    /// This instance's own lock, once it is ready.
    own: Option<Lock>,
    held: Vec<Weak<LockCell>>,
    /// What the others were last told.
    told: Option<Vec<Want>>,
    silence: Silence,
    started: bool,
    closed: bool,
    /// Signs could not be given; it is logged once.
    troubled: bool,
}

impl Keeper {
    pub(super) fn new(folder: Folder, bound: Duration) -> Arc<Self> {
        let interval = (bound / SIGNS).min(INTERVAL_MAX);
        let state = KeeperState {
            own: None,
            held: Vec::new(),
            told: None,
            silence: Silence::new(interval, bound),
            started: false,
            closed: false,
            troubled: false,
        };
        Arc::new(Self {
            session: Uuid::now_v7(),
            folder,
            bound,
            interval,
            seen: Seen::new(),
            validity: Arc::new(Validity::new(Moment::now(), Duration::ZERO)),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, KeeperState> {
        lock(&self.state)
    }

    /// Enters this instance among the others, if it is not.
    pub(super) fn make_ready(self: &Arc<Self>) -> Result<(), Error> {
        self.seen.now();
        let mut state = self.state();
        if state.closed {
            return Err(Error::ShutDown);
        }
        if state.own.as_ref().is_some_and(Lock::is_there) {
            return Ok(());
        }
        self.folder.create()?;
        let now = Moment::now();
        state.own = Some(self.folder.enter(Sign::of(self.session, now, self.bound))?);
        self.validity.extend(now, self.bound);
        // An instance that cleaned up after this one has forgotten it.
        state.told = None;
        if !state.started {
            let (keeper, interval) = (Arc::downgrade(self), self.interval);
            let thread = std::thread::Builder::new().name("highwater-lead".to_owned());
            let failed = |error: std::io::Error| Error::Unavailable {
                action: "start the thread that keeps leadership",
                source: error.into(),
            };
            thread.spawn(move || keep(&keeper, interval)).map_err(failed)?;
            state.started = true;
        }
        Ok(())
    }

    /// A lock was acquired: it is watched from now on.
    pub(super) fn hold(&self, lock: Lock) -> Result<Box<dyn HeldLock>, Error> {
        let shared = Arc::new(LockCell { lock: Mutex::new(Some(lock)), lost: watch::Sender::new(false) });
        let mut state = self.state();
        // Otherwise it would never be released.
        if state.closed {
            return Err(Error::ShutDown);
        }
        state.held.retain(|held| held.strong_count() > 0);
        state.held.push(Arc::downgrade(&shared));
        Ok(Box::new(SqliteHeldLock { session: self.session, shared, validity: self.validity.clone() }))
    }

    /// Takes a lock from its holder, if that has given no sign for too long.
    pub(super) fn replace(&self, subscriber_id: &str, holder: LockHolderNote) -> Result<Option<Lock>, Error> {
        if holder.session == Some(self.session) {
            return Ok(None);
        }
        let mut state = self.state();
        if !state.silence.is_silent(holder) {
            return Ok(None);
        }
        let Some(own) = &state.own else { return Ok(None) };
        let replaced = self.folder.replace(subscriber_id, holder, own, self.session)?;
        if replaced.is_some() {
            tracing::warn!(
                subscriber_id,
                session = ?holder.session,
                bound = ?self.bound,
                "the leader gives no sign of life: it hangs or is frozen; taking over"
            );
        }
        Ok(replaced)
    }

    pub(super) fn is_silent(&self, session: Uuid) -> bool {
        session != self.session && self.state().silence.is_silent_session(session)
    }

    pub(super) fn has_told(&self, wants: &[Want]) -> bool {
        self.state().told.as_deref() == Some(wants)
    }

    pub(super) fn told(&self, wants: Option<Vec<Want>>) {
        self.state().told = wants;
    }

    /// Gives everything back, for good.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.give_all_back();
    }

    fn give_all_back(&self) {
        let (own, held) = {
            let mut state = self.state();
            (state.own.take(), std::mem::take(&mut state.held))
        };
        held.iter().filter_map(Weak::upgrade).for_each(|held| held.give_up());
        if let Some(own) = own {
            own.release(None);
        }
    }

    /// What the thread does, again and again. False when it is over.
    fn tick(&self) -> bool {
        let (closed, held) = {
            let state = self.state();
            (state.closed, state.held.iter().filter_map(Weak::upgrade).collect::<Vec<_>>())
        };
        if closed {
            return false;
        }
        held.iter().for_each(|held| held.check());
        let leads_nothing = !held.iter().any(|held| held.is_there());
        if self.seen.has_hung(leads_nothing, self.bound) {
            if !leads_nothing {
                tracing::warn!("the application makes no progress; releasing leadership until it does");
            }
            self.give_all_back();
        }
        self.give_sign();
        match self.folder.signs() {
            Ok(signs) => self.state().silence.observe(signs),
            // No holder is taken for silent meanwhile, and claims to lead fail with the reason.
            Err(error) => tracing::debug!(%error, "cannot see the other instances"),
        }
        true
    }

    /// Lets the others see that this instance is there. Without that they take over, and by its own clock it knows.
    fn give_sign(&self) {
        let mut state = self.state();
        let Some(own) = state.own.as_ref().filter(|own| own.is_there()) else { return };
        match own.give_sign(self.session, self.bound) {
            Ok(since) => {
                self.validity.extend(since, self.bound);
                state.troubled = false;
            }
            Err(error) if !state.troubled => {
                state.troubled = true;
                tracing::warn!(%error, "cannot give a sign of life; leadership is lost unless that works again");
            }
            Err(_) => {}
        }
    }
}

fn keep(keeper: &Weak<Keeper>, interval: Duration) {
    loop {
        std::thread::sleep(interval);
        if !keeper.upgrade().is_some_and(|keeper| keeper.tick()) {
            return;
        }
    }
}

/// A lock that is held, for its holder and for the keeper.
#[derive(Debug)]
struct LockCell {
    lock: Mutex<Option<Lock>>,
    lost: watch::Sender<bool>,
}

impl LockCell {
    fn lock(&self) -> MutexGuard<'_, Option<Lock>> {
        lock(&self.lock)
    }

    fn is_there(&self) -> bool {
        self.lock().as_ref().is_some_and(Lock::is_there)
    }

    fn release(&self, to: Option<Uuid>) {
        if let Some(lock) = self.lock().take() {
            lock.release(to);
        }
    }

    fn give_up(&self) {
        // Notified first: this one must stop before there is a next holder.
        self.lost.send_replace(true);
        self.release(None);
    }

    fn check(&self) {
        if self.lock().as_ref().is_some_and(|lock| !lock.is_there()) {
            tracing::warn!(
                "leadership lost: its lock file was replaced or removed. Another instance took over because this one gave \
                 no sign of life, or the file was deleted"
            );
            self.give_up();
        }
    }
}

struct SqliteHeldLock {
    session: Uuid,
    shared: Arc<LockCell>,
    validity: Arc<Validity>,
}

impl HeldLock for SqliteHeldLock {
    fn session(&self) -> Option<Uuid> {
        Some(self.session)
    }

    fn is_held(&self) -> bool {
        !self.validity.is_over() && self.shared.is_there()
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.shared.lost.subscribe()
    }

    fn release(self: Box<Self>, to: Option<Uuid>) -> BoxFuture<'static, ()> {
        self.shared.release(to);
        Box::pin(std::future::ready(()))
    }
}

impl Drop for SqliteHeldLock {
    fn drop(&mut self) {
        self.shared.release(None);
    }
}
