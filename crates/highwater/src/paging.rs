//! Reading in pages, one page ahead of the caller.

mod stream;

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::codec::{self, EventTypes};
use crate::{Backoff, BoxFuture, Error, Event, Filter, Log, ReadLimit, Record, StreamRead, Upcasters};
use stream::fetch_stream;

/// Records in the largest page.
const PAGE_EVENTS_MAX: usize = 4_096;
/// Bytes in a page. Two pages are in memory at most: the one being handed out and the one being read.
const PAGE_BYTES_MAX: usize = 4 << 20;
/// The first page. Small, so that a short read costs little; each later page may hold twice as many records.
const LIMIT_FIRST: ReadLimit = ReadLimit { events: 1_024, bytes: PAGE_BYTES_MAX };
/// After how many events handed out the page being read gets its turn.
const EVENTS_PER_TURN: u32 = 16;
/// How long to wait before looking again whether an open writer has ended; at first, and at most.
pub(crate) const LOOK_AT_WRITERS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));

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
    /// What is asked for of one stream. A type that `D` does not know is an error: a caller that folds a stream must not miss
    /// a part of it.
    pub(crate) fn of_stream<L: Log + ?Sized>(log: &'a L, stream_id: Uuid, read: StreamRead) -> Self {
        let fetch = fetch_stream(log, stream_id, StreamRead { limit: LIMIT_FIRST, ..read });
        Self::new(log, codec::event_types::<D>().map_err(Error::from), true, |_| fetch)
    }

    /// The events of one stream that `D` knows and `types` lets through.
    pub(crate) fn of_stream_and_types<L: Log + ?Sized>(log: &'a L, stream_id: Uuid, types: EventTypes) -> Self {
        let known = codec::event_types::<D>().map_err(Error::from);
        Self::new(log, known.map(|known| known.intersection(types)), false, |types| {
            fetch_stream(log, stream_id, StreamRead { limit: LIMIT_FIRST, types, ..StreamRead::forwards(1) })
        })
    }

    /// The last event of a stream.
    pub(crate) fn last_of<L: Log + ?Sized>(log: &'a L, stream_id: Uuid) -> Self {
        let read = StreamRead { limit: ReadLimit::events(1), ..StreamRead::backwards(u64::MAX) };
        let fetch: Fetch<'a> = Box::pin(async move {
            let page = log.read_stream(stream_id, read).await?;
            Ok(Fetched { records: page.records, next: None })
        });
        Self::new(log, codec::event_types::<D>().map_err(Error::from), true, |_| fetch)
    }

    /// Everything after a position that `types` lets through, at least up to what is committed now; waits for writers that may
    /// still bring something below that.
    pub(crate) fn of_all<L: Log + ?Sized>(
        log: &'a L,
        after: u64,
        types: Result<EventTypes, Error>,
        kinds: Option<Vec<String>>,
    ) -> Self {
        Self::new(log, types, false, |stored| {
            Box::pin(async move {
                let target = log.head().await?;
                fetch_all(
                    log,
                    All {
                        after,
                        target,
                        filter: Filter { types: stored, kinds },
                        limit: LIMIT_FIRST,
                        incarnation: None,
                    },
                )
                .await
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

/// How far reading everything is.
struct All {
    after: u64,
    target: u64,
    filter: Filter,
    limit: ReadLimit,
    incarnation: Option<u64>,
}

/// The records after a position, up to another one at least; waits for writers that may still bring something below that.
pub(crate) fn records<'a, L: Log + ?Sized>(log: &'a L, after: u64, target: u64) -> Fetch<'a> {
    fetch_all(log, All { after, target, filter: Filter::ALL, limit: LIMIT_FIRST, incarnation: None })
}

fn fetch_all<'a, L: Log + ?Sized>(log: &'a L, mut all: All) -> Fetch<'a> {
    Box::pin(async move {
        let mut wait = Backoff::new(LOOK_AT_WRITERS.0, LOOK_AT_WRITERS.1);
        let page = loop {
            if all.after >= all.target {
                return Ok(Fetched { records: Vec::new(), next: None });
            }
            let page = log.read_all(all.after, &all.filter, all.limit).await?;
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
                tokio::time::sleep(wait.next_delay()).await;
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
