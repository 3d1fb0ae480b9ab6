//! The memory backend's harness: the shortest there is, and the one to start another from.

use highwater::{Append, Appended, BoxFuture, Error, MemoryEventStore, MemoryUnitOfWork};

use crate::{Harness, OpenAppend, Settings};

/// Holds [`MemoryEventStore`] against the suite.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryHarness;

impl Harness for MemoryHarness {
    type Store = MemoryEventStore;

    async fn fresh(&self, settings: Settings) -> MemoryEventStore {
        self.reopen(&MemoryEventStore::new(), settings).await
    }

    async fn reopen(&self, store: &MemoryEventStore, settings: Settings) -> MemoryEventStore {
        store.clone().with_upcasters(settings.upcasters).with_limits(settings.limits)
    }

    async fn begin(&self, store: &MemoryEventStore, append: Append) -> Result<Box<dyn OpenAppend>, Error> {
        let mut unit_of_work = store.unit_of_work();
        unit_of_work.append(append);
        Ok(Box::new(unit_of_work))
    }

    async fn clean_up(&self) {}
}

/// A unit of work that holds one append.
impl OpenAppend for MemoryUnitOfWork {
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<Appended, Error>> {
        Box::pin(async move {
            let mut done = MemoryUnitOfWork::commit(*self).await?;
            Ok(done.pop().expect("one append went in, so one answer came out"))
        })
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(MemoryUnitOfWork::rollback(*self))
    }
}
