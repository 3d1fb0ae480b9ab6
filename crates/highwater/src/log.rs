//! The contract of the log: what every backend promises, over raw records.

mod open_writer;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use uuid::Uuid;

pub use self::open_writer::{OpenWriter, START_REPLICA};
pub(crate) use self::open_writer::{end_of_writers, named_writers};
use crate::{Append, Appended, Error, EventTypes, Record, StreamName, Upcasters};

/// A boxed future, so that the contracts can be used as `dyn`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How many numbers before the last event of a type [`Log::newest_schema_version`] looks for a higher version: while instances
/// are upgraded one by one, the last event may be one of an older version.
pub const NEWEST_AMONG: u64 = 10_000;

/// An append-only log of events in streams, with one total order over all of them.
///
/// Small and dyn-safe; the typed conveniences are in [`EventStore`](crate::EventStore), which every log has. The numbers
/// in brackets are the promises of `docs/guarantees.md`, and `highwater-contract` holds at least one case for each.
///
/// # Contract
///
/// - [`append`](Self::append) stores all events of an append or none \[G1\], if every stream is as expected \[G2\].
///   Versions of a stream are contiguous from 1 \[G3\]. Ids are checked before versions: an append whose ids are stored
///   already returns the positions it got then and stores nothing \[G4\].
/// - Within a stream, order by version and order by `global_sequence` agree \[G5\]. Events of one append are numbered in
///   its order.
/// - [`read_stream`](Self::read_stream) too filters before it limits, and says where what was asked for ends \[G8\].
/// - [`read_all`](Self::read_all) never reports a position as complete below which something may still appear \[G6\],
///   resumes after the given position \[G7\], and filters before it limits \[G8\].
/// - What is read is what was written, to the byte of its JSON \[G9\]; streams do not see each other \[G10\].
/// - An event has the name of the event before it in its stream; where that has none, the one that its append brings \[G39\].
/// - Dropping the future of an append leaves it stored whole or not at all, and never touches another's.
/// - Bad input is [`Error::Invalid`] and stores nothing \[G11\].
pub trait Log: Send + Sync {
    /// Stores an append.
    fn append<'a>(&'a self, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>>;

    /// Reads a page of one stream. A stream that does not exist is empty.
    fn read_stream(&self, stream_id: Uuid, read: StreamRead) -> BoxFuture<'_, Result<StreamPage, Error>>;

    /// Reads a page of everything after `after`, in order, as far as the order is settled.
    ///
    /// A page may be shorter than the limit although there is more: the next one starts at
    /// [`complete_to`](Page::complete_to). Returns at once: a page that is empty and complete to no more than `after` means that there is nothing new, or
    /// that a writer which is still open may yet bring something ([`open_writers`](Self::open_writers) tells).
    fn read_all<'a>(&'a self, after: u64, filter: &'a Filter, limit: ReadLimit) -> BoxFuture<'a, Result<Page, Error>>;

    /// The streams whose names begin with `prefix`, by name: after this one, and so many at most. `order/` gives those of kind
    /// `order`; the empty text all that have a name.
    fn streams<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a NamedStream>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<NamedStream>, Error>>;

    /// The event with this id, if the log holds it.
    fn record(&self, event_id: Uuid) -> BoxFuture<'_, Result<Option<Record>, Error>>;

    /// The highest `global_sequence` of any committed event, settled or not; 0 when there is none.
    fn head(&self) -> BoxFuture<'_, Result<u64, Error>>;

    /// Which life of the log it is, as [`Page::incarnation`] says it of a page: a number that was seen in another life may be that
    /// of another event now.
    fn life(&self) -> BoxFuture<'_, Result<u64, Error>>;

    /// Everything up to here is final: [`read_all`](Self::read_all) reports no higher position as complete. May be too low, even
    /// 0, while unknown writers are open. Returns at once.
    fn frontier(&self) -> BoxFuture<'_, Result<u64, Error>>;

    /// The transactions that readers may have to wait for: those that are open and may have drawn a number. One that has
    /// only looked at where the numbers stand may be among them.
    fn open_writers(&self) -> BoxFuture<'_, Result<Vec<OpenWriter>, Error>>;

    /// The newest schema version of an event type, by what is committed under that name: the highest among its last event and
    /// those in the [`NEWEST_AMONG`] numbers before that one. `None`: no event of the type is stored. For writers that do not
    /// have the application's upcasters.
    ///
    /// The log has no index on types: it is searched from its end back to the last event of the type, and as a whole for a type
    /// that is not stored. Ask once for a type, and not for each event.
    fn newest_schema_version<'a>(&'a self, event_type: &'a str) -> BoxFuture<'a, Result<Option<u32>, Error>>;

