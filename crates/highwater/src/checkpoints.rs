//! The contract of checkpoints: how far subscribers are, which instance may write that, and what that instance reports.

mod claim;
mod lease;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;

pub use self::claim::{Claim, start_is_gone};
use crate::{BoxFuture, Error, Filter, SubscriptionState};

/// How far subscribers are, and what their leaders report beside that.
///
/// # Contract
///
/// - A subscriber's checkpoint is independent of every other's \[G16\]. One that cannot be read is an error, never 0.
/// - [`take_over`](Self::take_over) gives a term that was never given before, higher than all earlier ones of any
///   subscriber, also after checkpoints were deleted by hand; from its return on, a holder of an earlier term can write
///   nothing \[G17\]. It commits durably.
/// - Every write names a [`Fence`]: it happens only if the subscriber's row still carries that term, and if the server
///   is still in the life that the position was learnt in. A missing row counts as fenced.
/// - [`store_checkpoints`](Self::store_checkpoints) never moves a checkpoint back: a write that arrives late, behind a
///   newer one, changes nothing and counts as stored. It may lose writes when the *server* crashes, never when a client does:
///   that means redelivery, and never loss.
/// - Reports inform: no write is accepted or refused because of one \[G32\]. One report a subscriber is kept: that of the
///   highest term, and of that term the one that came last.
pub trait Checkpoints: Send + Sync {
    /// Makes the claimant the leader of a subscriber, and returns where to continue. A new subscriber starts after the
    /// claim's `start`, and that is stored, as is the claimant.
    fn take_over<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>>;

    /// Stores checkpoints of several subscribers. The answers stand in the order of the writes: `None` when it is stored,
    /// and else why this one is not. An error means that it is unknown which are.
    fn store_checkpoints<'a>(
        &'a self,
        writes: &'a [CheckpointWrite],
    ) -> BoxFuture<'a, Result<Vec<Option<Refused>>, Error>>;

    /// The checkpoint of one subscriber; `None` when it has never been started.
    fn checkpoint<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Checkpoint>, Error>>;

    /// All checkpoints, by subscriber.
    fn checkpoints(&self) -> BoxFuture<'_, Result<Vec<Checkpoint>, Error>>;

    /// Stores leaders' reports, at most one per subscriber. One of an older term than what is stored is ignored silently. It
    /// may lose reports when the *server* crashes.
    fn store_reports<'a>(&'a self, reports: &'a [Report]) -> BoxFuture<'a, Result<(), Error>>;

    /// The last reports of leaders, by subscriber.
    fn reports(&self) -> BoxFuture<'_, Result<Vec<Report>, Error>>;
}

/// The right of one instance to process for a subscriber. Numbers grow with every change; the nonce tells terms apart that
/// a restored backup might number alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// Higher than that of any term given before.
    pub number: u64,
    /// Random; in the term of a lease its first half is the same for all of them.
    pub nonce: Uuid,
}

/// What every write of a subscriber has to name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The subscriber.
    pub subscriber_id: Arc<str>,
    /// The term it was given.
    pub term: Term,
    /// The life of the server that its positions come from, as in [`Page::incarnation`](crate::backend::Page::incarnation).
    pub incarnation: u64,
}

/// What taking over gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// How far the subscriber is, with the new term.
    pub checkpoint: Checkpoint,
    /// Whether it was new.
    pub fresh: bool,
}

/// A checkpoint to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointWrite {
    /// The instance that reports it.
    pub fence: Fence,
    /// Up to here everything has been handled.
    pub global_sequence: u64,
    /// The last event that was; `None` leaves what is stored.
    pub event_id: Option<Uuid>,
}

/// Why a write did not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Another instance has taken over, with this term.
    Superseded {
        /// The number of the term that holds now.
        term: u64,
    },
    /// There is no checkpoint: the subscriber was removed, or its checkpoint deleted by hand.
    Missing,
    /// The server was restarted or replaced since the position was learnt.
    Interrupted,
    /// Another transaction holds it at the moment; it was not waited for, because others wait as well.
    Held {
        /// Which one, and what to do about it, if that can be told.
        by: Option<String>,
    },
}

