//! What a contestant is asked, and what it answers.

use serde::{Deserialize, Serialize};

/// What a contestant says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// What people call it.
    pub name: String,
    /// Packages with their versions, as they are locked.
    pub versions: String,
    /// The page of its documentation that this use of it follows.
    pub page: String,
    /// What it runs with by default.
    pub settings: String,
    /// What is different at its best, if its documentation has anything to turn.
    pub best: Option<String>,
    /// Why it hands events to no subscriber that remembers where it was; nothing if it does.
    pub no_follower: Option<String>,
    /// Why nobody else goes on when the process of a subscriber dies; nothing if somebody does.
    pub no_failover: Option<String>,
    /// The tables that events are inserted into, as SQL names them.
    pub tables: Vec<String>,
    /// What a reader of the figures has to know besides.
    pub notes: Vec<String>,
}

/// How it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settings {
    /// As its documentation has it before any tuning.
    Default,
    /// As its documentation says it is fastest.
    Best,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Ask {
    /// Lay out the database, which is empty.
    Prepare,
    /// So many callers, one append after the other each, to a new stream each time.
    Append {
        /// How many at once.
        callers: usize,
        /// Events of an append.
        events: usize,
        /// For how long.
        seconds: f64,
    },
    /// Streams of so many events each, as fast as it can.
    Fill {
        /// How many streams.
        streams: usize,
        /// Events of each, in one append.
        events: usize,
        /// How many callers at once.
        callers: usize,
    },
    /// Load one stream again and again.
    Load {
        /// Events in the stream.
        events: usize,
        /// For how long.
        seconds: f64,
    },
    /// A new subscriber: how long until it was handed so many events.
    CatchUp {
        /// Its name.
        id: String,
        /// How many there are.
        events: usize,
        /// When to give up, in seconds.
        limit: f64,
    },
    /// Follow until `unfollow`. Answered at once.
    Follow {
        /// The subscriber's name.
        id: String,
    },
    /// What the subscriber has been handed since this was asked last.
    Delivered,
    /// No longer.
    Unfollow,
    /// Append one event after the other at a steady rate, to a new stream each.
    Send {
        /// Events in a second.
        rate: f64,
        /// For how long.
        seconds: f64,
    },
    /// Writers with a stream each and a new one every 20 events, one append after the other.
    Write {
        /// How many at once.
        writers: usize,
        /// For how long.
        seconds: f64,
    },
}

/// The answer to every question but `delivered`: what of it applies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// What went wrong, if it could not be done at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Events that were stored, loaded or handed over.
    pub events: u64,
    /// How long that took.
    pub seconds: f64,
    /// How long each call took, in microseconds, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub micros: Vec<u64>,
    /// Calls that failed.
    pub failed: u64,
    /// What the first of them said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Writer and number of each event whose append was acknowledged; only for `write`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acknowledged: Vec<(u64, u64)>,
}

/// The answer to `delivered`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Delivered {
    /// What went wrong with the subscriber, if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Events in the order they were handed over.
    pub events: Vec<Handed>,
}

/// An event that was handed over: its writer and number, its position in the log (0 where a store has none), when it was
/// made and when it was handed over, in microseconds since 1970.
pub type Handed = (u64, u64, u64, i64, i64);
