//! What a contestant is asked, and what it answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a contestant says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// What people call it.
    pub name: String,
    /// Packages with their versions, as they are locked.
    pub versions: String,
    /// The page of its documentation that this use of it follows.
    pub page: String,
    /// What it runs with as documented: the command path and the pool that its documentation shows.
    pub documented: String,
    /// What is different in the fastest public way, if there is one.
    pub fastest: Option<String>,
    /// Sizes of a pool to try for the fastest way; none if there is nothing to size.
    pub pools: Vec<u32>,
    /// What appends pay for as soon as there is a subscriber; nothing if they pay for nothing.
    pub installs: Option<String>,
    /// How events can be handed to a subscriber, and for each what a crash of the server can undo.
    pub deliveries: BTreeMap<Delivery, String>,
    /// Why it hands events to no subscriber that remembers where it was; nothing if it does.
    pub no_follower: Option<String>,
    /// Why no other process resumes when that of a subscriber dies; nothing if one does.
    pub no_failover: Option<String>,
    /// The tables that events are inserted into, as SQL names them; none if they are not PostgreSQL's.
    pub tables: Vec<String>,
    /// Whether it has a server of its own, which `server FOLDER` starts.
    pub server: bool,
    /// What a reader of the figures has to know besides.
    pub notes: Vec<String>,
    /// What its maintainer would object to.
    pub objection: String,
}

/// What a subscriber may count on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// At least once: where it was is stored after many events.
    Batched,
    /// At least once: where it was is stored after each event.
    Each,
    /// Exactly once: where it was is committed with what the handler writes.
    Once,
}

/// How a contestant is set: the last argument of `serve`, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// By its documentation, or as fast as it can be had.
    pub way: Way,
    /// The size of its pool, if that is chosen for it.
    #[serde(default)]
    pub connections: Option<u32>,
    /// Whether there is, or may be, a subscriber.
    #[serde(default)]
    pub subscriber: bool,
}

/// See [`Settings::way`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// As its documentation has it before any tuning.
    Documented,
    /// The fastest that its public interface has.
    Fastest,
}

impl Settings {
    /// Whether it is the fastest way.
    #[must_use]
    pub fn is_fastest(&self) -> bool {
        self.way == Way::Fastest
    }

    /// The size of the pool: as chosen, or as its documentation has it.
    #[must_use]
    pub fn pool(&self, documented: u32) -> u32 {
        self.connections.unwrap_or(documented)
    }
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
        /// How long before anything counts, in seconds.
        warm_up: f64,
        /// For how long then.
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
        /// How long before anything counts, in seconds.
        warm_up: f64,
        /// For how long then.
        seconds: f64,
    },
    /// New subscribers, one after the other, from the beginning each: how many events they are handed.
    CatchUp {
        /// What their names begin with.
        id: String,
        /// What they may count on.
        delivery: Delivery,
        /// After how many events one makes room for the next.
        events: usize,
        /// How long before anything counts, in seconds.
        warm_up: f64,
        /// For how long then.
        seconds: f64,
    },
    /// Follow until `unfollow`. Answered at once.
    Follow {
        /// The subscriber's name.
        id: String,
        /// What it may count on.
        delivery: Delivery,
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
        /// Until so many were acknowledged in all.
        events: usize,
        /// But no longer than this.
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
    /// How often the store was asked to append, repetitions by the contestant included.
    pub attempts: u64,
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
