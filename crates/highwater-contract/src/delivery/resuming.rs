//! After a crash: from the checkpoint on, and little of it twice.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::backend::{Checkpoints, Log, Transactional, lock};
use highwater::{Append, CheckpointMode, Claim, Error, GlobalSequence, ReliableDeliveryConfig};
use uuid::Uuid;

use super::players::{Act, Counter, Gate, Observer, batched, bus, config, end, fill};
use crate::checkpoints::position;
use crate::support::{Ledger, eventually, new_stream, within};
use crate::{Call, Flaky, Harness, Settings, Verdict};

/// A process that dies as soon as it wants to store a checkpoint beyond a position, and whether it has.
fn mortal<B: Transactional>(store: &B, beyond: u64) -> (Flaky<B>, Arc<AtomicBool>) {
    let died = Arc::new(AtomicBool::new(false));
    let dead = Arc::clone(&died);
    let flaky = Flaky::new(store.clone(), move |call| {
        if let Call::StoreCheckpoints(writes) = call
            && writes.iter().any(|write| write.global_sequence > beyond)
        {
            dead.store(true, Ordering::SeqCst);
        }
        if dead.load(Ordering::SeqCst) { Verdict::Die } else { Verdict::Through }
    });
    (flaky, died)
}

async fn comes_again<H: Harness>(harness: Arc<H>, delivery: ReliableDeliveryConfig, batch: usize) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 60).await;
    let before = Observer::new("projection:crashing").delivery(delivery.clone()).shared();
    let (flaky, died) = mortal(&store, events[24]);
    let dying = bus(&flaky);
    dying.subscribe(Arc::clone(&before)).await.expect("it can be subscribed");
    // It continues until it may not without a checkpoint, and then it hangs in the one that is never stored.
    let covered = async || {
        let checkpoint = position(&store, "projection:crashing").await.unwrap_or(0);
        events.iter().filter(|at| **at <= checkpoint).count()
    };
    let cut_off = async || died.load(Ordering::SeqCst) && before.taken().len() == covered().await + batch;
    eventually("it is cut off", cut_off).await;
    let covered = covered().await;
    assert!(covered <= 25, "it died before it could store more");

    let after = Observer::new("projection:crashing").delivery(delivery).shared();
    let bus = bus(&store);
    bus.subscribe(Arc::clone(&after)).await.expect("it can be subscribed");
    bus.wait_for("projection:crashing", GlobalSequence(events[59])).await.expect("it gets there");
    assert_eq!(after.calls(), events[covered..], "everything after the checkpoint, in order");
    let again = before.taken().iter().filter(|at| after.calls().contains(at)).count();
    assert!(again <= batch, "{again} events came again, a batch has {batch}");
    assert_eq!(before.taken(), events[..covered + batch], "nothing was left out before");
    end(bus).await;
}

pub(crate) async fn after_a_crash_one_batch_comes_again_at_most<H: Harness>(harness: Arc<H>) {
    comes_again(harness, batched(10), 10).await;
}

pub(crate) async fn after_a_crash_one_event_comes_again_at_most<H: Harness>(harness: Arc<H>) {
    comes_again(harness, config(), 1).await;
}

pub(crate) async fn a_checkpoint_is_stored_in_time_however_many_events_wait<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 500).await;
    let gates: Vec<Gate> = events.iter().map(|_| Gate::shut()).collect();
    // Due after every event, and far from a whole batch.
    let checkpoint_mode = CheckpointMode::Batched { size: 1_000, interval: Duration::from_millis(1) };
    let (script, first) = (gates.clone(), events[0]);
    let slow = Observer::new("projection:slow")
        .delivery(ReliableDeliveryConfig { checkpoint_mode, ..config() })
        .plays(move |event, _| {
            let at = event.global_sequence.unwrap_or(first);
            Act::Wait(script[usize::try_from(at - first).expect("it is one of these")].clone())
        })
        .shared();
    let bus = bus(&store);
    bus.subscribe(Arc::clone(&slow)).await.expect("it can be subscribed");
    // One event at a time, and never the last: so it is never at the end of what it has read.
    let (opened, stored) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    eventually("checkpoints are stored while events wait", async || {
        let Some(at) = position(&store, "projection:slow").await else { return false };
        gates[opened.fetch_add(1, Ordering::SeqCst).min(498)].open();
        let mut stored = lock(&stored);
        stored.insert(at);
        stored.len() > 3
    })
    .await;
    gates.iter().for_each(Gate::open);
    end(bus).await;
}

