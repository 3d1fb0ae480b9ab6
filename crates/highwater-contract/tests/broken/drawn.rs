//! A log as a database keeps it: numbers are drawn when an append begins and its events appear when it commits, so that
//! what was drawn first may appear last. Sound, unless it has a flaw.

mod filling;
mod state;
mod transaction;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use chrono::{DateTime, Utc};
use highwater::{
    Append, Appended, Backend, Begun, BoxError, BoxFuture, Candidate, Checkpoint, CheckpointWrite, Checkpoints, Claim,
    Closed, Closing, DeadLetter, DeadLetters, Diagnose, Error, EventTypes, Fence, Filling, Finding, Instance, Leader,
    Leadership, LeadershipSettings, LetterDetail, LetterQuery, LockHolder, Log, MemoryEventStore, MemoryTx, OpenWriter,
    Page, Planned, ReadLimit, Refused, Report, Request, StreamPage, StreamRead, Taken, Transfer, Unfinished, Upcasters,
    Wakeup, Wakeups,
};
use highwater_contract::{Harness, MemoryHarness, OpenAppend, Settings};
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use filling::DrawnFilling;
use state::State;
use transaction::Transaction;

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Readers go up to the last event they see.
    ReadsNaively,
    /// Only readers of everything wait for open writers.
    SettlesOnlyUnfilteredReads,
    /// Readers go on when a writer has been open for a while.
    GivesUpOnSlowCommits,
    /// Readers see what is not committed.
    ShowsWhatIsOpen,
    /// Nobody learns whom readers wait for.
    HidesOpenWriters,
    /// The head counts what was only drawn.
    CountsOpenNumbersAsHead,
    /// The head does not count what is committed and waits for open writers.
    CountsWhatIsSettledAsHead,
    /// Numbers are drawn before the stream is free, so another may get the version that fits them.
    DrawsTooEarly,
    /// The versions of what was rolled back are not given again.
    SkipsVersionsOnRollback,
    /// Streams are locked one after the other, in the order of the append.
    LocksStreamsInTurn,
    /// One open transaction holds up everybody.
    LocksEverything,
    /// A transaction that is dropped stays open.
    ForgetsToRollBack,
}

#[derive(Clone)]
pub(crate) struct Drawn {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
}

struct Shared {
    state: Mutex<State>,
    /// Some transaction has ended.
    ended: Notify,
    hints: watch::Sender<u64>,
    /// Checkpoints, letters and read models: those of the memory backend will do.
    beside: MemoryEventStore,
    flaw: Option<Flaw>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn announce(&self, global_sequence: u64) {
        self.hints.send_modify(|known| *known = global_sequence.max(*known));
    }
}

impl Log for Drawn {
    fn append<'a>(&'a self, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let transaction = Transaction::begin(&self.shared, &self.settings, append).await?;
            tokio::task::yield_now().await;
            Ok(transaction.end())
        })
    }

    fn read_stream(&self, stream_id: Uuid, read: StreamRead) -> BoxFuture<'_, Result<StreamPage, Error>> {
        Box::pin(async move { Ok(self.shared.state().read_stream(stream_id, read, self.shared.flaw)) })
    }

    fn read_all<'a>(
        &'a self,
        after: u64,
        types: &'a EventTypes,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move { Ok(self.shared.state().read_all(after, types, limit, self.shared.flaw)) })
    }

    fn head(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            let state = self.shared.state();
            Ok(match self.shared.flaw {
                Some(Flaw::CountsOpenNumbersAsHead) => state.drawn(),
                Some(Flaw::CountsWhatIsSettledAsHead) => state.settled(&EventTypes::All, None),
                _ => state.head(),
            })
        })
    }

    fn frontier(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move { Ok(self.shared.state().settled(&EventTypes::All, self.shared.flaw)) })
    }

    fn open_writers(&self) -> BoxFuture<'_, Result<Vec<OpenWriter>, Error>> {
        Box::pin(async move {
            let hidden = self.shared.has(Flaw::HidesOpenWriters);
            Ok(if hidden { Vec::new() } else { self.shared.state().open_writers() })
        })
    }

    fn upcasters(&self) -> &Upcasters {
        &self.settings.upcasters
    }
}

