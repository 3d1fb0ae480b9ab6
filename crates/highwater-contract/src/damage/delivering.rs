//! Subscribers in front of what was damaged, and those beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use highwater::backend::{Backend, Checkpoints, DeadLetterQuery, DeadLetters, Opening, Requests, Transactional};
use highwater::{
    Error, EventBus, EventTypes, GlobalSequence, InstanceMode, Problem, ReliableDeliveryConfig, SubscriberOptions,
    Subscription, SubscriptionState,
};
use uuid::Uuid;

use super::{ByHand, DAMAGED, EVENTS, SOUND, Told, dead_letter, history, report, request};
use crate::checkpoints::take_over;
use crate::delivery::players::{Observer, end, in_state, one};
use crate::notes::quick;
use crate::support::{Ledger, eventually, within};
use crate::{Call, Flaky, Verdict};

#[doc(hidden)]
pub async fn a_subscriber_that_wants_a_damaged_event_stops_in_front_of_it_and_the_others_continue<D: ByHand>() {
    let (by_hand, store) = history::<D>().await;
    // Live before it happens, so that all of them sit at the same tail.
    let reads = Arc::new(AtomicU64::new(0));
    let counting = {
        let reads = Arc::clone(&reads);
        Flaky::new(store.clone(), move |call| {
            reads.fetch_add(u64::from(matches!(call, Call::Read)), Ordering::SeqCst);
            Verdict::Through
        })
    };
    let bus =
        EventBus::with_config(counting, ReliableDeliveryConfig { poll_interval: Duration::from_secs(60), ..quick() });
    let all = Observer::new("projection:all").shared();
    let closed = SubscriberOptions::new().event_types(EventTypes::only(["Closed"]));
    let some = Observer::new("projection:some").with(closed).shared();
    let stopped = bus.subscribe(Arc::clone(&all)).await.expect("nothing is damaged yet");
    let others = bus.subscribe(Arc::clone(&some)).await.expect("nothing is damaged yet");
    in_state(&stopped, "it is live", SubscriptionState::is_live).await;
    in_state(&others, "the others are live", SubscriptionState::is_live).await;
    let (stream, now) = (D::id(DAMAGED), D::NOW);
    let row = |id, version| format!("({version}, {now}, {}, {stream}, 'Opened', '{{}}')", D::id(Uuid::from_u128(id)));
    let insert = "INSERT INTO events (stream_version, created_at, id, stream_id, event_type, data) VALUES";
    by_hand.execute(&format!("{}; {insert} {}, {}", D::LOOSE, row(6, 4), row(7, -5))).await;
    let last = one(&store, SOUND, Ledger::Closed).await;
    assert_eq!(last, 8);
    is_disconnected(&stopped, "event 7").await;
    bus.wait_for("projection:some", GlobalSequence(last)).await.expect("the others make progress");
    let health = bus.health().await;
    let named = |problem: &Problem| {
        matches!(problem, Problem::Disconnected { subscriber_id, error }
            if subscriber_id == "projection:all" && error.contains("damaged"))
    };
    assert!(health.problems.iter().any(named) && !health.is_ready(), "{health:?}");
    // What lies before it has been dealt with, and nothing after it: data that does not fit went to the dead letters.
    assert_eq!(all.taken(), [1, 2, 3, 4, 5]);
    let dead_letters =
        store.dead_letters(&DeadLetterQuery::of("projection:all")).await.expect("dead letters can be read");
    assert_eq!(dead_letters.iter().map(|dead_letter| dead_letter.global_sequence).collect::<Vec<_>>(), [6]);
    let checkpoint = store.checkpoint("projection:all").await.expect("it can be read").expect("it is stored");
    assert_eq!(checkpoint.global_sequence, 6);
    // Live again beyond it, while the first one still stands there; and nobody spins.
    in_state(&others, "the others are live", SubscriptionState::is_live).await;
    let (before, began) = (reads.load(Ordering::SeqCst), tokio::time::Instant::now());
    for _ in 0..3 {
        let at = one(&store, SOUND, Ledger::Closed).await;
        bus.wait_for("projection:some", GlobalSequence(at)).await.expect("the others make progress");
    }
    let reads = reads.load(Ordering::SeqCst) - before;
    assert!(reads <= D::READS + 10 * began.elapsed().as_secs(), "{reads} reads in {:?}", began.elapsed());
    // Fixed by hand, it resumes by itself.
    let fix = r#"UPDATE events SET stream_version = 5, data = '{"owner":"x"}' WHERE global_sequence = 7"#;
    by_hand.execute(fix).await;
    bus.wait_for("projection:all", GlobalSequence(last)).await.expect("it continues");
    assert_eq!(all.taken()[5..7], [7, 8]);
    end(bus).await;
}

