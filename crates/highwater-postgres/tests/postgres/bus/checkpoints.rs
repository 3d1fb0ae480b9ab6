//! Checkpoints and catching up.

use std::time::Duration;

use highwater::backend::Checkpoints;
use highwater::{EventTypes, GlobalSequence, ReliableDeliveryConfig, StartAt, SubscriberOptions, observer_fn};
use highwater_contract::delivered;
use sqlx::Row;

use super::{Recorder, batched, bus, quick, say, say_many};
use crate::support::{Db, Note, eventually};

#[tokio::test]
async fn initialize_creates_the_tables_of_the_bus() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    bus.initialize().await.unwrap();
    bus.initialize().await.unwrap();
    let mut connection = db.connection().await;
    let columns: Vec<String> = sqlx::query_scalar(
        "SELECT table_name || '.' || column_name || ' ' || data_type FROM information_schema.columns
         WHERE table_schema = $1 AND table_name IN ('event_bus_checkpoints', 'event_bus_dlq')",
    )
    .bind(&db.schema)
    .fetch_all(&mut connection)
    .await
    .unwrap();
    for expected in [
        "event_bus_checkpoints.subscriber_id character varying",
        "event_bus_checkpoints.last_global_sequence bigint",
        "event_bus_checkpoints.last_event_id uuid",
        "event_bus_checkpoints.updated_at timestamp with time zone",
        "event_bus_checkpoints.term bigint",
        "event_bus_dlq.id uuid",
        "event_bus_dlq.subscriber_id character varying",
        "event_bus_dlq.event_id uuid",
        "event_bus_dlq.global_sequence bigint",
        "event_bus_dlq.error_message text",
        "event_bus_dlq.retry_count integer",
        "event_bus_dlq.created_at timestamp with time zone",
        "event_bus_dlq.last_retry_at timestamp with time zone",
    ] {
        assert!(columns.iter().any(|column| column == expected), "{expected} is missing from {columns:?}");
    }
    let indexes: Vec<String> = sqlx::query_scalar("SELECT indexname::text FROM pg_indexes WHERE schemaname = $1")
        .bind(&db.schema)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    for expected in ["idx_dlq_subscriber", "idx_dlq_created_at", "unique_subscriber_event"] {
        assert!(indexes.iter().any(|index| index == expected), "{expected} is missing from {indexes:?}");
    }
}

#[tokio::test]
async fn a_new_subscriber_has_no_checkpoint_and_gets_one_that_is_updated_in_place() {
    let db = Db::new();
    let store = db.store().await;
    assert_eq!(store.checkpoint("projection:new").await.unwrap(), None);
    let bus = bus(&db, quick()).await;
    let recorder = Recorder::new("projection:new");
    let subscription = bus.subscribe(recorder).await.unwrap();
    for text in ["one", "two"] {
        let at = say(&store, text).await;
        bus.wait_for("projection:new", GlobalSequence(at)).await.unwrap();
        assert_eq!(store.checkpoint("projection:new").await.unwrap().unwrap().global_sequence, at);
    }
    subscription.unsubscribe().await.unwrap();
    let mut connection = db.connection().await;
    let row =
        sqlx::query("SELECT count(*), max(last_global_sequence), count(last_event_id) FROM event_bus_checkpoints")
            .fetch_one(&mut connection)
            .await
            .unwrap();
    assert_eq!((row.get::<i64, _>(0), row.get::<i64, _>(1), row.get::<i64, _>(2)), (1, 2, 1));
}

#[tokio::test]
async fn the_checkpoint_stays_in_front_of_an_event_that_fails() {
    let db = Db::new();
    let config = ReliableDeliveryConfig {
        initial_retry_delay: Duration::from_secs(600),
        max_retry_delay: Duration::from_secs(600),
        ..quick()
    };
    let bus = bus(&db, config).await;
    let recorder = Recorder::new("projection:failing");
    recorder.fail("bad", u32::MAX);
    let good = say(bus.store(), "good").await;
    say(bus.store(), "bad").await;
    say(bus.store(), "after").await;
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    super::until(&subscription, |state| matches!(state, highwater::SubscriptionState::Retrying { failures: 1, .. }))
        .await;
    let stored = bus.store().checkpoint("projection:failing").await.unwrap().unwrap();
    assert_eq!((stored.global_sequence, recorder.texts()), (good, vec!["good".to_owned()]));
    bus.shutdown().await.unwrap();
    let stored = bus.store().checkpoint("projection:failing").await.unwrap().unwrap();
    assert_eq!(stored.global_sequence, good, "shutting down does not pass the event over either");
}

#[tokio::test]
async fn subscribing_late_catches_up_on_what_was_missed() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    for text in ["a", "b", "c"] {
        say(bus.store(), text).await;
    }
    let recorder = Recorder::new("projection:late");
    bus.subscribe(recorder.clone()).await.unwrap().caught_up().await.unwrap();
    assert_eq!(recorder.texts(), ["a", "b", "c"]);
}