pub(crate) async fn after_a_crash_in_a_transaction_nothing_counts_twice<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 30).await;
    let dead = Arc::new(AtomicBool::new(false));
    let mortal = {
        let (dead, beyond) = (Arc::clone(&dead), events[14]);
        Flaky::new(store.clone(), move |call| {
            if let Call::Commit(_, highwater::backend::Closing::Advance { to, .. }) = call
                && to > beyond
            {
                dead.store(true, Ordering::SeqCst);
            }
            if dead.load(Ordering::SeqCst) { Verdict::Die } else { Verdict::Through }
        })
    };
    let before = Counter::new("projection:count", &harness, &store).delivery(batched(10)).shared();
    bus(&mortal).subscribe(Arc::clone(&before)).await.expect("it can be subscribed");
    eventually("it is cut off", || std::future::ready(dead.load(Ordering::SeqCst))).await;
    let after = Counter::new("projection:count", &harness, &store).delivery(batched(10)).shared();
    let bus = bus(&store);
    bus.subscribe(Arc::clone(&after)).await.expect("it can be subscribed");
    bus.wait_for("projection:count", GlobalSequence(events[29])).await.expect("it gets there");
    after.assert_counts(&events).await;
    end(bus).await;
}

pub(crate) async fn checkpoints_that_cannot_be_stored_are_retried<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 30).await;
    // Every second call fails, every third answer is lost.
    let calls = std::sync::atomic::AtomicU32::new(0);
    let rough = Flaky::new(store.clone(), move |call| match call {
        Call::StoreCheckpoints(_) | Call::TakeOver => match calls.fetch_add(1, Ordering::SeqCst) % 6 {
            0 | 2 | 4 => Verdict::Fail,
            3 => Verdict::Lose,
            _ => Verdict::Through,
        },
        _ => Verdict::Through,
    });
    let bus = bus(&rough);
    let observer = Observer::new("projection:rough").delivery(batched(10)).shared();
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    bus.wait_for("projection:rough", GlobalSequence(events[29])).await.expect("it gets there");
    assert_eq!(observer.calls(), events, "a living leader delivers nothing twice");
    end(bus).await;
}

pub(crate) async fn a_subscriber_does_not_start_at_an_end_that_is_gone<H: Harness>(harness: Arc<H>) {
    let other = harness.fresh(Settings::default()).await;
    let (store, id) = (harness.fresh(Settings::default()).await, Uuid::now_v7());
    let last = Append::to(new_stream()).event_with_id(id, Ledger::opened());
    let start = within("appending", store.append(&last)).await.expect("it can be stored").global_sequence;
    let claim = Claim { start, start_event: Some(id), ..Claim::of("projection:end") };
    let told = within("taking over", other.take_over(&claim)).await;
    assert!(matches!(told, Err(Error::Damaged { .. })), "that log does not have the event: {told:?}");
    assert_eq!(position(&other, "projection:end").await, None, "so nothing has started there");
    for (start_event, fresh) in [(id, true), (Uuid::now_v7(), false)] {
        let claim = Claim { start_event: Some(start_event), ..claim.clone() };
        let taken = within("taking over", store.take_over(&claim)).await.expect("it can be taken over");
        assert_eq!((taken.fresh, taken.checkpoint.global_sequence), (fresh, start));
        assert_eq!(taken.checkpoint.event_id, None, "nothing was handled yet");
    }
}
