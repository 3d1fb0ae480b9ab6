//! What the tests of the engine share.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::prelude::*;
use serde::{Deserialize, Serialize};

/// The events of these tests.
#[derive(Debug, Serialize, Deserialize)]
pub enum Note {
    Noted(String),
    Struck,
}

/// Everything within milliseconds.
pub fn quick() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig {
        initial_retry_delay: Duration::from_millis(1),
        max_retry_delay: Duration::from_millis(5),
        poll_interval: Duration::from_millis(20),
        checkpoint_mode: CheckpointMode::Synchronous,
        ..ReliableDeliveryConfig::default()
    }
}

pub async fn say(store: &MemoryEventStore, text: &str) -> u64 {
    let append = Append::to(stream_id("note", text)).event(Note::Noted(text.to_owned()));
    store.append(&append).await.unwrap().global_sequence
}

/// Waits until a condition holds; fails after ten seconds.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "did not happen in time: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

/// Writes down what is logged: level and message.
#[derive(Debug, Clone, Default)]
pub struct Listener(Arc<Mutex<Vec<(tracing::Level, String)>>>);

impl Listener {
    /// How often something was said.
    pub fn count(&self, level: tracing::Level, part: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|(at, said)| *at == level && said.contains(part)).count()
    }
}

struct Message<'a>(&'a mut String);

impl tracing::field::Visit for Message<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            *self.0 = format!("{value:?}");
        }
    }
}

impl tracing::Subscriber for Listener {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("highwater")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut message = String::new();
        event.record(&mut Message(&mut message));
        self.0.lock().unwrap().push((*event.metadata().level(), message));
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}
