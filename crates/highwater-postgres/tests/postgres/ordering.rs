//! The order that nobody can undercut: each rule of `frontier.rs` and `reader.rs`, with a case that fails without it.

mod foreign;

use std::time::{Duration, Instant};

use highwater::backend::Log;
use highwater::{Append, EventStore};
use sqlx::Connection;
use uuid::Uuid;

use crate::support::*;

#[tokio::test]
async fn an_open_transaction_that_has_drawn_a_number_holds_readers_back() {
    let db = Db::new();
    let store = db.store().await;
    store.append(&one()).await.unwrap();
    let mut slow = db.connection().await;
    let mut tx = slow.begin().await.unwrap();
    db.insert(&mut tx).await; // draws 2
    store.append(&one()).await.unwrap(); // draws 3

    assert_eq!(numbers(&page(&store, 0).await), [1]);
    assert_eq!(page(&store, 1).await.complete_to, 1, "3 is there, but 2 may still come");
    assert_eq!(numbers(&page_of(&store, 0, &["Noted"]).await), [1], "as far as another has got");
    tx.commit().await.unwrap();
    assert_eq!(numbers(&page(&store, 1).await), [2, 3]);
    assert_eq!(numbers(&page_of(&store, 0, &["Noted"]).await), [1, 2, 3]);
}

#[tokio::test]
async fn readers_are_released_within_100_ms_of_a_commit_and_of_a_rollback() {
    let db = Db::new();
    let store = db.store().await;
    for commit in [true, false] {
        let mut fastest = Duration::MAX;
        for _ in 0..5 {
            let mut slow = db.connection().await;
            let mut tx = slow.begin().await.unwrap();
            db.insert(&mut tx).await;
            let last = store.append(&one()).await.unwrap().global_sequence;
            let reader = tokio::spawn({
                let store = store.clone();
                async move {
                    let events = store.read_all_events_since::<Note>(last - 2).collect().await.unwrap();
                    (Instant::now(), events.len())
                }
            });
            eventually("the reader waits", || async { !store.open_writers().await.unwrap().is_empty() }).await;
            assert!(!reader.is_finished());
            let ended = Instant::now();
            if commit {
                tx.commit().await.unwrap()
            } else {
                tx.rollback().await.unwrap()
            }
            let (released, seen) = reader.await.unwrap();
            assert!(seen > usize::from(commit));
            fastest = fastest.min(released.saturating_duration_since(ended));
        }
        // The best of five: a busy machine may delay any single one.
        assert!(fastest < Duration::from_millis(100), "commit: {commit}, released after {fastest:?}");
    }
}

#[tokio::test]
async fn a_long_write_transaction_that_appends_nothing_holds_nobody_back() {
    let db = Db::new();
    let store = db.store().await;
    let mut other = db.connection().await;
    db.execute(&mut other, "CREATE TABLE {s}.unrelated (n int)").await;
    let mut tx = other.begin().await.unwrap();
    db.execute(&mut tx, "INSERT INTO {s}.unrelated VALUES (1)").await;
    for _ in 0..3 {
        store.append(&one()).await.unwrap();
    }
    assert!(store.open_writers().await.unwrap().is_empty());
    assert_eq!(page_of(&store, 0, &["Noted"]).await.complete_to, 3);
    tx.rollback().await.unwrap();
}

#[tokio::test]
async fn writers_that_begin_later_do_not_matter() {
    let db = Db::new();
    let store = db.store().await;
    let (mut first, mut second) = (db.connection().await, db.connection().await);
    let mut first_tx = first.begin().await.unwrap();
    db.insert(&mut first_tx).await; // 1
    assert_eq!(page_of(&store, 0, &["Noted"]).await.complete_to, 0);
    let mut second_tx = second.begin().await.unwrap();
    db.insert(&mut second_tx).await; // 2, begun after the reader had looked at 1
    store.append(&one()).await.unwrap(); // 3
    assert_eq!(page_of(&store, 0, &["Noted"]).await.complete_to, 0);
    first_tx.commit().await.unwrap();
    // Nobody who could bring a number up to 1 is left, though there was no moment without an open writer.
    assert_eq!(numbers(&page_of(&store, 0, &["Noted"]).await), [1]);
    second_tx.rollback().await.unwrap();
    assert_eq!(numbers(&page_of(&store, 1, &["Noted"]).await), [3]);
}

