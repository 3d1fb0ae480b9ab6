//! The one error of this crate and of its backends. Each kind says what the caller should do.

mod bus;
mod invalid;
mod shared;
mod transfer;
mod words;

use std::time::Duration;

use uuid::Uuid;

use self::words::{called, fenced, one_of};
use crate::{ExpectedVersion, StreamId, StreamName};

pub use bus::BusError;
pub use invalid::Invalid;
pub use shared::SharedError;
pub use transfer::TransferError;

/// Any error, boxed, as sources and handlers carry it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// An error with its sources, in one line. What a source only repeats is left out.
#[must_use]
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    for source in std::iter::successors(error.source(), |error| error.source()) {
        let said = source.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
    }
    text
}

/// What can go wrong with a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stream is not where the append expected it. Nothing was stored: load again and decide again.
    #[error(
        "conflict: stream {} is at version {actual}, but the append expected {expected}",
        called(stream_id, stream_name)
    )]
    Conflict {
        /// The stream in question.
        stream_id: Uuid,
        /// What it is called, where it has a name.
        stream_name: Option<StreamName>,
        /// What the append asked for.
        expected: ExpectedVersion,
        /// Where the stream is; 0 when it does not exist.
        actual: u64,
    },

    /// The input cannot be stored as it is. Nothing was stored: correct the input.
    #[error("invalid input: {0}")]
    Invalid(#[from] Invalid),

    /// An event id of the append is taken by another event. Nothing was stored: draw a new id, or find the event that uses
    /// it.
    #[error(
        "event id {event_id} is taken: it is stored in stream {} at version {stream_version} with another {differs_in}",
        called(stream_id, stream_name)
    )]
    IdTaken {
        /// The id that is taken.
        event_id: Uuid,
        /// The stream it is stored in.
        stream_id: Uuid,
        /// What it is called, where it has a name.
        stream_name: Option<StreamName>,
        /// Its version there.
        stream_version: u64,
        /// What differs: "stream", "event type" or "payload".
        differs_in: &'static str,
    },

    /// Some ids of the append are stored and some are not, so it is neither new nor a repetition. Nothing was stored.
    #[error("{stored} of the append's {total} event ids are stored already; an append is repeated whole or not at all")]
    PartlyStored {
        /// How many of the ids are known.
        stored: usize,
        /// How many ids the append has.
        total: usize,
    },

    /// The connection was lost while the append was being committed. It may or may not be stored: **send the same
    /// [`Append`](crate::Append) again**; its ids make sure that it is stored once.
    #[error("unknown outcome, safe to retry with the same ids: the connection was lost during the commit")]
    UnknownOutcome {
        /// What the connection said.
        #[source]
        source: BoxError,
    },

    /// The queue in front of the appender stayed full. Nothing was stored: slow down, or retry later.
    #[error("overloaded: the append waited {waited:?} for a place in the queue; nothing was stored")]
    Overloaded {
        /// How long the caller waited.
        waited: Duration,
    },

    /// This very task holds the only write transaction that the database can have, so it would wait for itself. Nothing was
    /// stored: append on that transaction, or end it first.
    #[error(
        "this task holds the database's write transaction and would wait for itself: append on that transaction, or end it \
         first"
    )]
    HoldsTransaction,

    /// A transaction that is still open holds the stream. Nothing was stored: retry later.
    #[error("stream held: another transaction has held {} for {waited:?}; nothing was stored", one_of(streams))]
    StreamHeld {
        /// The streams of the append, one of which is held.
        streams: Vec<StreamId>,
        /// How long the append waited for it.
        waited: Duration,
    },

    /// The store cannot be reached or did not answer. Nothing was stored: retry.
    #[error("unavailable: cannot {action}")]
    Unavailable {
        /// What was being tried.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: BoxError,
    },

    /// The server is a replica or read-only. Writing and reading in order need the primary: connect to that.
    #[error("not the primary: {reason}; connect to the primary server")]
    NotPrimary {
        /// What gave it away.
        reason: String,
    },

    /// The server was replaced or restored, so remembered positions are invalid. Read the checkpoint again.
    #[error("the log was interrupted: {reason}; read the checkpoint again")]
    Interrupted {
        /// What changed.
        reason: String,
    },

    /// A stored event does not fit the type it is read as.
    #[error(
        "cannot decode event {event_id} ({event_type} v{schema_version}, stream {} version {stream_version}): {source}",
        called(stream_id, stream_name)
    )]
    Undecodable {
        /// The event.
        event_id: Uuid,
        /// Its type as it is stored.
        event_type: String,
        /// Its schema version as it is stored.
        schema_version: u32,
        /// Its stream.
        stream_id: Uuid,
        /// What it is called, where it has a name.
        stream_name: Option<StreamName>,
        /// Its version in the stream.
        stream_version: u64,
        /// Why.
        #[source]
        source: BoxError,
    },

    /// The database is not laid out as this version of the library needs it. Read the reason and act on it.
    #[error("unfit database: {reason}")]
    Unfit {
        /// What is wrong and what to do.
        reason: String,
    },

    /// What is stored is not what was written: it was changed by hand, or the storage has damaged it. Retrying does not
    /// help: let the store [`diagnose`](crate::backend::Diagnose::diagnose) itself, and fix what it names or restore a
    /// backup.
    #[error("damaged: cannot {action}")]
    Damaged {
        /// What was being tried.
        action: &'static str,
        /// Which row it is, and what is wrong with it.
        #[source]
        source: BoxError,
    },

    /// The database would have stored something else than was sent, because a trigger or a rule on the table of events drops
    /// or changes rows. Nothing was stored: remove the trigger or the rule.
    #[error("altered: {reason}; nothing was stored: remove the trigger or rule on the events table that does this")]
    Altered {
        /// What would have been stored.
        reason: String,
    },

    /// Another instance has taken over for this subscriber, or its checkpoint was deleted. Nothing was stored.
    #[error("fenced: {}", fenced(subscriber_id, *term))]
    Fenced {
        /// The subscriber.
        subscriber_id: String,
        /// The number of the term that holds now; none when the checkpoint is gone.
        term: Option<u64>,
    },

    /// What a handler or an application did in its transaction keeps that from committing: a statement failed and the error
    /// was swallowed, a deferred constraint is violated, or the transaction was ended inside. Nothing was stored: fix that
    /// code.
    #[error("the transaction cannot be committed: a statement in it failed, or ended it")]
    Aborted {
        /// What the database said.
        #[source]
        source: BoxError,
    },

    /// The bus, or a subscriber of it, cannot do what was asked.
    #[error(transparent)]
    Bus(#[from] BusError),

    /// A store cannot be copied, exported or imported as asked.
    #[error(transparent)]
    Transfer(#[from] TransferError),

    /// There is no such dead letter, or no such request.
    #[error("there is no {what} {id}")]
    NotFound {
        /// What was looked for.
        what: &'static str,
        /// Its id.
        id: Uuid,
    },

    /// The bus has been shut down.
    #[error("the event bus has been shut down")]
    ShutDown,

    /// A connection is not a dedicated session, so it cannot hold locks: a pooler is in between. Connect directly.
    #[error("not a dedicated session: {reason}")]
    NoSession {
        /// What gave it away, and the way out.
        reason: String,
    },

    /// The store is being filled with what another one holds, and takes nothing else. Nothing was stored: finish the filling,
    /// or abandon it.
    #[error("being filled: {reason}; finish that, or abandon it")]
    BeingFilled {
        /// From what, and since when.
        reason: String,
    },

    /// The role may not do this. Grant what is missing.
    #[error("not permitted: cannot {action}")]
    Denied {
        /// What was being tried.
        action: &'static str,
        /// What the server said.
        #[source]
        source: BoxError,
    },
}

impl Error {
    /// Whether sending the same call again, unchanged, can succeed.
    ///
    /// True for a lost connection, a full queue, a held stream, a server that is not the primary (another may be by then) and an
    /// unknown outcome. A conflict is not among them: it wants a new decision.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::UnknownOutcome { .. }
                | Self::Overloaded { .. }
                | Self::StreamHeld { .. }
                | Self::Unavailable { .. }
                | Self::NotPrimary { .. }
        )
    }
}