impl Wakeups for Drawn {
    fn announce(&self, global_sequence: u64) {
        self.shared.announce(global_sequence);
    }

    fn wakeups(&self) -> Wakeup {
        Wakeup::new(&self.shared.hints)
    }

    fn push_degraded(&self) -> Option<String> {
        None
    }
}

impl Checkpoints for Drawn {
    fn take_over<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        self.shared.beside.take_over(claim)
    }

    fn store_checkpoints<'a>(
        &'a self,
        writes: &'a [CheckpointWrite],
    ) -> BoxFuture<'a, Result<Vec<Option<Refused>>, Error>> {
        self.shared.beside.store_checkpoints(writes)
    }

    fn checkpoint<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Checkpoint>, Error>> {
        self.shared.beside.checkpoint(subscriber_id)
    }

    fn checkpoints(&self) -> BoxFuture<'_, Result<Vec<Checkpoint>, Error>> {
        self.shared.beside.checkpoints()
    }

    fn set_paused<'a>(&'a self, subscriber_id: &'a str, paused: bool) -> BoxFuture<'a, Result<bool, Error>> {
        self.shared.beside.set_paused(subscriber_id, paused)
    }

    fn paused<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        self.shared.beside.paused(subscriber_ids)
    }

    fn store_reports<'a>(&'a self, reports: &'a [Report]) -> BoxFuture<'a, Result<(), Error>> {
        self.shared.beside.store_reports(reports)
    }

    fn reports(&self) -> BoxFuture<'_, Result<Vec<Report>, Error>> {
        self.shared.beside.reports()
    }
}

impl Leadership for Drawn {
    fn candidate(&self, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate> {
        self.shared.beside.candidate(instance, settings)
    }

    fn leaders(&self) -> BoxFuture<'_, Result<Vec<Leader>, Error>> {
        self.shared.beside.leaders()
    }

    fn lock_holders<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<LockHolder>, Error>> {
        self.shared.beside.lock_holders(subscriber_ids)
    }
}

impl DeadLetters for Drawn {
    fn parked<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Vec<(Uuid, u64)>, Error>> {
        self.shared.beside.parked(subscriber_id)
    }

    fn letters<'a>(&'a self, query: &'a LetterQuery) -> BoxFuture<'a, Result<Vec<DeadLetter>, Error>> {
        self.shared.beside.letters(query)
    }

    fn count_letters<'a>(&'a self, query: &'a LetterQuery) -> BoxFuture<'a, Result<u64, Error>> {
        self.shared.beside.count_letters(query)
    }

    fn letter(&self, id: Uuid) -> BoxFuture<'_, Result<Option<LetterDetail>, Error>> {
        Box::pin(async move {
            let found = self.shared.beside.letter(id).await?;
            let record = |event_id| self.shared.state().record(event_id);
            Ok(found.map(|detail| LetterDetail { record: record(detail.letter.event_id), ..detail }))
        })
    }

    fn file_request<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<(), Error>> {
        self.shared.beside.file_request(request)
    }

    fn open_requests<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<Request>, Error>> {
        self.shared.beside.open_requests(subscriber_ids)
    }

    fn request(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Request>, Error>> {
        self.shared.beside.request(id)
    }

    fn purge_letters<'a>(&'a self, subscriber_id: &'a str, before: DateTime<Utc>) -> BoxFuture<'a, Result<u64, Error>> {
        self.shared.beside.purge_letters(subscriber_id, before)
    }
}

impl Diagnose for Drawn {
    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>, Error>> {
        self.shared.beside.diagnose()
    }

    fn planned(&self) -> BoxFuture<'_, Result<Vec<Planned>, Error>> {
        self.shared.beside.planned()
    }
}