async fn is_disconnected(subscription: &Subscription, why: &str) {
    let told =
        |state: &SubscriptionState| matches!(state, SubscriptionState::Disconnected { error } if error.contains(why));
    in_state(subscription, "it says what is wrong", told).await;
}

/// Checks that a subscriber could not start because of damage, and says so: at once, or when it tries.
///
/// # Panics
/// When it does not.
pub async fn assert_does_not_start(subscribed: Result<Subscription, Error>, why: &str) {
    match subscribed {
        Err(error) => assert!(matches!(error, Error::Damaged { .. }), "{error:?}"),
        Ok(stopped) => is_disconnected(&stopped, why).await,
    }
}

/// Subscribes one that handles everything.
async fn subscribe<S: Transactional>(bus: &EventBus<S>, id: &str) -> Arc<Observer> {
    let observer = Observer::new(id).shared();
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    observer
}

#[doc(hidden)]
pub async fn an_event_whose_content_is_damaged_goes_to_the_dead_letters<D: ByHand>() {
    for (set, ..) in EVENTS.iter().chain(D::EVENTS).filter(|damage| damage.1 == Told::Undecodable) {
        let (by_hand, store) = history::<D>().await;
        by_hand.execute(D::UNBOUND).await;
        by_hand.execute(&format!("UPDATE events SET {set} WHERE global_sequence = 2")).await;
        let bus = EventBus::with_config(store.clone(), quick());
        let observer = subscribe(&bus, "projection:all").await;
        bus.wait_for("projection:all", GlobalSequence(5)).await.expect("it gets past it");
        assert_eq!(observer.taken(), [1, 3, 4, 5], "{set}");
        let dead_letters =
            store.dead_letters(&DeadLetterQuery::of("projection:all")).await.expect("dead letters can be read");
        assert_eq!(dead_letters.len(), 1, "{set}: {dead_letters:?}");
        end(bus).await;
    }
}

/// A bus over a store whose rows were changed, after two subscribers have run once.
pub async fn after<D: ByHand>(sql: &str, mode: InstanceMode) -> (D, D::Store, EventBus<D::Store>) {
    let (by_hand, store) = history::<D>().await;
    let config = ReliableDeliveryConfig { instance_mode: mode, poll_interval: Duration::from_millis(50), ..quick() };
    let bus = EventBus::with_config(store.clone(), config.clone());
    for id in ["projection:x", "projection:other"] {
        subscribe(&bus, id).await;
        bus.wait_for(id, GlobalSequence(5)).await.expect("nothing is damaged yet");
    }
    end(bus).await;
    by_hand.execute(sql).await;
    (by_hand, store.clone(), EventBus::with_config(store, config))
}

#[doc(hidden)]
pub async fn a_checkpoint_that_cannot_be_read_is_never_0<D: ByHand>() {
    for mode in [InstanceMode::SingleInstance, InstanceMode::Coordinated] {
        let sql = "UPDATE event_bus_checkpoints SET last_global_sequence = -1 WHERE subscriber_id = 'projection:x'";
        let (_by_hand, store, bus) = after::<D>(sql, mode).await;
        let read = store.checkpoint("projection:x").await;
        assert_says(&read, "projection:x");
        assert_says(&read, "nothing is negative");
        let stopped = Observer::new("projection:x").shared();
        let subscribed = bus.subscribe(Arc::clone(&stopped)).await;
        let other = subscribe(&bus, "projection:other").await;
        let at = one(&store, SOUND, Ledger::Closed).await;
        takes(&other, at).await;
        assert_does_not_start(subscribed, "nothing is negative").await;
        assert_eq!(stopped.calls(), [0_u64; 0], "nothing is delivered from a position that nobody knows");
        end(bus).await;
    }
}

/// The term still holds, so nothing but the position speaks against the transaction.
#[doc(hidden)]
pub async fn a_transaction_does_not_begin_at_a_checkpoint_that_cannot_be_read<D: ByHand>() {
    let (by_hand, store) = history::<D>().await;
    let (fence, _) = take_over(&store, "projection:x", 0).await;
    by_hand.execute("UPDATE event_bus_checkpoints SET last_global_sequence = -1").await;
    let begun = within("beginning", store.begin(&fence, Opening::Handler, None)).await;
    assert_says(&begun.map(|begun| begun.global_sequence), "nothing is negative");
}

/// Waits until this was the last event that an observer handled.
async fn takes(observer: &Observer, at: u64) {
    eventually("it makes progress", || std::future::ready(observer.taken().last() == Some(&at))).await;
}

