//! For authors of backends: the contracts, what they speak of, and what all backends share.
//!
//! [`Backend`] is all contracts together, and the fenced transaction. Applications use what is at the root of the crate.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

pub use crate::append_queue::{AppendQueue, Appender, Backlog, QueuedAppend};
pub use crate::checkpoints::{
    Checkpoint, CheckpointWrite, Checkpoints, Fence, Refused, Report, StateColumns, Taken, Term,
};
pub use crate::dead_letters::{Ask, AskColumns, DeadLetters, LetterAttempt, LetterCursor, NewLetter, Request};
#[doc(hidden)]
pub use crate::delivery::after_commit::appended_in_handler;
pub use crate::diagnose::{Diagnose, Finding, Planned, Severity, diagnose_rows, diagnose_subscribers};
pub use crate::error::SharedError;
pub use crate::explain::explain_with_patience;
pub use crate::leadership::{
    Candidate, Held, Instance, Leader, LeaderHold, Leadership, LeadershipSettings, LockHolder, Member, Moment, Seen,
    Validity, View, Want,
};
pub use crate::lock::lock;
pub use crate::log::{BoxFuture, Direction, Log, OpenWriter, Page, ReadLimit, StreamPage, StreamRead};
pub use crate::prepared::Prepared;
pub use crate::record::{NewRecord, Record};
pub use crate::stored::already_stored;
pub use crate::subscriber::Subscriber;
pub use crate::transfer::{FilledCheckpoint, Filling, Transfer, Unfinished};
pub use crate::wakeups::{Wakeup, Wakeups};
pub use crate::wrapper::Wrapper;

use crate::{Error, Invalid, RequestOutcome};

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
pub trait Backend: Log + Wakeups + Checkpoints + DeadLetters + Leadership + Transfer + Diagnose + 'static {
    /// Another handle to the same store, for tasks that outlive the borrow.
    fn shared(&self) -> Arc<dyn Backend>;

    /// Creates or upgrades whatever is needed. May be called any number of times.
    fn initialize(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Opens a fenced transaction. With a letter, also says whether that is still open.
    ///
    /// # Errors
    /// [`Error::Fenced`] or [`Error::Interrupted`]: then there is no transaction.
    fn begin<'a>(&'a self, fence: &'a Fence, letter: Option<Uuid>) -> BoxFuture<'a, Result<Begun, Error>>;

    /// The same for a transaction in which nothing is done but its closing: a dead letter, what becomes of one, the end of a request. No handler of
    /// another subscriber that hangs in its transaction keeps it waiting, where transactions do not exclude each other anyway.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    fn begin_closing<'a>(&'a self, fence: &'a Fence, letter: Option<Uuid>) -> BoxFuture<'a, Result<Begun, Error>>;

    /// Closes a transaction.
    ///
    /// # Errors
    /// [`Error::Fenced`]; [`Error::Aborted`] when what was done inside keeps it from committing;
    /// [`Error::UnknownOutcome`] when the connection was lost: `begin` tells what has become of it.
    fn commit<'a>(&'a self, tx: OpenTx, fence: &'a Fence, closing: Closing<'a>)
    -> BoxFuture<'a, Result<Closed, Error>>;

    /// Whether an error that a handler met inside the transaction is the store's own trouble, which any event would meet: a
    /// full disk, a server that only reads. Then the event is not to blame: it is tried again until the store is well.
    fn is_outage(&self, error: &(dyn std::error::Error + 'static)) -> bool;

    /// Takes a transaction back. `unsure`: a statement may be running on it still, so it must not be waited for.
    fn rollback(&self, tx: OpenTx, unsure: bool) -> BoxFuture<'_, ()>;
}

/// A backend with the type of its transactions, which transactional projections are handed. Only subscribing needs it: the
/// engine knows transactions as [`OpenTx`].
pub trait Transactional: Backend + Clone {
    /// An open transaction. What [`begin`](Backend::begin) opens is one of these.
    type Tx: Send + 'static;
}

/// An open transaction, whatever its type is.
pub struct OpenTx(Box<dyn Any + Send>);

impl OpenTx {
    /// A transaction of that type.
    #[must_use]
    pub fn new<Tx: Send + 'static>(tx: Tx) -> Self {
        Self(Box::new(tx))
    }

    /// The transaction, to work in.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is of another type.
    pub fn get<Tx: 'static>(&mut self) -> Result<&mut Tx, Error> {
        self.0.downcast_mut().ok_or_else(another_backend)
    }

    /// The transaction, to be closed.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is of another type.
    pub fn into_inner<Tx: 'static>(self) -> Result<Tx, Error> {
        self.0.downcast().map(|tx| *tx).map_err(|_| another_backend())
    }
}

impl fmt::Debug for OpenTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenTx")
    }
}

fn another_backend() -> Error {
    Invalid::Setting { name: "tx", reason: "the transaction was begun by another backend".to_owned() }.into()
}

/// A fenced transaction that has begun.
#[derive(Debug)]
pub struct Begun {
    /// The transaction.
    pub tx: OpenTx,
    /// The checkpoint as it is: events up to here have been handled.
    pub global_sequence: u64,
    /// Whether the letter asked about is still open; true when none was.
    pub letter_open: bool,
}

/// The last statement of a fenced transaction.
#[derive(Debug, Clone, Copy)]
pub enum Closing<'a> {
    /// Events have been handled.
    Advance {
        /// Where the checkpoint was when the transaction began. Anything else now is [`Error::Fenced`].
        from: u64,
        /// Where it goes.
        to: u64,
        /// The last event.
        event_id: Option<Uuid>,
    },
    /// An event could not be handled, or waits behind one that could not: a letter, and the checkpoint moves on.
    Bury {
        /// The letter.
        letter: &'a NewLetter,
        /// As in [`Advance`](Self::Advance).
        from: u64,
    },
    /// A letter's event was handed over again and taken in.
    Replayed {
        /// The letter.
        letter: Uuid,
        /// Who asked for it.
        by: &'a str,
    },
    /// A letter's event was handed over again and failed again.
    ReplayFailed {
        /// The letter.
        letter: Uuid,
        /// Who asked for it.
        by: &'a str,
        /// The new error, free of NUL and cut.
        error: &'a str,
    },
    /// A letter's event is done without.
    Discarded {
        /// The letter.
        letter: Uuid,
        /// Who asked for it.
        by: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// A request has been dealt with.
    Finished {
        /// The request.
        request: Uuid,
        /// What came of it.
        outcome: &'a RequestOutcome,
    },
    /// The subscriber goes on from elsewhere: its checkpoint is set, its term is raised, and its open letters beyond that
    /// place are archived, because it sees those events anew. Letters up to there stay as they are.
    Reset {
        /// After which position it goes on.
        to: u64,
        /// Who asked for it.
        by: &'a str,
        /// The new term's nonce, by which it is known again should the answer be lost.
        nonce: Uuid,
    },
}

/// What closing a transaction gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// The term that holds now: another one after a reset.
    pub term: Term,
    /// Letters of the same stream that are still open and park it; for closings that concern a letter, and else 0.
    pub parked_left: u64,
}
