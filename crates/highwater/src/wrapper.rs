//! Backends around other backends: what they do not override goes to the one inside.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{
    Append, Appended, Backend, Begun, BoxFuture, Candidate, Checkpoint, CheckpointWrite, Checkpoints, Claim, Closed,
    Closing, DeadLetter, DeadLetterDetail, DeadLetterQuery, DeadLetters, Diagnose, Error, Fence, Filling, Filter,
    Finding, Instance, Leader, Leadership, LeadershipSettings, LockHolder, Log, NamedStream, OpenTx, OpenWriter,
    Opening, Page, Planned, ReadLimit, Record, Refused, Report, Request, Requests, StreamPage, StreamRead, Taken,
    Transfer, Unfinished, Upcasters, Wakeup, Wakeups,
};

/// Writes every method of the contracts once: as one of [`Wrapper`] that asks the backend inside, and as that of the contract,
/// which asks the wrapper.
macro_rules! contracts {
    ($($contract:ident {
        $(fn $name:ident $(<$life:lifetime>)? (&$($this:lifetime)? self $(, $argument:ident: $kind:ty)*) $(-> $answer:ty)?;)*
    })*) => {
        /// A backend around another one, for instance one that counts, delays or fails calls.
        ///
        /// Its methods are those of the contracts, and each asks [`inner`](Self::inner) unless it is overridden. Whatever
        /// implements this is a [`Backend`].
        pub trait Wrapper: Send + Sync + 'static {
            /// The backend inside.
            fn inner(&self) -> &dyn Backend;

            /// See [`Backend::shared`]: another handle to the wrapper, not to the backend inside.
            fn shared(&self) -> Arc<dyn Backend>;

            $($(
                #[doc = concat!("See [`", stringify!($contract), "::", stringify!($name), "`].")]
                fn $name $(<$life>)? (&$($this)? self $(, $argument: $kind)*) $(-> $answer)? {
                    $contract::$name(self.inner() $(, $argument)*)
                }
            )*)*
        }

        $(
            impl<W: Wrapper> $contract for W {
                $(
                    fn $name $(<$life>)? (&$($this)? self $(, $argument: $kind)*) $(-> $answer)? {
                        Wrapper::$name(self $(, $argument)*)
                    }
                )*
                contracts!(@shared $contract);
            }
        )*
    };
    (@shared Backend) => {
        fn shared(&self) -> Arc<dyn Backend> {
            Wrapper::shared(self)
        }
    };
    (@shared $contract:ident) => {};
}

contracts! {
    Log {
        fn append<'a>(&'a self, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>>;
        fn read_stream(&self, stream_id: Uuid, read: StreamRead) -> BoxFuture<'_, Result<StreamPage, Error>>;
        fn read_all<'a>(&'a self, after: u64, filter: &'a Filter, limit: ReadLimit) -> BoxFuture<'a, Result<Page, Error>>;
        fn streams<'a>(&'a self, prefix: &'a str, after: Option<&'a NamedStream>, limit: usize) -> BoxFuture<'a, Result<Vec<NamedStream>, Error>>;
        fn record(&self, event_id: Uuid) -> BoxFuture<'_, Result<Option<Record>, Error>>;
        fn head(&self) -> BoxFuture<'_, Result<u64, Error>>;
        fn life(&self) -> BoxFuture<'_, Result<u64, Error>>;
        fn frontier(&self) -> BoxFuture<'_, Result<u64, Error>>;
        fn open_writers(&self) -> BoxFuture<'_, Result<Vec<OpenWriter>, Error>>;
        fn newest_schema_version<'a>(&'a self, event_type: &'a str) -> BoxFuture<'a, Result<Option<u32>, Error>>;
        fn upcasters(&self) -> &Upcasters;
    }
    Wakeups {
        fn announce(&self, global_sequence: u64);
        fn wakeups(&self) -> Wakeup;
        fn push_degraded(&self) -> Option<String>;
    }
    Checkpoints {
        fn take_over<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>>;
        fn store_checkpoints<'a>(&'a self, writes: &'a [CheckpointWrite]) -> BoxFuture<'a, Result<Vec<Option<Refused>>, Error>>;
        fn checkpoint<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Checkpoint>, Error>>;
        fn checkpoints(&self) -> BoxFuture<'_, Result<Vec<Checkpoint>, Error>>;
        fn store_reports<'a>(&'a self, reports: &'a [Report]) -> BoxFuture<'a, Result<(), Error>>;
        fn reports(&self) -> BoxFuture<'_, Result<Vec<Report>, Error>>;
    }
    DeadLetters {
        fn parked<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Vec<(Uuid, u64)>, Error>>;
        fn dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<Vec<DeadLetter>, Error>>;
        fn count_dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<u64, Error>>;
        fn dead_letter(&self, id: Uuid) -> BoxFuture<'_, Result<Option<DeadLetterDetail>, Error>>;
        fn purge_dead_letters<'a>(&'a self, subscriber_id: &'a str, before: DateTime<Utc>) -> BoxFuture<'a, Result<u64, Error>>;
    }
    Requests {
        fn set_paused<'a>(&'a self, subscriber_id: &'a str, paused: bool) -> BoxFuture<'a, Result<bool, Error>>;
        fn paused<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<String>, Error>>;
        fn file_request<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<(), Error>>;
        fn open_requests<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<Request>, Error>>;
        fn all_open_requests<'a>(&'a self, after: Option<&'a Request>, limit: usize) -> BoxFuture<'a, Result<Vec<Request>, Error>>;
        fn request(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Request>, Error>>;
    }
    Leadership {
        fn candidate(&self, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate>;
        fn leaders(&self) -> BoxFuture<'_, Result<Vec<Leader>, Error>>;
        fn lock_holders<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<LockHolder>, Error>>;
    }
    Transfer {
        fn fill<'a>(&'a self, source: &'a str) -> BoxFuture<'a, Result<Box<dyn Filling>, Error>>;
        fn filling(&self) -> BoxFuture<'_, Result<Option<Unfinished>, Error>>;
        fn abandon(&self) -> BoxFuture<'_, Result<bool, Error>>;
        fn count_events(&self, up_to: u64) -> BoxFuture<'_, Result<u64, Error>>;
    }
    Diagnose {
        fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>, Error>>;
        fn planned(&self) -> BoxFuture<'_, Result<Vec<Planned>, Error>>;
    }
    Backend {
        fn initialize(&self) -> BoxFuture<'_, Result<(), Error>>;
        fn is_durable(&self) -> bool;
        fn begin<'a>(&'a self, fence: &'a Fence, opening: Opening, dead_letter: Option<Uuid>) -> BoxFuture<'a, Result<Begun, Error>>;
        fn commit<'a>(&'a self, tx: OpenTx, fence: &'a Fence, closing: Closing<'a>) -> BoxFuture<'a, Result<Closed, Error>>;
        fn is_outage(&self, error: &(dyn std::error::Error + 'static)) -> bool;
        fn rollback(&self, tx: OpenTx, unsure: bool) -> BoxFuture<'_, ()>;
    }
}
