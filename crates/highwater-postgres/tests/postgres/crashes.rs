//! A server that crashes, and comes back with numbers that it had issued before.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::{EventStore, Log};
use throwaway_postgres::ThrowawayPostgres;
use uuid::Uuid;

use crate::support::*;

fn soak() -> usize {
    std::env::var("HIGHWATER_SOAK").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_in_the_middle_of_appends_loses_no_acknowledged_event_and_doubles_none() {
    let mut server = ThrowawayPostgres::builder().durable().start().unwrap();
    let db = Db::on(server.url());
    let store = db.store().await;
    let acknowledged: Arc<Mutex<HashSet<Uuid>>> = Arc::default();
    for round in 0..2 * soak() {
        let writers: Vec<_> = (0..16)
            .map(|_| {
                let (store, acknowledged) = (store.clone(), acknowledged.clone());
                tokio::spawn(async move {
                    // Every writer goes on until it is interrupted, and sends what was interrupted again afterwards.
                    loop {
                        let append = one();
                        if store.append(&append).await.is_err() {
                            return append;
                        }
                        acknowledged.lock().unwrap().extend(append.event_ids());
                    }
                })
            })
            .collect();
        let enough = acknowledged.lock().unwrap().len() + 200;
        eventually("enough is stored", async || acknowledged.lock().unwrap().len() >= enough).await;
        server.crash().unwrap();
        let mut interrupted = Vec::new();
        for writer in writers {
            interrupted.push(writer.await.unwrap());
        }
        server.start_again().unwrap();
        for append in interrupted {
            eventually("the interrupted append is stored", async || store.append(&append).await.is_ok()).await;
            acknowledged.lock().unwrap().extend(append.event_ids());
        }
        let events = read_everything(&store).await;
        let ids: HashSet<Uuid> = events.iter().map(|event| event.0).collect();
        assert_eq!(ids.len(), events.len(), "round {round}: an event is there twice");
        assert_eq!(ids, *acknowledged.lock().unwrap(), "round {round}");
        assert!(events.is_sorted_by(|a, b| a.1 < b.1));
    }
}

/// After a crash the first read may meet a connection that is gone.
async fn read_everything(store: &highwater_postgres::PgEventStore) -> Vec<(Uuid, u64)> {
    for _ in 0..5 {
        if let Ok(events) = store.read_all_events_since::<Note>(0).collect().await {
            return events.into_iter().map(|event| (event.id, event.global_sequence.unwrap())).collect();
        }
    }
    panic!("cannot read after the crash");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_are_issued_again_after_a_crash_confuse_nobody() {
    // Nothing but a commit shall write the log to the disk.
    let server = ThrowawayPostgres::builder().durable().setting("wal_writer_delay", "10s");
    let mut server = server.setting("wal_writer_flush_after", "100MB").start().unwrap();
    let db = Db::on(server.url());
    let store = db.store().await;
    store.append(&one()).await.unwrap();
    // The sequence logs 32 numbers ahead; use those up, so that the next draw is logged anew and the log is not flushed.
    let mut connection = db.connection().await;
    db.execute(&mut connection, "CHECKPOINT").await;
    let drawn: i64 = loop {
        db.execute(&mut connection, "BEGIN").await;
        db.insert(&mut connection).await;
        let drawn: i64 = sqlx::query_scalar("SELECT last_value FROM events_global_sequence_seq")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        if drawn >= 40 {
            break drawn; // left open
        }
        db.execute(&mut connection, "ROLLBACK").await;
    };
    let before = page(&store, 1).await;
    assert_eq!(before.complete_to, 1, "numbers that may be issued again are never passed");
    server.crash().unwrap();
    server.start_again().unwrap();
    let done = {
        let mut done = None;
        eventually("the server is back", async || {
            done = store.append(&one()).await.ok();
            done.is_some()
        })
        .await;
        done.unwrap()
    };
    assert!(done.global_sequence <= u64::try_from(drawn).unwrap(), "this run did not issue a number again: {done:?}");
    let mut after = page_again(&store, 1).await;
    assert_eq!(numbers(&after), [done.global_sequence]);
    assert_ne!(after.incarnation, before.incarnation, "a reader can tell that the server had another life");
    // And what comes late below it is waited for.
    let mut slow = db.connection().await;
    db.execute(&mut slow, "BEGIN").await;
    db.insert(&mut slow).await;
    let last = store.append(&one()).await.unwrap().global_sequence;
    after = page(&store, done.global_sequence).await;
    assert_eq!(numbers(&after), [0_u64; 0]);
    db.execute(&mut slow, "COMMIT").await;
    assert_eq!(numbers(&page(&store, done.global_sequence).await), [last - 1, last]);
}

async fn page_again(store: &highwater_postgres::PgEventStore, after: u64) -> highwater::Page {
    let types = highwater::EventTypes::All;
    let limit = highwater::ReadLimit::events(100);
    for _ in 0..5 {
        if let Ok(page) = store.read_all(after, &types, limit).await {
            return page;
        }
    }
    panic!("cannot read after the crash");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_a_restart_interrupts_ends_with_an_error_and_not_with_a_gap() {
    let mut server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    let store = db.store().await;
    let mut connection = db.connection().await;
    let many = "INSERT INTO {s}.events (id, stream_id, stream_version, event_type, data)
        SELECT gen_random_uuid(), gen_random_uuid(), 1, 'Noted', '{\"text\":\"x\"}' FROM generate_series(1, 20000)";
    db.execute(&mut connection, many).await;
    let mut events = store.read_all_events_since::<Note>(0);
    let mut last = 0;
    for _ in 0..100 {
        last = events.next().await.unwrap().unwrap().global_sequence.unwrap();
    }
    server.restart().unwrap();
    let ended = loop {
        match events.next().await {
            Some(Ok(event)) => {
                assert_eq!(event.global_sequence, Some(last + 1));
                last += 1;
            }
            Some(Err(error)) => break error,
            None => panic!("it ended as if there were nothing more after {last}"),
        }
    };
    use highwater::Error::{Interrupted, Unavailable};
    assert!(matches!(ended, Unavailable { .. } | Interrupted { .. }), "{ended:?}");
    assert!(events.next().await.is_none(), "nothing comes after an error");
    let rest = tokio::time::timeout(Duration::from_secs(10), store.read_all_events_since::<Note>(last).collect());
    assert_eq!(rest.await.unwrap().unwrap().len() as u64, 20_000 - last);
}
