//! The memory backend seen through a fault.

use std::collections::BTreeMap;
use std::sync::Arc;

use highwater::backend::{
    Backend, Begun, BoxFuture, Candidate, Checkpoint, CheckpointWrite, Checkpoints, Closed, Closing, DeadLetters,
    Diagnose, Fence, Filling, Finding, Instance, Leader, Leadership, LeadershipSettings, LockHolder, Log, NewRecord,
    OpenTx, Page, Planned, ReadLimit, Record, Refused, Report, Request, StreamPage, StreamRead, Taken, Transactional,
    Transfer, Unfinished, Wakeup, Wakeups, Wrapper,
};
use highwater::{
    Append, Appended, BoxError, Claim, DeadLetter, DeadLetterDetail, DeadLetterQuery, Error, EventTypes,
    ExpectedVersion, MemoryEventStore, MemoryTx, Upcasters,
};
use highwater_contract::{Harness, MemoryHarness, OpenAppend, Settings};
use uuid::Uuid;

/// What is wrong with a backend. Each method does the right thing unless a fault has it do something else.
pub(crate) trait Fault: Send + Sync + 'static {
    fn settings(&self, settings: Settings) -> Settings {
        settings
    }

    fn reopen<'a>(&'a self, sound: &'a MemoryEventStore) -> BoxFuture<'a, MemoryEventStore> {
        Box::pin(async { sound.clone() })
    }

    fn begin<'a>(&'a self, sound: &'a Sound, append: Append) -> BoxFuture<'a, Result<Box<dyn OpenAppend>, Error>> {
        Box::pin(MemoryHarness.begin(&sound.memory, append))
    }

    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        sound.memory.append(append)
    }

    fn read_stream<'a>(
        &'a self,
        sound: &'a Sound,
        stream_id: Uuid,
        read: StreamRead,
    ) -> BoxFuture<'a, Result<StreamPage, Error>> {
        sound.memory.read_stream(stream_id, read)
    }

    fn read_all<'a>(
        &'a self,
        sound: &'a Sound,
        after: u64,
        types: &'a EventTypes,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        sound.memory.read_all(after, types, limit)
    }

    /// What becomes of a record when it is read, whichever way.
    fn seen(&self, _: &mut Record) {}

    fn upcasters<'a>(&'a self, sound: &'a Sound) -> &'a Upcasters {
        sound.memory.upcasters()
    }

    fn announce(&self, sound: &Sound, global_sequence: u64) {
        sound.memory.announce(global_sequence);
    }

    fn wakeups(&self, sound: &Sound) -> Wakeup {
        sound.memory.wakeups()
    }

    fn record<'a>(&'a self, sound: &'a Sound, event_id: Uuid) -> BoxFuture<'a, Result<Option<Record>, Error>> {
        sound.memory.record(event_id)
    }

    fn frontier<'a>(&'a self, sound: &'a Sound) -> BoxFuture<'a, Result<u64, Error>> {
        sound.memory.frontier()
    }

    fn take_over<'a>(&'a self, sound: &'a Sound, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        sound.memory.take_over(claim)
    }

    fn candidate(&self, sound: &Sound, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate> {
        sound.memory.candidate(instance, settings)
    }

    fn leaders<'a>(&'a self, sound: &'a Sound) -> BoxFuture<'a, Result<Vec<Leader>, Error>> {
        sound.memory.leaders()
    }

    fn lock_holders<'a>(
        &'a self,
        sound: &'a Sound,
        subscriber_ids: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<LockHolder>, Error>> {
        sound.memory.lock_holders(subscriber_ids)
    }

    fn store_checkpoint<'a>(
        &'a self,
        sound: &'a Sound,
        write: &'a CheckpointWrite,
    ) -> BoxFuture<'a, Result<Option<Refused>, Error>> {
        Box::pin(sound.store_checkpoint(write))
    }

    fn checkpoint<'a>(
        &'a self,
        sound: &'a Sound,
        subscriber_id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Checkpoint>, Error>> {
        sound.memory.checkpoint(subscriber_id)
    }

    fn set_paused<'a>(
        &'a self,
        sound: &'a Sound,
        subscriber_id: &'a str,
        paused: bool,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        sound.memory.set_paused(subscriber_id, paused)
    }

    fn store_reports<'a>(&'a self, sound: &'a Sound, reports: &'a [Report]) -> BoxFuture<'a, Result<(), Error>> {
        sound.memory.store_reports(reports)
    }

    fn reports<'a>(&'a self, sound: &'a Sound) -> BoxFuture<'a, Result<Vec<Report>, Error>> {
        sound.memory.reports()
    }

    fn parked<'a>(
        &'a self,
        sound: &'a Sound,
        subscriber_id: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(Uuid, u64)>, Error>> {
        sound.memory.parked(subscriber_id)
    }

    /// What becomes of a question for letters.
    fn query(&self, query: &DeadLetterQuery) -> DeadLetterQuery {
        query.clone()
    }

    /// What becomes of a letter when it is shown.
    fn shown(&self, _: &mut DeadLetterDetail) {}

    fn file_request<'a>(&'a self, sound: &'a Sound, request: &'a Request) -> BoxFuture<'a, Result<(), Error>> {
        sound.memory.file_request(request)
    }

    fn diagnose<'a>(&'a self, sound: &'a Sound) -> BoxFuture<'a, Result<Vec<Finding>, Error>> {
        sound.memory.diagnose()
    }

    fn planned<'a>(&'a self, sound: &'a Sound) -> BoxFuture<'a, Result<Vec<Planned>, Error>> {
        sound.memory.planned()
    }

    fn fill<'a>(&'a self, sound: &'a Sound, source: &'a str) -> BoxFuture<'a, Result<Box<dyn Filling>, Error>> {
        sound.memory.fill(source)
    }

    fn filling<'a>(&'a self, sound: &'a Sound) -> BoxFuture<'a, Result<Option<Unfinished>, Error>> {
        sound.memory.filling()
    }

    fn abandon<'a>(&'a self, sound: &'a Sound) -> BoxFuture<'a, Result<bool, Error>> {
        sound.memory.abandon()
    }

    fn begin_fenced<'a>(
        &'a self,
        sound: &'a Sound,
        fence: &'a Fence,
        letter: Option<Uuid>,
    ) -> BoxFuture<'a, Result<Begun, Error>> {
        Box::pin(sound.begin(fence, letter))
    }

    fn commit<'a>(
        &'a self,
        sound: &'a Sound,
        tx: FaultyTx,
        fence: &'a Fence,
        closing: Closing<'a>,
    ) -> BoxFuture<'a, Result<Closed, Error>> {
        Box::pin(sound.commit(tx, fence, closing))
    }

    fn roll_back<'a>(&'a self, _: &'a Sound, tx: FaultyTx) -> BoxFuture<'a, ()> {
        Box::pin(async { drop(tx) })
    }

    fn tally<'a>(
        &'a self,
        sound: &'a Sound,
        tx: &'a mut FaultyTx,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(sound.tally(tx, key))
    }
}

