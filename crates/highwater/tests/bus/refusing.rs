//! What is refused or named instead of passing over events.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use highwater::backend::{Backend, CheckpointWrite, Checkpoints, Transactional, Wakeups, Wrapper};
use highwater::prelude::*;
use highwater::{Bus, BusError, Claim, CoordinatorConfig, GlobalSequence, Invalid, StartAt, SubscriptionState};
use tracing::Level;

use super::counting;
use super::panics::PanicsInReset;
use super::support::{Listener, Note, eventually, quick, say, within};

/// Set by hand, or left from events that a restored backup does not have: resuming from there would miss what comes next.
#[tokio::test]
async fn a_checkpoint_beyond_the_end_of_the_log_is_named_and_nothing_is_passed_over() {
    let store = MemoryEventStore::new();
    say(&store, "a").await;
    store.take_over(&Claim { start: 99, ..Claim::of("projection:x") }).await.unwrap();
    let bus = MemoryEventBus::with_config(store.clone(), quick());
    let subscription = bus.subscribe(observer_fn("projection:x", |_: Event<Note>| async { Ok(()) })).await.unwrap();
    let is_named = |state: SubscriptionState| matches!(state, SubscriptionState::Disconnected { error } if error.contains("is at 99, and the log ends at 1"));
    eventually("it says so", async || is_named(subscription.state())).await;
    let at = say(&store, "b").await;
    assert_eq!(store.checkpoint("projection:x").await.unwrap().unwrap().global_sequence, 99, "it does not continue");
    store.repair().force().set_checkpoint("projection:x", 1).await.unwrap();
    bus.wait_for("projection:x", GlobalSequence(at)).await.unwrap();
    // A subscriber that starts there on purpose waits for what is to come.
    let after = SubscriberOptions::new().start(StartAt::After(99));
    let waiting = observer_fn("projection:y", |_: Event<Note>| async { Ok(()) }).with_options(after);
    bus.subscribe(waiting).await.unwrap().caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
}

