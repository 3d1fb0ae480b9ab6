//! Filling a store on PostgreSQL, and who is kept out of it meanwhile.

use highwater::backend::{Batch, CheckpointWrite, Checkpoints, Log, Record, Requests, Transfer};
use highwater::transfer::TransferError;
use highwater::{Append, Claim, Error, EventStore, MemoryEventStore, Metadata, transfer};
use highwater_postgres::PgEventStore;
use throwaway_postgres::ThrowawayPostgres;
use uuid::Uuid;

use crate::support::*;

async fn exported(store: &dyn highwater::backend::Backend) -> String {
    let mut file = Vec::new();
    transfer::export(store, &mut file, |_| ()).await.unwrap();
    String::from_utf8(file).unwrap()
}

/// A store in memory with some events, subscribers and holes.
async fn source(events: u64) -> MemoryEventStore {
    let (lived, holey) = (MemoryEventStore::new(), MemoryEventStore::new());
    let streams: Vec<Uuid> = (0..7).map(|_| Uuid::now_v7()).collect();
    for n in 0..events {
        let text = "ä🦀".repeat(fastrand::usize(..if n % 100 == 0 { 20_000 } else { 50 }));
        let append = Append::to(streams[n as usize % 7]).metadata(&Metadata::new().with("n", n)).event(note(text));
        lived.append(&append).await.unwrap();
    }
    let page = lived.read_all(
        0,
        &highwater::Filter::ALL,
        highwater::backend::ReadLimit { events: usize::MAX, bytes: usize::MAX },
    );
    let mut number = 0;
    let mut apart = |record: Record| {
        number += 1 + u64::from(fastrand::u8(..) / 64);
        Record { global_sequence: number, ..record }
    };
    let records: Vec<Record> = page.await.unwrap().records.into_iter().map(&mut apart).collect();
    let mut filling = holey.fill("made up").await.unwrap();
    filling.put(Batch::Records(&records)).await.unwrap();
    filling.finish().await.unwrap();
    for (name, record) in [("projection:a", &records[3]), ("projection:b", records.last().unwrap())] {
        let taken = holey.take_over(&Claim::of(name)).await.unwrap();
        let fence = taken.checkpoint.fence();
        let (global_sequence, event_id) = (record.global_sequence, Some(record.id));
        holey.store_checkpoints(&[CheckpointWrite { fence, global_sequence, event_id }]).await.unwrap();
    }
    holey.set_paused("projection:b", true).await.unwrap();
    holey
}

async fn everything(store: &impl Log) -> Vec<Record> {
    let (mut records, mut after, head) = (Vec::new(), 0, store.head().await.unwrap());
    while after < head {
        let page =
            store.read_all(after, &highwater::Filter::ALL, highwater::backend::ReadLimit::default()).await.unwrap();
        after = page.complete_to;
        records.extend(page.records);
    }
    records
}

