//! Reading everything in order, and saying what is waited for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use highwater::backend::{Backend, Backoff, ReadLimit, Record};
use highwater::operations::Overview;
use highwater::{Error, EventStore, EventTypes, Filter};

use crate::failure::{Failure, note};

/// Records in a page.
const PAGE_EVENTS: usize = 1_000;
/// After how long it is worth saying that something is waited for.
const WORTH_SAYING: Duration = Duration::from_secs(1);
/// How long to wait before looking again whether an open writer has ended: at first, and at most.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// Which events to show.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Only events of this type; may be given several times
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only events of streams of this kind: what stands before the slash of their names; may be given several times
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
}

impl Which {
    pub(crate) fn filter(&self) -> Filter {
        let types = if self.types.is_empty() { EventTypes::All } else { EventTypes::only(&self.types) };
        let filter = Filter::from(types);
        // As `highwater streams order/` has it, it may end with the slash.
        let kinds = self.kinds.iter().map(|kind| kind.strip_suffix('/').unwrap_or(kind));
        if self.kinds.is_empty() { filter } else { filter.of_kinds(kinds) }
    }
}

/// Everything after a position, page by page.
pub(crate) struct Reading<'a> {
    store: &'a dyn Backend,
    filter: Filter,
    /// Up to here everything has been read.
    pub(crate) after: u64,
    incarnation: Option<u64>,
    waiting: Option<Instant>,
    pause: Backoff,
    told: bool,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(store: &'a dyn Backend, after: u64, filter: Filter) -> Self {
        Self {
            store,
            filter,
            after,
            incarnation: None,
            waiting: None,
            pause: Backoff::new(LOOK_AGAIN.0, LOOK_AGAIN.1),
            told: false,
        }
    }

    /// What there is now. `None`: nothing new, or nothing that could be shown yet.
    pub(crate) async fn page(&mut self) -> Result<Option<Vec<Record>>, Error> {
        let page = self.store.read_all(self.after, &self.filter, ReadLimit::events(PAGE_EVENTS)).await?;
        if self.incarnation.replace(page.incarnation).is_some_and(|before| before != page.incarnation) {
            let reason = "the server was restarted or replaced while it was being read".to_owned();
            return Err(Error::Interrupted { reason });
        }
        if page.complete_to <= self.after {
            return Ok(None);
        }
        self.after = page.complete_to;
        (self.waiting, self.told) = (None, false);
        self.pause.reset();
        Ok(Some(page.records))
    }

    /// The next page of what was there when `target` was the end; `None` when all of that has been read. Waits for writers
    /// that may still commit something, and reports it.
    pub(crate) async fn page_up_to(&mut self, target: u64) -> Result<Option<Vec<Record>>, Failure> {
        while self.after < target {
            if let Some(mut records) = self.page().await? {
                records.retain(|record| record.global_sequence <= target);
                return Ok(Some(records));
            }
            self.wait_for_writers().await?;
        }
        Ok(None)
    }

    /// Waits a little for open writers. When that takes long, names them.
    pub(crate) async fn wait_for_writers(&mut self) -> Result<(), Error> {
        let waiting = self.waiting.get_or_insert_with(Instant::now).elapsed();
        if waiting >= WORTH_SAYING && !self.told {
            self.told = true;
            let writers = self.store.open_writers().await?;
            let who: Vec<_> = writers.iter().map(ToString::to_string).collect();
            if !who.is_empty() {
                note(&format!("waiting for what is still being written, after {}: {}", self.after, who.join("; ")));
            }
        }
        tokio::time::sleep(self.pause.next_delay()).await;
        Ok(())
    }

    /// Starts again from what is certain, after the connection was lost or the server replaced.
    pub(crate) async fn resume(&mut self) -> Result<(), Error> {
        self.incarnation = None;
        self.after = self.after.min(self.store.head().await?);
        Ok(())
    }
}

/// Up to where nothing can be added any more, as far as can be told now. While a writer is open that was not seen to begin,
/// numbers that follow one another tell it.
pub(crate) async fn settled(store: &dyn Backend) -> Result<u64, Error> {
    let Overview { frontier, head, .. } = store.overview().await?;
    let mut reading = Reading::new(store, frontier, Filter::ALL);
    while reading.after < head && reading.page().await?.is_some() {}
    Ok(reading.after.min(head).max(frontier))
}

/// Does something that waits for open writers before it begins, and names them when that takes long.
pub(crate) async fn saying_who_is_waited_for<T>(
    store: &dyn Backend,
    begun: &AtomicBool,
    work: impl Future<Output = T>,
) -> T {
    let watch = async {
        loop {
            tokio::time::sleep(WORTH_SAYING).await;
            if begun.load(Ordering::Relaxed) {
                break;
            }
            // The task that does the work reports errors of the store.
            let who: Vec<_> = store.open_writers().await.unwrap_or_default().iter().map(ToString::to_string).collect();
            if !who.is_empty() {
                note(&format!("waiting for what is still being written: {}", who.join("; ")));
                break;
            }
        }
        std::future::pending().await
    };
    tokio::select! {
        done = work => done,
        never = watch => never,
    }
}
