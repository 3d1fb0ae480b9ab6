//! Group commit, its queue, and what callers may rely on.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use highwater::backend::Log;
use highwater::{Append, Error, EventStore, ExpectedVersion, stream_id};
use highwater_postgres::PgConfig;
use uuid::Uuid;

use crate::support::*;

#[tokio::test]
async fn storing_assigns_numbers_that_every_way_of_reading_shows() {
    let db = Db::new();
    let store = db.store().await;
    let (a, b) = (Uuid::now_v7(), Uuid::now_v7());
    let mut stored = Vec::new();
    for (stream, version) in [(a, 1), (b, 1), (a, 2)] {
        let event =
            highwater::Event::builder().stream_id(stream).stream_version(version).data(note("x")).build().unwrap();
        assert_eq!(event.global_sequence, None);
        stored.push(store.store_event(event).await.unwrap());
    }
    let numbers: Vec<_> = stored.iter().map(|event| event.global_sequence.unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b));
    let of_a = store.read_events::<Note>(a).collect().await.unwrap();
    assert_eq!(of_a, [stored[0].clone(), stored[2].clone()]);
    assert_eq!(store.read_all_events_since::<Note>(numbers[0]).collect().await.unwrap(), stored[1..]);
    assert_eq!(store.read_last_event::<Note>(b).await.unwrap(), Some(stored[1].clone()));
}

#[tokio::test]
async fn concurrent_appends_are_committed_in_groups() {
    let db = Db::new();
    let store = db.store().await;
    store.append(&one()).await.unwrap();
    let appends: Vec<_> = (0..400).map(|_| one()).collect();
    let done = futures_util::future::join_all(appends.iter().map(|append| store.append(append))).await;
    assert!(done.iter().all(Result::is_ok));
    // Events of one group share the transaction that stored them.
    let mut connection = db.connection().await;
    let groups: i64 =
        sqlx::query_scalar("SELECT count(DISTINCT xmin::text) FROM events").fetch_one(&mut connection).await.unwrap();
    assert!(groups < 100, "400 concurrent appends were stored in {groups} transactions");
}

#[tokio::test]
async fn a_full_queue_makes_callers_wait_and_then_says_so() {
    let db = Db::new();
    let config = PgConfig { append_queue_max: 2, append_timeout: Duration::from_millis(300), ..db.config() };
    let store = db.store_with(config).await;
    store.append(&one()).await.unwrap();
    let mut blocker = db.connection().await;
    db.execute(&mut blocker, "BEGIN; LOCK TABLE {s}.events IN ACCESS EXCLUSIVE MODE").await;
    let appends: Vec<_> = (0..40).map(|_| one()).collect();
    let outcomes = futures_util::future::join_all(appends.iter().map(|append| store.append(append))).await;
    let overloaded = outcomes.iter().filter(|o| matches!(o, Err(Error::Overloaded { .. }))).count();
    assert!(overloaded > 0, "{outcomes:?}");
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_err_and(Error::is_retryable)), "{outcomes:?}");
    db.execute(&mut blocker, "ROLLBACK").await;
    // Everything can be sent again, and is stored once.
    for append in &appends {
        store.append(append).await.unwrap();
    }
    assert_eq!(sequences(&store).await.len(), 41);
}

#[tokio::test]
async fn a_stream_that_a_writer_creates_and_holds_delays_only_those_who_want_it() {
    let db = Db::new();
    let store = db.store_with(PgConfig { append_timeout: Duration::from_millis(700), ..db.config() }).await;
    let held = stream_id("order", "17");
    let mut connection = db.connection().await;
    let mut tx = sqlx::Connection::begin(&mut connection).await.unwrap();
    let (_, _announcement) = store.append_on(&mut tx, &Append::to(held).event(note("held"))).await.unwrap();
    let wanting = tokio::spawn({
        let store = store.clone();
        async move { store.append(&Append::to(held).event(note("wanting"))).await }
    });
    for _ in 0..50 {
        store.append(&one()).await.unwrap();
    }
    let refused = wanting.await.unwrap().unwrap_err();
    assert!(matches!(refused, Error::StreamHeld { .. }), "{refused:?}");
    assert!(refused.to_string().contains("has held stream order/17 for"), "{refused}");
    tx.commit().await.unwrap();
    let done = store.append(&Append::to(held).event(note("wanting"))).await.unwrap();
    assert_eq!(done.stream_version, 2);
}

#[tokio::test]
async fn more_callers_than_may_wait_for_a_held_stream_are_told_at_once() {
    let db = Db::new();
    let store = db.store_with(PgConfig { append_queue_max: 2, ..db.config() }).await;
    let held = stream_id("order", "17");
    let mut connection = db.connection().await;
    let mut tx = sqlx::Connection::begin(&mut connection).await.unwrap();
    let (_, _announcement) = store.append_on(&mut tx, &Append::to(held).event(note("held"))).await.unwrap();
    let mut wanting: FuturesUnordered<_> = (0..40)
        .map(|_| {
            let store = &store;
            async move { store.append(&Append::to(held).event(note("wanting"))).await }
        })
        .collect();
    // The stream is held until they have their answers; two wait for it.
    for _ in 0..38 {
        let told = wanting.next().await.unwrap().unwrap_err();
        assert!(matches!(told, Error::StreamHeld { .. }), "{told:?}");
    }
    tx.commit().await.unwrap();
    let stored: Vec<_> = wanting.map(|appended| appended.unwrap().stream_version).collect().await;
    assert_eq!(stored.len(), 2);
    assert_eq!(sequences(&store).await.len(), 3);
}

