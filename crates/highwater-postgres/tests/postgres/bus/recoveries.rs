//! One process of the server is killed, as the out-of-memory killer does it: the server recovers by itself, under the same
//! start time, and has lost what was committed without waiting for the disk.

use std::time::Duration;

use highwater::GlobalSequence;
use highwater::backend::{Checkpoints, Log};
use highwater_postgres::PgEventStore;
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use throwaway_postgres::ThrowawayPostgres;

use super::handlers::{Act, Counting, counted};
use super::{Recorder, bus, quick, say};
use crate::support::{Db, INSERT, eventually, one, page};

/// A server that writes down nothing by itself for ten seconds.
pub fn lazy() -> ThrowawayPostgres {
    let server = ThrowawayPostgres::builder().durable().setting("wal_writer_delay", "10s");
    // A whole page of the log would be written at once.
    server.setting("full_page_writes", "off").start().unwrap()
}

/// Kills one backend, and waits until the server has recovered.
pub async fn kill_a_backend(server: &ThrowawayPostgres, db: &Db) {
    let mut victim = PgConnection::connect(&db.url).await.unwrap();
    let started = "SELECT pg_postmaster_start_time()::text";
    let (pid, before): (i32, String) = sqlx::query_as("SELECT pg_backend_pid(), pg_postmaster_start_time()::text")
        .fetch_one(&mut victim)
        .await
        .unwrap();
    server.kill_backend(pid as u32).unwrap();
    eventually("the server has recovered", async || {
        let Ok(mut connection) = PgConnection::connect(&db.url).await else { return false };
        let after: Result<String, _> = sqlx::query_scalar(started).fetch_one(&mut connection).await;
        after.is_ok_and(|after| after == before)
    })
    .await;
}

async fn stored(store: &PgEventStore, id: &str) -> u64 {
    store.checkpoint(id).await.unwrap().map_or(0, |checkpoint| checkpoint.global_sequence)
}

