//! A server that crashes, and comes back with numbers that it had issued before.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use highwater::EventStore;
use highwater::backend::Log;
use throwaway_postgres::ThrowawayPostgres;
use uuid::Uuid;

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_in_the_middle_of_appends_loses_no_acknowledged_event_and_doubles_none() {
    let mut server = ThrowawayPostgres::builder().durable().start().unwrap();
    let db = Db::on(server.url());
    let store = db.store().await;
    let acknowledged: Arc<Mutex<HashSet<Uuid>>> = Arc::default();
    for round in 0..soak(2) {
        let writers: Vec<_> = (0..16)
            .map(|_| {
                let (store, acknowledged) = (store.clone(), acknowledged.clone());
                tokio::spawn(async move {
                    // Every writer continues until it is interrupted, and sends what was interrupted again afterwards.
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
    let mut server = ThrowawayPostgres::builder().durable().setting("wal_writer_delay", "10s").start().unwrap();
    let db = Db::on(server.url());
    let store = db.store().await;
    let mut issued_again = false;
    // Whether a draw has reached the disk by itself when the server crashes is a matter of chance.
    for _ in 0..10 {
        issued_again |= crash_with_numbers_drawn(&db, &store, &mut server).await;
        if issued_again {
            return;
        }
    }
    panic!("no number was ever issued again");
}

/// Draws numbers, crashes the server and continues. True when one of them was issued again.
async fn crash_with_numbers_drawn(
    db: &Db,
    store: &highwater_postgres::PgEventStore,
    server: &mut ThrowawayPostgres,
) -> bool {
    let last = append_after_crash(store).await;
    let mut connection = db.connection().await;
    db.execute(&mut connection, "CHECKPOINT").await;
    db.execute(&mut connection, "BEGIN").await;
    // More than the sequence logs ahead; left open, so that nothing makes the server write them down.
    for _ in 0..40 {
        db.insert(&mut connection).await;
    }
    let before = page_again(store, last).await;
    assert_eq!(before.complete_to, last, "numbers that may be issued again are never passed");
    server.crash().unwrap();
    server.start_again().unwrap();

    let first = append_after_crash(store).await;
    let after = page_again(store, last).await;
    assert_eq!(numbers(&after), [first]);
    assert_ne!(after.incarnation, before.incarnation, "a reader can tell that the server had another life");
    // And what comes late below another is waited for, as before.
    let mut slow = db.connection().await;
    db.execute(&mut slow, "BEGIN").await;
    db.insert(&mut slow).await;
    let second = append_after_crash(store).await;
    assert_eq!(numbers(&page(store, first).await), [0_u64; 0]);
    db.execute(&mut slow, "COMMIT").await;
    assert_eq!(numbers(&page(store, first).await), [second - 1, second]);
    first <= last + 40
}

/// Stores an event, as soon as the server can be reached.
async fn append_after_crash(store: &highwater_postgres::PgEventStore) -> u64 {
    let append = one();
    let mut stored = None;
    eventually("the server takes an append", async || {
        stored = store.append(&append).await.ok();
        stored.is_some()
    })
    .await;
    stored.unwrap().global_sequence
}

async fn page_again(store: &highwater_postgres::PgEventStore, after: u64) -> highwater::backend::Page {
    let limit = highwater::backend::ReadLimit::events(100);
    for _ in 0..5 {
        if let Ok(page) = store.read_all(after, &highwater::Filter::ALL, limit).await {
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
    // The pool may still hold connections of the server's former life; each says so once.
    let mut rest = Vec::new();
    eventually("reading continues", async || match store.read_all_events_since::<Note>(last).collect().await {
        Ok(events) => {
            rest = events;
            true
        }
        Err(error) => {
            assert!(error.is_retryable(), "{error:?}");
            false
        }
    })
    .await;
    assert_eq!(rest.len() as u64, 20_000 - last);
}
