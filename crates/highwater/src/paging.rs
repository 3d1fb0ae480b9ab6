//! Reading in pages, one page ahead of the caller.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::codec::{self, EventTypes};
use crate::{BoxFuture, Direction, Error, Event, Log, ReadLimit, Record, StreamPage, StreamRead, Upcasters};

/// Records in the first page. Small, so that a short read costs little; each later page may be twice as large.
const PAGE_EVENTS_FIRST: usize = 1_024;
/// Records in the largest page.
const PAGE_EVENTS_MAX: usize = 4_096;
/// Bytes in a page. Two pages are in memory at most: the one being handed out and the one being read.
const PAGE_BYTES_MAX: usize = 4 << 20;
/// After how many events handed out the page being read gets its turn.
const EVENTS_PER_TURN: u32 = 16;
/// How long to wait before looking again whether an open writer has ended; at first, and at most.
pub(crate) const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));

/// Events, as they are read: in order, with back-pressure, one page ahead of the caller at most.
///
/// A [`Stream`], with what is usually wanted of one built in. Ends after the first error.
pub struct EventStream<'a, D> {
    /// The page being read.
    fetch: Option<Fetch<'a>>,
    /// The page that was read while the caller was still busy with the one before.
    ready: Option<Result<Fetched<'a>, Error>>,
    /// What is left of the page being handed out.
    current: std::vec::IntoIter<Record>,
    turn: u32,
    types: EventTypes,
    upcasters: &'a Upcasters,
    /// Whether a type that `D` does not know is an error, or not ours.
    strict: bool,
    decoded: PhantomData<fn() -> D>,
}

pub(crate) type Fetch<'a> = BoxFuture<'a, Result<Fetched<'a>, Error>>;

/// A page, and how to get the next.
pub(crate) struct Fetched<'a> {
    pub(crate) records: Vec<Record>,
    pub(crate) next: Option<Fetch<'a>>,
}

impl<'a, D: DeserializeOwned> EventStream<'a, D> {
    /// All events of one stream from a version on. A type that `D` does not know is an error: a caller that folds a stream
    /// must not miss a part of it.
    pub(crate) fn of_stream<L: Log + ?Sized>(log: &'a L, stream_id: Uuid, from: u64, direction: Direction) -> Self {
        let limit = ReadLimit { events: PAGE_EVENTS_FIRST, bytes: PAGE_BYTES_MAX };
        let fetch = fetch_stream(log, stream_id, StreamRead { from, direction, limit });
        Self::new(log, codec::event_types::<D>().map_err(Error::from), true, |_| fetch)
    }

    /// The last event of a stream.
    pub(crate) fn last_of<L: Log + ?Sized>(log: &'a L, stream_id: Uuid) -> Self {
        let read = StreamRead { from: u64::MAX, direction: Direction::Backwards, limit: ReadLimit::events(1) };
        let fetch: Fetch<'a> = Box::pin(async move {
            let page = log.read_stream(stream_id, read).await?;
            Ok(Fetched { records: page.records, next: None })
        });
        Self::new(log, codec::event_types::<D>().map_err(Error::from), true, |_| fetch)
    }

    /// Everything after a position that `types` lets through, at least up to what is committed now; waits for writers that may
    /// still bring something below that.
    pub(crate) fn of_all<L: Log + ?Sized>(log: &'a L, after: u64, types: Result<EventTypes, Error>) -> Self {
        Self::new(log, types, false, |stored| {
            Box::pin(async move {
                let target = log.head().await?;
                let limit = ReadLimit { events: PAGE_EVENTS_FIRST, bytes: PAGE_BYTES_MAX };
                fetch_all(log, All { after, target, types: stored, limit, incarnation: None }).await
            })
        })
    }

    fn new<L: Log + ?Sized>(
        log: &'a L,
        types: Result<EventTypes, Error>,
        strict: bool,
        fetch: impl FnOnce(EventTypes) -> Fetch<'a>,
    ) -> Self {
        let (types, fetch): (_, Fetch<'a>) = match types {
            Ok(types) => {
                let stored = log.upcasters().stored_types(&types);
                (types, fetch(stored))
            }
            Err(error) => (EventTypes::All, Box::pin(async move { Err(error) })),
        };
        Self {
            fetch: Some(fetch),
            ready: None,
            current: Vec::new().into_iter(),
            turn: 0,
            types,
            upcasters: log.upcasters(),
            strict,
            decoded: PhantomData,
        }
    }

    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Event<D>, Error>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// All of them.
    ///
    /// # Errors
    /// The first error that reading or decoding meets.
    pub async fn collect(mut self) -> Result<Vec<Event<D>>, Error> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event?);
        }
        Ok(events)
    }

    fn decode(&self, record: Record) -> Option<Result<Event<D>, Error>> {
        match codec::decode(record, &self.types, self.upcasters) {
            Ok(Ok(event)) => Some(Ok(event)),
            Ok(Err(_)) if !self.strict => None,
            Ok(Err(unknown)) => {
                let why = format!("{} does not know this event type", std::any::type_name::<D>());
                Some(Err(codec::undecodable(&unknown, why.into())))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Gives the page being read its turn. True when there is something in `ready`.
    fn poll_fetch(&mut self, cx: &mut Context<'_>) -> bool {
        if self.ready.is_none()
            && let Some(fetch) = &mut self.fetch
            && let Poll::Ready(fetched) = fetch.as_mut().poll(cx)
        {
            self.fetch = None;
            self.ready = Some(fetched);
        }
        self.ready.is_some()
    }

    fn end(&mut self) {
        self.fetch = None;
        self.ready = None;
        self.current = Vec::new().into_iter();
    }
}

impl<D: DeserializeOwned> Stream for EventStream<'_, D> {
    type Item = Result<Event<D>, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            while let Some(record) = this.current.next() {
                this.turn = this.turn.wrapping_add(1);
                if this.turn.is_multiple_of(EVENTS_PER_TURN) {
                    this.poll_fetch(cx);
                }
                if let Some(event) = this.decode(record) {
                    if event.is_err() {
                        this.end();
                    }
                    return Poll::Ready(Some(event));
                }
            }
            if !this.poll_fetch(cx) {
                return if this.fetch.is_some() { Poll::Pending } else { Poll::Ready(None) };
            }
            match this.ready.take() {
                Some(Ok(fetched)) => {
                    this.current = fetched.records.into_iter();
                    this.fetch = fetched.next;
                    // Sends the next request before the current page is examined.
                    this.poll_fetch(cx);
                }
                Some(Err(error)) => {
                    this.end();
                    return Poll::Ready(Some(Err(error)));
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<D> fmt::Debug for EventStream<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("types", &self.types).finish_non_exhaustive()
    }
}

fn fetch_stream<'a, L: Log + ?Sized>(log: &'a L, stream_id: Uuid, mut read: StreamRead) -> Fetch<'a> {
    Box::pin(async move {
        let page = log.read_stream(stream_id, read).await?;
        check_versions(&page, read).map_err(|why| Error::Damaged {
            action: "read a stream",
            source: format!("stream {stream_id}: {why}").into(),
        })?;
        let next_version = page.records.last().and_then(|last| match read.direction {
            Direction::Forwards => last.stream_version.checked_add(1),
            Direction::Backwards => last.stream_version.checked_sub(1).filter(|version| *version > 0),
        });
        let next = next_version.filter(|_| !page.end).map(|from| {
            read.from = from;
            read.limit = grown(read.limit, &page.records);
            fetch_stream(log, stream_id, read)
        });
        Ok(Fetched { records: page.records, next })
    })
}

