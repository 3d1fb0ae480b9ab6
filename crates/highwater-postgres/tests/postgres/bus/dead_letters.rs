//! Retries and dead letters.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use highwater::backend::{Checkpoints, Log, NewRecord};
use highwater::operations::{DeadLetterQuery, DeadLetterState};
use highwater::{Append, FailurePolicy, GlobalSequence, SubscriberOptions, SubscriptionState};
use highwater_contract::delivered;
use sqlx::Row;
use uuid::Uuid;

use super::{Recorder, bus, quick, say};
use crate::support::{Db, eventually, note};

#[tokio::test]
async fn a_transient_failure_is_retried_and_leaves_no_dead_letter() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    let recorder = Recorder::new("projection:transient");
    recorder.fail("shaky", 2);
    let at = say(bus.store(), "shaky").await;
    bus.subscribe(recorder.clone()).await.unwrap();
    assert_eq!(bus.wait_for("projection:transient", GlobalSequence(at)).await.unwrap().dead_letter, None);
    assert_eq!(recorder.texts(), ["shaky"]);
    assert_eq!(bus.dead_letters().count(&DeadLetterQuery::default()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_persistent_failure_goes_to_the_dead_letters_and_the_checkpoint_moves() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    let recorder = Recorder::new("projection:persistent");
    recorder.fail("bad", u32::MAX);
    let stream = Uuid::now_v7();
    let append = Append::to(stream).event(note("bad"));
    let event_id = append.event_ids().next().unwrap();
    let at = bus.store().append(&append).await.unwrap().global_sequence;
    let after = say(bus.store(), "good").await;
    bus.subscribe(recorder.clone()).await.unwrap();
    let waited = bus.wait_for("projection:persistent", GlobalSequence(at)).await.unwrap();
    assert_eq!(waited.dead_letter.map(|dead_letter| dead_letter.event_id), Some(event_id));
    bus.wait_for("projection:persistent", GlobalSequence(after)).await.unwrap();
    assert_eq!(recorder.texts(), ["good"], "processing continues");
    let mut connection = db.connection().await;
    let row = sqlx::query(
        "SELECT subscriber_id, event_id, global_sequence, error_message, retry_count, created_at <= now(),
             last_retry_at IS NOT NULL, stream_id FROM event_bus_dlq",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert_eq!(row.get::<String, _>(0), "projection:persistent");
    assert_eq!(row.get::<Uuid, _>(1), event_id);
    assert_eq!(row.get::<i64, _>(2), at as i64);
    assert_eq!(row.get::<String, _>(3), "bad fails");
    assert_eq!(row.get::<i32, _>(4), 3, "three retries after the first attempt");
    assert!(row.get::<bool, _>(5) && row.get::<bool, _>(6));
    assert_eq!(row.get::<Uuid, _>(7), stream);
    let stored = bus.store().checkpoint("projection:persistent").await.unwrap().unwrap();
    assert_eq!(stored.global_sequence, after);
}

#[tokio::test]
async fn a_dead_letter_that_cannot_be_written_keeps_the_checkpoint_where_it_is() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    let recorder = Recorder::new("projection:unburied");
    recorder.fail("bad", 6);
    let mut connection = db.connection().await;
    db.execute(&mut connection, "ALTER TABLE {s}.event_bus_dlq ADD CONSTRAINT never CHECK (retry_count < 0)").await;
    let before = say(bus.store(), "before").await;
    let bad = say(bus.store(), "bad").await;
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    super::until(&subscription, |state| matches!(state, SubscriptionState::Disconnected { .. })).await;
    let stored = bus.store().checkpoint("projection:unburied").await.unwrap().unwrap();
    assert_eq!(stored.global_sequence, before);
    // Whatever was wrong passes before the dead letter can be written: then there is none.
    bus.wait_for("projection:unburied", GlobalSequence(bad)).await.unwrap();
    assert_eq!(recorder.texts(), ["before", "bad"]);
}

#[tokio::test]
async fn an_undecodable_event_is_kept_with_its_raw_payload() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    let raw = r#"{"text": {"not": "a string"}, "n": 1.50}"#;
    let record = NewRecord {
        id: Uuid::now_v7(),
        stream_id: Uuid::now_v7(),
        stream_name: None,
        event_type: "Noted".to_owned(),
        schema_version: 1,
        data: raw.to_owned(),
        metadata: "{}".to_owned(),
        created_at: chrono::Utc::now(),
    };
    let at = bus.store().append(&Append::to(record.stream_id).record(record.clone())).await.unwrap().global_sequence;
    let recorder = Recorder::new("projection:undecodable");
    bus.subscribe(recorder.clone()).await.unwrap();
    let dead_letter = bus.wait_for("projection:undecodable", GlobalSequence(at)).await.unwrap().dead_letter.unwrap();
    assert_eq!(dead_letter.retry_count, 0, "a retry is no use");
    let detail = bus.dead_letters().show(dead_letter.id).await.unwrap();
    assert_eq!(detail.record.unwrap().data, raw);
    assert!(detail.dead_letter.error_message.unwrap().contains("cannot decode event"));
}

