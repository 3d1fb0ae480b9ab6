//! The event bus on PostgreSQL: what only a real server, real connections and real processes can show.

mod checkpoints;
mod dead_letters;
pub mod handlers;
mod killed;
mod lives;
mod ordering;
mod outages;
mod push;
pub mod recoveries;
mod setting_up;
mod spoiled;
mod strangers;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::backend::Log;
use highwater::{
    Append, BoxError, CheckpointMode, Event, Projection, ReliableDeliveryConfig, StateIs, SubscriberOptions,
    Subscription, SubscriptionState,
};
pub use highwater_contract::notes::{quick, say};
use highwater_postgres::{PgEventBus, PgEventStore};
use uuid::Uuid;

use crate::support::{Db, Note, eventually, note};

pub fn batched(size: usize) -> ReliableDeliveryConfig {
    ReliableDeliveryConfig {
        checkpoint_mode: CheckpointMode::Batched { size, interval: Duration::from_secs(1) },
        ..quick()
    }
}

/// A bus of its own over a store of its own, as another process would have it.
pub async fn bus(db: &Db, config: ReliableDeliveryConfig) -> PgEventBus {
    PgEventBus::with_config(db.store().await, config)
}

/// Writes down what it is handed, and fails as it is told to.
#[derive(Default)]
pub struct Recorder {
    id: String,
    options: SubscriberOptions,
    seen: Mutex<Vec<(u64, String)>>,
    /// How often an event with this text still fails.
    fails: Mutex<HashMap<String, u32>>,
}

impl Recorder {
    pub fn new(id: &str) -> Arc<Self> {
        Self::with(id, SubscriberOptions::default())
    }

    pub fn with(id: &str, options: SubscriberOptions) -> Arc<Self> {
        Arc::new(Self { id: id.to_owned(), options, ..Self::default() })
    }

    pub fn fail(&self, text: &str, times: u32) {
        self.fails.lock().unwrap().insert(text.to_owned(), times);
    }

    pub fn texts(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(_, text)| text.clone()).collect()
    }

    pub fn sequences(&self) -> Vec<u64> {
        self.seen.lock().unwrap().iter().map(|(sequence, _)| *sequence).collect()
    }
}

impl Projection<Note> for Recorder {
    const STATE: StateIs = StateIs::Nothing;

    fn subscriber_id(&self) -> &str {
        &self.id
    }

    fn options(&self) -> SubscriberOptions {
        self.options.clone()
    }

    async fn apply(&self, event: &Event<Note>) -> Result<(), BoxError> {
        let Note::Noted { text } = &event.data else { return Ok(()) };
        if let Some(left) = self.fails.lock().unwrap().get_mut(text)
            && *left > 0
        {
            *left -= 1;
            return Err(format!("{text} fails").into());
        }
        self.seen.lock().unwrap().push((event.global_sequence.unwrap(), text.clone()));
        Ok(())
    }
}

/// Stores many events, each in a stream of its own, in a few appends.
pub async fn say_many(store: &PgEventStore, count: usize) {
    for chunk in (0..count).collect::<Vec<_>>().chunks(1_000) {
        let first = Append::to(Uuid::now_v7()).event(note(chunk[0].to_string()));
        let add = |append: Append, n: &usize| append.and_to(Uuid::now_v7()).event(note(n.to_string()));
        let append = chunk.iter().skip(1).fold(first, add);
        store.append(&append).await.unwrap();
    }
}

pub async fn until(subscription: &Subscription, wanted: fn(&SubscriptionState) -> bool) {
    eventually("the subscriber is in that state", async || wanted(&subscription.state())).await;
}
