//! Everything a store holds, page by page, in an order that is the same in every store.

use chrono::SubsecRound;

use super::FilledCheckpoint;
use super::digest::Digest;
use crate::paging::{self, LOOK_AT_WRITERS};
use crate::{
    Backend, Backoff, BoxFuture, DeadLetterCursor, DeadLetterDetail, DeadLetterQuery, DeadLetterState, Error, Record,
    Request,
};

/// Dead letters, or requests, in a page.
const PAGE: usize = 200;

/// A page, and how to get the next.
pub(super) struct Fetched<'a, T> {
    pub(super) items: Vec<T>,
    pub(super) next: Option<Fetch<'a, T>>,
}

pub(super) type Fetch<'a, T> = BoxFuture<'a, Result<Fetched<'a, T>, Error>>;

/// What a store holds, as of a moment: events up to a position, and where subscribers are.
pub(super) struct Contents<'a> {
    store: &'a dyn Backend,
    pub(super) checkpoints: Vec<FilledCheckpoint>,
    /// Events up to here belong to it. Everything up to here is settled.
    pub(super) frontier: u64,
    pub(super) events: u64,
}

impl<'a> Contents<'a> {
    /// The checkpoints are read before anything else. So none lies beyond the events that are copied, unless it was put
    /// there; and an event that a subscriber has passed has its dead letter, if it has one, when dead letters are read
    /// later.
    pub(super) async fn of(store: &'a dyn Backend) -> Result<Self, Error> {
        let mut found = store.checkpoints().await?;
        // Which instance holds a lease is no content: in another store it would be a subscriber that never runs.
        found.retain(|checkpoint| !checkpoint.is_lease());
        let subscribers: Vec<String> = found.iter().map(|checkpoint| checkpoint.subscriber_id.clone()).collect();
        let paused = store.paused(&subscribers).await?;
        let checkpoints = found
            .into_iter()
            .map(|found| FilledCheckpoint {
                paused: paused.contains(&found.subscriber_id),
                subscriber_id: found.subscriber_id,
                global_sequence: found.global_sequence,
                event_id: found.event_id,
                updated_at: found.updated_at.trunc_subsecs(6),
            })
            .collect();
        let frontier = store.head().await?;
        settled(store, frontier).await?;
        let events = store.count_events(frontier).await?;
        Ok(Self { store, checkpoints, frontier, events })
    }

    /// The same of a store that is to be copied or exported: an unfinished copy is not worth copying.
    pub(super) async fn of_source(store: &'a dyn Backend) -> Result<Self, Error> {
        refuse_half(store).await?;
        let contents = Self::of(store).await?;
        // Only an empty store is filled: one that was when it was asked may not be any more.
        refuse_half(store).await?;
        Ok(contents)
    }

    /// What tells this store from others: the name that the caller gave it, and its first event.
    pub(super) async fn identity(&self, name: &str) -> Result<String, Error> {
        let first = self.store.read_all(0, &crate::Filter::ALL, crate::ReadLimit::events(1)).await?;
        Ok(match first.records.first() {
            Some(first) => format!("{name} (first event {})", first.id),
            None => format!("{name} (no events)"),
        })
    }

    /// The events after a position.
    pub(super) fn records(&self, after: u64) -> Fetch<'a, Record> {
        up_to(self.frontier, paging::records(self.store, after, self.frontier))
    }

    pub(super) fn dead_letters(&self) -> Fetch<'a, DeadLetterDetail> {
        dead_letters(self.store, None, self.frontier)
    }

    pub(super) fn requests(&self) -> Fetch<'a, Request> {
        requests(self.store, None)
    }

    /// A hash of all of it.
    pub(super) async fn digest(&self) -> Result<Digest, Error> {
        let mut digest = Digest::default();
        let mut records = Cursor::from(self.records(0));
        while let Some(record) = records.next().await? {
            digest.record(&record);
            digest.take_lines();
        }
        self.digest_delivery(digest).await
    }

    /// A hash of where subscribers are, and of what they could not handle.
    pub(super) async fn digest_delivery(&self, mut digest: Digest) -> Result<Digest, Error> {
        self.checkpoints.iter().for_each(|checkpoint| digest.checkpoint(checkpoint));
        let mut dead_letters = Cursor::from(self.dead_letters());
        while let Some(dead_letter) = dead_letters.next().await? {
            digest.dead_letter(&dead_letter);
            digest.take_lines();
        }
        let mut requests = Cursor::from(self.requests());
        while let Some(request) = requests.next().await? {
            digest.request(&request);
            digest.take_lines();
        }
        Ok(digest)
    }
}

