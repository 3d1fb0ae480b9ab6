//! The contract of the log: what every backend promises, over raw records.

mod open_writer;

use std::future::Future;
use std::pin::Pin;

use uuid::Uuid;

pub use self::open_writer::OpenWriter;
pub(crate) use self::open_writer::named_writers;
use crate::{Append, Appended, Error, EventTypes, Record, Upcasters};

/// A boxed future, so that the contracts can be used as `dyn`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

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
/// - [`read_all`](Self::read_all) never reports a position as complete below which something may still appear \[G6\],
///   resumes after the given position \[G7\], and filters before it limits \[G8\].
/// - What is read is what was written, to the byte of its JSON \[G9\]; streams do not see each other \[G10\].
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
    fn read_all<'a>(
        &'a self,
        after: u64,
        types: &'a EventTypes,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>>;

    /// The event with this id, if the log holds it.
    fn record(&self, event_id: Uuid) -> BoxFuture<'_, Result<Option<Record>, Error>>;

    /// The highest `global_sequence` of any committed event, settled or not; 0 when there is none.
    fn head(&self) -> BoxFuture<'_, Result<u64, Error>>;

    /// How far the order is settled: the highest position that [`read_all`](Self::read_all) would now report as complete,
    /// had one read that far. Never beyond the highest committed event. Returns at once; while writers are open that it has
    /// not seen begin, it may be as low as 0.
    fn frontier(&self) -> BoxFuture<'_, Result<u64, Error>>;

    /// The transactions that readers may have to wait for: those that are open and may have drawn a number. One that has
    /// only looked at where the numbers stand may be among them.
    fn open_writers(&self) -> BoxFuture<'_, Result<Vec<OpenWriter>, Error>>;

    /// How old records are brought up to date.
    fn upcasters(&self) -> &Upcasters;
}

/// What to read of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamRead {
    /// The first version to read: the lowest when reading forwards, the highest when reading backwards.
    pub from: u64,
    /// Which way.
    pub direction: Direction,
    /// How much at most.
    pub limit: ReadLimit,
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
    /// Whether the stream ends with the last of them, also when the limit was reached exactly there.
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
    /// Which server, in which life, this page comes from. When it differs from the page before, positions remembered
    /// from that page are void: start again from the stored checkpoint.
    pub incarnation: u64,
}
