//! The memory backend seen through a fault.

mod backend;

use highwater::backend::{
    Backend, Begun, BoxFuture, Candidate, Checkpoint, CheckpointWrite, Checkpoints, Closed, Closing, DeadLetterDetail,
    DeadLetterQuery, DeadLetters, Diagnose, Fence, Filling, Finding, Instance, KindsWritten, Leader, Leadership,
    LeadershipSettings, LockHolder, Log, NamedStream, NewRecord, OpenTx, Opening, Page, Planned, Prepared, ReadLimit,
    Record, Refused, Report, Request, Requests, StreamPage, StreamRead, Taken, Transfer, Unfinished, Wakeup, Wakeups,
};
use highwater::{
    Append, Appended, BoxError, Claim, Error, ExpectedVersion, Filter, MemoryEventStore, MemoryTx, Upcasters,
};
use highwater_contract::{Harness, MemoryHarness, OpenAppend, Settings};
use uuid::Uuid;

pub(crate) use backend::FaultyHarness;

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
        filter: &'a Filter,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        sound.memory.read_all(after, filter, limit)
    }

    fn streams<'a>(
        &'a self,
        sound: &'a Sound,
        prefix: &'a str,
        after: Option<&'a NamedStream>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<NamedStream>, Error>> {
        sound.memory.streams(prefix, after, limit)
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

    fn newest_schema_version<'a>(
        &'a self,
        sound: &'a Sound,
        event_type: &'a str,
    ) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        sound.memory.newest_schema_version(event_type)
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

    /// What becomes of a question for dead letters.
    fn query(&self, query: &DeadLetterQuery) -> DeadLetterQuery {
        query.clone()
    }

    /// What becomes of a dead letter when it is shown.
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
        dead_letter: Option<Uuid>,
    ) -> BoxFuture<'a, Result<Begun, Error>> {
        Box::pin(sound.begin(fence, dead_letter))
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
        let Settings { limits, upcasters, .. } = &self.settings;
        Ok(Prepared::new(append, limits, upcasters, &KindsWritten::default())?.complete().collect())
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
        Ok(self.memory.read_all(0, &Filter::ALL, limit).await?.records)
    }

    pub(crate) async fn store_checkpoint(&self, write: &CheckpointWrite) -> Result<Option<Refused>, Error> {
        let answers = self.memory.store_checkpoints(std::slice::from_ref(write)).await?;
        Ok(answers.into_iter().next().flatten())
    }

    pub(crate) async fn begin(&self, fence: &Fence, dead_letter: Option<Uuid>) -> Result<Begun, Error> {
        let Begun { tx, global_sequence, dead_letter_open } =
            Backend::begin(&self.memory, fence, Opening::Handler, dead_letter).await?;
        let tx = FaultyTx { open: Some(tx.into_inner()?), fence: fence.clone(), noted: Vec::new() };
        Ok(Begun { tx: OpenTx::new(tx), global_sequence, dead_letter_open })
    }

    pub(crate) async fn commit(&self, tx: FaultyTx, fence: &Fence, closing: Closing<'_>) -> Result<Closed, Error> {
        let mut memory: MemoryTx = match tx.open {
            Some(memory) => memory,
            None => Backend::begin(&self.memory, fence, Opening::Handler, None).await?.tx.into_inner()?,
        };
        for key in tx.noted {
            MemoryHarness.tally(&self.memory, &mut memory, &key).await.expect("memory keeps counts");
        }
        self.memory.commit(OpenTx::new(memory), fence, closing).await
    }

    /// A closing in a transaction of its own.
    pub(crate) async fn close(&self, fence: &Fence, closing: Closing<'_>) -> Result<Closed, Error> {
        let begun = Backend::begin(&self.memory, fence, Opening::Handler, None).await?;
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
                return Err(Error::Conflict { stream_id, stream_name: None, expected, actual });
            }
        }
        Ok(())
    }
}
