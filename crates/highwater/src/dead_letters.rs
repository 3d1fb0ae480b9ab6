//! The contract of dead letters: events that a subscriber could not handle, kept until an operator has dealt with them.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{BoxFuture, Error, Record, StreamId, StreamName};

/// Dead letters, and what people ask to be done with them.
///
/// They are written in the fenced transactions of [`Backend`](crate::backend::Backend), and nowhere else: an operator files
/// a [`Request`], and the subscriber's own task carries it out.
///
/// # Contract
///
/// - A subscriber has at most one dead letter for an event; an event that fails again after its dead letter was resolved
///   opens it again.
/// - Reading shows what is committed. Requests are durable when filing returns, and stay open until they are finished.
pub trait DeadLetters: Send + Sync {
    /// The streams of a subscriber that are parked, with the number of dead letters that wait in each.
    fn parked<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Vec<(Uuid, u64)>, Error>>;

    /// A page of dead letters, by `global_sequence` and then by id.
    fn dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<Vec<DeadLetter>, Error>>;

    /// How many dead letters there are; page and limit of the query do not count.
    fn count_dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<u64, Error>>;

    /// Everything about one dead letter.
    fn dead_letter(&self, id: Uuid) -> BoxFuture<'_, Result<Option<DeadLetterDetail>, Error>>;

    /// Files a request. Filing the same one again changes nothing.
    fn file_request<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<(), Error>>;

    /// The open requests for these subscribers, the oldest first; a hundred of each at most, so that many requests for one
    /// subscriber do not delay another's few.
    fn open_requests<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<Request>, Error>>;

    /// One request, open or not.
    fn request(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Request>, Error>>;

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

/// Something that a subscriber's task is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Drawn by the caller.
    pub id: Uuid,
    /// Whom it concerns.
    pub subscriber_id: String,
    /// What is to be done.
    pub kind: RequestKind,
    /// Who requests it.
    pub requested_by: String,
    /// When.
    pub requested_at: DateTime<Utc>,
    /// What came of it, when it is finished.
    pub outcome: Option<RequestOutcome>,
}

/// What can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestKind {
    /// To replay one dead letter. The head of a parked stream takes those behind it along.
    Replay {
        /// The dead letter.
        dead_letter: Uuid,
    },
    /// To replay the dead letters of one stream, in order.
    ReplayStream {
        /// The stream.
        stream_id: Uuid,
    },
    /// To replay all dead letters, in order.
    ReplayAll,
    /// To discard one dead letter.
    Discard {
        /// The dead letter.
        dead_letter: Uuid,
        /// Why.
        reason: String,
    },
    /// To start again from the beginning, with an emptied read model.
    Rebuild,
    /// To read the checkpoint again, which was moved under the leader. No operator asks for it: a forced move files it, so that
    /// a leader that has nothing to do learns of the move.
    Reread,
}

impl RequestKind {
    /// What it is, in a word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Replay { .. } => "replay",
            Self::ReplayStream { .. } => "replay stream",
            Self::ReplayAll => "replay all",
            Self::Discard { .. } => "discard",
            Self::Rebuild => "rebuild",
            Self::Reread => "reread",
        }
    }
}

/// What is asked for, in columns: how SQL backends store it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestColumns<'a> {
    /// Its name: "replay", "replay_stream", "replay_all", "discard", "rebuild", "reread".
    pub kind: &'a str,
    /// The dead letter it is about.
    pub dead_letter: Option<Uuid>,
    /// The stream it is about.
    pub stream_id: Option<Uuid>,
    /// The reason that was given.
    pub reason: Option<&'a str>,
}

impl<'a> From<&'a RequestKind> for RequestColumns<'a> {
    fn from(kind: &'a RequestKind) -> Self {
        match kind {
            RequestKind::Replay { dead_letter } => {
                Self { kind: "replay", dead_letter: Some(*dead_letter), ..Self::default() }
            }
            RequestKind::ReplayStream { stream_id } => {
                Self { kind: "replay_stream", stream_id: Some(*stream_id), ..Self::default() }
            }
            RequestKind::ReplayAll => Self { kind: "replay_all", ..Self::default() },
            RequestKind::Discard { dead_letter, reason } => {
                Self { kind: "discard", dead_letter: Some(*dead_letter), reason: Some(reason), ..Self::default() }
            }
            RequestKind::Rebuild => Self { kind: "rebuild", ..Self::default() },
            RequestKind::Reread => Self { kind: "reread", ..Self::default() },
        }
    }
}

impl RequestColumns<'_> {
    /// What is asked for; `None` when the columns do not say.
    #[must_use]
    pub fn read(&self) -> Option<RequestKind> {
        Some(match (self.kind, self.dead_letter, self.stream_id, self.reason) {
            ("replay", Some(dead_letter), ..) => RequestKind::Replay { dead_letter },
            ("replay_stream", _, Some(stream_id), _) => RequestKind::ReplayStream { stream_id },
            ("replay_all", ..) => RequestKind::ReplayAll,
            ("discard", Some(dead_letter), _, Some(reason)) => {
                RequestKind::Discard { dead_letter, reason: reason.to_owned() }
            }
            ("rebuild", ..) => RequestKind::Rebuild,
            ("reread", ..) => RequestKind::Reread,
            _ => return None,
        })
    }
}

/// What came of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestOutcome {
    /// Dead letters that were dealt with as requested.
    pub done: u64,
    /// Dead letters that failed again.
    pub failed: u64,
    /// What went wrong, if something did.
    pub error: Option<String>,
    /// When it was finished.
    pub finished_at: Option<DateTime<Utc>>,
}