/// Versions follow each other \[G3\]. Where they do not, events were removed or doubled by hand, and a caller that continued
/// would decide on half of a history.
fn check_versions(page: &StreamPage, read: StreamRead) -> Result<(), String> {
    let mut expected = match read.direction {
        Direction::Forwards => Some(read.from.max(1)),
        // The last version of the stream, if that is lower.
        Direction::Backwards => page.records.first().map(|last| last.stream_version),
    };
    for record in &page.records {
        let (found, sequence) = (record.stream_version, record.global_sequence);
        if Some(found) != expected {
            let wanted = expected.map_or_else(|| "none".to_owned(), |version| version.to_string());
            return Err(format!("event {sequence} has version {found} where {wanted} should be"));
        }
        expected = match read.direction {
            Direction::Forwards => found.checked_add(1),
            Direction::Backwards => found.checked_sub(1).filter(|version| *version > 0),
        };
    }
    match (read.direction, expected) {
        (Direction::Backwards, Some(missing)) if page.end && !page.records.is_empty() => {
            Err(format!("it ends before version {missing}"))
        }
        _ => Ok(()),
    }
}

/// How far reading everything is.
struct All {
    after: u64,
    target: u64,
    types: EventTypes,
    limit: ReadLimit,
    incarnation: Option<u64>,
}

/// The records after a position, up to another one at least; waits for writers that may still bring something below that.
pub(crate) fn records<'a, L: Log + ?Sized>(log: &'a L, after: u64, target: u64) -> Fetch<'a> {
    let limit = ReadLimit { events: PAGE_EVENTS_FIRST, bytes: PAGE_BYTES_MAX };
    fetch_all(log, All { after, target, types: EventTypes::All, limit, incarnation: None })
}

fn fetch_all<'a, L: Log + ?Sized>(log: &'a L, mut all: All) -> Fetch<'a> {
    Box::pin(async move {
        let mut wait = LOOK_AGAIN.0;
        let page = loop {
            if all.after >= all.target {
                return Ok(Fetched { records: Vec::new(), next: None });
            }
            let page = log.read_all(all.after, &all.types, all.limit).await?;
            if all.incarnation.replace(page.incarnation).is_some_and(|before| before != page.incarnation) {
                let reason = "the server was replaced or restarted while it was being read".to_owned();
                return Err(Error::Interrupted { reason });
            }
            let moved = page.complete_to > all.after;
            all.after = all.after.max(page.complete_to);
            if !page.records.is_empty() {
                break page;
            }
            if !moved {
                // A writer that may still commit something is open. A rollback sends no hint, so we look again.
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LOOK_AGAIN.1);
            }
        };
        all.limit = grown(all.limit, &page.records);
        let next = (all.after < all.target).then(|| fetch_all(log, all));
        Ok(Fetched { records: page.records, next })
    })
}

/// The limit for the page after this one: twice as many records, as long as pages of such records stay small.
fn grown(limit: ReadLimit, records: &[Record]) -> ReadLimit {
    let bytes: usize = records.iter().map(Record::bytes).sum();
    let average = bytes / records.len().max(1);
    let fitting = PAGE_BYTES_MAX / average.max(1);
    ReadLimit { events: (limit.events * 2).min(PAGE_EVENTS_MAX).min(fitting).max(1), bytes: limit.bytes }
}
