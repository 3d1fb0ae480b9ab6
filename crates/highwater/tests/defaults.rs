//! What an application gets that changes no setting.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::operations::DeadLetterQuery;
use highwater::prelude::*;
use highwater::{EventBus, GlobalSequence, MemoryTx, TransactionalProjection};
use highwater_contract::{Call, Flaky, Verdict};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
enum Note {
    Noted(usize),
}

/// A store with so many events, and the number of the last.
async fn filled(events: usize) -> (MemoryEventStore, u64) {
    let store = MemoryEventStore::new();
    let append = Append::to(stream_id("note", "1")).events((0..events).map(Note::Noted));
    let last = store.append(&append).await.unwrap().global_sequence;
    (store, last)
}

#[tokio::test]
async fn catching_up_costs_few_checkpoints_and_the_last_event_is_covered_at_once() {
    let (store, last) = filled(10_000).await;
    let stored = Arc::new(AtomicUsize::new(0));
    let counting = {
        let stored = stored.clone();
        Flaky::new(store.clone(), move |call| {
            if let Call::StoreCheckpoints(writes) = call {
                stored.fetch_add(writes.len(), Ordering::SeqCst);
            }
            Verdict::Through
        })
    };
    let bus = EventBus::new(counting);
    let observer = observer_fn("projection:defaults", |_: Event<Note>| async { Ok(()) });
    bus.subscribe(observer).await.unwrap().caught_up().await.unwrap();
    bus.wait_for("projection:defaults", GlobalSequence(last)).await.unwrap();
    let checkpoints = stored.load(Ordering::SeqCst);
    assert!((3..=100).contains(&checkpoints), "{checkpoints} checkpoints for 10,000 events");
    let one_more = Append::to(stream_id("note", "2")).event(Note::Noted(0));
    let next = store.append(&one_more).await.unwrap().global_sequence;
    bus.wait_for("projection:defaults", GlobalSequence(next)).await.unwrap();
    bus.shutdown().await.unwrap();
    let checkpoints = stored.load(Ordering::SeqCst) - checkpoints;
    assert!((1..=2).contains(&checkpoints), "{checkpoints} checkpoints for one event that came alone");
}

#[tokio::test]
async fn a_caller_that_waits_for_a_busy_subscriber_waits_for_the_interval_and_not_for_the_batch() {
    let (store, last) = filled(2_000).await;
    let first = last - 1_999;
    let handled = Arc::new(AtomicUsize::new(0));
    let observer = {
        let handled = handled.clone();
        observer_fn("projection:slow", move |_: Event<Note>| {
            handled.fetch_add(1, Ordering::SeqCst);
            async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok(())
            }
        })
    };
    let bus = MemoryEventBus::new(store);
    bus.subscribe(observer).await.unwrap();
    bus.wait_for("projection:slow", GlobalSequence(first)).await.unwrap();
    let handled = handled.load(Ordering::SeqCst);
    assert!(handled < 500, "half a batch of slow events was waited for: {handled}");
    bus.shutdown().await.unwrap();
}

/// A projection whose events take a while each. Remembers how many it was given at once.
#[derive(Default)]
struct Slow {
    batches: Mutex<Vec<usize>>,
}

impl TransactionalProjection<Note, MemoryTx> for Slow {
    fn subscriber_id(&self) -> &str {
        "projection:slow"
    }

    async fn apply(&self, _: &mut MemoryTx, _: &Event<Note>) -> Result<(), BoxError> {
        self.batches.lock().unwrap().push(1);
        tokio::time::sleep(Duration::from_millis(4)).await;
        Ok(())
    }

    async fn apply_batch(&self, _: &mut MemoryTx, events: &[Event<Note>]) -> Result<(), BoxError> {
        self.batches.lock().unwrap().push(events.len());
        for _ in events {
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_slow_handler_gets_short_transactions() {
    let (store, last) = filled(200).await;
    let slow = Arc::new(Slow::default());
    let bus = MemoryEventBus::new(store);
    bus.subscribe(slow.clone()).await.unwrap();
    bus.wait_for("projection:slow", GlobalSequence(last)).await.unwrap();
    bus.shutdown().await.unwrap();
    let batches = slow.batches.lock().unwrap();
    assert_eq!(batches.iter().sum::<usize>(), 200, "{batches:?}");
    assert!(batches[0] <= 64 && batches[1..].iter().all(|events| *events <= 25), "{batches:?}");
}

#[tokio::test]
async fn a_limit_on_handlers_is_not_used_up_by_the_size_of_a_batch() {
    let (store, last) = filled(200).await;
    let slow = Arc::new(Slow::default());
    let handler_timeout = Some(Duration::from_millis(120));
    let config = ReliableDeliveryConfig { handler_timeout, ..ReliableDeliveryConfig::default() };
    let bus = MemoryEventBus::with_config(store, config);
    bus.subscribe(slow.clone()).await.unwrap();
    let waited = bus.wait_for("projection:slow", GlobalSequence(last)).await.unwrap();
    let dead_letters = bus.dead_letters().list(&DeadLetterQuery::of("projection:slow")).await.unwrap();
    bus.shutdown().await.unwrap();
    assert!(waited.dead_letter.is_none() && dead_letters.is_empty(), "{dead_letters:?}");
    let batches = slow.batches.lock().unwrap();
    let too_long = batches.iter().filter(|events| **events > 30).count();
    assert!(too_long <= 1, "only the first can be too long, before anything is known: {batches:?}");
}