/// A transaction of the backend behind the fault, or of none yet: then what is to be counted is noted.
#[derive(Debug)]
pub(crate) struct FaultyTx {
    pub(crate) open: Option<MemoryTx>,
    pub(crate) fence: Fence,
    pub(crate) noted: Vec<String>,
}

/// The backend behind the fault.
pub(crate) struct Sound {
    pub(crate) memory: MemoryEventStore,
    pub(crate) settings: Settings,
}

impl Sound {
    /// The records of an append, as they would be stored.
    pub(crate) fn records(&self, append: &Append) -> Result<Vec<NewRecord>, Error> {
        Ok(append.records(&self.settings.limits, &self.settings.upcasters)?)
    }

    /// The same append, with something about it changed.
    pub(crate) fn changed(
        &self,
        append: &Append,
        expect: impl Fn(ExpectedVersion) -> ExpectedVersion,
        change: impl FnOnce(&mut Vec<NewRecord>),
    ) -> Result<Append, Error> {
        let mut records = self.records(append)?;
        change(&mut records);
        let streams = append.streams();
        let named = streams.iter().fold(Append::to(streams[0].0), |append, (stream_id, expected)| {
            append.and_to(*stream_id).expecting(expect(*expected))
        });
        Ok(records.into_iter().fold(named, Append::record))
    }

    pub(crate) async fn everything(&self) -> Result<Vec<Record>, Error> {
        let limit = ReadLimit { events: usize::MAX, bytes: usize::MAX };
        Ok(self.memory.read_all(0, &EventTypes::All, limit).await?.records)
    }