#[tokio::test]
async fn events_that_arrive_during_catch_up_are_delivered_once_and_in_order() {
    let db = Db::new();
    let bus = bus(&db, ReliableDeliveryConfig { catch_up_batch_size: 7, ..batched(50) }).await;
    say_many(bus.store(), 500).await;
    let store = db.store().await;
    let writer = tokio::spawn(async move {
        for n in 0..300 {
            say(&store, &format!("live {n}")).await;
        }
    });
    let recorder = Recorder::new("projection:seam");
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    writer.await.unwrap();
    subscription.caught_up().await.unwrap();
    let sequences = recorder.sequences();
    assert_eq!(sequences.len(), 800);
    assert!(sequences.is_sorted_by(|a, b| a < b));
}

#[tokio::test]
async fn catching_up_with_many_events_stores_progress_after_each_batch() {
    let db = Db::new();
    let config = ReliableDeliveryConfig { catch_up_batch_size: 100, ..batched(100) };
    let bus = bus(&db, config).await;
    say_many(bus.store(), 250).await;
    let mut connection = db.connection().await;
    db.execute(
        &mut connection,
        "CREATE TABLE {s}.moves (at bigint);
         CREATE FUNCTION {s}.note_move() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN INSERT INTO {s}.moves VALUES (NEW.last_global_sequence); RETURN NULL; END $$;
         CREATE TRIGGER note_move AFTER UPDATE ON {s}.event_bus_checkpoints
         FOR EACH ROW WHEN (OLD.last_global_sequence <> NEW.last_global_sequence) EXECUTE FUNCTION {s}.note_move()",
    )
    .await;
    let recorder = Recorder::new("projection:batches");
    bus.subscribe(recorder.clone()).await.unwrap().caught_up().await.unwrap();
    assert_eq!(recorder.sequences().len(), 250);
    bus.wait_for("projection:batches", GlobalSequence(250)).await.unwrap();
    let moves: Vec<i64> =
        sqlx::query_scalar("SELECT at FROM moves ORDER BY at").fetch_all(&mut connection).await.unwrap();
    assert!(moves.len() >= 3, "{moves:?}");
    assert!(moves.windows(2).all(|pair| pair[1] - pair[0] <= 100), "never more than a batch at once: {moves:?}");
    assert!(moves.len() <= 20, "and not after every event either: {moves:?}");
    assert_eq!(moves.last(), Some(&250));
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_read_is_not_the_beginning() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    say(bus.store(), "old").await;
    let first = Recorder::new("projection:careful");
    let subscription = bus.subscribe(first).await.unwrap();
    subscription.caught_up().await.unwrap();
    subscription.unsubscribe().await.unwrap();
    let mut connection = db.connection().await;
    db.execute(&mut connection, "ALTER TABLE {s}.event_bus_checkpoints RENAME TO hidden").await;
    let second = Recorder::new("projection:careful");
    let subscription = bus.subscribe(second.clone()).await.unwrap();
    super::until(&subscription, |state| matches!(state, highwater::SubscriptionState::Disconnected { .. })).await;
    db.execute(&mut connection, "ALTER TABLE {s}.hidden RENAME TO event_bus_checkpoints").await;
    say(bus.store(), "new").await;
    eventually("the new event is seen", async || second.texts() == ["new"]).await;
}

#[tokio::test]
async fn a_table_of_checkpoints_that_was_emptied_by_hand_means_redelivery() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    say(bus.store(), "a").await;
    let recorder = Recorder::new("projection:again");
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    subscription.caught_up().await.unwrap();
    let before = bus.store().checkpoint("projection:again").await.unwrap().unwrap().term;
    let mut connection = db.connection().await;
    db.execute(&mut connection, "TRUNCATE {s}.event_bus_checkpoints").await;
    let at = say(bus.store(), "b").await;
    bus.wait_for("projection:again", GlobalSequence(at)).await.unwrap();
    eventually("it has begun again", async || recorder.texts().ends_with(&["a".to_owned(), "b".to_owned()])).await;
    let after = bus.store().checkpoint("projection:again").await.unwrap().unwrap().term;
    assert!(after.number > before.number, "an old term does not come back: {before:?} {after:?}");
}

#[tokio::test]
async fn a_filtered_subscriber_follows_the_log_though_it_wants_nothing_of_it() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    let options = SubscriberOptions::new().event_types(EventTypes::only(["Struck"]));
    let recorder = Recorder::with("projection:filtered", options);
    bus.subscribe(recorder.clone()).await.unwrap();
    let mut at = 0;
    for n in 0..20 {
        at = say(bus.store(), &n.to_string()).await;
    }
    bus.wait_for("projection:filtered", GlobalSequence(at)).await.unwrap();
    assert!(recorder.texts().is_empty());
}

#[tokio::test]
async fn starting_at_the_end_sees_what_comes_and_nothing_of_what_was() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    let end = say(bus.store(), "before").await;
    let recorder = Recorder::with("projection:end", SubscriberOptions::new().start(StartAt::End));
    bus.subscribe(recorder.clone()).await.unwrap();
    let at = say(bus.store(), "after").await;
    bus.wait_for("projection:end", GlobalSequence(at)).await.unwrap();
    assert_eq!(recorder.texts(), ["after"]);
    let other = Recorder::with("projection:position", SubscriberOptions::new().start(StartAt::After(end)));
    bus.subscribe(other.clone()).await.unwrap().caught_up().await.unwrap();
    assert_eq!(other.texts(), ["after"]);
}

