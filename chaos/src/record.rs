//! What instances write down while they live: one file for each life, a line for each entry, so that a SIGKILL at any point
//! leaves everything that was written before it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One life of one instance: it gets a new one with every start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Life {
    /// The instance's number, from 1.
    pub instance: u32,
    /// How often it was started before.
    pub life: u32,
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i{}.{}", self.instance, self.life)
    }
}

impl FromStr for Life {
    type Err = ();

    /// Also from the name of a connection, which says what it is for after a blank.
    fn from_str(text: &str) -> Result<Self, ()> {
        let name = text.split(' ').next().and_then(|name| name.strip_prefix('i')).ok_or(())?;
        let (instance, life) = name.split_once('.').ok_or(())?;
        Ok(Self { instance: instance.parse().map_err(drop)?, life: life.parse().map_err(drop)? })
    }
}

/// A line of an instance's file. Times are microseconds of the machine's monotonic clock, which all processes share and
/// no fault moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// Events are about to be sent.
    Tried {
        /// The append's number in this life.
        append: u64,
        /// How it is sent.
        how: How,
        /// The events, in order.
        events: Vec<Sent>,
        /// When.
        at: u64,
    },
    /// What came of it. Without such a line nobody knows.
    Ended {
        /// The append's number.
        append: u64,
        /// What came of it.
        outcome: Outcome,
        /// When.
        at: u64,
    },
    /// Something that must not be.
    Trouble {
        /// What.
        what: String,
    },
    /// An effect outside of any transaction.
    Effect {
        /// Whose: its place in [`ROLES`](crate::cast::ROLES).
        role: usize,
        /// The event's place in the log.
        global_sequence: u64,
        /// The event.
        id: Uuid,
        /// When.
        at: u64,
    },
}

/// An event that is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Its id.
    pub id: Uuid,
    /// Its stream.
    pub stream_id: Uuid,
    /// For the first of its stream: the version that the stream had to be at, if one was expected.
    pub expected: Option<u64>,
}

/// How events are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// One event.
    Single,
    /// Several to one stream.
    Batch,
    /// Several to several streams.
    Streams,
    /// In a transaction of the writer's own, open for a while.
    Unit,
    /// By plain SQL, in a transaction that does not wait for the disk: a crash of the server may take it back, although it
    /// was acknowledged.
    Asynchronous,
}

/// What came of an append, as its writer knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was acknowledged, with these places in the log, in order; after so many sendings.
    Stored {
        /// The events' places in the log; only the last is known for some ways of sending.
        last: u64,
        /// How often it was sent.
        sendings: u32,
    },
    /// It was refused: nothing of it is stored, now or later.
    Refused {
        /// Whether because a stream was elsewhere than expected.
        conflict: bool,
        /// Why.
        why: String,
    },
    /// Its writer took it back.
    RolledBack,
    /// Its writer gave up: it may be stored or not.
    Unknown {
        /// The last error.
        why: String,
    },
}
