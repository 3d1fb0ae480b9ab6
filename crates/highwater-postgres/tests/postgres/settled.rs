//! Readers begin with what is proved to be settled, so that old events flow whatever transactions are open; and what is no
//! proof is not taken for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater::backend::{Log, ReadLimit};
use highwater::{Error, EventStore, EventTypes, GlobalSequence, StartAt, SubscriberOptions, SubscriptionState};
use highwater_postgres::{PgEventBus, PgEventStore};
use sqlx::postgres::PgConnection;

use crate::bus::handlers::{Act, Counting};
use crate::bus::{Recorder, batched, quick, say, say_many, until};
use crate::support::{Db, INSERT, eventually, numbers, page, page_of};

/// A transaction that has drawn a number, and stays open.
async fn stranger(db: &Db) -> PgConnection {
    let mut connection = db.connection().await;
    db.execute(&mut connection, "BEGIN; SELECT nextval('events_global_sequence_seq')").await;
    connection
}

/// One number that nobody will ever use.
async fn hole(db: &Db) {
    db.execute(&mut db.connection().await, &format!("BEGIN; {INSERT}; ROLLBACK")).await;
}

/// A subscriber that has handled everything up to now, in a process of its own that is gone afterwards.
async fn follow(db: &Db, start: StartAt) {
    let bus = PgEventBus::with_config(db.store().await, quick());
    let options = SubscriberOptions::new().start(start);
    let subscription = bus.subscribe(Recorder::with("projection:each", options)).await.unwrap();
    subscription.caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
}

async fn all_of(store: &PgEventStore, types: &EventTypes) -> Vec<u64> {
    let (mut after, mut found) = (0, Vec::new());
    loop {
        let page = store.read_all(after, &types.clone().into(), ReadLimit::events(100)).await.unwrap();
        found.extend(numbers(&page));
        if page.complete_to == after {
            return found;
        }
        after = page.complete_to;
    }
}

#[tokio::test]
async fn a_reader_that_begins_gets_old_events_whatever_is_open() {
    let db = Db::new();
    let store = db.store().await;
    say_many(&store, 1).await;
    hole(&db).await;
    say_many(&store, 1_000).await;
    follow(&db, StartAt::Beginning).await;
    let _stranger = stranger(&db).await;
    let head = store.head().await.unwrap();
    for types in [EventTypes::All, EventTypes::only(["Noted"])] {
        // Each as another process would have it.
        let found = all_of(&db.store().await, &types).await;
        assert_eq!((found.len(), found.last().copied()), (1_001, Some(head)), "{types:?}");
    }
}

