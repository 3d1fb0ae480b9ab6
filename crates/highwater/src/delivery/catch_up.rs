//! Reading for one subscriber that is behind: large pages, some ahead of the one being worked on.
//!
//! A dedicated task reads, so that a subscriber that handles, sleeps or is halted never holds a connection meanwhile: a page
//! is requested when there is room for it, and read to its end.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::{Backend, Error, Filter, Page, ReadLimit, Record};

/// Pages that wait to be worked on, the one being read included. Together with the one being worked on they bound what a
/// subscriber holds. With one alone, server, reader and handler wait for each other now and then.
const PAGES_WAITING: usize = 3;

/// The reader of one subscriber. It ends with it.
#[derive(Debug)]
pub(crate) struct CatchUp {
    pages: mpsc::Receiver<Result<Read, Error>>,
    task: JoinHandle<()>,
}

/// A page, and whether it reaches to where the log is settled.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) page: Page,
    pub(crate) near: bool,
}

impl CatchUp {
    /// Starts reading after a position.
    pub(crate) fn start(backend: &Arc<dyn Backend>, after: u64, filter: Arc<Filter>, limit: ReadLimit) -> Self {
        let (sender, pages) = mpsc::channel(PAGES_WAITING);
        let reader = Reader { backend: backend.clone(), filter, limit, after, unfiltered: false };
        Self { pages, task: tokio::spawn(reader.run(sender)) }
    }

    /// The next page; `None` when there is none after the last, which was near the end. May be dropped at any await.
    pub(crate) async fn next(&mut self) -> Option<Result<Read, Error>> {
        self.pages.recv().await
    }

    /// Whether the next page is there already.
    pub(crate) fn is_ready(&self) -> bool {
        !self.pages.is_empty()
    }
}

impl Drop for CatchUp {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Reader {
    backend: Arc<dyn Backend>,
    filter: Arc<Filter>,
    limit: ReadLimit,
    after: u64,
    /// Comparing names costs the server more than sending a few events too many, which are left out here then.
    unfiltered: bool,
}

impl Reader {
    /// Reads until it is near the end, until it fails, or until the subscriber is gone.
    async fn run(mut self, sender: mpsc::Sender<Result<Read, Error>>) {
        loop {
            // A place first: otherwise there would be one page more in memory than documented.
            let Ok(place) = sender.reserve().await else { return };
            let filter = if self.unfiltered { &Filter::ALL } else { &*self.filter };
            let read = self.backend.read_all(self.after, filter, self.limit).await.map(|page| self.wanted(page));
            let over = !matches!(read, Ok(Read { near: false, .. }));
            place.send(read);
            if over {
                return;
            }
        }
    }

    /// Leaves out what the subscriber does not want, if the server was not asked to.
    fn wanted(&mut self, mut page: Page) -> Read {
        let near = is_near(&page, self.after, self.limit);
        if self.unfiltered {
            page.records.retain(|record| self.filter.accepts(record));
        }
        let wanted = page.records.len() as u64;
        self.unfiltered = wanted > 0 && wanted * 10 >= page.complete_to.saturating_sub(self.after) * 9;
        self.after = page.complete_to.max(self.after);
        Read { page, near }
    }
}

/// Whether a page ends where the log does, and not because it was full or because a filter had looked far enough.
fn is_near(page: &Page, after: u64, limit: ReadLimit) -> bool {
    page.records.len() < limit.events
        && page.complete_to.saturating_sub(after) < (limit.events as u64).max(1)
        && page.records.iter().map(Record::bytes).sum::<usize>() < limit.bytes
}