#[tokio::test]
async fn the_position_never_passes_the_highest_committed_event() {
    let db = Db::new();
    let store = db.store().await;
    store.append(&one()).await.unwrap();
    let mut connection = db.connection().await;
    for _ in 0..3 {
        let mut tx = connection.begin().await.unwrap();
        db.insert(&mut tx).await;
        tx.rollback().await.unwrap();
    }
    // 2 to 4 were drawn and rolled back. After a crash they may be issued again.
    assert_eq!(page(&store, 0).await.complete_to, 1);
    assert_eq!(page_of(&store, 0, &["Noted"]).await.complete_to, 1);
    assert_eq!(page_of(&store, 0, &["None"]).await.complete_to, 1);
    store.append(&one()).await.unwrap();
    assert_eq!(numbers(&page(&store, 1).await), [5]);
    assert_eq!(page_of(&store, 0, &["None"]).await.complete_to, 5);
}

#[tokio::test]
async fn a_rolled_back_savepoint_leaves_the_transaction_a_writer() {
    let db = Db::new();
    let store = db.store().await;
    let mut connection = db.connection().await;
    let mut tx = connection.begin().await.unwrap();
    db.execute(&mut tx, "SAVEPOINT a").await;
    db.insert(&mut tx).await; // 1, rolled back
    db.execute(&mut tx, "ROLLBACK TO a").await;
    db.execute(&mut tx, "SAVEPOINT b").await;
    db.insert(&mut tx).await; // 2, kept
    db.execute(&mut tx, "RELEASE b").await;
    store.append(&one()).await.unwrap(); // 3
    assert_eq!(page(&store, 0).await.complete_to, 0);
    tx.commit().await.unwrap();
    assert_eq!(numbers(&page(&store, 0).await), [2, 3]);
}

#[tokio::test]
async fn a_prepared_transaction_is_waited_for_though_its_session_is_gone() {
    let db = Db::new();
    let store = db.store().await;
    let gid = format!("{}_prepared", db.schema);
    let mut connection = db.connection().await;
    db.execute(&mut connection, "BEGIN").await;
    db.insert(&mut connection).await; // 1
    store.append(&one()).await.unwrap(); // 2
    // Seen as a session first, with an event above that is committed: being prepared must look neither like having ended
    // nor like another that begins only now, whose numbers would all lie above 2.
    assert_eq!(page_of(&store, 0, &["Noted"]).await.complete_to, 0);
    let session = holder(&db, &store).await;
    db.execute(&mut connection, &format!("PREPARE TRANSACTION '{gid}'")).await;
    connection.close().await.unwrap();
    assert_eq!(holder(&db, &store).await, session, "it keeps its name, as in every server since 14.1");
    store.append(&one()).await.unwrap(); // 3
    assert_eq!(page_of(&store, 0, &["Noted"]).await.complete_to, 0);
    assert_eq!(page(&store, 0).await.complete_to, 0);
    let writers = store.open_writers().await.unwrap();
    assert_eq!(writers.len(), 1);
    assert_eq!((writers[0].pid, writers[0].last_statement.as_deref()), (None, Some(gid.as_str())));
    assert!(writers[0].age.is_some());
    let mut connection = db.connection().await;
    db.execute(&mut connection, &format!("COMMIT PREPARED '{gid}'")).await;
    assert_eq!(numbers(&page(&store, 0).await), [1, 2, 3]);
    assert_eq!(numbers(&page_of(&store, 0, &["Noted"]).await), [1, 2, 3]);
}

/// What the only transaction that holds the sequence's lock is called.
async fn holder(db: &Db, store: &highwater_postgres::PgEventStore) -> String {
    assert_eq!(store.open_writers().await.unwrap().len(), 1);
    let sql = "SELECT virtualtransaction FROM pg_locks
        WHERE relation = format('%I.events_global_sequence_seq', $1)::regclass AND mode = 'RowExclusiveLock'";
    sqlx::query_scalar(sql).bind(&db.schema).fetch_one(&mut db.connection().await).await.unwrap()
}

/// What everything rests on and PostgreSQL does not document.
#[tokio::test]
async fn nextval_holds_a_lock_on_the_sequence_until_its_transaction_ends() {
    let db = Db::new();
    let store = db.store().await;
    let draw = "SELECT nextval('{s}.events_global_sequence_seq')";
    for draws in [
        vec![draw],
        vec!["SAVEPOINT a", draw, "ROLLBACK TO a"],
        vec!["SAVEPOINT a", draw, "RELEASE a"],
        vec!["SET LOCAL session_replication_role = replica", INSERT],
        vec![
            "DO $$ BEGIN PERFORM nextval('{s}.events_global_sequence_seq'); RAISE 'x'; EXCEPTION WHEN OTHERS THEN END $$",
        ],
        // Refused, because the transaction only reads: what sql/probe.sql rests on.
        vec![
            "SET TRANSACTION READ ONLY",
            "DO $$ BEGIN PERFORM nextval('{s}.events_global_sequence_seq'); EXCEPTION WHEN OTHERS THEN END $$",
        ],
    ] {
        let mut connection = db.connection().await;
        let mut tx = connection.begin().await.unwrap();
        db.execute(&mut tx, "SELECT 1").await;
        assert_eq!(store.open_writers().await.unwrap().len(), 0);
        for sql in &draws {
            db.execute(&mut tx, sql).await;
        }
        assert_eq!(store.open_writers().await.unwrap().len(), 1, "after {draws:?}");
        tx.rollback().await.unwrap();
        assert_eq!(store.open_writers().await.unwrap().len(), 0);
    }
}

