//! A backend with a fault, and the harness around it.

use std::collections::BTreeMap;
use std::sync::Arc;

use highwater::backend::{
    Backend, Begun, BoxFuture, Candidate, Checkpoint, CheckpointWrite, Closed, Closing, DeadLetter, DeadLetterDetail,
    DeadLetterQuery, DeadLetters, Fence, Filling, Finding, Instance, Leader, LeadershipSettings, LockHolder,
    NamedStream, OpenTx, Opening, Page, Planned, ReadLimit, Record, Refused, Report, Request, StreamPage, StreamRead,
    Taken, Transactional, Unfinished, Wakeup, Wrapper,
};
use highwater::{Append, Appended, BoxError, Claim, Error, Filter, MemoryEventStore, Upcasters};
use highwater_contract::{Harness, MemoryHarness, OpenAppend, Settings};
use uuid::Uuid;

use super::{Fault, FaultyTx, Sound};

/// A backend with one fault.
#[derive(Clone)]
pub(crate) struct Faulty {
    sound: Arc<Sound>,
    fault: Arc<dyn Fault>,
}

impl Wrapper for Faulty {
    fn inner(&self) -> &dyn Backend {
        &self.sound.memory
    }

    fn shared(&self) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }

    fn append<'a>(&'a self, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        self.fault.append(&self.sound, append)
    }

    fn read_stream(&self, stream_id: Uuid, read: StreamRead) -> BoxFuture<'_, Result<StreamPage, Error>> {
        Box::pin(async move {
            let mut page = self.fault.read_stream(&self.sound, stream_id, read).await?;
            page.records.iter_mut().for_each(|record| self.fault.seen(record));
            Ok(page)
        })
    }

    fn read_all<'a>(&'a self, after: u64, filter: &'a Filter, limit: ReadLimit) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let mut page = self.fault.read_all(&self.sound, after, filter, limit).await?;
            page.records.iter_mut().for_each(|record| self.fault.seen(record));
            Ok(page)
        })
    }

    fn streams<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a NamedStream>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<NamedStream>, Error>> {
        self.fault.streams(&self.sound, prefix, after, limit)
    }

    fn record(&self, event_id: Uuid) -> BoxFuture<'_, Result<Option<Record>, Error>> {
        Box::pin(async move {
            let mut record = self.fault.record(&self.sound, event_id).await?;
            record.iter_mut().for_each(|record| self.fault.seen(record));
            Ok(record)
        })
    }

    fn frontier(&self) -> BoxFuture<'_, Result<u64, Error>> {
        self.fault.frontier(&self.sound)
    }

    fn newest_schema_version<'a>(&'a self, event_type: &'a str) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        self.fault.newest_schema_version(&self.sound, event_type)
    }

    fn upcasters(&self) -> &Upcasters {
        self.fault.upcasters(&self.sound)
    }

    fn announce(&self, global_sequence: u64) {
        self.fault.announce(&self.sound, global_sequence);
    }

    fn wakeups(&self) -> Wakeup {
        self.fault.wakeups(&self.sound)
    }

    fn take_over<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        self.fault.take_over(&self.sound, claim)
    }

    fn store_checkpoints<'a>(
        &'a self,
        writes: &'a [CheckpointWrite],
    ) -> BoxFuture<'a, Result<Vec<Option<Refused>>, Error>> {
        Box::pin(async move {
            let mut answers = Vec::new();
            for write in writes {
                answers.push(self.fault.store_checkpoint(&self.sound, write).await?);
            }
            Ok(answers)
        })
    }

    fn checkpoint<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Checkpoint>, Error>> {
        self.fault.checkpoint(&self.sound, subscriber_id)
    }

    fn set_paused<'a>(&'a self, subscriber_id: &'a str, paused: bool) -> BoxFuture<'a, Result<bool, Error>> {
        self.fault.set_paused(&self.sound, subscriber_id, paused)
    }

    fn store_reports<'a>(&'a self, reports: &'a [Report]) -> BoxFuture<'a, Result<(), Error>> {
        self.fault.store_reports(&self.sound, reports)
    }

    fn reports(&self) -> BoxFuture<'_, Result<Vec<Report>, Error>> {
        self.fault.reports(&self.sound)
    }

    fn candidate(&self, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate> {
        self.fault.candidate(&self.sound, instance, settings)
    }

    fn leaders(&self) -> BoxFuture<'_, Result<Vec<Leader>, Error>> {
        self.fault.leaders(&self.sound)
    }

    fn lock_holders<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<LockHolder>, Error>> {
        self.fault.lock_holders(&self.sound, subscriber_ids)
    }

    fn parked<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Vec<(Uuid, u64)>, Error>> {
        self.fault.parked(&self.sound, subscriber_id)
    }

    fn dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<Vec<DeadLetter>, Error>> {
        Box::pin(async move {
            // A reader that gets the same page again and again must let others have their turn.
            tokio::task::yield_now().await;
            self.sound.memory.dead_letters(&self.fault.query(query)).await
        })
    }

    fn count_dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move { self.sound.memory.count_dead_letters(&self.fault.query(query)).await })
    }

    fn dead_letter(&self, id: Uuid) -> BoxFuture<'_, Result<Option<DeadLetterDetail>, Error>> {
        Box::pin(async move {
            let mut found = self.sound.memory.dead_letter(id).await?;
            found.iter_mut().for_each(|detail| self.fault.shown(detail));
            Ok(found)
        })
    }

    fn file_request<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<(), Error>> {
        self.fault.file_request(&self.sound, request)
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>, Error>> {
        self.fault.diagnose(&self.sound)
    }

    fn planned(&self) -> BoxFuture<'_, Result<Vec<Planned>, Error>> {
        self.fault.planned(&self.sound)
    }

    fn fill<'a>(&'a self, source: &'a str) -> BoxFuture<'a, Result<Box<dyn Filling>, Error>> {
        self.fault.fill(&self.sound, source)
    }

    fn filling(&self) -> BoxFuture<'_, Result<Option<Unfinished>, Error>> {
        self.fault.filling(&self.sound)
    }

    fn abandon(&self) -> BoxFuture<'_, Result<bool, Error>> {
        self.fault.abandon(&self.sound)
    }

    fn begin<'a>(
        &'a self,
        fence: &'a Fence,
        _: Opening,
        dead_letter: Option<Uuid>,
    ) -> BoxFuture<'a, Result<Begun, Error>> {
        self.fault.begin_fenced(&self.sound, fence, dead_letter)
    }

    fn commit<'a>(
        &'a self,
        tx: OpenTx,
        fence: &'a Fence,
        closing: Closing<'a>,
    ) -> BoxFuture<'a, Result<Closed, Error>> {
        Box::pin(async move { self.fault.commit(&self.sound, tx.into_inner()?, fence, closing).await })
    }

    fn rollback(&self, tx: OpenTx, _: bool) -> BoxFuture<'_, ()> {
        self.fault.roll_back(&self.sound, tx.into_inner().expect("it is handed back what it has begun"))
    }
}

