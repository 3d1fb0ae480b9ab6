//! The contract of leadership: which of several instances processes for a subscriber.
//!
//! A backend provides locks that end with their holder ([`Candidate`]); [`Coordinator`] builds leadership on them, the same
//! on every backend. Locks decide which instance *tries*: terms, which every write names, decide what reaches the store, so
//! that two instances which both believe for a moment that they lead cannot both write.

mod clock;
mod coordinator;
mod guard;
mod instance;
mod known;
mod led;
mod local;
mod roll;
mod spread;

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::watch;
use uuid::Uuid;

use crate::{BoxFuture, Claim, CoordinatorConfig, Error};

pub use clock::{Moment, Seen, Validity};
pub use coordinator::Coordinator;
pub use guard::LeadershipGuard;
pub use instance::Instance;
pub(crate) use led::hold_of;
pub use led::leader_of;
pub use local::LocalCoordinator;

/// Decides which instance processes for a subscriber.
///
/// [`EventBus`](crate::EventBus) uses one for all its subscribers. Applications can use it directly as well, for other work
/// that must be done by one instance at a time: what they acquire is a lease, which [`Overview`](crate::Overview) lists apart
/// from the subscribers.
///
/// ```
/// use highwater::{Claim, Coordinator, MemoryEventStore, ProjectorCoordinator};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = MemoryEventStore::new();
/// let (one, other) = (Coordinator::new(&store), Coordinator::new(&store));
/// let claim = Claim::of("report:nightly");
///
/// let guard = one.try_acquire(&claim).await?.expect("nobody else leads");
/// assert!(guard.is_held() && other.try_acquire(&claim).await?.is_none());
///
/// drop(guard);                                       // or a panic, an early return, the end of the process
/// let next = other.acquire(&claim).await?;           // waits until it is free
/// assert!(next.is_held());
/// # Ok::<(), highwater::Error>(()) }).unwrap();
/// ```
///
/// # Contract
///
/// - At most one guard for a subscriber is held at a time, among all instances \[G28\]. Names do not disturb each other.
/// - A guard that is dropped, by whatever way, gives leadership back; so does the end of a process \[G29\].
/// - Every guard has a term that is higher than that of every guard before it.
/// - Both calls may be dropped at any await: what they were about to acquire is released.
pub trait ProjectorCoordinator: Send + Sync {
    /// Prepares what leadership rests on, so that problems are reported at once and not later.
    ///
    /// # Errors
    /// When it cannot work at all ([`Error::Unfit`], [`Error::NoSession`]), and when the store cannot be reached.
    fn ready(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Leads from now on, unless another instance does, or is about to: a subscriber released for another instance is left
    /// to that one for a moment.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name or a setting that cannot be, and when the store cannot be asked.
    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<LeadershipGuard>, Error>>;

    /// The same, after waiting until no other instance leads.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<LeadershipGuard, Error>>;

    /// Whether others are kept out. Where they are not, a fenced instance has to halt: two that take over from each other
    /// would do nothing else for ever.
    fn is_exclusive(&self) -> bool;

    /// The leader of a subscriber that this instance waits for, as far as that is known here.
    fn leader(&self, subscriber_id: &str) -> Option<Leader>;

    /// For how long a subscriber that this instance waits for has had no leader, once that is longer than a takeover may
    /// take: a session holds its lock, and does not lead. [`Leadership::lock_holders`] returns which.
    fn unled_for(&self, subscriber_id: &str) -> Option<Duration>;

    /// Gives everything back and ends. Calling it again is harmless.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What leadership rests on in a backend.
pub trait Leadership: Send + Sync {
    /// Enters this instance among those that may lead. Nothing is opened before it is needed.
    fn candidate(&self, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate>;

    /// The present or last leader of every subscriber; by subscriber. Any process may ask.
    fn leaders(&self) -> BoxFuture<'_, Result<Vec<Leader>, Error>>;

    /// The present holders of some subscribers' locks, whether or not they lead; by subscriber. Any process may ask. A lock
    /// held by a foreign session keeps every instance from leading.
    fn lock_holders<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<LockHolder>, Error>>;
}

/// An instance that may lead: locks, and the others that want them too.
///
/// # Contract
///
/// - A lock is held once at most, among all candidates \[G28\], and for one caller: a caller that asks again while it is
///   held here waits like any other.
/// - When the candidate's process ends, dies or falls silent, its locks are free again \[G29\].
/// - A holder that can no longer be sure of its lock learns that before any other can get it.
pub trait Candidate: Send + Sync {
    /// Opens what the locks hang on.
    fn ready(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Gets a lock if it is free. May be dropped at any await.
    fn try_hold<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>>;

    /// Waits for a lock. May be dropped at any await.
    fn hold<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Box<dyn HeldLock>, Error>>;

    /// Announces what this instance wants, and sees the others. What it leads counts as wanted.
    fn view<'a>(&'a self, wants: &'a [Want]) -> BoxFuture<'a, Result<View, Error>>;

    /// Gives all locks back, and ends.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A lock that is held. Dropping it gives it back.
pub trait HeldLock: Send + Sync {
    /// What it hangs on: the [`Member::session`] that others see. `None` where there is no lock, and so no session.
    fn session(&self) -> Option<Uuid>;

    /// Whether it is still held, as far as can be known without asking.
    fn is_held(&self) -> bool;

    /// Turns true, or ends, when it is not held any more.
    fn lost(&self) -> watch::Receiver<bool>;

    /// Gives it back, and returns when that is done. With a session, it is meant for that one: others stand back a while.
    fn release(self: Box<Self>, to: Option<Uuid>) -> BoxFuture<'static, ()>;
}

/// How leadership is worked, from a [`CoordinatorConfig`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeadershipSettings {
    /// After how long a silent instance no longer leads.
    pub takeover_bound: Duration,
    /// How often to try for what is wanted.
    pub standby_interval: Duration,
}

impl From<&CoordinatorConfig> for LeadershipSettings {
    fn from(config: &CoordinatorConfig) -> Self {
        Self { takeover_bound: config.takeover_bound, standby_interval: config.standby_interval }
    }
}

/// A subscriber that an instance would process for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Want {
    /// The subscriber.
    pub subscriber_id: String,
    /// The label of instances that should rather do it.
    pub prefers: Option<String>,
}

/// All candidates, as one of them sees them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// The one that looks: its session. `None` while it has none.
    pub own: Option<Uuid>,
    /// All that are there, the one that looks included.
    pub members: Vec<Member>,
}

/// A candidate, as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// What its locks hang on. Another one after every lost connection.
    pub session: Uuid,
    /// The instance.
    pub instance: Instance,
    /// What it would process for, and what it does.
    pub wants: Vec<Want>,
    /// What it holds.
    pub leads: Vec<String>,
}

/// The leader of a subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// The subscriber.
    pub subscriber_id: String,
    /// Who.
    pub instance: Instance,
    /// Since when.
    pub since: DateTime<Utc>,
    /// With which term.
    pub term: u64,
    /// Whether it still does.
    pub hold: LeaderHold,
}

