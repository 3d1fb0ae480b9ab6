//! Reading for one subscriber that is behind: large pages, one ahead of the one being worked on.

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::{Backend, Error, EventTypes, Page, ReadLimit, Record};

/// Pages that wait to be worked on. Together with the one being read and the one being worked on they bound what a
/// subscriber holds.
const PAGES_WAITING: usize = 1;

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
    pub(crate) fn start<B: Backend>(backend: &B, after: u64, types: EventTypes, limit: ReadLimit) -> Self {
        let (sender, pages) = mpsc::channel(PAGES_WAITING);
        let backend = backend.clone();
        let task = tokio::spawn(async move { read(&backend, after, &types, limit, &sender).await });
        Self { pages, task }
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

/// Reads until it is near the end, until it fails, or until nobody wants it any more.
async fn read<B: Backend>(
    backend: &B,
    mut after: u64,
    types: &EventTypes,
    limit: ReadLimit,
    sender: &mpsc::Sender<Result<Read, Error>>,
) {
    loop {
        // A place first: otherwise there would be one page more in memory than is said.
        let Ok(place) = sender.reserve().await else { return };
        match backend.read_all(after, types, limit).await {
            Ok(page) => {
                let near = is_near(&page, after, limit);
                after = page.complete_to.max(after);
                place.send(Ok(Read { page, near }));
                if near {
                    return;
                }
            }
            Err(error) => {
                place.send(Err(error));
                return;
            }
        }
    }
}

/// Whether a page ends where the log does, and not because it was full or because a filter had looked far enough.
fn is_near(page: &Page, after: u64, limit: ReadLimit) -> bool {
    let bytes: usize = page.records.iter().map(Record::bytes).sum();
    page.records.len() < limit.events
        && bytes < limit.bytes
        && page.complete_to.saturating_sub(after) < (limit.events as u64).max(1)
}