#[tokio::test(flavor = "multi_thread")]
async fn from_memory_to_postgres_and_back_nothing_changes() {
    let db = Db::new();
    let (from, middle, back) = (source(3_000).await, db.store().await, MemoryEventStore::new());
    let there = transfer::copy(&from, "memory", &middle, |_| ()).await.unwrap();
    assert_eq!((there.counts.events, there.counts.checkpoints), (3_000, 2));
    transfer::copy(&middle, "postgres", &back, |_| ()).await.unwrap();
    assert_eq!(everything(&middle).await, everything(&from).await);
    assert_eq!(exported(&back).await, exported(&from).await);
    middle.verify().await.unwrap();
    let next = middle.append(&one()).await.unwrap().global_sequence;
    assert_eq!(next, there.copied_to + 1, "numbers continue after the last");
    assert!(middle.read_all_events_since::<Note>(0).collect().await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_of_postgres_is_the_same_after_an_import_elsewhere() {
    let (one, two) = (Db::new(), Db::new());
    let (from, to) = (one.store().await, two.store().await);
    transfer::copy(&source(500).await, "memory", &from, |_| ()).await.unwrap();
    // As only plain SQL writes it.
    let mut connection = one.connection().await;
    one.execute(
        &mut connection,
        "INSERT INTO {s}.events (id, stream_id, stream_version, event_type, data)
         VALUES (gen_random_uuid(), gen_random_uuid(), 1, 'Noted', E' {\"text\" :\\n \"sql\"}  ')",
    )
    .await;
    let file = exported(&from).await;
    transfer::import(&to, file.as_bytes(), |_| ()).await.unwrap();
    assert_eq!(exported(&to).await, file);
}

/// Everything that writes, by whatever way.
async fn assert_locked(db: &Db, store: &PgEventStore) {
    let refused = |result: Result<(), Error>, what: &str| {
        assert!(matches!(result, Err(Error::BeingFilled { .. })), "{what}: {result:?}");
    };
    refused(store.append(&one()).await.map(drop), "an append");
    refused(store.append(&Append::to(Uuid::now_v7()).events([note("1"), note("2")])).await.map(drop), "a group");
    let mut work = store.begin().await.unwrap();
    work.append(one());
    refused(work.commit().await.map(drop), "a unit of work");
    refused(store.take_over(&Claim::of("projection:a")).await.map(drop), "taking over");
    refused(store.set_paused("projection:a", false).await.map(drop), "a pause");
    let mut connection = db.connection().await;
    for sql in [
        INSERT,
        "SELECT {s}.append(gen_random_uuid(), 'Noted', '{\"text\":\"sql\"}')",
        "DELETE FROM {s}.events",
        "TRUNCATE {s}.events",
        "UPDATE {s}.event_bus_checkpoints SET last_global_sequence = 0",
        "DELETE FROM {s}.event_bus_dlq",
    ] {
        let error = db.try_execute(&mut connection, sql).await.unwrap_err();
        let found = error.as_database_error().unwrap();
        assert_eq!(found.code().unwrap(), "HW004", "{sql}: {error}");
        assert!(found.message().contains("is being filled from \"memory"), "{error}");
    }
    let copy = format!("COPY {}.events (id, stream_id, stream_version, event_type, data) FROM STDIN", db.schema);
    let error = match connection.copy_in_raw(&copy).await {
        Ok(copying) => copying.finish().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.as_database_error().unwrap().code().unwrap(), "HW004");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_writes_by_any_way_until_it_is_finished() {
    let db = Db::new();
    let (store, before) = (db.store().await, db.store().await);
    // Its connections are open, and its statements prepared, before anything is locked.
    let first = before.append(&one()).await.unwrap();
    before.take_over(&Claim::of("projection:a")).await.unwrap();
    db.execute(&mut db.connection().await, "TRUNCATE {s}.events, {s}.event_bus_checkpoints").await;
    let from = source(50).await;
    let records = everything(&from).await;
    let mut filling = store.fill("memory").await.unwrap();
    assert_locked(&db, &before).await;
    filling.put(Batch::Records(&records[..20])).await.unwrap();
    assert_locked(&db, &before).await;
    drop(filling);
    assert_locked(&db, &before).await;
    assert_locked(&db, &db.store().await).await;
    assert_eq!(everything(&before).await, records[..20]);
    let mut filling = store.fill("memory").await.unwrap();
    filling.put(Batch::Records(&records[20..])).await.unwrap();
    filling.finish().await.unwrap();
    let next = before.append(&one()).await.unwrap();
    assert!(next.global_sequence > records[49].global_sequence.max(first.global_sequence));
    db.insert(&mut db.connection().await).await;
    before.take_over(&Claim::of("projection:a")).await.unwrap();
    let triggers: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_trigger WHERE tgname = 'refuse_while_filling'
         AND tgrelid = 'events'::regclass",
    )
    .fetch_one(&mut db.connection().await)
    .await
    .unwrap();
    assert_eq!(triggers, 0, "writers pay nothing afterwards");
}

/// Ends the session that has a batch on its way into the log.
async fn kill_the_filler(db: &Db) {
    const KILL: &str = "SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
        WHERE c.relname = 'events' AND l.mode = 'RowExclusiveLock' AND c.relnamespace = $1::regnamespace";
    let mut connection = db.connection().await;
    eventually("a process fills", async || {
        let killed: i64 = sqlx::query_scalar(KILL).bind(&db.schema).fetch_one(&mut connection).await.unwrap();
        killed > 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_whose_connection_is_killed_resumes_where_it_was() {
    let db = Db::new();
    let (from, store) = (source(9_000).await, db.store().await);
    let (mut resumed, mut done) = (Vec::new(), None);
    while done.is_none() && resumed.len() < 3 {
        // Each batch is whole or not there, wherever it was when it was killed.
        let (outcome, ()) = tokio::join!(transfer::copy(&from, "memory", &store, |_| ()), kill_the_filler(&db));
        match outcome {
            Err(error @ (Error::Unavailable { .. } | Error::UnknownOutcome { .. })) => {
                let unfinished = store.filling().await.unwrap();
                resumed.push(unfinished.unwrap_or_else(|| panic!("it is finished, and was not: {error:?}")).filled_to);
            }
            Err(error) => panic!("{error:?}"),
            // The blow may fall on the very last statement, whose answer is under way.
            Ok(copied) => done = Some(copied),
        }
    }
    assert!(!resumed.is_empty(), "it was killed while there was much to do, and did not notice");
    let copied = match done {
        Some(copied) => copied,
        None => transfer::copy(&from, "memory", &store, |_| ()).await.unwrap(),
    };
    assert_eq!(Some(&copied.resumed_after), resumed.last());
    assert!(resumed.is_sorted(), "what was stored stays: {resumed:?}");
    assert_eq!(exported(&store).await, exported(&from).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filling_outlasts_a_crash_of_the_server() {
    let mut server = ThrowawayPostgres::builder().durable().start().unwrap();
    let db = Db::on(server.url());
    let (from, store) = (source(300).await, db.store().await);
    let records = everything(&from).await;
    let name = format!("memory (first event {})", records[0].id);
    let mut filling = store.fill(&name).await.unwrap();
    filling.put(Batch::Records(&records[..100])).await.unwrap();
    server.crash().unwrap();
    server.start_again().unwrap();
    assert!(filling.put(Batch::Records(&records[100..])).await.is_err(), "its session is gone, and its lock with it");
    let again = db.store().await;
    assert_locked(&db, &again).await;
    assert_eq!(again.filling().await.unwrap().unwrap().filled_to, records[99].global_sequence);
    let copied = transfer::copy(&from, "memory", &again, |_| ()).await.unwrap();
    assert_eq!(copied.resumed_after, records[99].global_sequence);
    assert_eq!(exported(&again).await, exported(&from).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_is_still_open_is_waited_for_and_then_seen() {
    let db = Db::new();
    let store = db.store().await;
    let mut writer = db.connection().await;
    db.execute(&mut writer, "BEGIN").await;
    db.insert(&mut writer).await;
    let filling = tokio::spawn({
        let store = store.clone();
        async move { store.fill("memory").await.map(drop) }
    });
    eventually("it waits", async || {
        let waiting = "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
             WHERE NOT l.granted AND c.relname = 'events' AND c.relnamespace = $1::regnamespace";
        let count: i64 =
            sqlx::query_scalar(waiting).bind(&db.schema).fetch_one(&mut db.connection().await).await.unwrap();
        count > 0
    })
    .await;
    db.execute(&mut writer, "COMMIT").await;
    let refused = filling.await.unwrap();
    assert!(matches!(refused, Err(Error::Transfer(TransferError::NotEmpty { .. }))), "{refused:?}");
    store.append(&one()).await.unwrap();
}
