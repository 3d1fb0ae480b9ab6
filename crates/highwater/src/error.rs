//! The one error of this crate and of its backends. Each kind says what the caller should do.

mod shared;

use std::time::Duration;

use uuid::Uuid;

use crate::ExpectedVersion;

pub use shared::SharedError;

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

/// What can go wrong with a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stream is not where the append expected it. Nothing was stored: load again and decide again.
    #[error("conflict: stream {stream_id} is at version {actual}, but the append expected {expected}")]
    Conflict {
        /// The stream in question.
        stream_id: Uuid,
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
        "event id {event_id} is taken: it is stored in stream {stream_id} at version {stream_version} with another {differs_in}"
    )]
    IdTaken {
        /// The id that is taken.
        event_id: Uuid,
        /// The stream it is stored in.
        stream_id: Uuid,
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

    /// A subscriber's own handler waits for that subscriber, which continues only when the handler has returned. Nothing was
    /// changed: do it from elsewhere, or in a separate task that the handler does not wait for.
    #[error(
        "the handler of {subscriber_id:?} would wait for itself: {action} waits for that subscriber, which continues only \
         when its handler has returned; call it from elsewhere, or in a task that the handler does not wait for"
    )]
    WaitsForItself {
        /// The subscriber.
        subscriber_id: String,
        /// What was called.
        action: &'static str,
    },

    /// A transaction that is still open holds the stream. Nothing was stored: retry later.
    #[error("stream held: another transaction has held a stream of this append for {waited:?}; nothing was stored")]
    StreamHeld {
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

    /// The server behind the connection is another one than before (a failover or a restore), so positions remembered
    /// from it may mean other events now. Start again from the stored checkpoint.
    #[error("the log was interrupted: {reason}; start again from the stored position")]
    Interrupted {
        /// What changed.
        reason: String,
    },

    /// A stored event does not fit the type it is read as.
    #[error(
        "cannot decode event {event_id} ({event_type} v{schema_version}, stream {stream_id} version {stream_version}): {source}"
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

    /// There is a subscription with this name on this bus already. Two observers cannot share a position.
    #[error("{0:?} is subscribed already on this bus; unsubscribe it first, or give the other one its own name")]
    AlreadySubscribed(String),

    /// No subscriber has ever had this name. Check its spelling.
    #[error("there is no subscriber {0:?}")]
    UnknownSubscriber(String),

    /// There is no such dead letter, or no such request.
    #[error("there is no {what} {id}")]
    NotFound {
        /// What was looked for.
        what: &'static str,
        /// Its id.
        id: Uuid,
    },

    /// An instance leads for the subscriber, or may do so, and would continue from where it is. Nothing was changed: stop it
    /// first, or force it.
    #[error("{subscriber_id:?} is being processed: {reason}; stop that first, or force it")]
    Led {
        /// The subscriber.
        subscriber_id: String,
        /// By whom, and how far that is known.
        reason: String,
        /// The leader, if it is known.
        leader: Option<Box<crate::Leader>>,
    },

    /// A subscriber did not get there in time. It continues; wait again, or find out what delays it.
    #[error(
        "{subscriber_id:?} has not reached {wanted} within {waited:?}: {}",
        reached.map_or_else(|| "it has never been started".to_owned(), |at| format!("it is at {at}"))
    )]
    NotReached {
        /// The subscriber.
        subscriber_id: String,
        /// What was waited for.
        wanted: u64,
        /// Where it is; none when it has no checkpoint.
        reached: Option<u64>,
        /// How long was waited.
        waited: Duration,
    },

    /// The subscriber does not process. Its state says why.
    #[error("{subscriber_id:?} is not running: {reason}")]
    NotRunning {
        /// The subscriber.
        subscriber_id: String,
        /// What state it is in, and why.
        reason: String,
    },

    /// A request could not be carried out as asked. What was done of it stays done.
    #[error("{asked} failed: {reason}")]
    RequestFailed {
        /// What was asked for.
        asked: &'static str,
        /// What went wrong.
        reason: String,
    },

    /// Not everything had stopped in time; what had not was aborted, and is delivered again at the next start.
    #[error("shut down, but these did not stop in time and were aborted: {}", subscribers.join(", "))]
    ShutdownTimedOut {
        /// The subscribers that were still busy.
        subscribers: Vec<String>,
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

    /// Only an empty store can be filled. Nothing was changed: take another one.
    #[error("not empty: this store holds {found}; fill one that is empty")]
    NotEmpty {
        /// What it holds.
        found: String,
    },

    /// What was filled in is not what the source holds. The store stays locked: abandon it, and find out why.
    #[error("the copy differs: {difference}")]
    CopyDiffers {
        /// The first difference.
        difference: String,
    },

    /// A line of an export cannot be imported. Nothing was stored: fix the file, or export again.
    #[error("line {line} cannot be imported")]
    Import {
        /// Which line, counted from 1.
        line: u64,
        /// What is wrong with it.
        #[source]
        source: BoxError,
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
    /// True for a lost connection, a full queue, a held stream and an unknown outcome. A conflict is not among them:
    /// it wants a new decision.
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

fn fenced(subscriber_id: &str, term: Option<u64>) -> String {
    match term {
        Some(term) => format!("another instance has taken over for {subscriber_id:?} with term {term}"),
        None => format!("the checkpoint of {subscriber_id:?} is gone"),
    }
}

/// Why an input cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// An append without events.
    #[error("the append has no events")]
    EmptyAppend,
    /// A stream of the append has an expectation but no event.
    #[error("the append names stream {0} but has no event for it")]
    NoEventFor(Uuid),
    /// More events in one append than [`Limits::append_events_max`](crate::Limits::append_events_max).
    #[error("the append has {count} events, the limit is {limit}")]
    TooManyEvents {
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Data and metadata of one event are over [`Limits::event_bytes_max`](crate::Limits::event_bytes_max).
    #[error("event {event_type} has {bytes} bytes of data and metadata, the limit is {limit}")]
    EventTooLarge {
        /// The event's type.
        event_type: String,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// All events of an append together are over [`Limits::append_bytes_max`](crate::Limits::append_bytes_max).
    #[error("the append has {bytes} bytes, the limit is {limit}")]
    AppendTooLarge {
        /// The append's size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// An event type that is empty, holds a NUL, or is over its limit.
    #[error("event type {event_type:?} is not usable: it must have 1 to {limit} bytes and no NUL character")]
    EventType {
        /// The type, cut to something printable.
        event_type: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The data is not a variant of an externally tagged enum.
    #[error("not an event: {0}; events are variants of an enum with serde's default (external) tagging")]
    NotAnEvent(String),
    /// The data cannot be written as JSON.
    #[error("the data cannot be written as JSON: {0}")]
    NotJson(String),
    /// A NaN or an infinity, which JSON cannot hold.
    #[error("the data holds {0}, which JSON cannot represent")]
    NotFinite(String),
    /// A NUL character, which PostgreSQL's `json` would store and never return.
    #[error("{0} holds the character U+0000, which cannot be stored")]
    NulCharacter(&'static str),
    /// Metadata that is not a JSON object.
    #[error("metadata must be a JSON object")]
    MetadataNotAnObject,
    /// The same event id twice in one append.
    #[error("event id {0} occurs twice in the append")]
    DuplicateId(Uuid),
    /// Versions of the events of one stream that do not follow each other.
    #[error("events of stream {stream_id} have version {found} where {wanted} should follow")]
    VersionsNotContiguous {
        /// The stream.
        stream_id: Uuid,
        /// The version that was to come.
        wanted: u64,
        /// The version that came.
        found: u64,
    },
    /// A schema version over `i32::MAX`.
    #[error("schema version {0} is out of range; the highest is {max}", max = i32::MAX)]
    SchemaVersion(u32),
    /// A time that no calendar of ours holds.
    #[error("created_at {0} is out of range; it must lie in the years 1 to 9999")]
    CreatedAt(String),
    /// A builder without something it requires.
    #[error("the event has no {0}")]
    Missing(&'static str),
    /// A name that cannot be used for a schema.
    #[error("{name:?} cannot be a schema name: {reason}")]
    SchemaName {
        /// The name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// A setting out of its range.
    #[error("setting {name}: {reason}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// An append in a transaction of the application's that sees the streams as they were when it began.
    #[error(
        "the transaction is {0}, which sees streams as they were when it began: append in a READ COMMITTED one, or without a \
         transaction"
    )]
    Isolation(String),
    /// A name that cannot be a subscriber's.
    #[error("{0:?} cannot be a subscriber id: it must have 1 to 255 bytes and no NUL character")]
    SubscriberId(String),
    /// A position that the log has not reached.
    #[error("position {wanted} is beyond the end of the log, which is at {head}")]
    Position {
        /// The position.
        wanted: u64,
        /// The highest committed event.
        head: u64,
    },
    /// Something that cannot be filled into a store.
    #[error("cannot be filled in: {0}")]
    Filling(String),
    /// Upcasters that contradict each other.
    #[error("upcaster from {event_type} v{schema_version}: {reason}")]
    Upcaster {
        /// The type it reads.
        event_type: String,
        /// The version it reads.
        schema_version: u32,
        /// What is wrong.
        reason: &'static str,
    },
}
