//! Stopping and resuming.

use std::sync::Arc;
use std::time::Duration;

use highwater::{BusError, Error, GlobalSequence, Invalid, ReliableDeliveryConfig, SubscriptionState};

use super::players::{Act, Gate, Observer, batched, bus, config, end, fill, in_state};
use crate::checkpoints::position;
use crate::support::{QUIET, new_stream, within};
use crate::{Harness, Settings};

fn is_paused(state: &SubscriptionState) -> bool {
    matches!(state, SubscriptionState::Paused)
}

pub(crate) async fn a_pause_lasts_until_it_is_ended<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let first = fill(&store, new_stream(), 3).await;
    let bus_one = bus(&store);
    let observer = Observer::new("projection:each").shared();
    let subscription = bus_one.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    bus_one.wait_for("projection:each", GlobalSequence(first[2])).await.expect("it gets there");
    within("pausing", subscription.pause()).await.expect("it can be paused");
    assert!(is_paused(&subscription.state()));
    let second = fill(&store, new_stream(), 3).await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(observer.calls(), first, "nothing is delivered to who is paused");
    end(bus_one).await;
    let bus_two = bus(&store);
    let subscription = bus_two.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    in_state(&subscription, "it is still paused", is_paused).await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(observer.calls(), first, "a restart ends no pause");
    within("resuming", subscription.resume()).await.expect("it can be resumed");
    bus_two.wait_for("projection:each", GlobalSequence(second[2])).await.expect("it continues");
    assert_eq!(observer.calls(), [first, second].concat());
    end(bus_two).await;
}

pub(crate) async fn a_pause_from_elsewhere_is_heeded<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let bus_one = bus(&store);
    let observer = Observer::new("projection:each").shared();
    let subscription = bus_one.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    within("catching up", subscription.caught_up()).await.expect("it gets there");
    let elsewhere = bus(&harness.reopen(&store, Settings::default()).await);
    elsewhere.pause("projection:each").await.expect("it can be paused");
    in_state(&subscription, "it is paused", is_paused).await;
    let events = fill(&store, new_stream(), 2).await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(observer.calls(), [0; 0]);
    elsewhere.resume("projection:each").await.expect("it can be resumed");
    elsewhere.wait_for("projection:each", GlobalSequence(events[1])).await.expect("it continues");
    assert_eq!(observer.calls(), events);
    let unknown = elsewhere.pause("projection:unknown").await;
    assert!(matches!(unknown, Err(Error::Bus(BusError::UnknownSubscriber(_)))), "{unknown:?}");
    end(bus_one).await;
}

pub(crate) async fn a_subscriber_that_is_unsubscribed_resumes_later<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let bus = bus(&store);
    let observer = Observer::new("projection:each").delivery(batched(100)).shared();
    let mut events = Vec::new();
    for _ in 0..3 {
        let subscription = bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
        events.extend(fill(&store, new_stream(), 5).await);
        observer.has_taken(events.len()).await;
        within("unsubscribing", subscription.unsubscribe()).await.expect("it stops in time");
        assert_eq!(position(&store, "projection:each").await, events.last().copied(), "its checkpoint is stored");
        assert!(bus.subscriptions().is_empty());
        events.extend(fill(&store, new_stream(), 2).await);
    }
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    observer.has_taken(events.len()).await;
    assert_eq!(observer.calls(), events, "nothing twice, nothing left out");
    end(bus).await;
}

pub(crate) async fn a_shutdown_finishes_what_is_in_hand<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 50).await;
    let gate = Gate::shut();
    let (waits, at) = (gate.clone(), events[20]);
    let observer = Observer::new("projection:each")
        .delivery(batched(100))
        .plays(move |event, _| if event.global_sequence == Some(at) { Act::Wait(waits.clone()) } else { Act::Take })
        .shared();
    let first = bus(&store);
    first.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    observer.is_called(21).await;
    let mut shutdown = tokio::spawn(async move { first.shutdown().await });
    let early = tokio::time::timeout(QUIET, &mut shutdown).await;
    assert!(early.is_err(), "an event is in hand");
    gate.open();
    within("a shutdown", shutdown).await.expect("it comes through").expect("all stop in time");
    let taken = observer.taken();
    assert!(taken.len() >= 21, "what was in hand is finished");
    assert_eq!(position(&store, "projection:each").await, taken.last().copied(), "and stored");
    let second = bus(&store);
    second.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    second.wait_for("projection:each", GlobalSequence(events[49])).await.expect("it continues");
    assert_eq!(observer.calls(), events, "nothing comes twice after an orderly end");
    end(second).await;
}

