//! Whether everything is healthy, for probes.

use std::collections::HashMap;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::{Bus, Problem, live_view};
use crate::delivery::status::Ends;
use crate::lock::lock;
use crate::overview::ends;
use crate::{Error, Progress, SubscriptionState, chain};

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

    /// For readiness: every subscriber is led, those led here are where the log is, or close behind, and the log answers. The
    /// transaction that holds readers back is named at once, and counts when a subscriber has fallen behind because of it for
    /// longer than it may.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.problems.iter().all(|problem| {
            matches!(
                problem,
                Problem::PushDegraded { .. }
                    | Problem::Paused { .. }
                    | Problem::WritersOpen { .. }
                    | Problem::LeaderBehind { .. }
                    | Problem::ViewSkipped { .. }
            )
        })
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
        let unled = self.unled().await;
        let is_unled = |id: &str| {
            unled.iter().any(|problem| matches!(problem, Problem::NotLed { subscriber_id, .. } if subscriber_id == id))
        };
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
            let lag_max = entry.config.healthy_lag_max;
            problems.extend(problem(&subscriber_id, &progress, lag_max).filter(|found| {
                // It has none.
                !(matches!(found, Problem::LeaderBehind { .. }) && is_unled(&subscriber_id))
            }));
            if ends.is_some() {
                subscribers.push((subscriber_id, progress));
            }
        }
        problems.extend(self.inner.state().views.values().flat_map(live_view::ViewEntry::problems));
        problems.extend(unled);
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
    let (events, lag) = (progress.lag_events, progress.lag);
    let is_behind = events > 0 && lag > lag_max;
    match &progress.state {
        SubscriptionState::Halted { reason } => Some(Problem::Halted { subscriber_id, reason: reason.to_string() }),
        SubscriptionState::Disconnected { error } => {
            Some(Problem::Disconnected { subscriber_id, error: error.to_string() })
        }
        SubscriptionState::Paused => Some(Problem::Paused { subscriber_id }),
        // Why is for the leader to say, if it still can: this instance is ready to take over, and no restart of it would help.
        SubscriptionState::Standby { .. } => {
            (is_behind && !progress.is_held_back()).then_some(Problem::LeaderBehind { subscriber_id, events, lag })
        }
        state if is_behind => {
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
