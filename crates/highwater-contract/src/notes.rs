//! What the tests beside a backend share: notes to store, and patience with an end.

use std::time::Duration;

use highwater::backend::Log;
use highwater::{Append, CheckpointMode, EventStore, ExpectedVersion, ReliableDeliveryConfig};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// The events of these tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// Something was noted.
    Noted {
        /// What.
        text: String,
    },
    /// It was struck out again.
    Struck,
}

/// A note of a text.
pub fn note(text: impl Into<String>) -> Note {
    Note::Noted { text: text.into() }
}

/// An append of one event to a fresh stream.
#[must_use]
pub fn one() -> Append {
    Append::to(Uuid::now_v7()).event(note("one"))
}

/// An append of notes to a stream that must be new.
#[must_use]
pub fn new(texts: &[&str]) -> Append {
    let append = Append::to(Uuid::now_v7()).expecting(ExpectedVersion::NoStream);
    append.events(texts.iter().map(|text| note(*text)))
}

/// Stores one event in a stream of its own, and says where.
///
/// # Panics
/// When it cannot be stored.
pub async fn say<L: Log>(log: &L, text: &str) -> u64 {
    let stored = log.append(&Append::to(Uuid::now_v7()).event(note(text))).await;
    stored.expect("nothing speaks against a note").global_sequence
}

/// Every `global_sequence` there is, in the order a reader is given them.
///
/// # Panics
/// When they cannot be read.
pub async fn sequences<S: EventStore>(store: &S) -> Vec<u64> {
    let events = store.read_all_events_since::<Note>(0).collect().await.expect("there are notes, and nothing else");
    events.into_iter().map(|event| event.global_sequence.expect("it was read from a store")).collect()
}

/// Retries within milliseconds.
#[must_use]
pub fn quick() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig {
        initial_retry_delay: Duration::from_millis(2),
        max_retry_delay: Duration::from_millis(20),
        checkpoint_mode: CheckpointMode::Synchronous,
        ..ReliableDeliveryConfig::default()
    }
}

/// How often to do what is worth doing more often: `count` times, multiplied by `HIGHWATER_SOAK`.
#[must_use]
pub fn soak(count: usize) -> usize {
    count * std::env::var("HIGHWATER_SOAK").ok().and_then(|n| n.parse().ok()).unwrap_or(1).max(1)
}

/// Waits until a condition holds.
///
/// # Panics
/// When it does not within twenty seconds.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition().await {
        assert!(Instant::now() < deadline, "did not happen in time: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}