/// Left from a log whose numbers were issued again since: nothing but the event that it names tells.
#[tokio::test]
async fn a_checkpoint_that_names_an_event_which_the_log_does_not_hold_is_named_and_nothing_is_passed_over() {
    let store = MemoryEventStore::new();
    for text in ["a", "b", "c"] {
        say(&store, text).await;
    }
    let taken = store.take_over(&Claim::of("projection:x")).await.unwrap();
    let fence = taken.checkpoint.fence();
    let gone = uuid::Uuid::now_v7();
    let write = CheckpointWrite { fence, global_sequence: 2, event_id: Some(gone) };
    assert_eq!(store.store_checkpoints(&[write]).await.unwrap(), [None]);
    let bus = MemoryEventBus::with_config(store.clone(), quick());
    let subscription = bus.subscribe(observer_fn("projection:x", |_: Event<Note>| async { Ok(()) })).await.unwrap();
    let found = format!("is at 2, and event {gone}, which it handled last, is not in the log");
    eventually(
        "it says so",
        async || matches!(subscription.state(), SubscriptionState::Disconnected { error } if error.contains(&found)),
    )
    .await;
    assert_eq!(store.checkpoint("projection:x").await.unwrap().unwrap().global_sequence, 2, "it does not continue");
    store.repair().force().reset("projection:x").await.unwrap();
    bus.wait_for("projection:x", GlobalSequence(3)).await.unwrap();
    bus.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hint_of_a_number_that_does_not_exist_is_forgotten_and_real_ones_still_wake() {
    let (store, bus, reads) = counting();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let observer = observer_fn("projection:x", move |event: Event<Note>| {
        let told = tell.send(event.global_sequence);
        async move { Ok(told?) }
    });
    let subscription = bus.subscribe(observer).await.unwrap();
    eventually("it is live", async || subscription.state().is_live()).await;
    store.announce(u64::MAX);
    let before = reads.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let read = reads.load(Ordering::SeqCst) - before;
    assert!((1..=20).contains(&read), "{read} reads in a minute in which nothing happened");
    for _ in 0..3 {
        let (at, began) = (say(&store, "real").await, tokio::time::Instant::now());
        assert_eq!(within("it is delivered", told.recv()).await.unwrap(), Some(at));
        assert!(began.elapsed() < Duration::from_secs(1), "after {:?}", began.elapsed());
    }
    bus.shutdown().await.unwrap();
}

/// What it was handed is gone with the process.
struct InMemory;

impl Projection<Note> for InMemory {
    const STATE: StateIs = StateIs::InMemory;

    fn subscriber_id(&self) -> &str {
        "projection:in-memory"
    }

    async fn apply(&self, _: &Event<Note>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// A store that says that it outlives the process.
#[derive(Clone)]
struct Durable(MemoryEventStore);

impl Wrapper for Durable {
    fn inner(&self) -> &dyn Backend {
        &self.0
    }

    fn shared(&self) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }

    fn is_durable(&self) -> bool {
        true
    }
}

impl Transactional for Durable {
    type Tx = highwater::MemoryTx;
}

#[tokio::test]
async fn state_in_memory_is_refused_where_the_checkpoint_outlives_it() {
    let store = MemoryEventStore::new();
    let bus = MemoryEventBus::new(store.clone());
    let at = say(&store, "a").await;
    bus.subscribe(InMemory).await.unwrap();
    bus.wait_for("projection:in-memory", GlobalSequence(at)).await.unwrap();
    bus.shutdown().await.unwrap();

    let bus = EventBus::new(Durable(store.clone()));
    for refused in [bus.subscribe(InMemory).await, bus.subscribe(Arc::new(InMemory)).await] {
        let error = refused.unwrap_err();
        assert!(
            matches!(&error, Error::Invalid(Invalid::StateInMemory { subscriber_id }) if subscriber_id == "projection:in-memory")
        );
        let said = error.to_string();
        assert!(said.contains("bus.live_view()") && said.contains("TransactionalProjection"), "{said}");
    }
    assert_eq!(bus.subscriptions().len(), 0, "nothing was started");
    bus.subscribe(PanicsInReset).await.unwrap();
    bus.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_snapshot_that_was_folded_from_fewer_types_is_not_continued() {
    #[derive(serde::Serialize, serde::Deserialize)]
    enum Struck {
        Struck,
    }

    macro_rules! counter {
        ($name:ident, $events:ty) => {
            #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
            struct $name(u64);

            impl Evolve for $name {
                type Event = $events;

                fn evolve(&mut self, _: &Event<$events>) {
                    self.0 += 1;
                }
            }
        };
    }
    counter!(Before, Struck);
    counter!(After, Note);

    let listener = Listener::default();
    let _listening = tracing::subscriber::set_default(listener.clone());
    let store = MemoryEventStore::new();
    let bus = MemoryEventBus::new(store.clone());
    say(&store, "a").await;
    store.append(&Append::to(stream_id("note", "a")).event(Note::Struck)).await.unwrap();
    let before = bus.live_view::<Before>().unwrap().snapshot().await.unwrap();
    assert_eq!((before.state.0, before.global_sequence), (1, 2));
    let kept = serde_json::to_string(&before).unwrap();

    // The enum gets a variant, of which there are events already.
    let after = bus.live_view_from::<After>(serde_json::from_str(&kept).unwrap()).unwrap();
    assert_eq!(after.read(|count| count.0).await.unwrap(), 2, "none of them is missing");
    assert_eq!(listener.count(Level::INFO, "starts from the beginning"), 1, "{listener:?}");
    let again = bus.live_view_from::<Before>(serde_json::from_str(&kept).unwrap()).unwrap();
    assert_eq!(again.read(|count| count.0).await.unwrap(), 1);
    assert_eq!(listener.count(Level::INFO, "starts from the beginning"), 1, "what fits is continued");
    bus.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_subscriber_that_was_never_started_says_so_within_a_second() {
    let store = MemoryEventStore::new();
    let bus = MemoryEventBus::new(store.clone());
    let at = say(&store, "a").await;
    let begun = tokio::time::Instant::now();
    let waited = bus.wait_for("projection:mistyped", GlobalSequence(at)).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let error = waited.unwrap_err();
    assert!(matches!(&error, Error::Bus(BusError::UnknownSubscriber(id)) if id == "projection:mistyped"), "{error:?}");
    bus.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_version_that_no_database_can_store_is_refused() {
    struct Versioned(u32);

    impl highwater::TransactionalProjection<Note, highwater::MemoryTx> for Versioned {
        fn subscriber_id(&self) -> &str {
            "projection:versioned"
        }

        fn version(&self) -> u32 {
            self.0
        }

        async fn apply(&self, _: &mut highwater::MemoryTx, _: &Event<Note>) -> Result<(), BoxError> {
            Ok(())
        }
    }

    let bus = MemoryEventBus::new(MemoryEventStore::new());
    for version in [0, u32::MAX] {
        let error = bus.subscribe(Versioned(version)).await.unwrap_err().to_string();
        assert!(error.contains("version") && error.contains("between 1 and"), "{error}");
    }
}

/// How instances share the work is nothing to a bus that shares none: set there, it would be ignored.
#[tokio::test]
async fn a_bus_that_coordinates_nothing_refuses_to_be_told_how() {
    let store = MemoryEventStore::new();
    let coordination = CoordinatorConfig { takeover_bound: Duration::from_secs(9), ..CoordinatorConfig::default() };
    let refused =
        |error| matches!(error, Error::Invalid(Invalid::Setting { name: "coordination" | "instance_mode", .. }));
    for (instance_mode, refuses) in [(InstanceMode::SingleInstance, true), (InstanceMode::Coordinated, false)] {
        let config = ReliableDeliveryConfig { instance_mode, coordination: coordination.clone(), ..quick() };
        let bus = MemoryEventBus::with_config(store.clone(), config.clone());
        let tried = bus.subscribe(observer_fn("projection:x", |_: Event<Note>| async { Ok(()) })).await;
        assert_eq!(tried.is_err_and(refused), refuses, "{instance_mode:?}");
        assert!(Bus::over(&store, config).is_err_and(refused), "nothing is led by it: {instance_mode:?}");
        bus.shutdown().await.unwrap();
    }
    let led_elsewhere = Bus::over(&store, quick()).unwrap();
    assert!(led_elsewhere.subscriptions().is_empty());
}