#[tokio::test]
async fn a_reader_with_a_filter_gets_old_events_beside_one_that_has_read_them_whatever_is_open() {
    let db = Db::new();
    let store = db.store().await;
    say_many(&store, 100).await;
    assert_eq!(all_of(&store, &EventTypes::All).await.len(), 100, "contiguous, so all of it is settled");
    let _stranger = stranger(&db).await;
    assert_eq!(all_of(&store, &EventTypes::only(["Noted"])).await.len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_without_a_subscriber_has_proved_counts_for_all_that_read_later() {
    let db = Db::new();
    let store = db.store().await;
    say_many(&store, 1).await;
    assert_eq!(all_of(&store, &EventTypes::All).await.len(), 1, "so much it knows, and does not read for a while");
    hole(&db).await;
    say_many(&store, 1_000).await;
    assert_eq!(all_of(&db.store().await, &EventTypes::only(["Noted"])).await.len(), 1_001);
    let _stranger = stranger(&db).await;
    for types in [EventTypes::All, EventTypes::only(["Noted"])] {
        assert_eq!(all_of(&db.store().await, &types).await.len(), 1_001, "{types:?}");
    }
    // Also for one that was there before, and for whatever begins on it.
    let head = store.head().await.unwrap();
    assert_eq!(store.frontier().await.unwrap(), head);
    let bus = PgEventBus::with_config(store, quick());
    let recorder = Recorder::new("projection:new");
    bus.subscribe(recorder.clone()).await.unwrap();
    bus.wait_for("projection:new", GlobalSequence(head)).await.unwrap();
    assert_eq!(recorder.sequences().len(), 1_001);
    bus.shutdown().await.unwrap();
}

/// The rule by which the database proves it, with other transactions open all the time.
#[tokio::test]
async fn what_was_drawn_before_the_database_looked_is_settled_once_those_that_were_open_have_ended() {
    let db = Db::new();
    let store = db.store().await;
    let mut asks = db.connection().await;
    let mut settle = async || -> i64 { sqlx::query_scalar("SELECT settle()").fetch_one(&mut asks).await.unwrap() };
    say_many(&store, 1).await;
    assert_eq!(page(&store, 0).await.complete_to, 1);
    let (mut early, mut late) = (db.connection().await, db.connection().await);
    db.execute(&mut early, &format!("BEGIN; {INSERT}")).await; // draws 2
    say_many(&store, 3).await;
    assert_eq!(settle().await, 1, "2 may still come");
    db.execute(&mut late, &format!("BEGIN; {INSERT}")).await; // draws 6
    say_many(&store, 2).await;
    assert_eq!(settle().await, 1, "2 may still come, though another has been seen since");
    db.execute(&mut early, "COMMIT; BEGIN; SELECT nextval('events_global_sequence_seq')").await;
    assert_eq!(settle().await, 5, "6 may still come");
    // What is open keeps its name, and the numbers begin anew.
    db.execute(&mut early, "ROLLBACK").await;
    db.execute(&mut late, "ROLLBACK").await;
    db.execute(&mut db.connection().await, "TRUNCATE {s}.events RESTART IDENTITY").await;
    db.execute(&mut late, &format!("BEGIN; {INSERT}")).await;
    let store = db.store().await;
    say_many(&store, 1).await;
    // The number of a new life is drawn by a reader.
    assert_eq!(numbers(&page(&store, 0).await), [0_u64; 0]);
    assert_eq!(settle().await, 0);
    db.execute(&mut late, "COMMIT").await;
    assert_eq!(settle().await, 2);
}

#[tokio::test]
async fn a_subscriber_that_was_started_somewhere_by_hand_proves_nothing() {
    let db = Db::new();
    let store = db.store().await;
    say_many(&store, 3).await;
    let mut late = db.connection().await;
    db.execute(&mut late, &format!("BEGIN; {INSERT}")).await;
    say_many(&store, 6).await;
    // It reads 7 to 10, which follow one another, and knows nothing of 4.
    follow(&db, StartAt::After(6)).await;
    let reader = db.store().await;
    assert_eq!(numbers(&page_of(&reader, 0, &["Noted"]).await), [0_u64; 0], "4 may still come");
    db.execute(&mut late, "COMMIT").await;
    assert_eq!(numbers(&page_of(&reader, 0, &["Noted"]).await), (1..=10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_checkpoint_that_was_moved_by_hand_proves_nothing() {
    let db = Db::new();
    let store = db.store().await;
    say_many(&store, 3).await;
    follow(&db, StartAt::Beginning).await;
    let mut late = db.connection().await;
    db.execute(&mut late, &format!("BEGIN; {INSERT}")).await;
    say_many(&store, 6).await;
    db.execute(&mut db.connection().await, "UPDATE {s}.event_bus_checkpoints SET last_global_sequence = 6").await;
    assert_eq!(numbers(&page(&db.store().await, 0).await), [1, 2, 3]);
    // What it handles from there is no proof either.
    follow(&db, StartAt::Beginning).await;
    let reader = db.store().await;
    assert_eq!(numbers(&page_of(&reader, 0, &["Noted"]).await), [1, 2, 3]);
    db.execute(&mut late, "COMMIT").await;
    assert_eq!(all_of(&reader, &EventTypes::only(["Noted"])).await, (1..=10).collect::<Vec<_>>());
    // Once a reader of its own process has proved it, it is one again.
    say_many(&store, 1).await;
    follow(&db, StartAt::Beginning).await;
    let _stranger = stranger(&db).await;
    assert_eq!(all_of(&db.store().await, &EventTypes::only(["Noted"])).await.len(), 11);
}

#[tokio::test]
async fn what_was_proved_before_the_sequence_was_restarted_proves_nothing() {
    let db = Db::new();
    let store = db.store().await;
    say_many(&store, 10).await;
    follow(&db, StartAt::Beginning).await;
    assert_eq!(store.frontier().await.unwrap(), 10);
    db.execute(&mut db.connection().await, "TRUNCATE {s}.events RESTART IDENTITY").await;
    let mut late = db.connection().await;
    db.execute(&mut late, &format!("BEGIN; {INSERT}")).await;
    let store = db.store().await;
    say_many(&store, 3).await;
    assert_eq!(numbers(&page(&db.store().await, 0).await), [0_u64; 0]);
    db.execute(&mut late, "COMMIT").await;
    assert_eq!(numbers(&page(&db.store().await, 0).await), [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_sequence_that_was_set_back_is_an_error_for_readers() {
    let db = Db::new();
    let store = db.store().await;
    say_many(&store, 10).await;
    assert_eq!(store.frontier().await.unwrap(), 10);
    follow(&db, StartAt::Beginning).await;
    db.execute(&mut db.connection().await, "SELECT setval('{s}.events_global_sequence_seq', 7)").await;
    // Also one that only knows what others have proved.
    for store in [store, PgEventStore::connect_with(&db.url, db.config()).await.unwrap()] {
        let told = store.frontier().await.unwrap_err();
        assert!(matches!(told, Error::Damaged { .. }), "{told:?}");
        assert!(format!("{told:?}").contains("set it to 10 with setval"), "{told:?}");
    }
}

/// Where events were deleted, the highest that is left is too low.
#[tokio::test]
async fn where_a_sequence_that_was_set_back_has_to_be_is_said_and_helps() {
    let db = Db::new();
    let store = db.store().await;
    say_many(&store, 10).await;
    follow(&db, StartAt::Beginning).await;
    let mut admin = db.connection().await;
    db.execute(&mut admin, "DELETE FROM {s}.events WHERE global_sequence > 7").await;
    db.execute(&mut admin, "SELECT setval('{s}.events_global_sequence_seq', 7)").await;
    let fresh = PgEventStore::connect_with(&db.url, db.config()).await.unwrap();
    let told = fresh.frontier().await.unwrap_err();
    assert!(format!("{told:?}").contains("set it to 10 with setval"), "{told:?}");
    let unfit = fresh.verify().await.unwrap_err().to_string();
    let advice = unfit.split_once("SELECT ").expect("it says what to do").1;
    assert!(unfit.contains("below 10, which readers have passed"), "{unfit}");
    db.execute(&mut admin, &format!("SELECT {advice}")).await;
    fresh.verify().await.unwrap();
    fresh.repair().reset("projection:each").await.unwrap();
    say_many(&fresh, 1).await;
    let recorder = Recorder::new("projection:each");
    let bus = PgEventBus::with_config(fresh, quick());
    bus.subscribe(recorder.clone()).await.unwrap();
    bus.wait_for("projection:each", GlobalSequence(11)).await.unwrap();
    assert_eq!(recorder.sequences(), [1, 2, 3, 4, 5, 6, 7, 11]);
    bus.shutdown().await.unwrap();
}

/// Numbers were issued again up to the checkpoint and beyond: nothing but the event that it names tells.
#[tokio::test]
async fn a_checkpoint_of_another_log_is_an_error_though_the_log_has_grown_past_it() {
    let db = Db::new();
    let store = db.store().await;
    say_many(&store, 10).await;
    follow(&db, StartAt::Beginning).await;
    db.execute(&mut db.connection().await, "TRUNCATE {s}.events RESTART IDENTITY").await;
    say_many(&store, 20).await;
    let bus = PgEventBus::with_config(db.store().await, quick());
    let subscription = bus.subscribe(Recorder::new("projection:each")).await.unwrap();
    until(&subscription, |state| {
        matches!(state, SubscriptionState::Disconnected { error } if error.contains("is not in the log; set it to where"))
    })
    .await;
    let findings = highwater::backend::Diagnose::diagnose(&store).await.unwrap();
    assert!(findings.iter().any(|found| found.topic == "subscribers" && found.found.contains("is not in the log")));
    bus.shutdown().await.unwrap();
    // Set anew, it names no event.
    store.repair().reset("projection:each").await.unwrap();
    let recorder = Recorder::new("projection:each");
    let bus = PgEventBus::with_config(store, quick());
    bus.subscribe(recorder.clone()).await.unwrap();
    bus.wait_for("projection:each", GlobalSequence(20)).await.unwrap();
    assert_eq!(recorder.sequences(), (1..=20).collect::<Vec<_>>());
    bus.shutdown().await.unwrap();
}

/// Each process knows what it has proved itself, and one that was away knows less.
#[tokio::test]
async fn what_is_proved_stays_proved_whichever_instance_stores_the_next_checkpoint() {
    let db = Db::new();
    let away = db.store().await;
    say_many(&away, 1).await;
    assert_eq!(numbers(&page(&away, 0).await), [1]);
    hole(&db).await;
    let ahead = db.store().await;
    say_many(&ahead, 150).await;
    follow(&db, StartAt::Beginning).await;
    let mut looks = db.connection().await;
    // Of this schema alone: those of other tests may be dropped at this moment.
    let look = format!("BEGIN READ ONLY; SELECT * FROM pg_sequences WHERE schemaname = '{}'", db.schema);
    db.execute(&mut looks, &look).await;
    let bus = PgEventBus::with_config(away, quick());
    bus.subscribe(Recorder::new("projection:each")).await.unwrap();
    let at = say(bus.store(), "one more").await;
    bus.wait_for("projection:each", GlobalSequence(at)).await.unwrap();
    bus.shutdown().await.unwrap();
    for types in [EventTypes::All, EventTypes::only(["Noted"])] {
        assert!(all_of(&db.store().await, &types).await.len() >= 151, "old events flow whatever is open");
    }
}

/// A handler takes its time, and meanwhile the numbers begin anew.
#[tokio::test]
async fn the_end_of_a_transaction_proves_nothing_of_a_sequence_that_was_restarted_meanwhile() {
    let db = Arc::new(Db::new());
    let bus = PgEventBus::with_config(db.store().await, quick());
    say_many(bus.store(), 100).await;
    let (within, restarted) = (db.clone(), Arc::new(AtomicBool::new(false)));
    let once = restarted.clone();
    let act: Act = Box::new(move |_, event, _| {
        let (db, once) = (within.clone(), once.clone());
        let last = event.global_sequence == Some(100);
        Box::pin(async move {
            if last && !once.swap(true, Ordering::SeqCst) {
                db.execute(&mut db.connection().await, "TRUNCATE {s}.events RESTART IDENTITY").await;
            }
            Ok(())
        })
    });
    bus.subscribe(Counting::new(&db, "projection:a", batched(100), act).await).await.unwrap();
    eventually("the sequence begins anew", async || restarted.load(Ordering::SeqCst)).await;
    bus.shutdown().await.unwrap();
    let mut late = db.connection().await;
    db.execute(&mut late, &format!("BEGIN; {INSERT}")).await;
    let store = db.store().await;
    say_many(&store, 3).await;
    let fresh = Recorder::new("projection:fresh");
    let bus = PgEventBus::with_config(db.store().await, quick());
    bus.subscribe(fresh.clone()).await.unwrap();
    // Whatever it would be handed by mistake is there at once.
    assert_eq!(numbers(&page_of(&store, 0, &["Noted"]).await), [0; 0]);
    db.execute(&mut late, "COMMIT").await;
    bus.wait_for("projection:fresh", GlobalSequence(4)).await.unwrap();
    assert_eq!(fresh.sequences(), [1, 2, 3, 4]);
    bus.shutdown().await.unwrap();
}
