//! A log as a database keeps it: numbers are drawn when an append begins and its events appear when it commits, so that
//! what was drawn first may appear last. Sound, unless it has a flaw.

mod filling;
mod state;
mod transaction;

use highwater::transfer::TransferError;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use highwater::backend::{
    Backend, BoxFuture, Checkpoints, DeadLetterDetail, DeadLetters, Filling, NamedStream, OpenWriter, Page, ReadLimit,
    Record, StreamPage, StreamRead, Taken, Transactional, Transfer, Wakeup, Wrapper,
};
use highwater::{Append, Appended, BoxError, Claim, Error, Filter, MemoryEventStore, MemoryTx, Upcasters};
use highwater_contract::{Harness, MemoryHarness, OpenAppend, Settings};
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use filling::DrawnFilling;
use state::DrawnState;
use transaction::Transaction;

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Readers go up to the last event they see.
    ReadsNaively,
    /// Only readers of everything wait for open writers.
    SettlesOnlyUnfilteredReads,
    /// Readers continue when a writer has been open for a while.
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
    /// One open transaction holds up all writers.
    LocksEverything,
    /// A transaction that is dropped stays open.
    ForgetsToRollBack,
}

#[derive(Clone)]
pub(crate) struct Drawn {
    shared: Arc<SharedDrawn>,
    settings: Arc<Settings>,
}

struct SharedDrawn {
    state: Mutex<DrawnState>,
    /// Some transaction has ended.
    ended: Notify,
    hints: watch::Sender<u64>,
    /// Checkpoints, dead letters and read models: those of the memory backend will do.
    beside: MemoryEventStore,
    flaw: Option<Flaw>,
}

impl SharedDrawn {
    fn state(&self) -> MutexGuard<'_, DrawnState> {
        self.state.lock().expect("nobody panics with it")
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn announce(&self, global_sequence: u64) {
        self.hints.send_modify(|known| *known = global_sequence.max(*known));
    }
}

impl Wrapper for Drawn {
    /// Checkpoints, dead letters and read models are kept there; the log is not.
    fn inner(&self) -> &dyn Backend {
        &self.shared.beside
    }

    fn take_over<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        Box::pin(async move {
            if claim.start_event.is_none_or(|event| self.shared.state().record(event).is_some()) {
                let here = Claim { start_event: None, ..claim.clone() };
                return self.shared.beside.take_over(&here).await;
            }
            // Refused there, if it is new.
            self.shared.beside.take_over(claim).await
        })
    }

    fn shared(&self) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }

    fn append<'a>(&'a self, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let transaction = Transaction::begin(&self.shared, &self.settings, append).await?;
            tokio::task::yield_now().await;
            Ok(transaction.end())
        })
    }

    fn read_stream(&self, stream_id: Uuid, read: StreamRead) -> BoxFuture<'_, Result<StreamPage, Error>> {
        Box::pin(async move { Ok(self.shared.state().read_stream(stream_id, &read, self.shared.flaw)) })
    }

    fn read_all<'a>(&'a self, after: u64, filter: &'a Filter, limit: ReadLimit) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move { Ok(self.shared.state().read_all(after, filter, limit, self.shared.flaw)) })
    }

    fn streams<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a NamedStream>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<NamedStream>, Error>> {
        Box::pin(async move { Ok(self.shared.state().streams(prefix, after, limit)) })
    }

    fn record(&self, event_id: Uuid) -> BoxFuture<'_, Result<Option<Record>, Error>> {
        Box::pin(async move { Ok(self.shared.state().record(event_id)) })
    }

    fn head(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            let state = self.shared.state();
            Ok(match self.shared.flaw {
                Some(Flaw::CountsOpenNumbersAsHead) => state.drawn(),
                Some(Flaw::CountsWhatIsSettledAsHead) => state.settled(&Filter::ALL, None),
                _ => state.head(),
            })
        })
    }

    fn life(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move { Ok(self.shared.state().life()) })
    }

    fn frontier(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move { Ok(self.shared.state().settled(&Filter::ALL, self.shared.flaw)) })
    }

    fn open_writers(&self) -> BoxFuture<'_, Result<Vec<OpenWriter>, Error>> {
        Box::pin(async move {
            let hidden = self.shared.has(Flaw::HidesOpenWriters);
            Ok(if hidden { Vec::new() } else { self.shared.state().open_writers() })
        })
    }

    fn newest_schema_version<'a>(&'a self, event_type: &'a str) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        Box::pin(async move { Ok(self.shared.state().newest_schema_version(event_type)) })
    }

    fn upcasters(&self) -> &Upcasters {
        &self.settings.upcasters
    }

    fn announce(&self, global_sequence: u64) {
        self.shared.announce(global_sequence);
    }

    fn wakeups(&self) -> Wakeup {
        Wakeup::new(&self.shared.hints)
    }

    fn dead_letter(&self, id: Uuid) -> BoxFuture<'_, Result<Option<DeadLetterDetail>, Error>> {
        Box::pin(async move {
            let found = self.shared.beside.dead_letter(id).await?;
            let record = |event_id| self.shared.state().record(event_id);
            Ok(found.map(|detail| DeadLetterDetail { record: record(detail.dead_letter.event_id), ..detail }))
        })
    }

    fn fill<'a>(&'a self, source: &'a str) -> BoxFuture<'a, Result<Box<dyn Filling>, Error>> {
        Box::pin(async move {
            let going_on = self.shared.beside.filling().await?.is_some();
            if !going_on && (self.shared.state().head() > 0 || self.shared.state().is_anything_open()) {
                return Err(Error::Transfer(TransferError::NotEmpty { found: "events".to_owned() }));
            }
            let beside = self.shared.beside.fill(source).await?;
            Ok(Box::new(DrawnFilling::new(Arc::clone(&self.shared), beside)) as Box<dyn Filling>)
        })
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
}

impl Transactional for Drawn {
    type Tx = MemoryTx;
}

/// Holds it against the suite.
pub(crate) struct DrawnHarness(pub(crate) Option<Flaw>);

impl Harness for DrawnHarness {
    type Store = Drawn;

    async fn fresh(&self, settings: Settings) -> Drawn {
        let shared = SharedDrawn {
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
