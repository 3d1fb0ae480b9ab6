//! `highwater pause`, `highwater resume`

use clap::Args;
use highwater::{Backend, EventBus, ReliableDeliveryConfig};
use serde_json::json;

use crate::arguments::Global;
use crate::database::with;
use crate::failure::Failure;

/// Pause a subscriber, wherever it runs
///
/// It finishes what it has in hand and goes no further, in all instances and also after a restart, until it is resumed.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  highwater pause projection:revenue")]
pub(crate) struct Pause {
    /// The subscriber
    subscriber: String,
}

/// Let a subscriber go on that was paused
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  highwater resume projection:revenue")]
pub(crate) struct Resume {
    /// The subscriber
    subscriber: String,
}

impl Pause {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let database = global.open().await?;
        with!(database, store => set(store, &self.subscriber, true, global).await)
    }
}

impl Resume {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let database = global.open().await?;
        with!(database, store => set(store, &self.subscriber, false, global).await)
    }
}

async fn set<B: Backend>(store: B, subscriber: &str, paused: bool, global: &Global) -> Result<(), Failure> {
    let bus = EventBus::new(store, ReliableDeliveryConfig::default());
    match paused {
        true => bus.pause(subscriber).await?,
        false => bus.resume(subscriber).await?,
    }
    let mut out = global.output();
    match (global.json, paused) {
        (true, _) => out.value(&json!({ "subscriber": subscriber, "paused": paused }))?,
        (false, true) => out.line(&format!("{subscriber} is paused; `highwater resume {subscriber}` lets it go on"))?,
        (false, false) => out.line(&format!("{subscriber} goes on"))?,
    }
    out.finish()
}