    /// How old records are brought up to date.
    fn upcasters(&self) -> &Upcasters;
}

/// Which events to read.
///
/// ```
/// use highwater::{EventTypes, Filter};
/// let placed = Filter::from(EventTypes::only(["Placed"])).of_kinds(["order"]);
/// assert_ne!(placed, Filter::ALL);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Their types.
    pub types: EventTypes,
    /// The kinds of their streams; `None`: any, and streams without a name.
    pub kinds: Option<Vec<String>>,
}

impl Filter {
    /// Every event.
    pub const ALL: Self = Self { types: EventTypes::All, kinds: None };

    /// Only from streams of these kinds: what stands before the slash of their names.
    #[must_use]
    pub fn of_kinds<K: Into<String>>(self, kinds: impl IntoIterator<Item = K>) -> Self {
        Self { kinds: Some(kinds.into_iter().map(Into::into).collect()), ..self }
    }

    /// As a text, for a column.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::json!({ "types": self.types.names(), "kinds": self.kinds }).to_string()
    }

    /// What [`to_text`](Self::to_text) has made; `None` for anything else.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let mut found: HashMap<String, Option<Vec<String>>> = serde_json::from_str(text).ok()?;
        let types = found.remove("types")?.map_or(EventTypes::All, EventTypes::Only);
        Some(Self { types, kinds: found.remove("kinds")? })
    }

    /// Whether it lets an event through.
    #[must_use]
    pub fn accepts(&self, record: &Record) -> bool {
        self.types.contains(&record.event_type)
            && self.kinds.as_ref().is_none_or(|kinds| {
                record.stream_name.as_ref().is_some_and(|name| kinds.iter().any(|kind| kind == name.kind()))
            })
    }
}

impl From<EventTypes> for Filter {
    fn from(types: EventTypes) -> Self {
        Self { types, kinds: None }
    }
}

/// A stream that has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedStream {
    /// What people call it.
    pub name: StreamName,
    /// What the log knows it by.
    pub stream_id: Uuid,
    /// The version of its last event.
    pub version: u64,
}

/// What to read of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRead {
    /// The first version to read: the lowest when reading forwards, the highest when reading backwards.
    pub from: u64,
    /// Which way.
    pub direction: Direction,
    /// How much at most.
    pub limit: ReadLimit,
    /// Which event types; others are skipped.
    pub types: EventTypes,
    /// Only events after this place in the log; 0: wherever they are.
    pub after: u64,
}

impl StreamRead {
    /// Everything from a version on, from old to new.
    #[must_use]
    pub fn forwards(from: u64) -> Self {
        let (direction, limit) = (Direction::Forwards, ReadLimit::default());
        Self { from, direction, limit, types: EventTypes::All, after: 0 }
    }

    /// Everything from a version on, from new to old.
    #[must_use]
    pub fn backwards(from: u64) -> Self {
        Self { direction: Direction::Backwards, ..Self::forwards(from) }
    }

    /// Whether it asks for some events only, by their types or by their place in the log.
    #[must_use]
    pub fn is_filtered(&self) -> bool {
        self.after > 0 || self.types != EventTypes::All
    }
}

/// Which way a stream is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From old to new.
    Forwards,
    /// From new to old.
    Backwards,
}

/// How much a page may hold. Whichever is reached first ends the page; at least one record is returned if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimit {
    /// Records.
    pub events: usize,
    /// Bytes, as [`Record::bytes`] counts them.
    pub bytes: usize,
}

impl ReadLimit {
    /// A limit on records alone, within the default limit on bytes.
    #[must_use]
    pub fn events(events: usize) -> Self {
        Self { events, ..Self::default() }
    }
}

impl Default for ReadLimit {
    fn default() -> Self {
        Self { events: 1_000, bytes: 4 << 20 }
    }
}

/// A page of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPage {
    /// The records, in the order asked for.
    pub records: Vec<Record>,
    /// Whether nothing that was asked for follows the last of them, also when the limit was reached exactly there.
    pub end: bool,
}

/// A page of everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The records that the filter lets through, by ascending `global_sequence`.
    pub records: Vec<Record>,
    /// Up to here everything has been seen, and nothing can appear any more: where the next page starts. It moves on
    /// also when the filter lets nothing through.
    pub complete_to: u64,
    /// Which life of the log this page comes from: a server that recovers begins another, and so does abandoning a filling.
    /// When it differs from the page before, positions remembered from that page are void: start again from the stored
    /// checkpoint.
    pub incarnation: u64,
}