/// A store that is being filled is not complete yet, and may never be.
async fn refuse_half(store: &dyn Backend) -> Result<(), Error> {
    let Some(unfinished) = store.filling().await? else { return Ok(()) };
    let (source, since) = (unfinished.source, unfinished.since.format("%Y-%m-%d %H:%M:%S UTC"));
    let reason = format!("what is to be read is only half a copy itself, filled from {source:?} since {since}");
    Err(Error::BeingFilled { reason })
}

/// Waits until nothing can appear any more up to a position. A rollback sends no hint, so we look again.
async fn settled(store: &dyn Backend, position: u64) -> Result<(), Error> {
    let mut wait = Backoff::new(LOOK_AT_WRITERS.0, LOOK_AT_WRITERS.1);
    while store.frontier().await? < position {
        tokio::time::sleep(wait.next_delay()).await;
    }
    Ok(())
}

fn up_to(frontier: u64, fetch: paging::Fetch<'_>) -> Fetch<'_, Record> {
    Box::pin(async move {
        let mut fetched = fetch.await?;
        fetched.records.retain(|record| record.global_sequence <= frontier);
        Ok(Fetched { items: fetched.records, next: fetched.next.map(|next| up_to(frontier, next)) })
    })
}

/// The payload is left out: it is in the log. So are dead letters of events that came later.
fn dead_letters(store: &dyn Backend, after: Option<DeadLetterCursor>, frontier: u64) -> Fetch<'_, DeadLetterDetail> {
    Box::pin(async move {
        let query =
            DeadLetterQuery { states: DeadLetterState::ALL.to_vec(), after, limit: PAGE, ..DeadLetterQuery::default() };
        let page = store.dead_letters(&query).await?;
        let last = page.last().filter(|last| last.global_sequence <= frontier).map(crate::DeadLetter::cursor);
        let mut items = Vec::with_capacity(page.len());
        for dead_letter in page.iter().filter(|dead_letter| dead_letter.global_sequence <= frontier) {
            // One that was purged meanwhile is not there any more.
            items.extend(store.dead_letter(dead_letter.id).await?.map(in_micros));
        }
        Ok(Fetched { items, next: last.map(|last| dead_letters(store, Some(last), frontier)) })
    })
}

/// Not every backend keeps more, so no more is taken along.
fn in_micros(mut detail: DeadLetterDetail) -> DeadLetterDetail {
    let dead_letter = &mut detail.dead_letter;
    dead_letter.created_at = dead_letter.created_at.trunc_subsecs(6);
    dead_letter.last_retry_at = dead_letter.last_retry_at.map(|at| at.trunc_subsecs(6));
    dead_letter.resolved_at = dead_letter.resolved_at.map(|at| at.trunc_subsecs(6));
    detail.attempts.iter_mut().for_each(|attempt| attempt.at = attempt.at.trunc_subsecs(6));
    DeadLetterDetail { record: None, ..detail }
}

fn requests(store: &dyn Backend, after: Option<Request>) -> Fetch<'_, Request> {
    Box::pin(async move {
        let page = store.all_open_requests(after.as_ref(), PAGE).await?;
        let next = page.last().cloned().map(|last| requests(store, Some(last)));
        let in_micros = |request: Request| Request { requested_at: request.requested_at.trunc_subsecs(6), ..request };
        Ok(Fetched { items: page.into_iter().map(in_micros).collect(), next })
    })
}

/// One after the other, whatever the pages.
pub(super) struct Cursor<'a, T> {
    items: std::vec::IntoIter<T>,
    next: Option<Fetch<'a, T>>,
}

impl<'a, T> From<Fetch<'a, T>> for Cursor<'a, T> {
    fn from(fetch: Fetch<'a, T>) -> Self {
        Self { items: Vec::new().into_iter(), next: Some(fetch) }
    }
}

impl<T> Cursor<'_, T> {
    pub(super) async fn next(&mut self) -> Result<Option<T>, Error> {
        loop {
            if let Some(item) = self.items.next() {
                return Ok(Some(item));
            }
            let Some(next) = self.next.take() else { return Ok(None) };
            let fetched = next.await?;
            (self.items, self.next) = (fetched.items.into_iter(), fetched.next);
        }
    }
}
