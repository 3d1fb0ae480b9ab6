//! Subscribers in front of what was damaged, and those beside them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::backend::{Checkpoints, DeadLetters, Log};
use highwater::{
    Append, Error, Event, EventBus, EventTypes, GlobalSequence, InstanceMode, LetterQuery, Problem,
    ReliableDeliveryConfig, SubscriberOptions, SubscriptionState, observer_fn,
};
use highwater_contract::{Call, Flaky, Verdict};
use highwater_sqlite::{SqliteEventBus, SqliteEventStore};

use super::{DAMAGED, Deed, SOUND, UNBOUND, history};
use crate::support::{Folder, connection, eventually, execute, quick};

/// Writes down the numbers of what it is handed.
type Seen = Arc<Mutex<Vec<u64>>>;

fn recorder(seen: &Seen) -> impl Fn(Event<Deed>) -> std::future::Ready<Result<(), highwater::BoxError>> + use<> {
    let seen = seen.clone();
    move |event| {
        seen.lock().unwrap().push(event.global_sequence.unwrap());
        std::future::ready(Ok(()))
    }
}

fn undone() -> SubscriberOptions {
    SubscriberOptions::new().event_types(EventTypes::only(["Undone"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wants_a_damaged_event_stops_in_front_of_it_and_the_others_go_on() {
    let folder = Folder::new();
    let store = history(&folder).await;
    // Live before it happens, so that all of them sit at the same tail.
    let reads = Arc::new(AtomicUsize::new(0));
    let counting = {
        let reads = reads.clone();
        Flaky::new(store.clone(), move |call| {
            reads.fetch_add(usize::from(matches!(call, Call::Read)), Ordering::SeqCst);
            Verdict::Through
        })
    };
    let bus =
        EventBus::with_config(counting, ReliableDeliveryConfig { poll_interval: Duration::from_secs(60), ..quick() });
    let (all, some) = (Seen::default(), Seen::default());
    let stopped = bus.subscribe(observer_fn("projection:all", recorder(&all))).await.unwrap();
    let others = observer_fn("projection:some", recorder(&some)).with_options(undone());
    let others = bus.subscribe(others).await.unwrap();
    eventually("both are live", async || stopped.state().is_live() && others.state().is_live()).await;
    let mut by_hand = connection(&folder.database()).await;
    execute(
        &mut by_hand,
        "PRAGMA ignore_check_constraints = ON; INSERT INTO events (stream_version, created_at, id, stream_id, event_type, data)
        VALUES (4, 0, randomblob(16), unhex('0000000000000000000000000000000d'), 'Done', '{}'),
            (-5, 0, randomblob(16), unhex('0000000000000000000000000000000d'), 'Done', '{}')",
    )
    .await;
    let last = store.append(&Append::to(SOUND).event(Deed::Undone)).await.unwrap().global_sequence;
    assert_eq!(last, 8);
    let is_told = |state: &SubscriptionState| matches!(state, SubscriptionState::Disconnected { error } if error.contains("event 7"));
    eventually("it says what is wrong", async || is_told(&stopped.state())).await;
    eventually("the others get on", async || some.lock().unwrap().last() == Some(&last)).await;
    let health = bus.health().await;
    let named = |problem: &Problem| matches!(problem, Problem::Disconnected { subscriber_id, error } if subscriber_id == "projection:all" && error.contains("damaged"));
    assert!(health.problems.iter().any(named) && !health.is_ready(), "{health:?}");
    // What lies before it has been dealt with, and nothing after it: data that does not fit went to the letters.
    assert_eq!(*all.lock().unwrap(), [1, 2, 3, 4, 5]);
    let letters = store.letters(&LetterQuery::of("projection:all")).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.global_sequence).collect::<Vec<_>>(), [6]);
    assert_eq!(store.checkpoint("projection:all").await.unwrap().unwrap().global_sequence, 6);
    // Live again beyond it, while the first one still stands there; and nobody spins.
    eventually("the others are live", async || others.state().is_live()).await;
    let (before, began) = (reads.load(Ordering::SeqCst), tokio::time::Instant::now());
    for _ in 0..3 {
        let at = store.append(&Append::to(SOUND).event(Deed::Undone)).await.unwrap().global_sequence;
        bus.wait_for("projection:some", GlobalSequence(at)).await.unwrap();
    }
    let reads = reads.load(Ordering::SeqCst) - before;
    assert!(reads as u64 <= 20 + 10 * began.elapsed().as_secs(), "{reads} reads in {:?}", began.elapsed());
    // Mended by hand, it goes on by itself.
    let mend = "UPDATE events SET stream_version = 5, data = '{\"what\":\"x\"}' WHERE global_sequence = 7";
    execute(&mut by_hand, mend).await;
    bus.wait_for("projection:all", GlobalSequence(last)).await.unwrap();
    assert_eq!(all.lock().unwrap()[5..7], [7, 8]);
    bus.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_whose_content_is_damaged_goes_to_the_letters() {
    let folder = Folder::new();
    let store = history(&folder).await;
    let mut by_hand = connection(&folder.database()).await;
    execute(&mut by_hand, UNBOUND).await;
    execute(&mut by_hand, "UPDATE events SET data = NULL WHERE global_sequence = 2").await;
    let bus = SqliteEventBus::with_config(store.clone(), quick());
    let seen = Seen::default();
    bus.subscribe(observer_fn("projection:all", recorder(&seen))).await.unwrap();
    bus.wait_for("projection:all", GlobalSequence(5)).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [1, 3, 4, 5]);
    assert_eq!(store.letters(&LetterQuery::of("projection:all")).await.unwrap().len(), 1);
    bus.shutdown().await.unwrap();
}

/// A bus over a file whose rows of this subscriber were changed, after it has run once.
async fn after(sql: &'static str, mode: InstanceMode) -> (Folder, SqliteEventStore, SqliteEventBus) {
    let folder = Folder::new();
    let store = history(&folder).await;
    let config = ReliableDeliveryConfig { instance_mode: mode, ..quick() };
    let bus = SqliteEventBus::with_config(store.clone(), config.clone());
    for id in ["projection:x", "projection:other"] {
        bus.subscribe(observer_fn(id, recorder(&Seen::default()))).await.unwrap();
        bus.wait_for(id, GlobalSequence(3)).await.unwrap();
    }
    bus.shutdown().await.unwrap();
    execute(&mut connection(&folder.database()).await, sql).await;
    (folder, store.clone(), SqliteEventBus::with_config(store, config))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_cannot_be_read_is_never_0() {
    for mode in [InstanceMode::SingleInstance, InstanceMode::Coordinated] {
        let sql = "UPDATE event_bus_checkpoints SET last_global_sequence = -1 WHERE subscriber_id = 'projection:x'";
        let (_folder, store, bus) = after(sql, mode).await;
        let read = store.checkpoint("projection:x").await;
        assert!(
            matches!(&read, Err(Error::Damaged { source, .. }) if source.to_string().contains("projection:x")),
            "{read:?}"
        );
        let (seen, others) = (Seen::default(), Seen::default());
        let stopped = bus.subscribe(observer_fn("projection:x", recorder(&seen))).await;
        bus.subscribe(observer_fn("projection:other", recorder(&others))).await.unwrap();
        let at = store.append(&Append::to(SOUND).event(Deed::Undone)).await.unwrap().global_sequence;
        eventually("the other one gets on", async || others.lock().unwrap().last() == Some(&at)).await;
        match stopped {
            Err(error) => assert!(matches!(error, Error::Damaged { .. }), "{error:?}"),
            Ok(stopped) => {
                let told = |state| matches!(state, SubscriptionState::Disconnected { error } if error.contains("nothing is negative"));
                eventually("it says what is wrong", async || told(stopped.state())).await;
            }
        }
        assert_eq!(*seen.lock().unwrap(), [0_u64; 0], "nothing is delivered from a position that nobody knows");
        bus.shutdown().await.unwrap();
    }
}

/// Terms say who may write: what they are does not matter, as long as the next one is another.
#[tokio::test(flavor = "multi_thread")]
async fn a_term_that_nobody_was_given_is_replaced_by_whoever_takes_over() {
    for sql in [
        "UPDATE event_bus_checkpoints SET term = 9223372036854775807 WHERE subscriber_id = 'projection:x'",
        "UPDATE event_bus_checkpoints SET term = -3 WHERE subscriber_id = 'projection:x'",
        "UPDATE event_bus_terms SET last = 0",
    ] {
        let (_folder, store, bus) = after(sql, InstanceMode::Coordinated).await;
        let at = store.append(&Append::to(DAMAGED).event(Deed::Undone)).await.unwrap().global_sequence;
        for id in ["projection:x", "projection:other"] {
            let seen = Seen::default();
            bus.subscribe(observer_fn(id, recorder(&seen))).await.unwrap();
            eventually("it gets on", async || seen.lock().unwrap().last() == Some(&at)).await;
        }
        let checkpoints = store.checkpoints().await.unwrap();
        assert!(checkpoints.iter().all(|found| (1..100).contains(&found.term.number)), "{sql}: {checkpoints:?}");
        bus.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_of_terms_that_is_damaged_keeps_everybody_from_starting_and_says_so() {
    for sql in ["UPDATE event_bus_terms SET last = 9223372036854775807", "DELETE FROM event_bus_terms"] {
        let (_folder, _store, bus) = after(sql, InstanceMode::SingleInstance).await;
        let stopped = bus.subscribe(observer_fn("projection:x", recorder(&Seen::default()))).await;
        match stopped {
            Err(error) => assert!(matches!(error, Error::Damaged { .. }), "{sql}: {error:?}"),
            Ok(stopped) => {
                let told =
                    |state| matches!(state, SubscriptionState::Disconnected { error } if error.contains("damaged"));
                eventually("it says what is wrong", async || told(stopped.state())).await;
            }
        }
        bus.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_nobody_understands_keeps_no_other_waiting() {
    let sql = "PRAGMA ignore_check_constraints = ON;
        INSERT INTO event_bus_requests (id, subscriber_id, ask, requested_by, requested_at)
        VALUES (zeroblob(16), 'projection:x', 'dance', 'me', 0), (randomblob(16), 'projection:x', 'replay_all', 'me', 1);
        INSERT INTO event_bus_reports (subscriber_id, term, state, global_sequence, rate, reported_at)
        VALUES ('projection:y', -1, 'live', -1, 0.0, 0)";
    let (_folder, store, bus) = after(sql, InstanceMode::SingleInstance).await;
    bus.subscribe(observer_fn("projection:x", recorder(&Seen::default()))).await.unwrap();
    let filed = bus.dead_letters().by("anna").replay_all("projection:x").await.unwrap();
    filed.done().await.unwrap();
    let open = store.open_requests(&["projection:x".to_owned()]).await.unwrap();
    assert!(open.is_empty(), "{open:?}");
    let asked = store.request(uuid::Uuid::nil()).await;
    assert!(matches!(&asked, Err(Error::Damaged { source, .. }) if source.to_string().contains("dance")), "{asked:?}");
    assert!(store.reports().await.unwrap().iter().all(|report| report.subscriber_id != "projection:y"));
    bus.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_a_letter_that_is_damaged_or_without_an_event_fails_and_the_subscriber_goes_on() {
    let sql = "PRAGMA ignore_check_constraints = ON; INSERT INTO event_bus_dlq (id, subscriber_id, event_id,
        global_sequence, stream_id, event_type, created_at, state)
        VALUES (zeroblob(16), 'projection:x', zeroblob(16), 1, zeroblob(16), 'Done', 0, 'lost'),
            (unhex('00000000000000000000000000000001'), 'projection:x', randomblob(16), 1, zeroblob(16), 'Done', 0, 'dead')";
    let (_folder, store, bus) = after(sql, InstanceMode::SingleInstance).await;
    bus.subscribe(observer_fn("projection:x", recorder(&Seen::default()))).await.unwrap();
    let one = bus.dead_letters().by("anna").replay(uuid::Uuid::from_u128(1)).await.unwrap();
    let outcome = one.done().await;
    assert!(
        outcome.as_ref().map_or(true, |outcome| outcome.failed + u64::from(outcome.error.is_some()) > 0),
        "{outcome:?}"
    );
    let at = store.append(&Append::to(SOUND).event(Deed::Undone)).await.unwrap().global_sequence;
    bus.wait_for("projection:x", GlobalSequence(at)).await.unwrap();
    bus.shutdown().await.unwrap();
}