    pub(crate) async fn store_checkpoint(&self, write: &CheckpointWrite) -> Result<Option<Refused>, Error> {
        let answers = self.memory.store_checkpoints(std::slice::from_ref(write)).await?;
        Ok(answers.into_iter().next().flatten())
    }

    pub(crate) async fn begin(&self, fence: &Fence, letter: Option<Uuid>) -> Result<Begun, Error> {
        let Begun { tx, global_sequence, letter_open } = self.memory.begin(fence, letter).await?;
        let tx = FaultyTx { open: Some(tx.into_inner()?), fence: fence.clone(), noted: Vec::new() };
        Ok(Begun { tx: OpenTx::new(tx), global_sequence, letter_open })
    }

    pub(crate) async fn commit(&self, tx: FaultyTx, fence: &Fence, closing: Closing<'_>) -> Result<Closed, Error> {
        let mut memory: MemoryTx = match tx.open {
            Some(memory) => memory,
            None => self.memory.begin(fence, None).await?.tx.into_inner()?,
        };
        for key in tx.noted {
            MemoryHarness.tally(&self.memory, &mut memory, &key).await.expect("memory keeps counts");
        }
        self.memory.commit(OpenTx::new(memory), fence, closing).await
    }

    /// A closing in a transaction of its own.
    pub(crate) async fn close(&self, fence: &Fence, closing: Closing<'_>) -> Result<Closed, Error> {
        let begun = self.memory.begin(fence, None).await?;
        self.memory.commit(begun.tx, fence, closing).await
    }

    pub(crate) async fn tally(&self, tx: &mut FaultyTx, key: &str) -> Result<(), BoxError> {
        match &mut tx.open {
            Some(open) => MemoryHarness.tally(&self.memory, open, key).await,
            None => {
                tx.noted.push(key.to_owned());
                Ok(())
            }
        }
    }

    /// The fence as it would be if it held.
    pub(crate) async fn current(&self, fence: &Fence) -> Result<Fence, Error> {
        let found = self.memory.checkpoint(&fence.subscriber_id).await?;
        Ok(found.map_or_else(|| fence.clone(), |found| Fence { term: found.term, ..fence.clone() }))
    }

    /// Where the checkpoint of that fence's subscriber is.
    pub(crate) async fn position(&self, fence: &Fence) -> Result<u64, Error> {
        Ok(self.memory.checkpoint(&fence.subscriber_id).await?.map_or(0, |found| found.global_sequence))
    }

    pub(crate) async fn version(&self, stream_id: Uuid) -> Result<u64, Error> {
        Ok(self.everything().await?.iter().filter(|record| record.stream_id == stream_id).count() as u64)
    }

    /// The conflict that stands in the way of an append, if there is one.
    pub(crate) async fn check_expectations(&self, append: &Append) -> Result<(), Error> {
        for &(stream_id, expected) in append.streams() {
            let actual = self.version(stream_id).await?;
            if !expected.accepts(actual) {
                return Err(Error::Conflict { stream_id, expected, actual });
            }
        }
        Ok(())
    }
}

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

    fn read_all<'a>(
        &'a self,
        after: u64,
        types: &'a EventTypes,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let mut page = self.fault.read_all(&self.sound, after, types, limit).await?;
            page.records.iter_mut().for_each(|record| self.fault.seen(record));
            Ok(page)
        })
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

    fn letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<Vec<DeadLetter>, Error>> {
        Box::pin(async move {
            // Whoever gets the same page again and again must let others have their turn.
            tokio::task::yield_now().await;
            self.sound.memory.letters(&self.fault.query(query)).await
        })
    }

    fn count_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move { self.sound.memory.count_letters(&self.fault.query(query)).await })
    }

    fn letter(&self, id: Uuid) -> BoxFuture<'_, Result<Option<DeadLetterDetail>, Error>> {
        Box::pin(async move {
            let mut found = self.sound.memory.letter(id).await?;
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

    fn begin_closing<'a>(&'a self, fence: &'a Fence, letter: Option<Uuid>) -> BoxFuture<'a, Result<Begun, Error>> {
        Wrapper::begin(self, fence, letter)
    }

    fn begin<'a>(&'a self, fence: &'a Fence, letter: Option<Uuid>) -> BoxFuture<'a, Result<Begun, Error>> {
        self.fault.begin_fenced(&self.sound, fence, letter)
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
