//! Several instances: what only real processes, connections and servers can show.

mod cut_off;
mod forged;
mod frozen;
mod hard_times;
mod meddling;
mod outages;
mod outside;
mod poolers;
mod processes;
mod session;
mod spread;
mod worker;

use std::time::Duration;

use highwater::backend::{Leader, LeaderHold, Leadership};
use highwater::{CoordinatorConfig, InstanceMode, ReliableDeliveryConfig};
use highwater_postgres::PgEventStore;

use crate::bus::{batched, quick};

/// Instances that share the work, and find out soon who cannot be heard.
pub fn coordinated() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig {
        instance_mode: InstanceMode::Coordinated,
        coordination: CoordinatorConfig {
            takeover_bound: Duration::from_secs(1),
            standby_interval: Duration::from_millis(50),
            ..CoordinatorConfig::default()
        },
        ..quick()
    }
}

/// The same, where a silent one is taken over from after so long.
pub fn taken_over_after(bound: Duration) -> ReliableDeliveryConfig {
    let coordination = CoordinatorConfig { takeover_bound: bound, ..coordinated().coordination };
    ReliableDeliveryConfig { coordination, ..coordinated() }
}

pub fn coordinated_in_batches(size: usize) -> ReliableDeliveryConfig {
    ReliableDeliveryConfig { checkpoint_mode: batched(size).checkpoint_mode, ..coordinated() }
}

/// Who leads for a subscriber now.
pub async fn leader(store: &PgEventStore, subscriber_id: &str) -> Option<Leader> {
    let leaders = store.leaders().await.unwrap_or_default();
    leaders.into_iter().find(|leader| leader.subscriber_id == subscriber_id && leader.hold == LeaderHold::Held)
}