/// The holder of a subscriber's lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// The subscriber.
    pub subscriber_id: String,
    /// The process: on PostgreSQL that of the server, by which a session is ended. None where it cannot be seen.
    pub pid: Option<u32>,
    /// The role of the session, where there are roles.
    pub role: Option<String>,
    /// The name that the session or the process has.
    pub application_name: Option<String>,
}

impl LockHolder {
    /// One of which nothing is known but that it is there.
    #[must_use]
    pub fn of(subscriber_id: impl Into<String>) -> Self {
        Self { subscriber_id: subscriber_id.into(), pid: None, role: None, application_name: None }
    }
}

/// `process 4711 (psql, role "intern")`
impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => f.write_str("a process that cannot be seen from here")?,
        }
        let name = self.application_name.clone().filter(|name| !name.is_empty());
        let role = self.role.as_ref().map(|role| format!("role {role:?}"));
        let more: Vec<String> = [name, role].into_iter().flatten().collect();
        if more.is_empty() { Ok(()) } else { write!(f, " ({})", more.join(", ")) }
    }
}

/// Whether an instance still leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaderHold {
    /// Yes.
    Held,
    /// None does: it has stopped, or died.
    Gone,
    /// It runs without coordination and holds no lock, so that cannot be told.
    Unknown,
}
