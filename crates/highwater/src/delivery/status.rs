//! What a subscriber shows of itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::{Filter, Leader};

/// What a subscriber is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscriptionState {
    /// It gets the right to process, and its checkpoint.
    Starting,
    /// Another instance processes. This one takes over when that stops.
    Standby {
        /// The leader, as far as that is known here.
        leader: Option<Leader>,
    },
    /// It leads, is behind, and reads by itself.
    CatchingUp {
        /// The number of its term.
        term: u64,
    },
    /// It leads, is where the log is, and gets events as they come.
    Live {
        /// The number of its term.
        term: u64,
    },
    /// An event failed and will be retried.
    Retrying {
        /// The number of its term.
        term: u64,
        /// The event's place in the log.
        global_sequence: u64,
        /// How often it has failed.
        failures: u32,
        /// When it is retried.
        next_at: DateTime<Utc>,
        /// What it failed with.
        error: Arc<str>,
    },
    /// The store cannot be reached, or fails. The subscriber retries until it works.
    Disconnected {
        /// What it said.
        error: Arc<str>,
    },
    /// An operator paused it.
    Paused,
    /// It has stopped in front of an event, and waits to be resumed; or its tables are of another version than its code, and it
    /// waits to be rebuilt.
    Halted {
        /// Why.
        reason: Arc<str>,
    },
    /// It has been unsubscribed or shut down.
    Stopped,
}

impl SubscriptionState {
    /// Its name in a word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Standby { .. } => "standby",
            Self::CatchingUp { .. } => "catching up",
            Self::Live { .. } => "live",
            Self::Retrying { .. } => "retrying",
            Self::Disconnected { .. } => "disconnected",
            Self::Paused => "paused",
            Self::Halted { .. } => "halted",
            Self::Stopped => "stopped",
        }
    }

    /// The number of the term that it leads with, while it processes.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        match self {
            Self::CatchingUp { term } | Self::Live { term } | Self::Retrying { term, .. } => Some(*term),
            _ => None,
        }
    }

    /// Whether it leads and is where the log is.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Live { .. })
    }

    /// Whether another instance processes.
    #[must_use]
    pub fn is_standby(&self) -> bool {
        matches!(self, Self::Standby { .. })
    }
}

/// How far a subscriber is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// What it is doing.
    pub state: SubscriptionState,
    /// Where a restart would continue.
    pub checkpoint: u64,
    /// Up to where it has handled everything.
    pub position: u64,
    /// Up to where the log is settled.
    pub frontier: u64,
    /// The highest committed event, settled or not.
    pub head: u64,
    /// How many numbers lie between its position and the highest committed event: at most so many events.
    pub lag_events: u64,
    /// For how long it has been behind: the age of the oldest event that it has not handled, as far as that is known.
    pub lag: Duration,
    /// Events that it handled per second, lately.
    pub rate: f64,
    /// How long it will take at this rate; none when that is unknown, or when it is held back.
    pub time_left: Option<Duration>,
    /// The last error of its handler, if it ever had one.
    pub last_error: Option<Arc<str>>,
    /// Why events of other processes are found by polling alone at the moment; `None` when they are pushed.
    pub push_degraded: Option<String>,
}

impl Progress {
    /// Whether it has handled everything that is settled, and what is committed beyond that waits for transactions that
    /// are open: [`open_writers`](crate::backend::Log::open_writers) names them, and so does [`health`](crate::Bus::health).
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        self.lag_events > 0 && self.position >= self.frontier
    }
}

/// What the driver tells.
#[derive(Debug, Clone)]
pub(crate) struct Status {
    pub(crate) state: SubscriptionState,
    pub(crate) handled: u64,
    pub(crate) stored: u64,
    pub(crate) rate: f64,
    /// Whether it leads: if not, only what is stored tells where it is.
    pub(crate) leads: bool,
    /// Whether the tables are those that its code is written for, as far as it leads.
    pub(crate) is_set_up: bool,
    /// The term it has, as far as it knows: also while it checks whether that still holds.
    pub(crate) term: Option<u64>,
    /// The life of the log that `handled` is of, while it leads.
    pub(crate) life: Option<u64>,
    /// When this was last reported.
    pub(crate) at: Instant,
    /// When the event in front was made.
    pub(crate) front_at: Option<DateTime<Utc>>,
    pub(crate) last_error: Option<Arc<str>>,
    /// Which events it reads, and after which position it began to, with the term it has.
    pub(crate) reads: Option<(Arc<Filter>, u64)>,
}

impl Status {
    pub(crate) fn new() -> Self {
        Self {
            state: SubscriptionState::Starting,
            handled: 0,
            stored: 0,
            rate: 0.0,
            leads: false,
            is_set_up: false,
            term: None,
            life: None,
            at: Instant::now(),
            front_at: None,
            last_error: None,
            reads: None,
        }
    }

