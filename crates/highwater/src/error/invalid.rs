//! Input that cannot be used as it is.

use uuid::Uuid;

use super::called;
use crate::StreamName;

/// Why an input cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// An append without events.
    #[error("the append has no events")]
    EmptyAppend,
    /// A stream of the append has an expectation but no event.
    #[error("the append names stream {} but has no event for it", called(stream_id, stream_name))]
    NoEventFor {
        /// The stream.
        stream_id: Uuid,
        /// What it is called, where it has a name.
        stream_name: Option<StreamName>,
    },
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
    #[error(
        "not an event: {0}; events are variants of an enum with serde's default (external) tagging, and several enums go \
         together as OneOf<A, B>"
    )]
    NotAnEvent(String),
    /// An event type that two enums of a [`OneOf`](crate::codec::OneOf) know.
    #[error("event type {event_type:?} is known to {first} and to {second}; in a OneOf it must belong to one of them")]
    KnownTwice {
        /// The type.
        event_type: &'static str,
        /// The enum that knows it.
        first: &'static str,
        /// The other enum that knows it.
        second: &'static str,
    },
    /// An enum of a [`OneOf`](crate::codec::OneOf) that knows every type, also those of the others.
    #[error("{0} has #[serde(other)], and so knows the event types of every other enum; it cannot stand in a OneOf")]
    KnowsEverything(&'static str),
    /// The data cannot be written as JSON.
    #[error("the data cannot be written as JSON: {0}")]
    NotJson(String),
    /// A NaN or an infinity, which JSON cannot hold.
    #[error("the data holds {0}, which JSON cannot represent")]
    NotFinite(String),
    /// A NUL character, which PostgreSQL's `json` would store and never give back.
    #[error("{0} holds the character U+0000, which cannot be stored")]
    NulCharacter(&'static str),
    /// Metadata that is not a JSON object.
    #[error("metadata must be a JSON object")]
    MetadataNotAnObject,
    /// A name of a stream that cannot be stored.
    #[error(
        "the stream name {name:?} cannot be stored: kind and key are not empty, hold no control characters, have up to {limit} \
         bytes together, and the kind holds no slash; or append to the stream by its id alone, {stream_id}",
        limit = crate::stream_id::NAME_BYTES_MAX - 1
    )]
    StreamName {
        /// The stream.
        stream_id: Uuid,
        /// The name that it was given, or how that begins.
        name: String,
    },
    /// The same event id twice in one append.
    #[error("event id {0} occurs twice in the append")]
    DuplicateId(Uuid),
    /// Versions of the events of one stream that do not follow each other.
    #[error("events of stream {} have version {found} where {wanted} should follow", called(stream_id, stream_name))]
    VersionsNotContiguous {
        /// The stream.
        stream_id: Uuid,
        /// What it is called, where it has a name.
        stream_name: Option<StreamName>,
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
    /// A builder without something it needs.
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
    /// A projection whose state is gone with the process, on a store whose checkpoints are not: after a restart it would lack
    /// everything before.
    #[error(
        "{subscriber_id:?} keeps its state in memory (StateIs::InMemory), and this store keeps its checkpoint: after a restart it \
         would lack every event before. For state in memory use bus.live_view(), for tables in this database a \
         TransactionalProjection; state that is kept elsewhere is StateIs::Outside"
    )]
    StateInMemory {
        /// The subscriber.
        subscriber_id: String,
    },
    /// A position where the log has not got to.
    #[error("position {wanted} is beyond the end of the log, which is at {head}")]
    Position {
        /// The position.
        wanted: u64,
        /// The highest committed event.
        head: u64,
    },
    /// A stored event that no append would store, so that no store can be filled with it: it was written past the library.
    #[error("event {event_id} at {global_sequence}: {source}")]
    Event {
        /// The event.
        event_id: Uuid,
        /// Its number.
        global_sequence: u64,
        /// What is wrong with it.
        #[source]
        source: Box<Invalid>,
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
