//! What the engine does where no backend can be at fault.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "tests fail by panicking, and nobody calls them")]

#[path = "bus/itself.rs"]
mod itself;
#[path = "bus/kinds.rs"]
mod kinds;
#[path = "bus/late.rs"]
mod late;
#[path = "bus/panics.rs"]
mod panics;
#[path = "bus/refusing.rs"]
mod refusing;
mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::backend::Checkpoints;
use highwater::operations::DeadLetterQuery;
use highwater::prelude::*;
use highwater::{EventTypes, GlobalSequence, Subscription, SubscriptionState};
use highwater_contract::{Call, Flaky, Verdict};
use support::{Listener, Note, eventually, quick, say, within};
use tokio::sync::Notify;
use tracing::Level;

fn is_halted(subscription: &Subscription) -> bool {
    matches!(subscription.state(), SubscriptionState::Halted { .. })
}

#[test]
fn the_defaults_are_those_that_are_documented() {
    let config = ReliableDeliveryConfig::default();
    assert_eq!((config.max_retries, config.initial_retry_delay), (3, Duration::from_secs(1)));
    let batched = CheckpointMode::Batched { size: 4_000, interval: Duration::from_millis(100) };
    assert_eq!((config.max_retry_delay, config.checkpoint_mode), (Duration::from_secs(60), batched));
    assert_eq!((config.handler_timeout, config.poll_interval), (None, Duration::from_secs(1)));
    assert!(config.validate().is_ok());
    for wrong in [
        ReliableDeliveryConfig { catch_up_batch_size: 0, ..ReliableDeliveryConfig::default() },
        ReliableDeliveryConfig { retry_jitter: 1.5, ..ReliableDeliveryConfig::default() },
        ReliableDeliveryConfig { max_retry_delay: Duration::from_millis(1), ..ReliableDeliveryConfig::default() },
        ReliableDeliveryConfig { poll_interval: Duration::ZERO, ..ReliableDeliveryConfig::default() },
    ] {
        assert!(wrong.validate().is_err(), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_fenced_leader_does_not_take_over_because_of_a_request() {
    let store = MemoryEventStore::new();
    let (old_bus, new_bus) =
        (MemoryEventBus::with_config(store.clone(), quick()), MemoryEventBus::with_config(store.clone(), quick()));
    let observer = || observer_fn("projection:x", |_: Event<Note>| async { Ok(()) });
    let old = old_bus.subscribe(observer()).await.unwrap();
    old.caught_up().await.unwrap();
    let new = new_bus.subscribe(observer()).await.unwrap();
    new.caught_up().await.unwrap();
    let at = say(&store, "a").await;
    new_bus.wait_for("projection:x", GlobalSequence(at)).await.unwrap();
    eventually("the older is halted", async || is_halted(&old)).await;
    let term = store.checkpoint("projection:x").await.unwrap().unwrap().term;
    let filed = old_bus.dead_letters().replay_all("projection:x").await.unwrap();
    within("the newer does it", filed.done()).await.unwrap();
    assert!(is_halted(&old) && !is_halted(&new));
    assert_eq!(store.checkpoint("projection:x").await.unwrap().unwrap().term, term);
}

#[tokio::test]
async fn everybody_who_shuts_down_waits_for_the_end() {
    let store = MemoryEventStore::new();
    let bus = MemoryEventBus::with_config(store.clone(), quick());
    let (entered, go, left) = (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let observer = {
        let (entered, go, left) = (entered.clone(), go.clone(), left.clone());
        observer_fn("projection:slow", move |_: Event<Note>| {
            let (entered, go, left) = (entered.clone(), go.clone(), left.clone());
            async move {
                entered.notify_one();
                go.notified().await;
                left.store(true, Ordering::SeqCst);
                Ok(())
            }
        })
    };
    let subscription = bus.subscribe(observer).await.unwrap();
    say(&store, "a").await;
    entered.notified().await;
    // One is cancelled half way, and two wait at the same time.
    drop(tokio::time::timeout(Duration::from_millis(5), subscription.clone().unsubscribe()).await);
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let (bus, left) = (bus.clone(), left.clone());
            tokio::spawn(async move {
                bus.shutdown().await.unwrap();
                assert!(left.load(Ordering::SeqCst), "the handler is still at it");
            })
        })
        .collect();
    tokio::task::yield_now().await;
    go.notify_one();
    for waiter in waiting {
        within("the end", waiter).await.unwrap();
    }
    assert_eq!(subscription.state(), SubscriptionState::Stopped);
}

#[tokio::test]
async fn a_bus_that_nobody_holds_any_more_still_hears_what_is_asked_of_it() {
    let store = MemoryEventStore::new();
    let seen = Arc::new(AtomicUsize::new(0));
    {
        let seen = seen.clone();
        let bus = MemoryEventBus::with_config(store.clone(), quick());
        bus.subscribe(observer_fn("projection:orphan", move |_: Event<Note>| {
            seen.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        }))
        .await
        .unwrap();
    }
    let at = say(&store, "a").await;
    let office = MemoryEventBus::with_config(store.clone(), quick());
    office.wait_for("projection:orphan", GlobalSequence(at)).await.unwrap();
    let filed = office.dead_letters().replay_all("projection:orphan").await.unwrap();
    within("a request is served", filed.done()).await.unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

fn lazy() -> ReliableDeliveryConfig {
    let checkpoint_mode = CheckpointMode::Batched { size: 100, interval: Duration::from_secs(600) };
    ReliableDeliveryConfig { checkpoint_mode, wait_timeout: Duration::from_secs(5), ..quick() }
}

#[tokio::test]
async fn nobody_waits_for_a_checkpoint_that_could_be_stored() {
    let store = MemoryEventStore::new();
    let slow = Duration::from_secs(600);
    let bus = MemoryEventBus::with_config(store.clone(), lazy());
    // Events that are not wanted.
    let options = SubscriberOptions::new().event_types(EventTypes::only(["Struck"]));
    bus.subscribe(observer_fn("projection:other", |_: Event<Note>| async { Ok(()) }).with_options(options))
        .await
        .unwrap();
    // Events in front of one that waits for its retry.
    let observer = observer_fn("projection:retrying", |event: Event<Note>| async move {
        match event.data {
            Note::Noted(text) if text == "bad" => Err("bad".into()),
            _ => Ok(()),
        }
    });
    bus.subscribe(observer.with_options(SubscriberOptions::new().initial_retry_delay(slow).max_retry_delay(slow)))
        .await
        .unwrap();
    let good = say(&store, "good").await;
    let bad = say(&store, "bad").await;
    bus.wait_for("projection:other", GlobalSequence(bad)).await.unwrap();
    bus.wait_for("projection:retrying", GlobalSequence(good)).await.unwrap();
    // And while it waits, it does what is asked of it.
    let filed = bus.dead_letters().replay_all("projection:retrying").await.unwrap();
    within("a request is served", filed.done()).await.unwrap();
    bus.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_dead_letter_that_cannot_be_written_is_tried_no_faster_than_anything_else() {
    let store = MemoryEventStore::new();
    let rough = Flaky::new(store.clone(), |call| match call {
        Call::Begin(..) => Verdict::Fail,
        _ => Verdict::Through,
    });
    let config = ReliableDeliveryConfig {
        initial_retry_delay: Duration::from_secs(600),
        max_retry_delay: Duration::from_secs(600),
        ..quick()
    };
    let bus = EventBus::with_config(rough, config);
    let calls = Arc::new(AtomicUsize::new(0));
    let observer = {
        let calls = calls.clone();
        observer_fn("projection:unburied", move |_: Event<Note>| {
            calls.fetch_add(1, Ordering::SeqCst);
            async { Err(highwater::Permanent::new("no").into()) }
        })
    };
    let subscription = bus.subscribe(observer).await.unwrap();
    say(&store, "a").await;
    let disconnected = async || matches!(subscription.state(), SubscriptionState::Disconnected { .. });
    eventually("it says so", disconnected).await;
    // Twice as long as the store's own backoff takes at first: by then it would have been handled again.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!((calls.load(Ordering::SeqCst), disconnected().await), (1, true));
    bus.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_type_that_the_enum_does_not_know_is_refused() {
    let bus = MemoryEventBus::with_config(MemoryEventStore::new(), quick());
    let options = SubscriberOptions::new().event_types(EventTypes::only(["noted"]));
    let observer = observer_fn("projection:typo", |_: Event<Note>| async { Ok(()) }).with_options(options);
    let error = bus.subscribe(observer).await.unwrap_err().to_string();
    assert!(error.contains("noted") && error.contains("Noted, Struck"), "{error}");
}

#[tokio::test]
async fn many_requests_of_one_subscriber_do_not_keep_anothers_waiting() {
    let store = MemoryEventStore::new();
    let bus = MemoryEventBus::with_config(store.clone(), quick());
    let busy = bus.subscribe(observer_fn("projection:busy", |_: Event<Note>| async { Ok(()) })).await.unwrap();
    bus.subscribe(observer_fn("projection:free", |_: Event<Note>| async { Ok(()) })).await.unwrap();
    busy.pause().await.unwrap();
    for _ in 0..300 {
        bus.dead_letters().replay_all("projection:busy").await.unwrap();
    }
    let filed = bus.dead_letters().replay_all("projection:free").await.unwrap();
    within("the other's request", filed.done()).await.unwrap();
    bus.shutdown().await.unwrap();
}

#[tokio::test]
async fn reading_ahead_is_bounded_by_bytes_also_where_events_are_large() {
    let store = MemoryEventStore::new();
    let large = "x".repeat((1 << 20) - 100);
    for n in 0..40 {
        let append = Append::to(stream_id("large", &n.to_string())).event(Note::Noted(large.clone()));
        store.append(&append).await.unwrap();
    }
    let reads = Arc::new(AtomicUsize::new(0));
    let counting = {
        let reads = reads.clone();
        Flaky::new(store.clone(), move |call| {
            reads.fetch_add(usize::from(matches!(call, Call::Read)), Ordering::SeqCst);
            Verdict::Through
        })
    };
    let config = ReliableDeliveryConfig { catch_up_batch_bytes_max: 3 << 20, ..lazy() };
    let bus = EventBus::with_config(counting, config);
    let (go, seen) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let observer = {
        let (go, seen) = (go.clone(), seen.clone());
        observer_fn("projection:large", move |event: Event<Note>| {
            let (go, seen) = (go.clone(), seen.clone());
            async move {
                let first = seen.lock().unwrap().is_empty();
                seen.lock().unwrap().push(event.global_sequence.unwrap());
                if first {
                    go.notified().await;
                }
                Ok(())
            }
        })
    };
    bus.subscribe(observer).await.unwrap();
    eventually("it is at the first event", async || seen.lock().unwrap().len() == 1).await;
    // As far as it reads while it is not asked for more: the page in hand and three ahead, of three events each.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(reads.load(Ordering::SeqCst), 4);
    go.notify_one();
    bus.wait_for("projection:large", GlobalSequence(40)).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), (1..=40).collect::<Vec<u64>>());
    assert!(reads.load(Ordering::SeqCst) >= 40 / 4, "in pages of three or four");
    bus.shutdown().await.unwrap();
    assert_eq!(bus.dead_letters().count(&DeadLetterQuery::default()).await.unwrap(), 0);
}

/// A store, a bus on it that reads nothing because time has passed, and how often that has read.
fn counting() -> (MemoryEventStore, EventBus<Flaky<MemoryEventStore>>, Arc<AtomicUsize>) {
    let (store, reads) = (MemoryEventStore::new(), Arc::new(AtomicUsize::new(0)));
    let counted = reads.clone();
    let counting = Flaky::new(store.clone(), move |call| {
        counted.fetch_add(usize::from(matches!(call, Call::Read)), Ordering::SeqCst);
        Verdict::Through
    });
    let bus =
        EventBus::with_config(counting, ReliableDeliveryConfig { poll_interval: Duration::from_secs(600), ..quick() });
    (store, bus, reads)
}

#[tokio::test]
async fn live_subscribers_share_one_read_of_the_log() {
    const SUBSCRIBERS: usize = 50;
    let (store, bus, reads) = counting();
    let seen = Arc::new(AtomicUsize::new(0));
    for n in 0..SUBSCRIBERS {
        let seen = seen.clone();
        let observer = observer_fn(format!("projection:{n}"), move |_: Event<Note>| {
            seen.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        });
        let subscription = bus.subscribe(observer).await.unwrap();
        eventually("it is live", async || subscription.state().is_live()).await;
    }
    let before = reads.load(Ordering::SeqCst);
    for n in 1..=20 {
        say(&store, &n.to_string()).await;
        eventually("all have it", async || seen.load(Ordering::SeqCst) == n * SUBSCRIBERS).await;
    }
    let read = reads.load(Ordering::SeqCst) - before;
    assert!(read <= 3 * 20, "{read} reads for 20 events and {SUBSCRIBERS} subscribers");
    bus.shutdown().await.unwrap();
}

#[tokio::test]
async fn resolved_dead_letters_are_kept_for_as_long_as_is_said() {
    let store = MemoryEventStore::new();
    let failing =
        || observer_fn("projection:kept", |_: Event<Note>| async { Err(highwater::Permanent::new("no").into()) });
    let all =
        DeadLetterQuery { states: highwater::operations::DeadLetterState::ALL.to_vec(), ..DeadLetterQuery::default() };
    let bus = MemoryEventBus::with_config(store.clone(), quick());
    bus.subscribe(failing()).await.unwrap();
    for text in ["resolved", "open"] {
        let at = say(&store, text).await;
        bus.wait_for("projection:kept", GlobalSequence(at)).await.unwrap();
    }
    let dead_letters = bus.dead_letters().list(&all).await.unwrap();
    within("it is discarded", bus.dead_letters().discard(dead_letters[0].id, "not needed").await.unwrap().done())
        .await
        .unwrap();
    bus.shutdown().await.unwrap();
    for (retention, left) in [(Duration::from_secs(3_600), 2), (Duration::ZERO, 1)] {
        let bus = MemoryEventBus::with_config(
            store.clone(),
            ReliableDeliveryConfig { dead_letter_retention: retention, ..quick() },
        );
        bus.subscribe(failing()).await.unwrap();
        // Looked through before anything is served.
        within("it is looked after", bus.dead_letters().replay(dead_letters[1].id).await.unwrap().done())
            .await
            .unwrap();
        eventually("what is over is gone", async || bus.dead_letters().count(&all).await.unwrap() == left).await;
        bus.shutdown().await.unwrap();
    }
    assert!(bus.dead_letters().show(dead_letters[1].id).await.is_ok(), "what is open stays");
}

#[tokio::test(start_paused = true)]
async fn what_happens_to_a_subscriber_is_logged() {
    let listener = Listener::default();
    let _listening = tracing::subscriber::set_default(listener.clone());
    let store = MemoryEventStore::new();
    let bus = MemoryEventBus::with_config(store.clone(), ReliableDeliveryConfig { max_retries: 2, ..quick() });
    let observer = observer_fn("projection:logged", |_: Event<Note>| async { Err("no".into()) });
    let at = say(&store, "bad").await;
    let subscription = bus.subscribe(observer).await.unwrap();
    bus.wait_for("projection:logged", GlobalSequence(at)).await.unwrap();
    eventually("it is live", async || subscription.state().is_live()).await;
    bus.shutdown().await.unwrap();
    assert_eq!(listener.count(Level::INFO, "no lock is taken"), 1, "{listener:?}");
    assert_eq!(listener.count(Level::DEBUG, "catching up"), 1, "{listener:?}");
    assert_eq!(listener.count(Level::DEBUG, "caught up"), 1, "it did not take long: {listener:?}");
    assert_eq!(listener.count(Level::WARN, "an event failed; retrying"), 2, "one for each retry: {listener:?}");
    assert_eq!(listener.count(Level::ERROR, "dead letters"), 1, "{listener:?}");
}

#[tokio::test]
async fn one_type_in_streams_of_different_kinds_is_warned_of_where_it_is_written_and_where_it_is_read() {
    let listener = Listener::default();
    let _listening = tracing::subscriber::set_default(listener.clone());
    let store = MemoryEventStore::new();
    let note = async |kind: &str, text: &str| {
        let append = Append::to(stream_id(kind, "1")).event(Note::Noted(text.into()));
        store.append(&append).await.unwrap()
    };
    note("bike", "a").await;
    let elsewhere = store.clone();
    note("bike", "b").await;
    assert_eq!(listener.count(Level::WARN, "written to streams of different kinds"), 0, "{listener:?}");
    let last = note("customer", "c").await;
    note("customer", "d").await;
    assert_eq!(listener.count(Level::WARN, "written to streams of different kinds"), 1, "once: {listener:?}");
    let bus = MemoryEventBus::with_config(elsewhere, quick());
    let subscribe = async |id: &str, options: SubscriberOptions| {
        bus.subscribe(observer_fn(id, |_: Event<Note>| async { Ok(()) }).with_options(options)).await.unwrap();
        bus.wait_for(id, &last).await.unwrap();
    };
    subscribe("projection:bikes", SubscriberOptions::new().of_kinds(["bike"])).await;
    subscribe("projection:both", SubscriberOptions::new().of_kinds(["bike", "customer"])).await;
    assert_eq!(
        listener.count(Level::WARN, "come from streams of different kinds"),
        0,
        "it was asked for: {listener:?}"
    );
    subscribe("projection:mixed", SubscriberOptions::new()).await;
    assert_eq!(listener.count(Level::WARN, "come from streams of different kinds"), 1, "once: {listener:?}");
    bus.shutdown().await.unwrap();
    let findings = highwater::backend::Diagnose::diagnose(&store).await.unwrap();
    assert!(findings.iter().any(|finding| finding.found.contains("bike, customer")), "{findings:?}");
}

#[tokio::test]
async fn an_answer_carries_on_the_conversation_and_is_given_once() {
    let store = MemoryEventStore::new();
    let metadata = Metadata::new().with_correlation_id("order-17");
    let question = Append::to(stream_id("q", "1")).metadata(&metadata).event(Note::Noted("question".to_owned()));
    store.append(&question).await.unwrap();
    let event: Event<Note> = store.read_last_event(stream_id("q", "1")).await.unwrap().unwrap();
    let answer =
        |step: &str| Append::to(stream_id("a", "1")).in_answer_to(&event, step).events([Note::Struck, Note::Struck]);
    let first = store.append(&answer("saga/answer")).await.unwrap();
    let again = store.append(&answer("saga/answer")).await.unwrap();
    assert_eq!((first.positions, again.repeated), (again.positions, true));
    assert!(!store.append(&answer("saga/other")).await.unwrap().repeated, "another step is another answer");
    let given: Event<Note> = store.read_last_event(stream_id("a", "1")).await.unwrap().unwrap();
    assert_eq!(given.metadata.correlation_id(), Some("order-17"));
    assert_eq!(given.metadata.causation_event(), Some(event.id));
}

#[tokio::test]
async fn an_answer_says_who_gave_it_whatever_is_said_first() {
    let store = MemoryEventStore::new();
    let metadata = Metadata::new().with_correlation_id("order-17").with_actor("anna");
    store.append(&Append::to(stream_id("q", "1")).metadata(&metadata).event(Note::Struck)).await.unwrap();
    let event: Event<Note> = store.read_last_event(stream_id("q", "1")).await.unwrap().unwrap();
    let actor = Metadata::new().with_actor("saga");
    let to = |key: &str| Append::to(stream_id("a", key));
    for (key, answer) in [
        ("actor last", to("actor last").in_answer_to(&event, "saga/last").metadata(&actor)),
        ("actor first", to("actor first").metadata(&actor).in_answer_to(&event, "saga/first")),
    ] {
        store.append(&answer.event(Note::Struck)).await.unwrap();
        let given: Event<Note> = store.read_last_event(stream_id("a", key)).await.unwrap().unwrap();
        assert_eq!(given.metadata.causation_event(), Some(event.id), "{key}");
        assert_eq!(
            (given.metadata.correlation_id(), given.metadata.actor()),
            (Some("order-17"), Some("saga")),
            "{key}"
        );
    }
    // Of the same key the later value counts.
    let other = Metadata::new().with_correlation_id("mine");
    let answer = to("own").in_answer_to(&event, "saga/own").metadata(&other).event(Note::Struck);
    store.append(&answer).await.unwrap();
    let given: Event<Note> = store.read_last_event(stream_id("a", "own")).await.unwrap().unwrap();
    assert_eq!((given.metadata.causation_event(), given.metadata.correlation_id()), (Some(event.id), Some("mine")));
}

/// For catching up, and for checkpoints: to ask again is not to be answered.
#[tokio::test(start_paused = true)]
async fn a_store_that_keeps_failing_is_asked_once_a_second_and_complained_of_once() {
    for fails in
        [|call: &Call<'_>| matches!(call, Call::Read), |call: &Call<'_>| matches!(call, Call::StoreCheckpoints(_))]
    {
        let listener = Listener::default();
        let _listening = tracing::subscriber::set_default(listener.clone());
        let store = MemoryEventStore::new();
        let (well, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let troubled = {
            let (well, asked) = (well.clone(), asked.clone());
            Flaky::new(store.clone(), move |call| {
                if !fails(&call) || well.load(Ordering::SeqCst) {
                    return Verdict::Through;
                }
                asked.fetch_add(1, Ordering::SeqCst);
                Verdict::Fail
            })
        };
        let at = say(&store, "a").await;
        let bus = EventBus::new(troubled);
        bus.subscribe(observer_fn("projection:x", |_: Event<Note>| async { Ok(()) })).await.unwrap();
        // The clock is the test's: an hour of it is over at once, and everything that is due in it has been done.
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let times = asked.load(Ordering::SeqCst);
        assert!((3_000..4_000).contains(&times), "it was asked {times} times in an hour");
        assert_eq!(listener.count(Level::WARN, "does not answer as it should"), 1);
        well.store(true, Ordering::SeqCst);
        bus.wait_for("projection:x", GlobalSequence(at)).await.unwrap();
        assert_eq!(listener.count(Level::INFO, "answers again"), 1);
        bus.shutdown().await.unwrap();
    }
}
