//! Handlers that wait for a subscriber: for their own they would wait for ever.

use highwater::prelude::*;
use highwater::{BusError, GlobalSequence};

use super::support::{Note, quick, say, within};

/// What a handler is told when it waits for a subscriber.
async fn told_inside(bus: &MemoryEventBus, of: &'static str) -> Vec<(&'static str, Result<(), Error>)> {
    let of = bus.subscription(of).unwrap();
    let id = of.subscriber_id().to_owned();
    let filed = bus.dead_letters().replay_all(&id).await.unwrap();
    vec![
        ("caught_up", of.caught_up().await.map(drop)),
        ("wait_for", bus.wait_for(&id, GlobalSequence(1)).await.map(drop)),
        ("done", filed.done().await.map(drop)),
        ("pause", of.pause().await),
        ("resume", of.resume().await),
        ("rebuild", of.rebuild().await),
        ("unsubscribe", of.unsubscribe().await),
    ]
}

#[tokio::test]
async fn waiting_for_a_subscriber_inside_its_own_handler_is_an_error_at_once() {
    let store = MemoryEventStore::new();
    let bus = MemoryEventBus::with_config(store.clone(), quick());
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let inside = bus.clone();
    let waits = observer_fn("projection:waits", move |_: Event<Note>| {
        let (bus, tell) = (inside.clone(), tell.clone());
        async move {
            tell.send((told_inside(&bus, "projection:waits").await, bus.shutdown().await))?;
            Ok(())
        }
    });
    let subscription = bus.subscribe(waits).await.unwrap();
    let at = say(&store, "a").await;
    let (own, shutdown) = within("no call waits for itself", told.recv()).await.unwrap();
    for (what, told) in own.into_iter().chain([("shutdown", shutdown)]) {
        match what {
            // It does not wait for the subscriber.
            "resume" => told.unwrap(),
            _ => assert!(matches!(told, Err(Error::Bus(BusError::WaitsForItself { .. }))), "{what}: {told:?}"),
        }
    }
    // Nothing came of it, and from outside everything works.
    bus.wait_for("projection:waits", GlobalSequence(at)).await.unwrap();
    within("what was filed is carried out", subscription.caught_up()).await.unwrap();
    subscription.pause().await.unwrap();
    bus.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_handler_may_wait_for_other_subscribers_and_for_its_namesake_on_another_store() {
    let (store, other) = (MemoryEventStore::new(), MemoryEventStore::new());
    let (bus, other_bus) =
        (MemoryEventBus::with_config(store.clone(), quick()), MemoryEventBus::with_config(other.clone(), quick()));
    bus.subscribe(observer_fn("projection:other", |_: Event<Note>| async { Ok(()) })).await.unwrap();
    other_bus.subscribe(observer_fn("projection:waits", |_: Event<Note>| async { Ok(()) })).await.unwrap();
    say(&other, "a").await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let inside = bus.clone();
    let waits = observer_fn("projection:waits", move |_: Event<Note>| {
        let (bus, other_bus, tell) = (inside.clone(), other_bus.clone(), tell.clone());
        async move {
            let others =
                [told_inside(&bus, "projection:other").await, told_inside(&other_bus, "projection:waits").await];
            tell.send(others.into_iter().flatten().collect::<Vec<_>>())?;
            Ok(())
        }
    });
    bus.subscribe(waits).await.unwrap();
    say(&store, "a").await;
    for (what, told) in within("nobody waits for itself", told.recv()).await.unwrap() {
        let refused = matches!(told, Err(Error::Bus(BusError::WaitsForItself { .. })));
        assert!(!refused, "{what}: {told:?}");
    }
    bus.shutdown().await.unwrap();
}