impl Transfer for Drawn {
    fn fill<'a>(&'a self, source: &'a str) -> BoxFuture<'a, Result<Box<dyn Filling>, Error>> {
        Box::pin(async move {
            let going_on = self.shared.beside.filling().await?.is_some();
            if !going_on && (self.shared.state().head() > 0 || self.shared.state().is_anything_open()) {
                return Err(Error::NotEmpty { found: "events".to_owned() });
            }
            let beside = self.shared.beside.fill(source).await?;
            Ok(Box::new(DrawnFilling::new(Arc::clone(&self.shared), beside)) as Box<dyn Filling>)
        })
    }

    fn filling(&self) -> BoxFuture<'_, Result<Option<Unfinished>, Error>> {
        self.shared.beside.filling()
    }

    fn abandon(&self) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move {
            let abandoned = self.shared.beside.abandon().await?;
            if abandoned {
                self.shared.state().clear();
            }
            Ok(abandoned)
        })
    }

    fn count_events(&self, up_to: u64) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move { Ok(self.shared.state().count(up_to)) })
    }

    fn all_open_requests<'a>(
        &'a self,
        after: Option<&'a Request>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Request>, Error>> {
        self.shared.beside.all_open_requests(after, limit)
    }
}

impl Backend for Drawn {
    type Tx = MemoryTx;

    fn initialize(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.shared.beside.initialize()
    }

    fn begin_closing<'a>(
        &'a self,
        fence: &'a Fence,
        letter: Option<Uuid>,
    ) -> BoxFuture<'a, Result<Begun<MemoryTx>, Error>> {
        self.shared.beside.begin_closing(fence, letter)
    }

    fn begin<'a>(&'a self, fence: &'a Fence, letter: Option<Uuid>) -> BoxFuture<'a, Result<Begun<MemoryTx>, Error>> {
        self.shared.beside.begin(fence, letter)
    }

    fn commit<'a>(
        &'a self,
        tx: MemoryTx,
        fence: &'a Fence,
        closing: Closing<'a>,
    ) -> BoxFuture<'a, Result<Closed, Error>> {
        self.shared.beside.commit(tx, fence, closing)
    }

    fn rollback(&self, tx: MemoryTx, unsure: bool) -> BoxFuture<'_, ()> {
        self.shared.beside.rollback(tx, unsure)
    }
}

/// Holds it against the suite.
pub(crate) struct DrawnHarness(pub(crate) Option<Flaw>);

impl Harness for DrawnHarness {
    type Store = Drawn;

    async fn fresh(&self, settings: Settings) -> Drawn {
        let shared = Shared {
            state: Mutex::default(),
            ended: Notify::new(),
            hints: watch::Sender::new(0),
            beside: MemoryEventStore::new(),
            flaw: self.0,
        };
        Drawn { shared: Arc::new(shared), settings: Arc::new(settings) }
    }

    async fn reopen(&self, store: &Drawn, settings: Settings) -> Drawn {
        Drawn { shared: Arc::clone(&store.shared), settings: Arc::new(settings) }
    }

    async fn begin(&self, store: &Drawn, append: Append) -> Result<Box<dyn OpenAppend>, Error> {
        Ok(Box::new(Transaction::begin(&store.shared, &store.settings, &append).await?))
    }

    async fn tally(&self, store: &Drawn, tx: &mut MemoryTx, key: &str) -> Result<(), BoxError> {
        MemoryHarness.tally(&store.shared.beside, tx, key).await
    }

    async fn tallies(&self, store: &Drawn) -> BTreeMap<String, u64> {
        MemoryHarness.tallies(&store.shared.beside).await
    }

    async fn clear_tallies(&self, store: &Drawn, tx: &mut MemoryTx) -> Result<(), BoxError> {
        MemoryHarness.clear_tallies(&store.shared.beside, tx).await
    }

    async fn spoil(&self, store: &Drawn, tx: &mut MemoryTx) {
        MemoryHarness.spoil(&store.shared.beside, tx).await;
    }

    async fn clean_up(&self) {}
}
