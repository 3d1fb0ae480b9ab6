//! Reading for one subscriber that is behind: large pages, one ahead of the one being worked on.
//!
//! The page ahead is read by the subscriber's own task, between events: handing pages from one core to another costs more
//! than reading them side by side would save.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::{Backend, BoxFuture, Error, EventTypes, Page, ReadLimit, Record};

/// The reader of one subscriber. Dropping it gives up what is being read.
pub(crate) struct CatchUp<B> {
    backend: B,
    types: Arc<EventTypes>,
    limit: ReadLimit,
    after: u64,
    /// Comparing names costs the server more than sending a few events too many, which the subscriber leaves out itself.
    unfiltered: bool,
    /// Never locked, only asked for what is inside: a future can be sent to another thread, but not shared with it.
    fetch: Option<Mutex<BoxFuture<'static, Result<Page, Error>>>>,
    /// The page that was read while the subscriber was still busy with the one before.
    ready: Option<Result<Read, Error>>,
}

/// A page, and whether it reaches to where the log is settled.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) page: Page,
    pub(crate) near: bool,
}

impl<B: Backend> CatchUp<B> {
    /// Starts reading after a position.
    pub(crate) fn start(backend: &B, after: u64, types: EventTypes, limit: ReadLimit) -> Self {
        let (backend, types) = (backend.clone(), Arc::new(types));
        let mut reader = Self { backend, types, limit, after, unfiltered: false, fetch: None, ready: None };
        reader.fetch_next();
        reader
    }

    fn fetch_next(&mut self) {
        let (backend, after, limit) = (self.backend.clone(), self.after, self.limit);
        let types = if self.unfiltered { Arc::new(EventTypes::All) } else { self.types.clone() };
        self.fetch = Some(Mutex::new(Box::pin(async move { backend.read_all(after, &types, limit).await })));
    }

    /// The next page; `None` when there is none after the last, which was near the end. May be dropped at any await.
    pub(crate) async fn next(&mut self) -> Option<Result<Read, Error>> {
        poll_fn(|cx| {
            self.poll_ahead(cx);
            match self.ready.take() {
                Some(read) => {
                    if matches!(&read, Ok(Read { near: false, .. })) {
                        self.fetch_next();
                        // Sends the request before the page at hand is looked at.
                        self.poll_ahead(cx);
                    }
                    Poll::Ready(Some(read))
                }
                None if self.fetch.is_some() => Poll::Pending,
                None => Poll::Ready(None),
            }
        })
        .await
    }

    /// Gives the page being read its turn.
    pub(crate) fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        if self.ready.is_none()
            && let Some(fetch) = &mut self.fetch
            && let Poll::Ready(page) = fetch.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut().poll(cx)
        {
            self.fetch = None;
            self.ready = Some(page.map(|page| self.take_in(page)));
        }
    }

    /// Leaves out what the subscriber does not want, if the server was not asked to.
    fn take_in(&mut self, mut page: Page) -> Read {
        let near = is_near(&page, self.after, self.limit);
        if self.unfiltered {
            page.records.retain(|record| self.types.contains(&record.event_type));
        }
        let wanted = page.records.len() as u64;
        self.unfiltered = wanted > 0 && wanted * 10 >= page.complete_to.saturating_sub(self.after) * 9;
        self.after = page.complete_to.max(self.after);
        Read { page, near }
    }

    /// Whether the next page is there already.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.is_some()
    }
}

impl<B> fmt::Debug for CatchUp<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatchUp").field("after", &self.after).field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// Whether a page ends where the log does, and not because it was full or because a filter had looked far enough.
fn is_near(page: &Page, after: u64, limit: ReadLimit) -> bool {
    page.records.len() < limit.events
        && page.complete_to.saturating_sub(after) < (limit.events as u64).max(1)
        && page.records.iter().map(Record::bytes).sum::<usize>() < limit.bytes
}
