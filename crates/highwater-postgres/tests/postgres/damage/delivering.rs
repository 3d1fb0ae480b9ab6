//! Subscribers in front of what was damaged, and those beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use highwater::backend::{Checkpoints, DeadLetters, Log};
use highwater::{
    Append, Error, EventBus, EventTypes, GlobalSequence, InstanceMode, LetterQuery, Problem, ReliableDeliveryConfig,
    SubscriberOptions, SubscriptionState,
};
use highwater_contract::{Call, Flaky, Verdict};
use highwater_postgres::{PgEventBus, PgEventStore};

use super::{SOUND, history};
use crate::bus::{Recorder, quick, say};
use crate::support::{Db, Note, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn who_wants_a_damaged_event_stops_in_front_of_it_and_the_others_go_on() {
    let db = Db::new();
    let store = history(&db).await;
    // Live before it happens, so that all of them sit at the same tail.
    let reads = Arc::new(AtomicUsize::new(0));
    let counting = {
        let reads = reads.clone();
        Flaky::new(store.clone(), move |call| {
            reads.fetch_add(usize::from(matches!(call, Call::Read)), Ordering::SeqCst);
            Verdict::Through
        })
    };
    let bus = EventBus::with_config(counting, quick());
    let all = Recorder::new("projection:all");
    let some = SubscriberOptions::new().event_types(EventTypes::only(["Struck"]));
    let some = Recorder::with("projection:some", some);
    let stopped = bus.subscribe(all.clone()).await.unwrap();
    let others = bus.subscribe(some).await.unwrap();
    eventually("both are live", async || stopped.state().is_live() && others.state().is_live()).await;
    let mut by_hand = db.connection().await;
    db.execute(
        &mut by_hand,
        "ALTER TABLE {s}.events DROP CONSTRAINT events_stream_version_check;
        INSERT INTO {s}.events (stream_version, id, stream_id, event_type, data)
        VALUES (4, gen_random_uuid(), '00000000-0000-0000-0000-00000000000d', 'Noted', '{}'),
            (-5, gen_random_uuid(), '00000000-0000-0000-0000-00000000000d', 'Noted', '{}')",
    )
    .await;
    let last = store.append(&Append::to(SOUND).event(Note::Struck)).await.unwrap().global_sequence;
    assert_eq!(last, 8);
    let is_told = |state| matches!(state, SubscriptionState::Disconnected { error } if error.contains("event 7"));
    eventually("it says what is wrong", async || is_told(stopped.state())).await;
    bus.wait_for("projection:some", GlobalSequence(last)).await.unwrap();
    let health = bus.health().await;
    let named = |problem: &Problem| {
        matches!(problem, Problem::Disconnected { subscriber_id, error }
            if subscriber_id == "projection:all" && error.contains("damaged"))
    };
    assert!(health.problems.iter().any(named) && !health.is_ready(), "{health:?}");
    // What lies before it has been dealt with, and nothing after it: data that does not fit went to the letters.
    assert_eq!(all.sequences(), [1, 2, 3]);
    let letters = store.letters(&LetterQuery::of("projection:all")).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.global_sequence).collect::<Vec<_>>(), [6]);
    assert_eq!(store.checkpoint("projection:all").await.unwrap().unwrap().global_sequence, 6);
    // Live again beyond it, while the first one still stands there; and nobody spins.
    eventually("the others are live", async || others.state().is_live()).await;
    let (before, began) = (reads.load(Ordering::SeqCst), tokio::time::Instant::now());
    for _ in 0..3 {
        let at = store.append(&Append::to(SOUND).event(Note::Struck)).await.unwrap().global_sequence;
        bus.wait_for("projection:some", GlobalSequence(at)).await.unwrap();
    }
    let reads = reads.load(Ordering::SeqCst) - before;
    assert!(reads as u64 <= 30 + 10 * began.elapsed().as_secs(), "{reads} reads in {:?}", began.elapsed());
    // Mended by hand, it goes on by itself.
    let mend = "UPDATE {s}.events SET stream_version = 5, data = '{\"text\":\"x\"}' WHERE global_sequence = 7";
    db.execute(&mut by_hand, mend).await;
    bus.wait_for("projection:all", GlobalSequence(last)).await.unwrap();
    assert_eq!(all.sequences(), [1, 2, 3, 7]);
    bus.shutdown().await.unwrap();
}

