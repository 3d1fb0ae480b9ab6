//! Requests about dead letters: filed anywhere, carried out by the leader.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater::operations::Cause;
use highwater::operations::{DeadLetterQuery, DeadLetterState};
use highwater::{BusError, Error, Event, EventStore, GlobalSequence};
use uuid::Uuid;

use super::players::{Act, Counter, Observer, batched, bus, end, fill};
use crate::dead_letters::{found, places};
use crate::support::{Ledger, new_stream, within};
use crate::{Harness, Settings};

/// A switch: while it is off, every event but the first fails for good.
fn until_fixed(fixed: &Arc<AtomicBool>, first: u64) -> impl Fn(&Event<Ledger>, u32) -> Act + use<> {
    let fixed = Arc::clone(fixed);
    move |event, _| match event.global_sequence {
        Some(at) if at != first && !fixed.load(Ordering::SeqCst) => Act::GiveUp("broken"),
        _ => Act::Take,
    }
}

pub(crate) async fn dead_letters_are_replayed_one_or_all_in_order<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let mut events = fill(&store, new_stream(), 3).await;
    events.extend(fill(&store, new_stream(), 3).await);
    let fixed = Arc::new(AtomicBool::new(false));
    let bus = bus(&store);
    let each = Observer::new("projection:each").plays(until_fixed(&fixed, events[0])).shared();
    let count = Counter::new("projection:count", &harness, &store)
        .delivery(batched(4))
        .plays(until_fixed(&fixed, events[0]))
        .shared();
    bus.subscribe(Arc::clone(&each)).await.expect("it can be subscribed");
    bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    for name in [each.id(), count.id()] {
        bus.wait_for(name, GlobalSequence(events[5])).await.expect("it continues");
        assert_eq!(places(&found(&store, &DeadLetterQuery::of(name)).await), events[1..]);
    }
    fixed.store(true, Ordering::SeqCst);
    let queue = bus.dead_letters().by("anna");
    for name in [each.id(), count.id()] {
        let dead_letters = found(&store, &DeadLetterQuery::of(name)).await;
        let filed = queue.replay(dead_letters[2].id).await.expect("it can be asked for");
        let outcome = within("a replay", filed.done()).await.expect("it is done");
        assert_eq!((outcome.done, outcome.failed), (1, 0));
        let left = found(&store, &DeadLetterQuery::of(name)).await;
        assert_eq!(places(&left), [events[1], events[2], events[4], events[5]], "that one and no other");
        let shown = queue.show(dead_letters[2].id).await.expect("it can be shown");
        assert_eq!(
            (shown.dead_letter.state, shown.dead_letter.resolved_by.as_deref()),
            (DeadLetterState::Replayed, Some("anna"))
        );
        assert!(shown.dead_letter.resolved_at.is_some());
        let attempts: Vec<_> = shown.attempts.iter().map(|it| (it.by.as_str(), it.outcome.as_str())).collect();
        assert_eq!(attempts, [("anna", "replayed")]);
        let again = queue.replay(dead_letters[2].id).await.expect("it can be asked for");
        assert!(within("a replay", again.done()).await.is_err(), "it has been resolved");
        let filed = queue.replay_all(name).await.expect("it can be asked for");
        assert_eq!(within("a replay", filed.done()).await.expect("it is done").done, 4);
        assert_eq!(found(&store, &DeadLetterQuery::of(name)).await, []);
    }
    let order = [events[0], events[3], events[1], events[2], events[4], events[5]];
    assert_eq!(each.taken(), order);
    assert_eq!(count.taken().last_chunk::<4>(), order.last_chunk::<4>());
    count.assert_counts(&events).await;
    end(bus).await;
}

pub(crate) async fn a_dead_letter_that_fails_again_says_so<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 3).await;
    let fixed = Arc::new(AtomicBool::new(false));
    let bus = bus(&store);
    let count = Counter::new("projection:count", &harness, &store).plays(until_fixed(&fixed, events[0])).shared();
    bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    bus.wait_for("projection:count", GlobalSequence(events[2])).await.expect("it continues");
    let queue = bus.dead_letters().by("ben");
    let dead_letters = found(&store, &DeadLetterQuery::default()).await;
    for turn in 1..=2 {
        let filed = queue.replay_all("projection:count").await.expect("it can be asked for");
        let outcome = within("a replay", filed.done()).await.expect("it is done");
        assert_eq!((outcome.done, outcome.failed), (0, 2), "both are tried: nothing is parked");
        assert_eq!(outcome.error.as_deref(), Some("broken"));
        let shown = queue.show(dead_letters[0].id).await.expect("it can be shown");
        assert_eq!((shown.dead_letter.retry_count, shown.dead_letter.state), (turn, DeadLetterState::Dead));
        assert_eq!(shown.attempts.len(), turn as usize);
        assert_eq!(shown.attempts[0].detail.as_deref(), Some("broken"));
    }
    count.assert_counts(&events[..1]).await;
    end(bus).await;
}