/// Terms say who may write: what they are does not matter, as long as the next one is another.
#[doc(hidden)]
pub async fn a_term_that_nobody_was_given_is_replaced_by_the_next_leader<D: ByHand>() {
    let everywhere = [
        "UPDATE event_bus_checkpoints SET term = 9223372036854775807 WHERE subscriber_id = 'projection:x'",
        "UPDATE event_bus_checkpoints SET term = -3 WHERE subscriber_id = 'projection:x'",
    ];
    for sql in everywhere.iter().chain(D::TERMS) {
        let (_by_hand, store, bus) = after::<D>(sql, InstanceMode::Coordinated).await;
        let at = one(&store, DAMAGED, Ledger::Closed).await;
        for id in ["projection:x", "projection:other"] {
            takes(&*subscribe(&bus, id).await, at).await;
        }
        let checkpoints = store.checkpoints().await.expect("they can be read again");
        assert!(checkpoints.iter().all(|found| (1..100).contains(&found.term.number)), "{sql}: {checkpoints:?}");
        end(bus).await;
    }
}

/// As many as are read at once stand before the first that can be.
#[doc(hidden)]
pub async fn requests_that_cannot_be_read_keep_no_other_waiting_however_many_there_are<D: ByHand>() {
    let dances: Vec<String> = (100..200).map(|id| request::<D>(id, "dance")).collect();
    let dance = format!("{}; {}", request::<D>(0, "dance"), dances.join("; "));
    // What came of it is for who did it to say.
    let replay =
        format!("{}; UPDATE event_bus_requests SET done = -1 WHERE kind = 'replay_all'", request::<D>(1, "replay_all"));
    let (one, two) = (report::<D>("projection:y", -1, "live"), report::<D>("projection:z", 1, "retrying"));
    let negative = "UPDATE event_bus_reports SET failures = -1 WHERE subscriber_id = 'projection:z'";
    let sql = format!("{dance}; {replay}; {one}; {two}; {negative}");
    let (_by_hand, store, bus) = after::<D>(&sql, InstanceMode::SingleInstance).await;
    subscribe(&bus, "projection:x").await;
    let filed = bus.dead_letters().by("anna").replay_all("projection:x").await.expect("it can be filed");
    filed.done().await.expect("it is done");
    let open = store.open_requests(&["projection:x".to_owned()]).await.expect("what can be read is read");
    assert!(open.is_empty(), "{open:?}");
    assert_says(&store.request(Uuid::nil()).await, "dance");
    let (done, id) = (store.request(Uuid::from_u128(1)).await, Uuid::from_u128(1));
    assert!(matches!(&done, Ok(Some(request)) if request.id == id && request.outcome.is_some()), "{done:?}");
    let reports = store.reports().await.expect("what can be read is read");
    assert!(
        reports.iter().all(|report| !["projection:y", "projection:z"].contains(&&*report.subscriber_id)),
        "{reports:?}"
    );
    end(bus).await;
}

#[doc(hidden)]
pub async fn a_replay_of_a_dead_letter_without_an_event_fails_beside_a_damaged_one_and_the_subscriber_continues<
    D: ByHand,
>() {
    let sql = format!("{}; {}", dead_letter::<D>(0, "lost"), dead_letter::<D>(1, "dead"));
    let (_by_hand, store, bus) = after::<D>(&sql, InstanceMode::SingleInstance).await;
    subscribe(&bus, "projection:x").await;
    let replay = bus.dead_letters().by("anna").replay(Uuid::from_u128(1)).await.expect("it can be filed");
    let outcome = replay.done().await;
    let failed = outcome.as_ref().map_or(true, |outcome| outcome.failed > 0 || outcome.error.is_some());
    assert!(failed, "{outcome:?}");
    let at = one(&store, SOUND, Ledger::Closed).await;
    bus.wait_for("projection:x", GlobalSequence(at)).await.expect("it continues");
    end(bus).await;
}

#[doc(hidden)]
pub async fn a_damaged_dead_letter_is_an_error_where_it_is_asked_for<D: ByHand>() {
    let damages = [
        ("state = 'lost'", "\"lost\""),
        ("global_sequence = -1", "global_sequence: -1"),
        ("retry_count = -1", "retry_count: -1"),
    ];
    for (set, why) in damages {
        let (by_hand, store) = history::<D>().await;
        by_hand.execute(&format!("{}; UPDATE event_bus_dlq SET {set}", dead_letter::<D>(0, "dead"))).await;
        assert_says(&store.dead_letter(Uuid::nil()).await, why);
    }
}

/// Checks that what cannot be read is called damaged, and why.
fn assert_says<T: std::fmt::Debug>(read: &Result<T, Error>, why: &str) {
    let says = |error: &Error| matches!(error, Error::Damaged { source, .. } if source.to_string().contains(why));
    assert!(read.as_ref().is_err_and(says), "{read:?}");
}
