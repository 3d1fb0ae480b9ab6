//! A log as a database keeps it: numbers are drawn when an append begins and its events appear when it commits, so that
//! what was drawn first may appear last. Sound, unless it has a flaw.

mod state;
mod transaction;

use std::sync::{Arc, Mutex, MutexGuard};

use highwater::{
    Append, Appended, BoxFuture, Error, EventTypes, Log, OpenWriter, Page, ReadLimit, StreamPage, StreamRead,
    Upcasters, Wakeup, Wakeups,
};
use highwater_contract::{Harness, OpenAppend, Settings};
use tokio::sync::{Notify, watch};
use uuid::Uuid;

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
            let counts_open = self.shared.has(Flaw::CountsOpenNumbersAsHead);
            Ok(if counts_open { state.drawn() } else { state.head() })
        })
    }

    fn frontier(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            let limit = ReadLimit { events: usize::MAX, bytes: usize::MAX };
            Ok(self.shared.state().read_all(0, &EventTypes::All, limit, self.shared.flaw).complete_to)
        })
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

/// Holds it against the suite.
pub(crate) struct DrawnHarness(pub(crate) Option<Flaw>);

impl Harness for DrawnHarness {
    type Store = Drawn;

    async fn fresh(&self, settings: Settings) -> Drawn {
        let shared =
            Shared { state: Mutex::default(), ended: Notify::new(), hints: watch::Sender::new(0), flaw: self.0 };
        Drawn { shared: Arc::new(shared), settings: Arc::new(settings) }
    }

    async fn reopen(&self, store: &Drawn, settings: Settings) -> Drawn {
        Drawn { shared: Arc::clone(&store.shared), settings: Arc::new(settings) }
    }

    async fn begin(&self, store: &Drawn, append: Append) -> Result<Box<dyn OpenAppend>, Error> {
        Ok(Box::new(Transaction::begin(&store.shared, &store.settings, &append).await?))
    }

    async fn clean_up(&self) {}
}
