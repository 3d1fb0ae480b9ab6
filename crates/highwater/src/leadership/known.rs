//! Who leads what an instance waits for, as far as that is known to it.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::guard::Name;
use super::{Leader, LeaderHold};

/// The leaders, as of the last query.
#[derive(Default)]
pub(super) struct Known {
    pub(super) leaders: HashMap<String, Leader>,
    pub(super) at: Option<Instant>,
    /// What is waited for here and has no leader, and since when it was found so every time.
    pub(super) unled: HashMap<Name, Instant>,
}

impl Known {
    /// Records the answer. What the instance `own` waits for has no leader although that instance is recorded as its leader: a
    /// session that it lost is still there, and keeps the lock.
    pub(super) fn learn(&mut self, leaders: Vec<Leader>, awaited: Vec<Name>, own: Uuid) {
        let now = Instant::now();
        self.leaders = leaders.into_iter().map(|leader| (leader.subscriber_id.clone(), leader)).collect();
        for name in &awaited {
            if let Some(leader) = self.leaders.get_mut(&**name).filter(|leader| leader.instance.id == own) {
                leader.hold = LeaderHold::Gone;
            }
        }
        let is_led = |name: &Name| self.leaders.get(&**name).is_some_and(|leader| leader.hold == LeaderHold::Held);
        self.unled.retain(|name, _| !is_led(name));
        for name in awaited.into_iter().filter(|name| !is_led(name)) {
            self.unled.entry(name).or_insert(now);
        }
        self.at = Some(now);
    }

    /// For how long a subscriber has had no leader, as of the last query.
    pub(super) fn unled_for(&self, subscriber_id: &str) -> Option<Duration> {
        let since = self.unled.get(subscriber_id)?;
        Some(self.at?.saturating_duration_since(*since))
    }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::*;
    use crate::Instance;

    #[tokio::test(start_paused = true)]
    async fn a_lock_that_this_instance_holds_and_does_not_lead_with_is_no_leadership() {
        let (own, other) = (Instance::here(None), Instance::here(None));
        let leader = |instance: &Instance| Leader {
            subscriber_id: "projection:a".to_owned(),
            instance: instance.clone(),
            since: Utc::now(),
            term: 7,
            hold: LeaderHold::Held,
        };
        let second = Duration::from_secs(1);
        let mut known = Known::default();
        let mut learn_later = async |leaders: Vec<Leader>, awaited: &[&str]| {
            tokio::time::advance(second).await;
            known.learn(leaders, awaited.iter().map(|name| (*name).into()).collect(), own.id);
            (known.unled_for("projection:a"), known.leaders["projection:a"].hold)
        };
        assert_eq!(learn_later(vec![leader(&other)], &["projection:a"]).await, (None, LeaderHold::Held));
        assert_eq!(learn_later(vec![leader(&own)], &[]).await, (None, LeaderHold::Held), "it leads");
        let lost = learn_later(vec![leader(&own)], &["projection:a"]).await;
        assert_eq!(lost, (Some(Duration::ZERO), LeaderHold::Gone));
        assert_eq!(learn_later(vec![leader(&own)], &["projection:a"]).await, (Some(second), LeaderHold::Gone));
        assert_eq!(learn_later(vec![leader(&other)], &["projection:a"]).await, (None, LeaderHold::Held));
    }
}