#[tokio::test]
async fn starting_at_the_end_does_not_lose_what_an_open_transaction_brings() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    // Read once, so that the transaction is seen to begin.
    say(bus.store(), "settled").await;
    assert_eq!(highwater::backend::Log::frontier(bus.store()).await.unwrap(), 1);
    let mut tx = bus.store().pool().begin().await.unwrap();
    let late = highwater::Append::to(uuid::Uuid::now_v7()).event(crate::support::note("late"));
    let (late, _) = bus.store().append_on(&mut tx, &late).await.unwrap();
    let early = say(bus.store(), "early").await;
    assert!(late.global_sequence < early);
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let observer = {
        let seen = seen.clone();
        observer_fn("projection:end", move |event: highwater::Event<Note>| {
            let seen = seen.clone();
            async move {
                seen.lock().unwrap().push(event.global_sequence.unwrap());
                Ok(())
            }
        })
    };
    let options = SubscriberOptions::new().start(StartAt::End);
    bus.subscribe(observer.with_options(options)).await.unwrap();
    tx.commit().await.unwrap();
    bus.wait_for("projection:end", GlobalSequence(early)).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [late.global_sequence, early]);
}

#[tokio::test]
async fn subscribers_that_are_stuck_hold_no_connection_that_others_need() {
    let db = Db::new();
    let config = ReliableDeliveryConfig { catch_up_batch_size: 20, max_retries: 0, ..quick() };
    let bus = bus(&db, config.clone()).await;
    say_many(bus.store(), 500).await;
    // More than there are connections for reading, in each of the ways in which one can be stuck behind its first event.
    let slow = Duration::from_secs(600);
    let patient = ReliableDeliveryConfig { initial_retry_delay: slow, max_retry_delay: slow, max_retries: 9, ..config };
    for n in 0..6 {
        let halting = SubscriberOptions::new().on_failure(highwater::FailurePolicy::Halt);
        let retrying = delivered(SubscriberOptions::new(), &patient);
        for (kind, options) in [("halting", halting), ("retrying", retrying)] {
            let recorder = Recorder::with(&format!("projection:{kind}{n}"), options);
            recorder.fail("0", u32::MAX);
            bus.subscribe(recorder).await.unwrap();
        }
        let hang = observer_fn(format!("projection:hanging{n}"), |_: highwater::Event<Note>| std::future::pending());
        bus.subscribe(hang).await.unwrap();
    }
    let free = Recorder::new("projection:free");
    let subscription = bus.subscribe(free.clone()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), subscription.caught_up()).await.unwrap().unwrap();
    assert_eq!(free.texts().len(), 500);
}

#[tokio::test]
async fn a_checkpoint_that_another_transaction_holds_keeps_only_its_own_subscriber_waiting() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    let (held, free) = (Recorder::new("projection:held"), Recorder::new("projection:free"));
    bus.subscribe(held.clone()).await.unwrap().caught_up().await.unwrap();
    bus.subscribe(free.clone()).await.unwrap().caught_up().await.unwrap();
    let mut connection = db.connection().await;
    db.execute(
        &mut connection,
        "BEGIN; SELECT FROM {s}.event_bus_checkpoints WHERE subscriber_id = 'projection:held' FOR UPDATE",
    )
    .await;
    let mut at = 0;
    for n in 0..5 {
        at = say(bus.store(), &n.to_string()).await;
    }
    bus.wait_for_within("projection:free", GlobalSequence(at), Duration::from_secs(4)).await.unwrap();
    assert!(bus.wait_for_within("projection:held", GlobalSequence(at), Duration::from_millis(50)).await.is_err());
    db.execute(&mut connection, "ROLLBACK").await;
    bus.wait_for("projection:held", GlobalSequence(at)).await.unwrap();
    assert_eq!(held.texts().len(), 5, "nothing was handed over twice for it");
}

#[tokio::test]
async fn who_has_a_checkpoint_does_not_ask_where_the_end_is() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    let at_the_end = || Recorder::with("projection:end", SubscriberOptions::new().start(StartAt::End));
    let subscription = bus.subscribe(at_the_end()).await.unwrap();
    subscription.caught_up().await.unwrap();
    subscription.unsubscribe().await.unwrap();
    // A writer that a new process has not seen begin: to it the end of the log is unknown.
    let mut writer = db.connection().await;
    db.execute(&mut writer, "BEGIN").await;
    db.insert(&mut writer).await;
    let restarted = super::bus(&db, quick()).await;
    let again = at_the_end();
    let subscribing = tokio::time::timeout(Duration::from_secs(5), restarted.subscribe(again.clone()));
    subscribing.await.expect("it does not wait for the writer").unwrap();
    db.execute(&mut writer, "COMMIT").await;
    eventually("it sees what comes", async || again.texts() == ["sql"]).await;
}