/// Appends when the server can be reached again.
pub async fn say_again(store: &PgEventStore) -> u64 {
    let append = one();
    let mut at = 0;
    eventually("the server takes an append", async || {
        at = store.append(&append).await.map_or(0, |done| done.global_sequence);
        at > 0
    })
    .await;
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_a_killed_backend_has_taken_back_is_stored_again() {
    let server = lazy();
    let db = Db::on(server.url());
    let bus = bus(&db, quick()).await;
    let recorder = Recorder::new("projection:each");
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    let mut lost = false;
    // Whether a checkpoint has reached the disk by itself is a matter of chance.
    for _ in 0..10 {
        let at = say_again(bus.store()).await;
        bus.wait_for_within("projection:each", GlobalSequence(at), Duration::from_secs(10)).await.unwrap();
        let seen = recorder.sequences().len();
        kill_a_backend(&server, &db).await;
        bus.wait_for_within("projection:each", GlobalSequence(at), Duration::from_secs(10)).await.unwrap();
        assert_eq!(stored(&db.store().await, "projection:each").await, at, "another process sees it as well");
        subscription.caught_up().await.unwrap();
        lost |= recorder.sequences().len() > seen;
        if lost {
            break;
        }
    }
    assert!(lost, "no checkpoint was ever taken back");
    bus.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_are_issued_again_after_a_backend_was_killed_are_delivered() {
    let server = lazy();
    let db = Db::on(server.url());
    let bus = bus(&db, quick()).await;
    let recorder = Recorder::new("projection:each");
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    let mut issued_again = false;
    for _ in 0..10 {
        let last = say_again(bus.store()).await;
        bus.wait_for_within("projection:each", GlobalSequence(last), Duration::from_secs(10)).await.unwrap();
        let mut careless = db.connection().await;
        // From here on everything about the sequence is new to the write-ahead log, and is lost with it.
        db.execute(&mut careless, "CHECKPOINT; SET synchronous_commit = off").await;
        for _ in 0..3 {
            db.execute(&mut careless, INSERT).await;
        }
        bus.wait_for_within("projection:each", GlobalSequence(last + 3), Duration::from_secs(10)).await.unwrap();
        kill_a_backend(&server, &db).await;
        let first = say_again(bus.store()).await;
        let next = say_again(bus.store()).await;
        for at in [first, next] {
            bus.wait_for_within("projection:each", GlobalSequence(at), Duration::from_secs(10)).await.unwrap();
        }
        let again = recorder
            .sequences()
            .iter()
            .zip(recorder.texts())
            .filter(|(at, text)| **at == first && text == "one")
            .count();
        assert!(again > 0, "event {first} was acknowledged, and not delivered");
        issued_again |= first <= last + 3;
        if issued_again {
            break;
        }
    }
    assert!(issued_again, "no number was ever issued again");
    subscription.caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_has_committed_without_waiting_for_the_disk_is_done_again_when_it_is_lost() {
    let server = lazy();
    let db = Db::on(server.url());
    let bus = bus(&db, quick()).await;
    let careless: Act = Box::new(|tx, _, _| {
        Box::pin(async move {
            sqlx::query("SET LOCAL synchronous_commit = off").execute(&mut **tx).await?;
            Ok(())
        })
    });
    let counting = Counting::new(&db, "projection:careless", quick(), careless).await;
    bus.subscribe(counting).await.unwrap();
    let mut lost = false;
    for _ in 0..10 {
        let at = say_again(bus.store()).await;
        bus.wait_for_within("projection:careless", GlobalSequence(at), Duration::from_secs(10)).await.unwrap();
        kill_a_backend(&server, &db).await;
        lost |= stored(&db.store().await, "projection:careless").await < at;
        let next = say_again(bus.store()).await;
        bus.wait_for_within("projection:careless", GlobalSequence(next), Duration::from_secs(10)).await.unwrap();
        let all: Vec<i64> =
            crate::support::sequences(&db.store().await).await.into_iter().map(|at| at as i64).collect();
        assert_eq!(counted(&db).await, all, "each event once");
        if lost {
            break;
        }
    }
    assert!(lost, "no transaction was ever taken back");
    bus.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recovery_is_another_life_of_the_server_and_nothing_else_is() {
    let mut server = lazy();
    let db = Db::on(server.url());
    let store = db.store().await;
    say(&store, "x").await;
    let mut lives = vec![page(&store, 0).await.incarnation];
    // Another process, another connection: the same life.
    assert_eq!(page(&db.store().await, 0).await.incarnation, lives[0]);
    for _ in 0..2 {
        kill_a_backend(&server, &db).await;
        lives.push(page(&db.store().await, 0).await.incarnation);
    }
    server.crash().unwrap();
    server.start_again().unwrap();
    lives.push(page(&db.store().await, 0).await.incarnation);
    server.restart().unwrap();
    lives.push(page(&db.store().await, 0).await.incarnation);
    db.execute(&mut db.connection().await, "TRUNCATE {s}.events RESTART IDENTITY").await;
    lives.push(page(&db.store().await, 0).await.incarnation);
    let different: std::collections::HashSet<_> = lives.iter().collect();
    assert_eq!(different.len(), lives.len(), "{lives:?}");
}

#[tokio::test]
async fn a_connection_that_leads_to_another_life_of_the_server_is_told_so_by_the_first_statement() {
    let db = Db::new();
    let store = db.store().await;
    for _ in 0..3 {
        say(&store, "x").await;
    }
    let before = page(&store, 0).await;
    let filter = highwater::EventTypes::only(["Noted"]).into();
    let limit = highwater::backend::ReadLimit::events(10);
    for (after, filter) in [(0, &highwater::Filter::ALL), (0, &filter)] {
        assert_eq!(page(&store, 0).await.records.len(), 3);
        // As behind a pooler that hands statements to whichever server is there.
        db.execute(&mut db.connection().await, "UPDATE {s}.server_life SET number = number + 1").await;
        let interrupted = store.read_all(after, filter, limit).await;
        assert!(matches!(interrupted, Err(highwater::Error::Interrupted { .. })), "{interrupted:?}");
        let anew = store.read_all(after, filter, limit).await.unwrap();
        assert!(anew.incarnation != before.incarnation && anew.records.len() == 3);
    }
    db.execute(&mut db.connection().await, "UPDATE {s}.server_life SET number = number + 1").await;
    assert!(matches!(store.frontier().await, Err(highwater::Error::Interrupted { .. })));
}

/// Otherwise all who read would wait with it, for as long as the replica is away.
#[tokio::test(flavor = "multi_thread")]
async fn who_takes_over_in_a_new_life_and_waits_for_a_replica_keeps_no_reader_waiting() {
    let mut server = lazy();
    let db = Db::on(server.url());
    say(&db.store().await, "x").await;
    let mut admin = db.connection().await;
    db.execute(&mut admin, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'").await;
    server.restart().unwrap();
    let store = PgEventStore::connect_with(&db.url, db.config()).await.unwrap();
    let taking = tokio::spawn({
        let store = store.clone();
        async move { store.take_over(&highwater::Claim::of("projection:waits")).await }
    });
    let mut looks = db.connection().await;
    eventually("it waits for the replica", async || {
        let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')";
        sqlx::query_scalar(waits).fetch_one(&mut looks).await.unwrap()
    })
    .await;
    assert_eq!(page(&store, 0).await.records.len(), 1);
    taking.abort();
}

#[tokio::test]
async fn who_keeps_a_life_from_being_numbered_is_named() {
    let db = Db::new();
    let store = db.store().await;
    say(&store, "x").await;
    let mut holds = db.connection().await;
    db.execute(&mut holds, "DELETE FROM {s}.server_life; BEGIN; SELECT {s}.life()").await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut holds).await.unwrap();
    let other = PgEventStore::connect_with(&db.url, db.config()).await.unwrap();
    let another = PgEventStore::connect_with(&db.url, db.config()).await.unwrap();
    let (told, as_well) = tokio::join!(other.frontier(), another.frontier());
    for told in [told.unwrap_err(), as_well.unwrap_err()] {
        // And not who waits for it as well.
        assert!(told.is_retryable() && format!("{told:?}").contains(&format!(": pid {pid}\"")), "{told:?}");
    }
    db.execute(&mut holds, "COMMIT").await;
    assert_eq!(other.frontier().await.unwrap(), 1);
}