pub(crate) async fn a_dead_letter_is_discarded_with_a_reason<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 3).await;
    let fixed = Arc::new(AtomicBool::new(false));
    let bus = bus(&store);
    let observer = Observer::new("projection:each").plays(until_fixed(&fixed, events[0])).shared();
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    bus.wait_for("projection:each", GlobalSequence(events[2])).await.expect("it continues");
    let dead_letters = found(&store, &DeadLetterQuery::default()).await;
    let queue = bus.dead_letters().by("carla");
    let filed = queue.discard(dead_letters[0].id, "a test order").await.expect("it can be asked for");
    assert_eq!(within("discarding", filed.done()).await.expect("it is done").done, 1);
    let shown = queue.show(dead_letters[0].id).await.expect("it is kept");
    assert_eq!(
        (shown.dead_letter.state, shown.dead_letter.reason.as_deref()),
        (DeadLetterState::Discarded, Some("a test order"))
    );
    assert_eq!(shown.dead_letter.resolved_by.as_deref(), Some("carla"));
    fixed.store(true, Ordering::SeqCst);
    let filed = queue.replay_all("projection:each").await.expect("it can be asked for");
    assert_eq!(within("a replay", filed.done()).await.expect("it is done").done, 1, "the other one");
    assert_eq!(observer.taken(), [events[0], events[2]]);
    assert_eq!(queue.count(&DeadLetterQuery::of("projection:each")).await.expect("they can be counted"), 0);
    end(bus).await;
}

pub(crate) async fn requests_are_filed_anywhere_and_wait<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 3).await;
    let fixed = Arc::new(AtomicBool::new(false));
    let observer = || Observer::new("projection:each").plays(until_fixed(&fixed, events[0])).shared();
    let first = bus(&store);
    first.subscribe(observer()).await.expect("it can be subscribed");
    first.wait_for("projection:each", GlobalSequence(events[2])).await.expect("it continues");
    fixed.store(true, Ordering::SeqCst);
    // Another process, where nothing is subscribed.
    let elsewhere = bus(&harness.reopen(&store, Settings::default()).await);
    let dead_letters = elsewhere.dead_letters().list(&DeadLetterQuery::default()).await.expect("they can be listed");
    let filed = elsewhere.dead_letters().by("anna").replay(dead_letters[0].id).await.expect("it can be asked for");
    assert_eq!(within("a replay", filed.done()).await.expect("it is done over there").done, 1);
    end(first).await;
    // Nobody processes. The request waits.
    let filed = elsewhere.dead_letters().by("anna").replay_all("projection:each").await.expect("it can be asked for");
    let why = within("an explanation", store.explain("projection:each")).await.expect("the store answers");
    assert_eq!(why.subscriber.open_requests, 1);
    assert!(why.causes.contains(&Cause::OpenRequests { count: 1 }), "it is said that it waits: {why}");
    let second = bus(&store);
    let late = observer();
    second.subscribe(Arc::clone(&late)).await.expect("it can be subscribed");
    assert_eq!(within("a replay", filed.done()).await.expect("it is done when an instance comes").done, 1);
    assert_eq!(late.calls(), [events[2]]);
    end(second).await;
}

pub(crate) async fn what_cannot_be_asked_for_is_refused<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let bus = bus(&store);
    let observer = Observer::new("projection:each").plays(|_, _| Act::GiveUp("broken")).shared();
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    let events = fill(&store, new_stream(), 1).await;
    bus.wait_for("projection:each", GlobalSequence(events[0])).await.expect("it continues");
    let queue = bus.dead_letters();
    let missing = Uuid::now_v7();
    assert!(matches!(queue.show(missing).await, Err(Error::NotFound { id, .. }) if id == missing));
    assert!(matches!(queue.replay(missing).await, Err(Error::NotFound { id, .. }) if id == missing));
    assert!(matches!(queue.discard(missing, "no need").await, Err(Error::NotFound { id, .. }) if id == missing));
    let unknown = queue.replay_all("projection:unknown").await.map(drop);
    assert!(matches!(unknown, Err(Error::Bus(BusError::UnknownSubscriber(_)))), "{unknown:?}");
    let dead_letter = found(&store, &DeadLetterQuery::default()).await[0].id;
    let silent = queue.discard(dead_letter, " ").await.map(drop);
    assert!(matches!(silent, Err(Error::Invalid(_))), "a reason is a reason: {silent:?}");
    assert_eq!(found(&store, &DeadLetterQuery::default()).await.len(), 1);
    end(bus).await;
}