#[tokio::test]
async fn the_log_says_whom_it_is_waiting_for() {
    let db = Db::new();
    let store = db.store().await;
    let mut connection = db.connection().await;
    db.execute(&mut connection, "SET application_name = 'the slow one'").await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    db.insert(&mut tx).await;
    let writers = store.open_writers().await.unwrap();
    assert_eq!(writers.len(), 1);
    assert_eq!(writers[0].pid, Some(pid));
    assert_eq!(writers[0].application_name.as_deref(), Some("the slow one"));
    assert!(writers[0].last_statement.as_deref().unwrap().contains("INSERT INTO"));
    assert!(writers[0].age.is_some());
    assert_eq!(writers[0].hidden, None);
    tx.rollback().await.unwrap();
}

#[tokio::test]
async fn a_lost_reading_connection_takes_everything_it_learnt_with_it() {
    let db = Db::new();
    let store = db.store().await;
    store.append(&one()).await.unwrap();
    assert_eq!(page_of(&store, 0, &["Noted"]).await.complete_to, 1);
    let mut connection = db.connection().await;
    let mut tx = connection.begin().await.unwrap();
    db.insert(&mut tx).await; // 2
    store.append(&one()).await.unwrap(); // 3
    assert_eq!(page_of(&store, 1, &["Noted"]).await.complete_to, 1);
    let mut killer = db.connection().await;
    let killed: i64 = sqlx::query_scalar(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE application_name = 'highwater read' AND query LIKE '%' || $1 || '%'",
    )
    .bind(&db.schema)
    .fetch_one(&mut killer)
    .await
    .unwrap();
    assert_eq!(killed, 1);
    let filter = highwater::EventTypes::only(["Noted"]).into();
    let lost = store.read_all(1, &filter, highwater::backend::ReadLimit::events(10)).await;
    assert!(matches!(lost, Err(highwater::Error::Unavailable { .. })), "{lost:?}");
    // A new connection knows nothing of the open writer's age, and waits for it all the same.
    assert_eq!(page_of(&store, 1, &["Noted"]).await.complete_to, 1);
    tx.commit().await.unwrap();
    assert_eq!(numbers(&page_of(&store, 1, &["Noted"]).await), [2, 3]);
}

#[tokio::test]
async fn a_filtered_read_over_a_long_stretch_without_a_match_ends_and_moves_on() {
    let db = Db::new();
    let store = db.store().await;
    let mut connection = db.connection().await;
    db.execute(
        &mut connection,
        "INSERT INTO {s}.events (id, stream_id, stream_version, event_type, data)
         SELECT gen_random_uuid(), gen_random_uuid(), 1, 'Common', 'null' FROM generate_series(1, 120000)",
    )
    .await;
    let rare = store.append(&Append::to(Uuid::now_v7()).event(Note::Struck)).await.unwrap().global_sequence;
    let (mut after, mut pages) = (0, 0);
    let found = loop {
        let page = page_of(&store, after, &["Struck"]).await;
        assert!(page.complete_to > after, "a page without a match still moves on");
        (after, pages) = (page.complete_to, pages + 1);
        if let Some(found) = page.records.first() {
            break found.global_sequence;
        }
    };
    assert_eq!(found, rare);
    assert!(pages > 1, "no single statement looked through everything");
    let events = store.read_all_events_of::<Note>(0, highwater::EventTypes::only(["Struck"])).collect().await.unwrap();
    assert_eq!(events.len(), 1);
}

#[tokio::test]
async fn the_frontier_stops_below_an_open_writer_and_moves_when_it_ends() {
    let db = Db::new();
    let store = db.store().await;
    assert_eq!(store.frontier().await.unwrap(), 0);
    store.append(&one()).await.unwrap();
    assert_eq!(store.frontier().await.unwrap(), 1);
    let mut slow = db.connection().await;
    let mut tx = slow.begin().await.unwrap();
    db.insert(&mut tx).await; // draws 2
    store.append(&one()).await.unwrap(); // draws 3
    assert_eq!(store.frontier().await.unwrap(), 1);
    tx.rollback().await.unwrap();
    store.append(&one()).await.unwrap();
    assert_eq!(store.frontier().await.unwrap(), 4);
    // Numbers that were only drawn are not counted: they may be issued again.
    let mut tx = slow.begin().await.unwrap();
    db.insert(&mut tx).await;
    tx.rollback().await.unwrap();
    assert_eq!(store.frontier().await.unwrap(), 4);
}