#[tokio::test]
async fn what_the_server_refuses_is_the_fault_of_one_caller_alone() {
    let db = Db::new();
    let store = db.store().await;
    db.execute(&mut db.connection().await, "ALTER TABLE {s}.events ADD CHECK (event_type <> 'Struck')").await;
    let appends: Vec<_> =
        (0..21).map(|n| if n == 7 { Append::to(Uuid::now_v7()).event(Note::Struck) } else { one() }).collect();
    let outcomes = futures_util::future::join_all(appends.iter().map(|append| store.append(append))).await;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome.is_err(), n == 7, "{n}: {outcome:?}");
    }
    assert_eq!(sequences(&store).await.len(), 20);
}

#[tokio::test]
async fn racers_in_one_process_and_in_two_leave_one_winner() {
    let db = Db::new();
    let (here, there) = (db.store().await, db.store().await);
    for version in 0..10 {
        let stream = Uuid::from_u128(77);
        let appends: Vec<_> = (0..20)
            .map(|n| Append::to(stream).expecting(ExpectedVersion::Exact(version)).event(note(n.to_string())))
            .collect();
        let races =
            appends.iter().enumerate().map(|(n, append)| (if n % 2 == 0 { &here } else { &there }).append(append));
        let outcomes = futures_util::future::join_all(races).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        let lost = |error: &Error| matches!(error, Error::Conflict { actual, .. } if *actual == version + 1);
        assert!(outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).all(lost), "{outcomes:?}");
    }
}

#[tokio::test]
async fn a_store_that_is_dropped_leaves_no_connection_behind() {
    let db = Db::new();
    let store = db.store().await;
    store.append(&one()).await.unwrap();
    assert_eq!(sequences(&store).await, [1]);
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'highwater%' AND query LIKE '%' || $1 || '%'";
    let mut connection = db.connection().await;
    let count = async |connection: &mut sqlx::PgConnection| -> i64 {
        sqlx::query_scalar(sql).bind(&db.schema).fetch_one(connection).await.unwrap()
    };
    assert!(count(&mut connection).await >= 3);
    drop(store);
    eventually("its connections are closed", async || count(&mut connection).await == 0).await;
}

#[tokio::test]
async fn what_is_expected_of_one_stream_still_holds_after_waiting_for_another() {
    let db = Db::new();
    let store = db.store().await;
    let (held, exact) = (Uuid::now_v7(), Uuid::now_v7());
    store.append(&Append::to(held).event(note("1")).and_to(exact).event(note("1"))).await.unwrap();
    let mut connection = db.connection().await;
    let mut tx = sqlx::Connection::begin(&mut connection).await.unwrap();
    let (_, _announcement) = store.append_on(&mut tx, &Append::to(held).event(note("2"))).await.unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        let both =
            Append::to(held).event(note("3")).and_to(exact).expecting(ExpectedVersion::Exact(1)).event(note("2"));
        async move { store.append(&both).await }
    });
    let blocked =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'";
    let mut watcher = db.connection().await;
    eventually("it waits for the held stream", async || {
        sqlx::query_scalar::<_, i64>(blocked).bind(&db.schema).fetch_one(&mut watcher).await.unwrap() > 0
    })
    .await;
    store.append_on(&mut tx, &Append::to(exact).event(note("somebody else's"))).await.unwrap().1.send();
    tx.commit().await.unwrap();
    let refused = waiting.await.unwrap().unwrap_err();
    assert!(matches!(refused, Error::Conflict { stream_id, actual: 2, .. } if stream_id == exact), "{refused:?}");
    assert_eq!(store.read_events::<Note>(held).collect().await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_append_on_a_transaction_leaves_its_lock_timeout_as_it_was_whatever_comes_of_it() {
    let db = Db::new();
    let store = db.store().await;
    let to = |stream: Uuid| Append::to(stream).event(note("x"));
    let pinned = |stream: Uuid, version: u64| to(stream).expecting(ExpectedVersion::Exact(version));
    let stream = Uuid::now_v7();
    let before = to(stream);
    store.append(&before).await.unwrap();
    let two = to(Uuid::now_v7()).and_to(stream).expecting(ExpectedVersion::Exact(7)).event(note("y"));
    for (what, append, stores) in [
        ("a new stream", to(Uuid::now_v7()), true),
        ("one that is there", to(stream), true),
        ("a version that is expected", pinned(stream, 1), true),
        ("a version that is not", pinned(stream, 7), false),
        ("a stream that should not exist", to(stream).expecting(ExpectedVersion::NoStream), false),
        ("a stream that should", to(Uuid::now_v7()).expecting(ExpectedVersion::StreamExists), false),
        ("one stream of two", two, false),
        ("the same again", before.clone().expecting(ExpectedVersion::NoStream), true),
    ] {
        let mut connection = db.connection().await;
        let mut tx = sqlx::Connection::begin(&mut connection).await.unwrap();
        sqlx::query("SET LOCAL lock_timeout = '7s'").execute(&mut *tx).await.unwrap();
        let appended = store.append_on(&mut tx, &append).await;
        assert_eq!(appended.is_ok(), stores, "{what}");
        assert!(stores || matches!(appended, Err(Error::Conflict { .. })), "{what}");
        let lock_timeout: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut *tx).await.unwrap();
        assert_eq!(lock_timeout, "7s", "{what}");
        tx.rollback().await.unwrap();
    }
}
