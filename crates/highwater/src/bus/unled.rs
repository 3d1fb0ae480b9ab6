//! Subscribers without a leader although an instance would lead.

use std::time::Duration;

use super::Bus;
use super::health::ANSWER_TIMEOUT;
use crate::{LockHolder, Problem};

impl Bus {
    /// Those that have been waited for here for longer than a takeover may take, with the holder of the lock.
    pub(super) async fn unled(&self) -> Vec<Problem> {
        let unled = self.subscriptions().into_iter().filter(|it| it.state().is_standby()).filter_map(|it| {
            let id = it.subscriber_id().to_owned();
            self.inner.shared.coordinator.unled_for(&id).map(|waiting| (id, waiting))
        });
        let unled: Vec<(String, Duration)> = unled.collect();
        if unled.is_empty() {
            return Vec::new();
        }
        let ids: Vec<String> = unled.iter().map(|(id, _)| id.clone()).collect();
        // A missing leader is worth reporting also when the holder of the lock is unknown.
        let holders = match tokio::time::timeout(ANSWER_TIMEOUT, self.backend().lock_holders(&ids)).await {
            Ok(Ok(holders)) => holders,
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot see which sessions hold the locks of subscribers without a leader");
                Vec::new()
            }
            Err(_) => Vec::new(),
        };
        let problem = |(subscriber_id, waiting): (String, Duration)| {
            let holders = holders.iter().filter(|holder| holder.subscriber_id == subscriber_id).cloned().collect();
            Problem::NotLed { subscriber_id, waiting, holders }
        };
        unled.into_iter().map(problem).collect()
    }
}

/// All of them in a row.
pub(crate) fn named(holders: &[LockHolder]) -> String {
    if holders.is_empty() {
        return "something that cannot be seen".to_owned();
    }
    holders.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
