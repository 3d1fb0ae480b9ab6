//! For authors of backends: the contracts, what they speak of, and what all backends share.
//!
//! [`Backend`] is all contracts together, and the fenced transaction, whose parts are in `transactions.rs`. Of all this, an
//! application needs only [`Transactional`], and that where it is generic over its store.

pub mod columns;
pub mod rows;

use std::sync::Arc;

use uuid::Uuid;

pub use crate::append::Position;
pub use crate::append_queue::{AppendQueue, Appender, Backlog, QueuedAppend};
pub use crate::backoff::Backoff;
pub use crate::checkpoints::{
    Checkpoint, CheckpointWrite, Checkpoints, Fence, Refused, Report, StateColumns, Taken, Term, start_is_gone,
};

pub use crate::dead_letters::{
    DeadLetter, DeadLetterAttempt, DeadLetterCursor, DeadLetterDetail, DeadLetterQuery, DeadLetterState, DeadLetters,
    NewDeadLetter,
};
#[doc(hidden)]
pub use crate::delivery::after_commit::appended_in_handler;
pub use crate::diagnose::{Diagnose, Finding, Planned, Severity, diagnose_kinds, diagnose_rows, diagnose_subscribers};
pub use crate::error::{SharedError, chain};
pub use crate::event::EventBuilder;
pub use crate::evolve::Decision;
pub use crate::explain::explain_with_patience;
pub use crate::into::{IntoGlobalSequence, IntoStreamId};
pub use crate::kinds::{KindsWritten, missing_kinds};
pub use crate::leadership::{
    Candidate, HeldLock, Instance, Leader, LeaderHold, Leadership, LeadershipSettings, LockHolder, Member, Moment,
    Seen, Validity, View, Want,
};
pub use crate::lock::lock;
pub use crate::log::{
    BoxFuture, Direction, Log, NEWEST_AMONG, NamedStream, OpenWriter, Page, ReadLimit, START_REPLICA, StreamPage,
    StreamRead,
};
pub use crate::prepared::Prepared;
pub use crate::record::{NewRecord, Record};
pub use crate::requests::{Request, RequestColumns, RequestKind, RequestOutcome, Requests};
pub use crate::stored::already_stored;
pub use crate::subscriber::{IntoSubscriber, ObserverFn, Subscriber};
pub use crate::transactions::{Begun, Closed, Closing, OpenTx, Opening, Transactional};
pub use crate::transfer::{Batch, FilledCheckpoint, Filling, Transfer, Unfinished};
pub use crate::wakeups::{Wakeup, Wakeups};
pub use crate::wrapper::Wrapper;

use crate::Error;

/// A backend that the delivery engine can run on.
///
/// What must be atomic happens in one fenced transaction: [`begin`](Self::begin), whatever a transactional projection
/// writes, and a [`Closing`] that is its last statement.
///
/// # Contract
///
/// - `begin` locks the subscriber's checkpoint against every other writer and checks the fence, in this order, before
///   anything else. It waits for an earlier transaction of the same subscriber that is still committing, so what it
///   returns is what is true \[G18\].
/// - `commit` checks the fence again in its last statement before the commit. Everything in the transaction becomes
///   visible together with the closing, or nothing does, and it survives a crash of the server.
/// - A transaction that is dropped leaves nothing behind.
pub trait Backend:
    Log + Wakeups + Checkpoints + DeadLetters + Requests + Leadership + Transfer + Diagnose + 'static
{
    /// Another handle to the same store, for tasks that outlive the borrow.
    fn shared(&self) -> Arc<dyn Backend>;

    /// Creates or upgrades whatever is needed. May be called any number of times.
    fn initialize(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Whether what is stored outlives the process, as checkpoints on a disk do.
    fn is_durable(&self) -> bool;

    /// Opens a fenced transaction. With a dead letter, also returns whether that is still open.
    ///
    /// # Errors
    /// [`Error::Fenced`] or [`Error::Interrupted`]: then there is no transaction.
    fn begin<'a>(
        &'a self,
        fence: &'a Fence,
        opening: Opening,
        dead_letter: Option<Uuid>,
    ) -> BoxFuture<'a, Result<Begun, Error>>;

    /// Closes a transaction.
    ///
    /// # Errors
    /// [`Error::Fenced`]; [`Error::Aborted`] when what was done inside keeps it from committing;
    /// [`Error::UnknownOutcome`] when the connection was lost: `begin` tells what has become of it.
    fn commit<'a>(&'a self, tx: OpenTx, fence: &'a Fence, closing: Closing<'a>)
    -> BoxFuture<'a, Result<Closed, Error>>;

    /// Whether an error that a handler met inside the transaction is a failure of the store, which any event would meet: a
    /// full disk, a read-only server. Then the event is not to blame: it is retried until the store recovers.
    fn is_outage(&self, error: &(dyn std::error::Error + 'static)) -> bool;

    /// Takes a transaction back. `unsure`: a statement may be running on it still, so it must not be waited for.
    fn rollback(&self, tx: OpenTx, unsure: bool) -> BoxFuture<'_, ()>;
}
