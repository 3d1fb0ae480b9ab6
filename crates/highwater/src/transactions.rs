//! The fenced transaction: what begins it, what it is while it is open, and what closes it.

use std::any::Any;
use std::fmt;

use uuid::Uuid;

use crate::{Backend, Error, Invalid, NewDeadLetter, RequestOutcome, Term};

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

/// What a fenced transaction is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// A handler works in it.
    Handler,
    /// Nothing is done in it but its closing: a dead letter is stored or resolved, a request finished. No handler of another
    /// subscriber that hangs in its transaction keeps it waiting, where transactions do not exclude each other anyway.
    Closing,
}

/// A fenced transaction that has begun.
#[derive(Debug)]
pub struct Begun {
    /// The transaction.
    pub tx: OpenTx,
    /// The checkpoint as it is: events up to here have been handled.
    pub global_sequence: u64,
    /// Whether the dead letter in question is still open; true when there was none.
    pub dead_letter_open: bool,
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
    /// An event could not be handled, or waits behind one that could not: a dead letter, and the checkpoint moves past it.
    Bury {
        /// The dead letter.
        dead_letter: &'a NewDeadLetter,
        /// As in [`Advance`](Self::Advance).
        from: u64,
    },
    /// A dead letter was replayed and handled.
    Replayed {
        /// The dead letter.
        dead_letter: Uuid,
        /// Who requested it.
        by: &'a str,
    },
    /// A dead letter was replayed and failed again.
    ReplayFailed {
        /// The dead letter.
        dead_letter: Uuid,
        /// Who requested it.
        by: &'a str,
        /// The new error, free of NUL and cut.
        error: &'a str,
    },
    /// A dead letter is discarded.
    Discarded {
        /// The dead letter.
        dead_letter: Uuid,
        /// Who requested it.
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
    /// The tables of the subscriber's read model were made, in this transaction. Its checkpoint and its term stay.
    SetUp {
        /// Their version, which is stored beside the checkpoint.
        version: u32,
    },
    /// The subscriber continues from elsewhere: its checkpoint is set, its term is raised, and its open dead letters beyond
    /// that position are archived, because it sees those events again. Dead letters up to there stay as they are.
    Reset {
        /// After which position it continues.
        to: u64,
        /// Who requested it.
        by: &'a str,
        /// The new term's nonce, by which it is known again should the answer be lost.
        nonce: Uuid,
        /// The version of the tables that were made in this transaction; `None` leaves what is stored.
        setup_version: Option<u32>,
    },
    /// The subscriber is gone for good: its checkpoint, leader, pause, report and requests are removed, and its open dead
    /// letters are archived. From then on every fence for it is [`Error::Fenced`], until it is started anew.
    Remove {
        /// Who requested it.
        by: &'a str,
    },
}

/// What closing a transaction gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// The term that holds now: another one after a reset. After a removal the one that removed it, which holds no more.
    pub term: Term,
    /// Dead letters of the same stream that are still open and park it; for closings that concern a dead letter, and else 0.
    pub parked_left: u64,
}