impl Refused {
    /// The same for callers that have a transaction, or no other way to return it.
    #[must_use]
    pub fn into_error(self, subscriber_id: &str) -> Error {
        let subscriber_id = subscriber_id.to_owned();
        match self {
            Self::Superseded { term } => Error::Fenced { subscriber_id, term: Some(term) },
            Self::Missing => Error::Fenced { subscriber_id, term: None },
            Self::Interrupted => {
                let reason = "the server was restarted or replaced since the position was learnt".to_owned();
                Error::Interrupted { reason }
            }
            Self::Held { by } => Error::Unavailable {
                action: "store the checkpoint: another transaction holds it",
                source: by.unwrap_or_else(|| "which one cannot be seen any more; retrying".to_owned()).into(),
            },
        }
    }
}

/// A stored checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The subscriber.
    pub subscriber_id: String,
    /// Up to here everything has been handled or dead-lettered.
    pub global_sequence: u64,
    /// The last event that was delivered, if it is known.
    pub event_id: Option<Uuid>,
    /// When it was last written.
    pub updated_at: DateTime<Utc>,
    /// The term that holds now.
    pub term: Term,
    /// The life of the server that this comes from.
    pub incarnation: u64,
    /// The version of its read model's tables that were set up, by [`Closing::SetUp`](crate::backend::Closing::SetUp) or with a
    /// reset; `None` when none ever were here.
    pub setup_version: Option<u32>,
}

impl Checkpoint {
    /// What a write names that the holder of its term makes.
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence { subscriber_id: (*self.subscriber_id).into(), term: self.term, incarnation: self.incarnation }
    }
}

/// What the leader of a subscriber reports about itself, for observers outside. It counts while its term and its leader do:
/// it may be older than the present state.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The subscriber.
    pub subscriber_id: String,
    /// The number of the term it is led with.
    pub term: u64,
    /// What it is doing.
    pub state: SubscriptionState,
    /// Up to where it has handled everything; its checkpoint may be behind that.
    pub position: u64,
    /// Events that it handled per second, lately.
    pub rate: f64,
    /// The last error of its handler or of the store, if there ever was one.
    pub last_error: Option<String>,
    /// Why events of other processes are found by polling alone; `None` when they are pushed.
    pub push_degraded: Option<String>,
    /// Which events it reads, as the log stores them; `None` when that is not known.
    pub reads: Option<Filter>,
    /// When it was reported, by the leader's clock.
    pub reported_at: DateTime<Utc>,
}

/// What a leader says that it is doing, in columns: how SQL backends store it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateColumns<'a> {
    /// Its name.
    pub state: &'a str,
    /// The event that failed.
    pub failing: Option<u64>,
    /// How often.
    pub failures: Option<u32>,
    /// When it is retried.
    pub next_at: Option<DateTime<Utc>>,
    /// Why it is halted.
    pub reason: Option<&'a str>,
}

impl<'a> StateColumns<'a> {
    /// The columns of a state. Its errors stand in the report's own column.
    #[must_use]
    pub fn of(state: &'a SubscriptionState) -> Self {
        let named = Self { state: state.name(), ..Self::default() };
        match state {
            SubscriptionState::CatchingUp { .. } => Self { state: "catching_up", ..named },
            SubscriptionState::Retrying { global_sequence, failures, next_at, .. } => {
                Self { failing: Some(*global_sequence), failures: Some(*failures), next_at: Some(*next_at), ..named }
            }
            SubscriptionState::Halted { reason } => Self { reason: Some(reason), ..named },
            _ => named,
        }
    }

    /// The state of a leader; `None` for one that only a newer version knows: it informs, so it is no reason to show nothing at
    /// all.
    pub(crate) fn read(&self, term: u64, last_error: Option<&str>) -> Option<SubscriptionState> {
        let error = || Arc::from(last_error.unwrap_or_default());
        Some(match self.state {
            "catching_up" => SubscriptionState::CatchingUp { term },
            "live" => SubscriptionState::Live { term },
            "retrying" => SubscriptionState::Retrying {
                term,
                global_sequence: self.failing.unwrap_or_default(),
                failures: self.failures.unwrap_or_default(),
                next_at: self.next_at.unwrap_or_default(),
                error: error(),
            },
            "disconnected" => SubscriptionState::Disconnected { error: error() },
            "paused" => SubscriptionState::Paused,
            "halted" => SubscriptionState::Halted { reason: self.reason.unwrap_or_default().into() },
            "stopped" => SubscriptionState::Stopped,
            _ => return None,
        })
    }
}