impl Transactional for Faulty {
    type Tx = FaultyTx;
}

/// Holds a backend with one fault against the suite.
pub(crate) struct FaultyHarness(Arc<dyn Fault>);

impl FaultyHarness {
    pub(crate) fn new(fault: impl Fault) -> Self {
        Self(Arc::new(fault))
    }

    fn open(&self, memory: MemoryEventStore, settings: Settings) -> Faulty {
        let settings = self.0.settings(settings);
        let memory = memory.with_upcasters(settings.upcasters.clone()).with_limits(settings.limits.clone());
        Faulty { sound: Arc::new(Sound { memory, settings }), fault: Arc::clone(&self.0) }
    }
}

impl Harness for FaultyHarness {
    type Store = Faulty;

    async fn fresh(&self, settings: Settings) -> Faulty {
        self.open(MemoryEventStore::new(), settings)
    }

    async fn reopen(&self, store: &Faulty, settings: Settings) -> Faulty {
        self.open(self.0.reopen(&store.sound.memory).await, settings)
    }

    async fn begin(&self, store: &Faulty, append: Append) -> Result<Box<dyn OpenAppend>, Error> {
        self.0.begin(&store.sound, append).await
    }

    async fn tally(&self, store: &Faulty, tx: &mut FaultyTx, key: &str) -> Result<(), BoxError> {
        self.0.tally(&store.sound, tx, key).await
    }

    async fn tallies(&self, store: &Faulty) -> BTreeMap<String, u64> {
        MemoryHarness.tallies(&store.sound.memory).await
    }

    async fn clear_tallies(&self, store: &Faulty, tx: &mut FaultyTx) -> Result<(), BoxError> {
        match &mut tx.open {
            Some(open) => MemoryHarness.clear_tallies(&store.sound.memory, open).await,
            None => Err("there is nothing to clear in".into()),
        }
    }

    async fn spoil(&self, store: &Faulty, tx: &mut FaultyTx) {
        if let Some(open) = &mut tx.open {
            MemoryHarness.spoil(&store.sound.memory, open).await;
        }
    }

    async fn clean_up(&self) {}
}
