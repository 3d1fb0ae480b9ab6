//! The memory backend seen through a fault.

use std::sync::Arc;

use highwater::{
    Append, Appended, BoxFuture, Error, EventTypes, ExpectedVersion, Log, MemoryEventStore, NewRecord, OpenWriter,
    Page, ReadLimit, Record, StreamPage, StreamRead, Upcasters, Wakeup, Wakeups,
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

impl Log for Faulty {
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

    fn head(&self) -> BoxFuture<'_, Result<u64, Error>> {
        self.sound.memory.head()
    }

    fn frontier(&self) -> BoxFuture<'_, Result<u64, Error>> {
        self.sound.memory.frontier()
    }

    fn open_writers(&self) -> BoxFuture<'_, Result<Vec<OpenWriter>, Error>> {
        self.sound.memory.open_writers()
    }

    fn upcasters(&self) -> &Upcasters {
        self.fault.upcasters(&self.sound)
    }
}

impl Wakeups for Faulty {
    fn announce(&self, global_sequence: u64) {
        self.fault.announce(&self.sound, global_sequence);
    }

    fn wakeups(&self) -> Wakeup {
        self.fault.wakeups(&self.sound)
    }

    fn push_degraded(&self) -> Option<String> {
        self.sound.memory.push_degraded()
    }
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

    async fn clean_up(&self) {}
}