#[tokio::test]
async fn an_error_that_cannot_be_stored_as_it_is_does_not_keep_its_dead_letter_from_being_written() {
    let db = Db::new();
    let bus = bus(&db, highwater::ReliableDeliveryConfig { max_retries: 0, ..quick() }).await;
    let at = say(bus.store(), "x").await;
    let observer = highwater::observer_fn("projection:nul", |_: highwater::Event<crate::support::Note>| async {
        Err(format!("nul \0 and {}", "long ".repeat(100_000)).into())
    });
    bus.subscribe(observer).await.unwrap();
    let dead_letter = bus.wait_for("projection:nul", GlobalSequence(at)).await.unwrap().dead_letter.unwrap();
    let message = dead_letter.error_message.unwrap();
    assert!(message.starts_with("nul \u{fffd} and long") && message.len() < 10_000);
}

#[tokio::test]
async fn dead_letters_are_replayed_by_the_subscriber_though_another_process_asks() {
    let db = Db::new();
    let worker = bus(&db, quick()).await;
    let recorder = Recorder::with("projection:parked", SubscriberOptions::new().on_failure(FailurePolicy::ParkStream));
    recorder.fail("1", 4);
    let stream = Uuid::now_v7();
    let append = Append::to(stream).events((1..=3).map(|n| note(n.to_string())));
    let at = worker.store().append(&append).await.unwrap().global_sequence;
    worker.subscribe(recorder.clone()).await.unwrap();
    worker.wait_for("projection:parked", GlobalSequence(at)).await.unwrap();
    assert!(recorder.texts().is_empty(), "all of the stream waits behind its first event");

    let office = bus(&db, quick()).await;
    let dead_letters = office.dead_letters().by("anna");
    assert_eq!(dead_letters.count(&DeadLetterQuery::of("projection:parked")).await.unwrap(), 3);
    let outcome = dead_letters.replay_all("projection:parked").await.unwrap().done().await.unwrap();
    assert_eq!((outcome.done, outcome.failed), (3, 0));
    assert_eq!(recorder.texts(), ["1", "2", "3"]);
    let query = DeadLetterQuery { states: vec![DeadLetterState::Replayed], ..DeadLetterQuery::of("projection:parked") };
    let replayed = dead_letters.list(&query).await.unwrap();
    assert!(replayed.iter().all(|dead_letter| dead_letter.resolved_by.as_deref() == Some("anna")));
    let next = worker.store().append(&Append::to(stream).event(note("4"))).await.unwrap().global_sequence;
    worker.wait_for("projection:parked", GlobalSequence(next)).await.unwrap();
    assert_eq!(recorder.texts(), ["1", "2", "3", "4"], "the stream is not parked any more");
}

