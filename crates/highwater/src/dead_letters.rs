//! The contract of dead letters: events that a subscriber could not handle, kept until an operator has dealt with them.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{BoxFuture, Error, Record, StreamId, StreamName};

/// Dead letters.
///
/// They are written in the fenced transactions of [`Backend`](crate::backend::Backend), and nowhere else: an operator files
/// a [`Request`](crate::backend::Request), and the subscriber's own task carries it out.
///
/// # Contract
///
/// - A subscriber has at most one dead letter for an event; an event that fails again after its dead letter was resolved
///   opens it again.
/// - Reading shows what is committed.
pub trait DeadLetters: Send + Sync {
    /// The streams of a subscriber that are parked, with the number of dead letters that wait in each.
    fn parked<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Vec<(Uuid, u64)>, Error>>;

    /// A page of dead letters, by `global_sequence` and then by id.
    fn dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<Vec<DeadLetter>, Error>>;

    /// How many dead letters there are; page and limit of the query do not count.
    fn count_dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<u64, Error>>;

    /// Everything about one dead letter.
    fn dead_letter(&self, id: Uuid) -> BoxFuture<'_, Result<Option<DeadLetterDetail>, Error>>;

    /// Deletes dead letters of a subscriber that were resolved, and requests that were finished, before a time. Returns how
    /// many dead letters.
    fn purge_dead_letters<'a>(
        &'a self,
        subscriber_id: &'a str,
        before: DateTime<Utc>,
    ) -> BoxFuture<'a, Result<u64, Error>>;
}

/// An event that a subscriber could not handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The dead letter's own id.
    pub id: Uuid,
    /// The subscriber that could not handle it.
    pub subscriber_id: String,
    /// The event.
    pub event_id: Uuid,
    /// The event's place in the log.
    pub global_sequence: u64,
    /// The event's stream.
    pub stream_id: Uuid,
    /// What that is called, if it has a name.
    pub stream_name: Option<StreamName>,
    /// The event's type, as it is stored.
    pub event_type: String,
    /// The last error; `None` for an event that only waits behind another.
    pub error_message: Option<String>,
    /// How often it was retried, retries and replays together.
    pub retry_count: u32,
    /// When the dead letter was written.
    pub created_at: DateTime<Utc>,
    /// When it was last retried.
    pub last_retry_at: Option<DateTime<Utc>>,
    /// What has become of it.
    pub state: DeadLetterState,
    /// Whether later events of its stream wait behind it.
    pub parks: bool,
    /// When it was resolved.
    pub resolved_at: Option<DateTime<Utc>>,
    /// Who requested that.
    pub resolved_by: Option<String>,
    /// The reason that was given.
    pub reason: Option<String>,
}

impl DeadLetter {
    /// The event's stream, with its name.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        StreamId::with_name(self.stream_id, self.stream_name.as_ref())
    }

    /// Where the page after this dead letter starts.
    #[must_use]
    pub fn cursor(&self) -> DeadLetterCursor {
        DeadLetterCursor { global_sequence: self.global_sequence, id: self.id }
    }
}

/// The state of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeadLetterState {
    /// Open: the event failed.
    Dead,
    /// Open: the event waits behind an earlier one of its stream.
    Parked,
    /// Resolved: it was replayed and handled.
    Replayed,
    /// Resolved: an operator discarded it.
    Discarded,
    /// Resolved: the subscriber was reset and sees the event again.
    Archived,
}

impl DeadLetterState {
    /// Every state, in the order of a dead letter's life.
    pub const ALL: [Self; 5] = [Self::Dead, Self::Parked, Self::Replayed, Self::Discarded, Self::Archived];

    /// Whether something is still to be done.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Dead | Self::Parked)
    }

    /// The state's name, as it is stored and shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Parked => "parked",
            Self::Replayed => "replayed",
            Self::Discarded => "discarded",
            Self::Archived => "archived",
        }
    }

    /// The state of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// Which dead letters to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterQuery {
    /// Of this subscriber.
    pub subscriber_id: Option<String>,
    /// Of this stream.
    pub stream_id: Option<Uuid>,
    /// Of this event type, as it is stored.
    pub event_type: Option<String>,
    /// Written at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Written before this time.
    pub until: Option<DateTime<Utc>>,
    /// In one of these states. Default: the open ones.
    pub states: Vec<DeadLetterState>,
    /// After this dead letter: the page that follows.
    pub after: Option<DeadLetterCursor>,
    /// How many at most. Default: 100.
    pub limit: usize,
}

impl Default for DeadLetterQuery {
    fn default() -> Self {
        Self {
            subscriber_id: None,
            stream_id: None,
            event_type: None,
            since: None,
            until: None,
            states: vec![DeadLetterState::Dead, DeadLetterState::Parked],
            after: None,
            limit: 100,
        }
    }
}

impl DeadLetterQuery {
    /// The open dead letters of one subscriber.
    #[must_use]
    pub fn of(subscriber_id: impl Into<String>) -> Self {
        Self { subscriber_id: Some(subscriber_id.into()), ..Self::default() }
    }
}

/// A place between two pages of dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetterCursor {
    /// The last dead letter's place in the log.
    pub global_sequence: u64,
    /// The last dead letter's id.
    pub id: Uuid,
}

/// Everything about one dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterDetail {
    /// The dead letter.
    pub dead_letter: DeadLetter,
    /// The event as it is stored, with its raw payload; `None` when the log does not have it any more.
    pub record: Option<Record>,
    /// What has been done with it since it was written, the oldest first.
    pub attempts: Vec<DeadLetterAttempt>,
}

/// One thing that was done with a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterAttempt {
    /// When.
    pub at: DateTime<Utc>,
    /// Who requested it.
    pub by: String,
    /// What came of it: "failed", "replayed", "discarded", "archived".
    pub outcome: String,
    /// The error, or the reason that was given.
    pub detail: Option<String>,
}

/// A dead letter to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDeadLetter {
    /// The event.
    pub event_id: Uuid,
    /// Its place in the log.
    pub global_sequence: u64,
    /// Its stream.
    pub stream_id: Uuid,
    /// Its type, as it is stored.
    pub event_type: String,
    /// Why it failed, free of NUL and cut to a sensible length; `None` for one that only waits behind another.
    pub error_message: Option<String>,
    /// How often it was retried.
    pub retry_count: u32,
    /// Whether later events of its stream are to wait behind it.
    pub parks: bool,
}

impl NewDeadLetter {
    /// The state it begins in.
    #[must_use]
    pub fn state(&self) -> DeadLetterState {
        if self.error_message.is_some() { DeadLetterState::Dead } else { DeadLetterState::Parked }
    }
}