/// A bus over a database whose rows were changed, after these subscribers have run once.
async fn after(sql: &str, mode: InstanceMode) -> (Db, PgEventStore, PgEventBus) {
    let db = Db::new();
    let store = history(&db).await;
    let config = ReliableDeliveryConfig { instance_mode: mode, poll_interval: Duration::from_millis(50), ..quick() };
    let bus = PgEventBus::with_config(store.clone(), config.clone());
    for id in ["projection:x", "projection:other"] {
        bus.subscribe(Recorder::new(id)).await.unwrap();
        bus.wait_for(id, GlobalSequence(5)).await.unwrap();
    }
    bus.shutdown().await.unwrap();
    db.execute(&mut db.connection().await, sql).await;
    (db, store.clone(), PgEventBus::with_config(store, config))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_cannot_be_read_is_never_0() {
    for mode in [InstanceMode::SingleInstance, InstanceMode::Coordinated] {
        let sql = "UPDATE {s}.event_bus_checkpoints SET last_global_sequence = -1 WHERE subscriber_id = 'projection:x'";
        let (_db, store, bus) = after(sql, mode).await;
        let read = store.checkpoint("projection:x").await;
        let named = |error: &Error| matches!(error, Error::Damaged { source, .. } if source.to_string().contains("nothing is negative"));
        assert!(read.as_ref().is_err_and(named), "{read:?}");
        let (one, other) = (Recorder::new("projection:x"), Recorder::new("projection:other"));
        let stopped = bus.subscribe(one.clone()).await;
        bus.subscribe(other.clone()).await.unwrap();
        let at = say(&store, "on").await;
        bus.wait_for("projection:other", GlobalSequence(at)).await.unwrap();
        match stopped {
            Err(error) => assert!(named(&error), "{error:?}"),
            Ok(stopped) => {
                let told = |state| matches!(state, SubscriptionState::Disconnected { error } if error.contains("nothing is negative"));
                eventually("it says what is wrong", async || told(stopped.state())).await;
            }
        }
        assert_eq!(one.sequences(), [0_u64; 0], "nothing is delivered from a position that nobody knows");
        bus.shutdown().await.unwrap();
    }
}

/// Terms say who may write: what they are does not matter, as long as the next one is another.
#[tokio::test(flavor = "multi_thread")]
async fn a_term_that_nobody_was_given_is_replaced_by_whoever_takes_over() {
    for term in ["9223372036854775807", "-3"] {
        let sql = format!("UPDATE {{s}}.event_bus_checkpoints SET term = {term} WHERE subscriber_id = 'projection:x'");
        let (_db, store, bus) = after(&sql, InstanceMode::Coordinated).await;
        let at = say(&store, "on").await;
        for id in ["projection:x", "projection:other"] {
            let recorder = Recorder::new(id);
            bus.subscribe(recorder.clone()).await.unwrap();
            eventually("it gets on", async || recorder.sequences().last() == Some(&at)).await;
        }
        let checkpoints = store.checkpoints().await.unwrap();
        assert!(checkpoints.iter().all(|found| (1..100).contains(&found.term.number)), "{term}: {checkpoints:?}");
        bus.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_nobody_understands_keeps_no_other_waiting() {
    let sql = "ALTER TABLE {s}.event_bus_requests DROP CONSTRAINT event_bus_requests_ask_check;
        INSERT INTO {s}.event_bus_requests (id, subscriber_id, ask, requested_by)
        VALUES ('00000000-0000-0000-0000-000000000000', 'projection:x', 'dance', 'me'),
            (gen_random_uuid(), 'projection:x', 'replay_all', 'me');
        INSERT INTO {s}.event_bus_reports (subscriber_id, term, state, global_sequence, rate, reported_at)
        VALUES ('projection:y', -1, 'live', -1, 0, now())";
    let (_db, store, bus) = after(sql, InstanceMode::SingleInstance).await;
    bus.subscribe(Recorder::new("projection:x")).await.unwrap();
    let filed = bus.dead_letters().by("anna").replay_all("projection:x").await.unwrap();
    filed.done().await.unwrap();
    assert_eq!(store.open_requests(&["projection:x".to_owned()]).await.unwrap(), []);
    let asked = store.request(uuid::Uuid::nil()).await;
    assert!(matches!(&asked, Err(Error::Damaged { source, .. }) if source.to_string().contains("dance")), "{asked:?}");
    assert!(store.reports().await.unwrap().iter().all(|report| report.subscriber_id != "projection:y"));
    bus.shutdown().await.unwrap();
}
