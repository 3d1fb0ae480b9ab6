//! Who appends and who subscribes in these tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use highwater::backend::{Backend, Transactional};
use highwater::{
    Append, BoxError, CheckpointMode, Event, EventBus, FailurePolicy, InstanceMode, ReliableDeliveryConfig,
    SubscriberOptions, Subscription, observer_fn, stream_id,
};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _};

use crate::support::{Place, Postgres};

/// The events of these tests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Note {
    Noted { text: String },
    Struck,
}

/// Appends one event to a stream of its own and says where it is.
pub async fn say(store: &dyn Backend, stream: &str, text: &str) -> u64 {
    let append = Append::to(stream_id("note", stream)).event(Note::Noted { text: text.to_owned() });
    store.append(&append).await.unwrap().global_sequence
}

/// How the subscribers of these tests are delivered to.
pub fn coordinated() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig {
        instance_mode: InstanceMode::Coordinated,
        checkpoint_mode: CheckpointMode::Synchronous,
        max_retries: 0,
        initial_retry_delay: Duration::from_millis(1),
        retry_jitter: 0.0,
        ..ReliableDeliveryConfig::default()
    }
}

/// Subscribes something that fails on what says "bad", unless it has been fixed.
pub async fn picky<B: Transactional>(bus: &EventBus<B>, on_failure: FailurePolicy, fixed: &Fixed) -> Subscription {
    let fixed = fixed.clone();
    let observer = observer_fn("projection:picky", move |event: Event<Note>| {
        let fixed = fixed.clone();
        async move {
            match &event.data {
                Note::Noted { text } if text.starts_with("bad") && !fixed.is() => Err(BoxError::from("too bad")),
                _ => Ok(()),
            }
        }
    });
    bus.subscribe(observer.with_options(SubscriberOptions::new().on_failure(on_failure))).await.unwrap()
}

/// Whether what was bad is good now.
#[derive(Debug, Clone, Default)]
pub struct Fixed(Arc<AtomicBool>);

impl Fixed {
    pub fn is(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    pub fn now(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Counts.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub fn clear(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A transaction that has drawn a number and not ended.
pub async fn open_writer(place: &Place<Postgres>) -> PgConnection {
    let options: PgConnectOptions = place.url.parse().unwrap();
    let mut holder: PgConnection = options.application_name("nightly-import").connect().await.unwrap();
    let insert = format!(
        "BEGIN; INSERT INTO \"{}\".events (id, stream_id, stream_version, event_type, data)
         VALUES (gen_random_uuid(), gen_random_uuid(), 1, 'Struck', 'null')",
        place.schema
    );
    sqlx::raw_sql(AssertSqlSafe(insert)).execute(&mut holder).await.unwrap();
    holder
}
