//! The contract of pauses and requests: what operators ask of a subscriber, from any process.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{BoxFuture, Error};

/// What operators ask of subscribers: to pause, and what a [`Request`] says.
///
/// Both are stored, and whichever instance leads the subscriber finds them: an operator's process need not reach it. None
/// names a term. What a request asks for is done by the subscriber's own task, under its fence.
///
/// # Contract
///
/// - Pauses and requests are durable when storing them returns. Reading shows what is committed.
/// - A pause holds for all instances, until an operator resumes the subscriber.
/// - A request stays open until it is finished, by [`Closing::Finished`](crate::backend::Closing::Finished).
pub trait Requests: Send + Sync {
    /// Pauses or resumes a subscriber, durably and for all instances. `Ok(false)`: there is no such subscriber.
    fn set_paused<'a>(&'a self, subscriber_id: &'a str, paused: bool) -> BoxFuture<'a, Result<bool, Error>>;

    /// Which of these subscribers are paused.
    fn paused<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<String>, Error>>;

    /// Files a request. Filing the same one again changes nothing.
    fn file_request<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<(), Error>>;

    /// The open requests for these subscribers, the oldest first; a hundred of each at most, so that many requests for one
    /// subscriber do not delay another's few. One that cannot be read is not among them, and none of the hundred.
    fn open_requests<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<Request>, Error>>;

    /// A page of all open requests, by time and then by id.
    fn all_open_requests<'a>(
        &'a self,
        after: Option<&'a Request>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Request>, Error>>;

    /// One request, open or not.
    fn request(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Request>, Error>>;
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
    pub(crate) fn read(&self) -> Option<RequestKind> {
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
