//! Leases, seen from any process.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::SubscriberOverview;
use crate::{Leader, LeaderHold};

/// How one lease stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseOverview {
    /// Its name.
    pub name: String,
    /// The present or last holder; `None` when none is known.
    pub holder: Option<Leader>,
    /// The number of the term that holds.
    pub term: u64,
    /// When it was last acquired.
    pub acquired_at: DateTime<Utc>,
}

impl LeaseOverview {
    /// Whether an instance holds it, or may do so where that cannot be told.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.hold != LeaderHold::Gone)
    }

    /// What an explanation of it says of a subscriber: there is nothing to handle.
    pub(crate) fn explained(&self) -> SubscriberOverview {
        SubscriberOverview {
            subscriber_id: self.name.clone(),
            lease: true,
            checkpoint: 0,
            checkpoint_at: self.acquired_at,
            term: self.term,
            lag_events: 0,
            lag: Duration::ZERO,
            held_back: false,
            leader: self.holder.clone(),
            paused: false,
            report: None,
            rate: 0.0,
            time_left: None,
            dead_letters: 0,
            parked_streams: 0,
            open_requests: 0,
            last_error: None,
            still_since: None,
        }
    }
}