pub(crate) async fn a_shutdown_does_not_wait_for_ever<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 5).await;
    let hasty = ReliableDeliveryConfig { shutdown_timeout: Duration::from_millis(300), ..config() };
    let first = highwater::EventBus::with_config(store.clone(), hasty);
    let hangs = events[3];
    let hanging = Observer::new("projection:hanging")
        .plays(move |event, _| if event.global_sequence == Some(hangs) { Act::Hang } else { Act::Take })
        .shared();
    let fine = Observer::new("projection:fine").delivery(batched(100)).shared();
    first.subscribe(Arc::clone(&hanging)).await.expect("it can be subscribed");
    first.subscribe(Arc::clone(&fine)).await.expect("it can be subscribed");
    hanging.is_called(4).await;
    fine.has_taken(5).await;
    match within("a shutdown", first.shutdown()).await {
        Err(Error::Bus(BusError::ShutdownTimedOut { subscribers })) => assert_eq!(subscribers, ["projection:hanging"]),
        other => panic!("one of them hangs: {other:?}"),
    }
    assert_eq!(position(&store, "projection:fine").await, Some(events[4]), "the others are in order");
    assert_eq!(position(&store, "projection:hanging").await, Some(events[2]), "what hung was not handled");
    within("a second shutdown", first.shutdown()).await.expect("calling it again is harmless");
    let late = first.subscribe(Observer::new("projection:late").shared()).await.map(drop);
    assert!(matches!(late, Err(Error::ShutDown)), "{late:?}");
    let second = bus(&store);
    let again = Observer::new("projection:hanging").shared();
    second.subscribe(Arc::clone(&again)).await.expect("it can be subscribed");
    second.wait_for("projection:hanging", GlobalSequence(events[4])).await.expect("it continues");
    assert_eq!(again.calls(), events[3..], "it is delivered again");
    end(second).await;
}

pub(crate) async fn a_name_is_subscribed_once<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let bus = bus(&store);
    let first = Observer::new("projection:each").shared();
    let subscription = bus.subscribe(Arc::clone(&first)).await.expect("it can be subscribed");
    let second = Observer::new("projection:each").shared();
    let refused = bus.subscribe(Arc::clone(&second)).await.map(drop);
    assert!(
        matches!(&refused, Err(Error::Bus(BusError::AlreadySubscribed(name))) if name == "projection:each"),
        "{refused:?}"
    );
    let events = fill(&store, new_stream(), 2).await;
    bus.wait_for("projection:each", GlobalSequence(events[1])).await.expect("the first continues");
    assert_eq!((first.calls(), second.calls()), (events.clone(), vec![]));
    within("unsubscribing", subscription.unsubscribe()).await.expect("it stops in time");
    bus.subscribe(Arc::clone(&second)).await.expect("now the name is free");
    let more = fill(&store, new_stream(), 1).await;
    bus.wait_for("projection:each", GlobalSequence(more[0])).await.expect("it continues");
    assert_eq!((first.calls(), second.calls()), (events, more));
    end(bus).await;
}

pub(crate) async fn names_and_settings_that_cannot_be_used_are_refused<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let bus = bus(&store);
    for name in ["", "with a \0", &"x".repeat(256)] {
        let refused = bus.subscribe(Observer::new(name)).await.map(drop);
        assert!(matches!(refused, Err(Error::Invalid(Invalid::SubscriberId(_)))), "{name:?}: {refused:?}");
    }
    let useless = ReliableDeliveryConfig { catch_up_batch_size: 0, ..config() };
    let refused = bus.subscribe(Observer::new("projection:each").delivery(useless)).await.map(drop);
    assert!(matches!(refused, Err(Error::Invalid(Invalid::Setting { .. }))), "{refused:?}");
    assert_eq!(
        highwater::backend::Checkpoints::checkpoints(&store).await.expect("they can be read"),
        [],
        "nothing is stored"
    );
    let long = "ü".repeat(127);
    let observer = Observer::new(&long).shared();
    bus.subscribe(Arc::clone(&observer)).await.expect("a long name can be used");
    let events = fill(&store, new_stream(), 1).await;
    bus.wait_for(&long, GlobalSequence(events[0])).await.expect("it gets there");
    end(bus).await;
}
