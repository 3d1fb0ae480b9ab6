//! The memory backend's harness: the shortest there is, and the one to start another from.

use std::collections::BTreeMap;

use highwater::backend::BoxFuture;
use highwater::{Append, Appended, BoxError, Error, ExpectedVersion, MemoryEventStore, MemoryTx, MemoryUnitOfWork};
use uuid::Uuid;

use crate::support::Ledger;
use crate::{Harness, OpenAppend, Settings};

/// Where the counts are among the documents.
const TALLIES: &str = "tally/";

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
        let mut unit_of_work = store.begin().await?;
        unit_of_work.append(append);
        Ok(Box::new(unit_of_work))
    }

    async fn tally(&self, _: &MemoryEventStore, tx: &mut MemoryTx, key: &str) -> Result<(), BoxError> {
        let key = format!("{TALLIES}{key}");
        let before = tx.get(&key).and_then(|value| value.as_u64()).unwrap_or(0);
        tx.put(key, before + 1);
        Ok(())
    }

    async fn tallies(&self, store: &MemoryEventStore) -> BTreeMap<String, u64> {
        let documents = store.documents(TALLIES).into_iter();
        documents.filter_map(|(key, value)| Some((key[TALLIES.len()..].to_owned(), value.as_u64()?))).collect()
    }

    async fn clear_tallies(&self, store: &MemoryEventStore, tx: &mut MemoryTx) -> Result<(), BoxError> {
        for (key, _) in store.documents(TALLIES) {
            tx.remove(key);
        }
        Ok(())
    }

    async fn spoil(&self, _: &MemoryEventStore, tx: &mut MemoryTx) {
        let stream_id = Uuid::now_v7();
        tx.append(Append::to(stream_id).expecting(ExpectedVersion::StreamExists).event(Ledger::Closed));
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