#[tokio::test]
async fn a_retrying_subscriber_delays_nobody_else() {
    let db = Db::new();
    let slow = highwater::ReliableDeliveryConfig {
        initial_retry_delay: Duration::from_secs(600),
        max_retry_delay: Duration::from_secs(600),
        ..quick()
    };
    let bus = bus(&db, quick()).await;
    let failing = Recorder::with("projection:slow", delivered(SubscriberOptions::new(), &slow));
    failing.fail("0", u32::MAX);
    bus.subscribe(failing).await.unwrap();
    let others: Vec<_> = (0..5).map(|n| Recorder::new(&format!("projection:{n}"))).collect();
    for other in &others {
        bus.subscribe(other.clone()).await.unwrap();
    }
    static N: AtomicU32 = AtomicU32::new(0);
    let mut at = 0;
    for _ in 0..10 {
        at = say(bus.store(), &N.fetch_add(1, Ordering::Relaxed).to_string()).await;
    }
    for (n, other) in others.iter().enumerate() {
        bus.wait_for(&format!("projection:{n}"), GlobalSequence(at)).await.unwrap();
        assert_eq!(other.texts().len(), 10);
    }
}

#[tokio::test]
async fn streams_whose_dead_letters_are_deleted_by_hand_continue_without_a_restart() {
    let db = Db::new();
    let config = highwater::ReliableDeliveryConfig { parked_per_stream_max: 2, max_retries: 0, ..quick() };
    let bus = bus(&db, config).await;
    let options = SubscriberOptions::new().on_failure(FailurePolicy::ParkStream);
    let recorder = Recorder::with("projection:emptied", options);
    let mut by_hand = db.connection().await;
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    let append = async |stream: Uuid, text: &str| {
        bus.store().append(&Append::to(stream).event(note(text))).await.unwrap().global_sequence
    };
    for (round, delete) in [
        "DELETE FROM {s}.event_bus_dlq",
        "TRUNCATE {s}.event_bus_dlq CASCADE",
        "DELETE FROM {s}.event_bus_dlq WHERE state = 'dead'",
    ]
    .into_iter()
    .enumerate()
    {
        let stream = Uuid::now_v7();
        recorder.fail("bad", 1);
        append(stream, "bad").await;
        let parked = append(stream, "behind").await;
        bus.wait_for("projection:emptied", GlobalSequence(parked)).await.unwrap();
        assert_eq!(bus.dead_letters().count(&DeadLetterQuery::default()).await.unwrap(), 2);
        db.execute(&mut by_hand, delete).await;
        let after = append(stream, &format!("after {round}")).await;
        bus.wait_for("projection:emptied", GlobalSequence(after)).await.unwrap();
        // Parked, if at all, only until it is noticed that there is nothing to wait behind.
        eventually("it waits behind nothing", async || {
            bus.dead_letters().count(&DeadLetterQuery::default()).await.unwrap() == 0
        })
        .await;
        assert_eq!(recorder.texts().last(), Some(&format!("after {round}")), "it was handled");
    }
    // As above, and in front lies a dead letter from when a failure did not park.
    let stream = Uuid::now_v7();
    recorder.fail("old", 1);
    append(stream, "old").await;
    let behind = append(stream, "behind").await;
    bus.wait_for("projection:emptied", GlobalSequence(behind)).await.unwrap();
    db.execute(&mut by_hand, "UPDATE {s}.event_bus_dlq SET parks = false WHERE state = 'dead'").await;
    append(stream, "after it").await;
    eventually("nothing is parked", async || {
        let parked =
            DeadLetterQuery { states: vec![highwater::operations::DeadLetterState::Parked], ..Default::default() };
        recorder.texts().contains(&"after it".to_owned()) && bus.dead_letters().count(&parked).await.unwrap() == 0
    })
    .await;
    assert!(!recorder.texts().contains(&"old".to_owned()), "what nobody asked for is not replayed");
    // A subscriber that was halted by the limit continues when it is resumed.
    let stream = Uuid::now_v7();
    recorder.fail("bad", 1);
    append(stream, "bad").await;
    append(stream, "behind").await;
    let third = append(stream, "third").await;
    super::until(&subscription, |state| matches!(state, SubscriptionState::Halted { .. })).await;
    db.execute(&mut by_hand, "TRUNCATE {s}.event_bus_dlq CASCADE").await;
    subscription.resume().await.unwrap();
    bus.wait_for("projection:emptied", GlobalSequence(third)).await.unwrap();
    assert_eq!(recorder.texts().last().map(String::as_str), Some("third"));
}