    /// `behind`: for how long the caller has seen it behind.
    pub(crate) fn progress(&self, ends: Ends, behind: Duration) -> Progress {
        let Ends { frontier, head } = ends;
        let lag_events = head.saturating_sub(self.handled);
        let age = |at: DateTime<Utc>| (Utc::now() - at).to_std().unwrap_or_default();
        // A subscriber that has not reported for a while handles nothing.
        let rate = if self.at.elapsed() > 2 * Rate::WINDOW { 0.0 } else { self.rate };
        let seconds = lag_events as f64 / rate;
        let progress = Progress {
            state: self.state.clone(),
            checkpoint: self.stored,
            position: self.handled,
            // While writers are open that were not seen to begin, the log may say less than is known here.
            frontier: frontier.max(self.handled),
            head,
            lag_events,
            lag: if lag_events == 0 { Duration::ZERO } else { self.front_at.map_or(behind, age).max(behind) },
            rate,
            time_left: if lag_events == 0 { Some(Duration::ZERO) } else { Duration::try_from_secs_f64(seconds).ok() },
            last_error: self.last_error.clone(),
            push_degraded: None,
        };
        let time_left = progress.time_left.filter(|_| !progress.is_held_back());
        Progress { time_left, ..progress }
    }
}

/// Where a log ends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ends {
    /// Up to where it is settled.
    pub(crate) frontier: u64,
    /// The highest committed event.
    pub(crate) head: u64,
}

/// For how long a position has been short of its target, at each look.
#[derive(Debug, Default)]
pub(crate) struct Short {
    since: Option<(Instant, u64)>,
}

impl Short {
    /// A subscriber that has passed the target of the first look has progressed, and is short of the next one only from now
    /// on: under constant writing something is always just out of reach.
    pub(crate) fn seen(&mut self, reached: u64, target: u64) -> Duration {
        match self.since {
            _ if reached >= target => self.since = None,
            Some((since, wanted)) if reached < wanted => return since.elapsed(),
            _ => self.since = Some((Instant::now(), target)),
        }
        Duration::ZERO
    }
}

/// How fast a checkpoint moves that another instance stores: measured at each query.
#[derive(Debug, Default)]
pub(crate) struct CheckpointRate {
    before: Option<(Instant, u64)>,
    rate: f64,
}

impl CheckpointRate {
    /// Numbers per second, over the time between two looks of which each was a while after the one before.
    pub(crate) fn seen(&mut self, checkpoint: u64) -> f64 {
        let now = Instant::now();
        match self.before {
            Some((then, _)) if now - then < Rate::WINDOW / 4 => {}
            Some((then, before)) => {
                self.rate = checkpoint.saturating_sub(before) as f64 / (now - then).as_secs_f64();
                self.before = Some((now, checkpoint));
            }
            None => self.before = Some((now, checkpoint)),
        }
        self.rate
    }
}

/// Events per second, over about the last two seconds.
#[derive(Debug)]
pub(crate) struct Rate {
    since: Instant,
    events: u64,
    rate: f64,
}

impl Rate {
    const WINDOW: Duration = Duration::from_secs(1);

    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), events: 0, rate: 0.0 }
    }

    pub(crate) fn add(&mut self, events: usize) {
        self.events += events as u64;
    }

    pub(crate) fn per_second(&mut self, now: Instant) -> f64 {
        let elapsed = now.duration_since(self.since);
        if elapsed >= Self::WINDOW {
            self.rate = self.events as f64 / elapsed.as_secs_f64();
            (self.since, self.events) = (now, 0);
        } else if self.rate == 0.0 && !elapsed.is_zero() {
            return self.events as f64 / elapsed.as_secs_f64();
        }
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_counts_against_what_is_committed() {
        let status = Status { handled: 10, rate: 5.0, ..Status::new() };
        let held_back = status.progress(Ends { frontier: 10, head: 20 }, Duration::ZERO);
        assert_eq!((held_back.lag_events, held_back.time_left, held_back.is_held_back()), (10, None, true));
        let behind = status.progress(Ends { frontier: 15, head: 20 }, Duration::ZERO);
        assert_eq!((behind.lag_events, behind.is_held_back()), (10, false));
        assert_eq!(behind.time_left, Some(Duration::from_secs(2)));
        let there = status.progress(Ends { frontier: 0, head: 10 }, Duration::ZERO);
        assert_eq!((there.frontier, there.lag_events, there.is_held_back()), (10, 0, false));
    }

    #[test]
    fn who_moves_on_is_not_behind_for_longer_and_longer() {
        let mut short = Short::default();
        let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        short.since = Some((long_ago, 20));
        assert!(short.seen(10, 30) >= Duration::from_secs(60), "it has not got to what was there first");
        assert_eq!(short.seen(20, 30), Duration::ZERO, "it has, and is short of something newer");
        assert_eq!(short.seen(30, 30), Duration::ZERO);
        assert!(short.since.is_none());
    }
}
