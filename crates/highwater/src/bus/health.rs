//! Whether everything is healthy, for probes.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::{Bus, live_view, unled};
use crate::delivery::status::Ends;
use crate::lock::lock;
use crate::log::named_writers;
use crate::overview::ends;
use crate::{Error, LockHolder, OpenWriter, Progress, SubscriptionState, chain};

/// How long the log may take to answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// What is known about the health of a bus.
#[derive(Debug, Clone)]
pub struct Health {
    /// Everything that is wrong, the worst first.
    pub problems: Vec<Problem>,
    /// Where every subscriber is; empty when the log cannot be asked.
    pub subscribers: Vec<(String, Progress)>,
}

impl Health {
    /// For liveness: false when restarting the process could help, because a task has died.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.problems.iter().any(|problem| matches!(problem, Problem::Died { .. } | Problem::ServiceDied))
    }

    /// For readiness: every subscriber is where the log is, or close behind, and the log answers. The transaction that holds
    /// readers back is named at once, and counts when a subscriber has fallen behind because of it for longer than it may.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.problems.iter().all(|problem| {
            matches!(
                problem,
                Problem::PushDegraded { .. }
                    | Problem::Paused { .. }
                    | Problem::WritersOpen { .. }
                    | Problem::ViewSkipped { .. }
            )
        })
    }
}

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
            Self::WritersOpen { waiting, writers } => {
                write!(f, "for {waiting:.0?} committed events have been waiting for open transactions to end: ")?;
                write!(f, "{}; have them committed or rolled back, or end their processes", named_writers(writers))
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

impl Bus {
    /// Asks the log where it is settled, compares, and names everything that is wrong. Never fails: that the log does not
    /// answer is one of the things that can be wrong.
    pub async fn health(&self) -> Health {
        let mut problems = Vec::new();
        let mut elsewhere = HashMap::new();
        let ends = match tokio::time::timeout(ANSWER_TIMEOUT, self.read_ends(&mut problems)).await {
            Ok(Ok((ends, found))) => {
                elsewhere = found;
                Some(ends)
            }
            Ok(Err(error)) => {
                problems.push(Problem::Unreachable { error: chain(&error) });
                None
            }
            Err(_) => {
                problems.push(Problem::Unreachable { error: format!("no answer within {ANSWER_TIMEOUT:?}") });
                None
            }
        };
        if let Some(error) = self.inner.shared.tail.error().filter(|_| ends.is_some()) {
            problems.push(Problem::Unreachable { error });
        }
        if self.inner.state().services.iter().any(JoinHandle::is_finished) {
            problems.push(Problem::ServiceDied);
        }
        let push_degraded = self.backend().push_degraded();
        let mut subscribers = Vec::new();
        for subscription in self.subscriptions() {
            let Some(entry) = self.inner.entry(subscription.subscriber_id()) else { continue };
            let subscriber_id = entry.id.to_string();
            if entry.has_died() {
                problems.push(Problem::Died { subscriber_id: subscriber_id.clone() });
            }
            // Without an answer of the log nothing is known of the lag, and nothing is forgotten of it.
            let status = || entry.status.borrow().progress(Ends::default(), Duration::ZERO);
            let stored = elsewhere.get(&subscriber_id).copied();
            let progress = ends.map_or_else(status, |ends| entry.progress(ends, stored));
            let state = self.told(&subscriber_id, progress.state.clone());
            let progress = Progress { state, push_degraded: push_degraded.clone(), ..progress };
            problems.extend(problem(&subscriber_id, &progress, entry.config.healthy_lag_max));
            if ends.is_some() {
                subscribers.push((subscriber_id, progress));
            }
        }
        problems.extend(self.inner.state().views.values().flat_map(live_view::ViewEntry::problems));
        problems.extend(self.unled().await);
        problems.extend(push_degraded.map(|reason| Problem::PushDegraded { reason }));
        Health { problems, subscribers }
    }

    /// Where the log ends, and how far subscribers are that other instances process for. Also finds the transactions that
    /// hold readers back.
    async fn read_ends(&self, problems: &mut Vec<Problem>) -> Result<(Ends, HashMap<String, u64>), Error> {
        let store = self.backend();
        let mut elsewhere = HashMap::new();
        if self.inner.state().entries.values().any(|entry| !entry.leads()) {
            let found = store.checkpoints().await?.into_iter();
            elsewhere = found.map(|found| (found.subscriber_id, found.global_sequence)).collect();
        }
        // Of the others what they say themselves counts.
        elsewhere.retain(|id, _| self.inner.entry(id).is_some_and(|entry| !entry.leads()));
        let ends = ends(store).await?;
        let waiting = {
            let mut unsettled = lock(&self.inner.unsettled);
            unsettled.seen(ends.frontier, ends.head)
        };
        if ends.head > ends.frontier {
            let writers = store.open_writers().await?;
            if !writers.is_empty() {
                problems.push(Problem::WritersOpen { waiting, writers });
            }
        }
        Ok((ends, elsewhere))
    }
}

fn problem(subscriber_id: &str, progress: &Progress, lag_max: Duration) -> Option<Problem> {
    let subscriber_id = subscriber_id.to_owned();
    match &progress.state {
        SubscriptionState::Halted { reason } => Some(Problem::Halted { subscriber_id, reason: reason.to_string() }),
        SubscriptionState::Disconnected { error } => {
            Some(Problem::Disconnected { subscriber_id, error: error.to_string() })
        }
        SubscriptionState::Paused => Some(Problem::Paused { subscriber_id }),
        // That is for the instance that leads to say: this one is ready to take over, and no restart of it would help.
        SubscriptionState::Standby { .. } => None,
        state if progress.lag_events > 0 && progress.lag > lag_max => {
            let (events, lag) = (progress.lag_events, progress.lag);
            let doing = if progress.is_held_back() { "held back by open transactions" } else { state.name() };
            Some(Problem::Behind { subscriber_id, events, lag, doing })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, MemoryEventBus, MemoryEventStore, observer_fn};

    #[derive(serde::Deserialize)]
    enum Nothing {}

    #[tokio::test]
    async fn a_task_that_all_share_and_that_has_died_asks_for_a_restart() {
        let bus = MemoryEventBus::new(MemoryEventStore::new());
        bus.subscribe(observer_fn("projection:x", |_: Event<Nothing>| async { Ok(()) }))
            .await
            .expect("it can subscribe");
        assert!(bus.health().await.is_live());
        for service in &bus.inner.state().services {
            service.abort();
        }
        while bus.inner.state().services.iter().any(|service| !service.is_finished()) {
            tokio::task::yield_now().await;
        }
        let health = bus.health().await;
        assert!(!health.is_live() && health.problems.contains(&Problem::ServiceDied), "{health:?}");
    }
}
