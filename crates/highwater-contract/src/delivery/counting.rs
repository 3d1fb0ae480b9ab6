//! Exactly once, in transactional projections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use highwater::operations::DeadLetterQuery;
use highwater::{BoxError, Event, GlobalSequence, SubscriberOptions, TransactionalProjection};

use super::players::{Act, Counter, batched, bus, end, fill};
use crate::dead_letters::{found, places};
use crate::support::{Ledger, delivered, new_stream};
use crate::transactions::Tx;
use crate::{Call, Flaky, Harness, Settings, Verdict};

pub(crate) async fn a_lost_answer_counts_nothing_twice<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 40).await;
    for (name, size) in [("projection:single", 1), ("projection:batches", 10)] {
        let commits = AtomicU32::new(0);
        let rough = Flaky::new(store.clone(), move |call| match call {
            Call::Commit(..) => match commits.fetch_add(1, Ordering::SeqCst) % 3 {
                0 => Verdict::Lose,
                1 => Verdict::Fail,
                _ => Verdict::Through,
            },
            _ => Verdict::Through,
        });
        let bus = bus(&rough);
        let count = Counter::new(name, &harness, &store).delivery(batched(size)).shared();
        bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
        bus.wait_for(name, GlobalSequence(events[39])).await.expect("it gets there");
        count.assert_counts(&events).await;
        end(bus).await;
    }
}

pub(crate) async fn what_a_failed_handler_wrote_is_taken_back<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 6).await;
    let bus = bus(&store);
    let (failing, panicking) = (events[1], events[3]);
    let count = Counter::new("projection:count", &harness, &store)
        .plays(move |event, attempt| match event.global_sequence {
            Some(at) if at == failing && attempt < 3 => Act::fail("not yet"),
            Some(at) if at == panicking && attempt < 3 => Act::Panic("not yet"),
            _ => Act::Take,
        })
        .shared();
    bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    bus.wait_for("projection:count", GlobalSequence(events[5])).await.expect("it gets there");
    count.assert_counts(&events).await;
    assert_eq!(found(&store, &DeadLetterQuery::default()).await, []);
    end(bus).await;
}

pub(crate) async fn in_a_batch_only_the_bad_event_pays<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 30).await;
    let bad = events[13];
    let bus = bus(&store);
    let count = Counter::new("projection:count", &harness, &store)
        .delivery(batched(10))
        .plays(move |event, _| if event.global_sequence == Some(bad) { Act::fail("poison") } else { Act::Take })
        .shared();
    bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    bus.wait_for("projection:count", GlobalSequence(events[29])).await.expect("it gets there");
    let good: Vec<u64> = events.iter().copied().filter(|at| *at != bad).collect();
    count.assert_counts(&good).await;
    let dead_letters = found(&store, &DeadLetterQuery::default()).await;
    assert_eq!(places(&dead_letters), [bad], "the bad one and no other");
    assert_eq!(dead_letters[0].error_message.as_deref(), Some("poison"));
    end(bus).await;
}

/// Does something in its transaction that keeps that from being committed, and calls it a success.
struct Spoiling<H: Harness> {
    harness: Arc<H>,
    store: H::Store,
    bad: u64,
}

impl<H: Harness> TransactionalProjection<Ledger, Tx<H>> for Spoiling<H> {
    fn subscriber_id(&self) -> &str {
        "projection:spoiling"
    }

    fn options(&self) -> SubscriberOptions {
        delivered(SubscriberOptions::new(), &batched(10))
    }

    async fn apply(&self, tx: &mut Tx<H>, event: &Event<Ledger>) -> Result<(), BoxError> {
        let at = event.global_sequence.unwrap_or(0);
        self.harness.tally(&self.store, tx, &at.to_string()).await?;
        if at == self.bad {
            self.harness.spoil(&self.store, tx).await;
        }
        Ok(())
    }
}

pub(crate) async fn a_transaction_that_cannot_be_committed_is_a_failure<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 8).await;
    let bus = bus(&store);
    let spoiling = Spoiling { harness: Arc::clone(&harness), store: store.clone(), bad: events[4] };
    bus.subscribe(spoiling).await.expect("it can be subscribed");
    bus.wait_for("projection:spoiling", GlobalSequence(events[7])).await.expect("it gets there");
    let counted: Vec<String> = harness.tallies(&store).await.into_keys().collect();
    let mut wanted: Vec<String> = events.iter().filter(|at| **at != events[4]).map(ToString::to_string).collect();
    wanted.sort_unstable();
    assert_eq!(counted, wanted);
    assert_eq!(places(&found(&store, &DeadLetterQuery::default()).await), [events[4]]);
    end(bus).await;
}
