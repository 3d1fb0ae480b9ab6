//! What can be wrong with a bus.

use std::fmt;
use std::time::Duration;

use super::unled;
use crate::log::{end_of_writers, named_writers};
use crate::{LockHolder, OpenWriter};

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The log does not answer.
    Unreachable {
        /// What it said.
        error: String,
    },
    /// A subscriber's task has ended by itself.
    Died {
        /// Which.
        subscriber_id: String,
    },
    /// A task that all subscribers share has ended by itself: the tail, the checkpoint writer, the reporter, or the one that
    /// looks for requests.
    ServiceDied,
    /// A subscriber has stopped in front of an event.
    Halted {
        /// Which.
        subscriber_id: String,
        /// Why.
        reason: String,
    },
    /// A subscriber cannot get at the store.
    Disconnected {
        /// Which.
        subscriber_id: String,
        /// What it was told.
        error: String,
    },
    /// A subscriber is further behind than it may be.
    Behind {
        /// Which.
        subscriber_id: String,
        /// By how many events at most.
        events: u64,
        /// For how long.
        lag: Duration,
        /// What it is doing.
        doing: &'static str,
    },
    /// A subscriber that another instance leads is further behind than it may be, by its stored checkpoint: that instance knows
    /// why, unless it has vanished in a way that leaves it the lock.
    LeaderBehind {
        /// Which.
        subscriber_id: String,
        /// By how many events at most.
        events: u64,
        /// For how long this has been seen to be so.
        lag: Duration,
    },
    /// Subscribers wait for open transactions that have drawn a number, or may have: what was committed after it cannot be
    /// delivered before they end.
    WritersOpen {
        /// For how long this has been seen to be so: zero at the first look.
        waiting: Duration,
        /// Which ones, as far as that may be seen.
        writers: Vec<OpenWriter>,
    },
    /// No instance has led for a subscriber for longer than
    /// [`takeover_bound`](crate::CoordinatorConfig::takeover_bound): a session holds its lock, and does not lead.
    NotLed {
        /// Which.
        subscriber_id: String,
        /// For how long this has been seen to be so.
        waiting: Duration,
        /// The session that holds the lock, as far as that can be seen.
        holders: Vec<LockHolder>,
    },
    /// A [live view](crate::LiveView) is not kept up to date: it cannot read the log at the moment, or it has stopped.
    View {
        /// The type of its state.
        view: &'static str,
        /// Which of the two, and why.
        reason: String,
    },
    /// A [live view](crate::LiveView) is kept up to date without events that it could not fold, as it
    /// [asked to](crate::ViewOptions::skip_failures).
    ViewSkipped {
        /// The type of its state.
        view: &'static str,
        /// How many are missing in it.
        events: u64,
        /// The last of them, and why.
        last: String,
    },
    /// A subscriber is paused.
    Paused {
        /// Which.
        subscriber_id: String,
    },
    /// Hints from other processes do not arrive: their events are found by polling.
    PushDegraded {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { error } => write!(f, "the log does not answer: {error}"),
            Self::Died { subscriber_id } => write!(f, "the task of {subscriber_id} has died; restart the process"),
            Self::ServiceDied => f.write_str("a task that all subscribers share has died; restart the process"),
            Self::Halted { subscriber_id, reason } => write!(f, "{subscriber_id} is halted: {reason}"),
            Self::Disconnected { subscriber_id, error } => {
                write!(f, "{subscriber_id} cannot get at the store: {error}")
            }
            Self::Behind { subscriber_id, events, lag, doing } => {
                write!(f, "{subscriber_id} is {events} events and {lag:.0?} behind ({doing})")
            }
            Self::LeaderBehind { subscriber_id, events, lag } => {
                write!(f, "{subscriber_id} is {events} events and {lag:.0?} behind, and another instance leads it; ")?;
                write!(f, "see what that one reports, and `highwater why {subscriber_id}`")
            }
            Self::WritersOpen { waiting, writers } => {
                write!(f, "for {waiting:.0?} committed events have been waiting for open transactions to end: ")?;
                write!(f, "{}; {}", named_writers(writers), end_of_writers(writers))
            }
            Self::NotLed { subscriber_id, waiting, holders } => {
                let who = unled::named(holders);
                write!(
                    f,
                    "for {waiting:.0?} no instance has led {subscriber_id}: {who} has its lock and does not lead; "
                )?;
                write!(f, "see what that is, and end it unless it is an instance that works")
            }
            Self::View { view, reason } => write!(f, "the live view {view}: {reason}"),
            Self::ViewSkipped { view, events, last } => {
                write!(f, "the live view {view} has skipped {events} events that it could not fold, the last: {last}")
            }
            Self::Paused { subscriber_id } => write!(f, "{subscriber_id} is paused"),
            Self::PushDegraded { reason } => {
                write!(f, "other processes' events are found by polling alone: {reason}")
            }
        }
    }
}
