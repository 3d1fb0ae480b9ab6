//! Appends that are repeated: what can be seen is not always safe yet, and a "yes" has to be.

use std::time::Duration;

use highwater::backend::Log;
use highwater::{Append, Error};
use highwater_postgres::{PgConfig, PgEventStore};
use throwaway_postgres::ThrowawayPostgres;
use uuid::Uuid;

use crate::bus::recoveries::{kill_a_backend, lazy};
use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_append_is_acknowledged_only_when_the_replica_has_it() {
    let mut primary = ThrowawayPostgres::start().unwrap();
    let db = Db::on(primary.url());
    let store = db.store_with(PgConfig { append_timeout: Duration::from_secs(1), ..db.config() }).await;
    let mut replica = primary.synchronous_replica().unwrap();
    store.append(&one()).await.unwrap();

    replica.stop().unwrap();
    let append = one();
    let unknown = |error: &Error| matches!(error, Error::UnknownOutcome { .. });
    assert!(store.append(&append).await.is_err_and(|error| unknown(&error)));
    // As an operator may do it, or a restart of the server: the commit is there, and the replica does not have it.
    let mut admin = db.connection().await;
    let waiting = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    db.execute(&mut admin, waiting).await;
    eventually("the event can be seen", async || sequences(&store).await.len() == 2).await;

    let alone = store.append(&append).await;
    assert!(alone.as_ref().is_err_and(unknown), "{alone:?}");
    db.execute(&mut admin, waiting).await;
    let mut work = store.begin().await.unwrap();
    work.append(append.clone());
    let within = tokio::time::timeout(Duration::from_secs(2), work.commit()).await;
    assert!(within.is_err(), "{within:?}");
    let plain = format!(
        "SELECT * FROM {{s}}.append('{}', 'Noted', '{{\"text\":\"one\"}}', id => '{}')",
        append.streams()[0].0,
        append.event_ids().next().unwrap()
    );
    let mut client = db.connection().await;
    let plain = db.execute(&mut client, &plain);
    assert!(tokio::time::timeout(Duration::from_secs(1), plain).await.is_err(), "plain SQL waits like any commit");

    replica.start_again().unwrap();
    let mut answer = None;
    eventually("the replica has it", async || {
        answer = store.append(&append).await.ok();
        answer.is_some()
    })
    .await;
    let answer = answer.unwrap();
    assert!(answer.repeated);
    primary.crash().unwrap();
    replica.promote().unwrap();
    let there = Db { url: replica.url(), schema: db.schema.clone() };
    let after = PgEventStore::connect_with(&there.url, there.config()).await.unwrap();
    assert_eq!(sequences(&after).await.last(), Some(&answer.global_sequence));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_append_is_on_the_disk_although_its_first_writer_did_not_wait_for_that() {
    let server = lazy();
    let db = Db::on(server.url());
    let store = db.store().await;
    store.append(&one()).await.unwrap();
    let mut hasty = db.connection().await;
    let (id, stream) = (Uuid::now_v7(), Uuid::now_v7());
    db.execute(&mut hasty, "CHECKPOINT").await;
    let insert = format!(
        "SET synchronous_commit = off; INSERT INTO {{s}}.events (id, stream_id, stream_version, event_type, data) \
         VALUES ('{id}', '{stream}', 1, 'Noted', '{{\"text\":\"one\"}}')"
    );
    db.execute(&mut hasty, &insert).await;
    let repeated = store.append(&Append::to(stream).event_with_id(id, note("one"))).await.unwrap();
    assert!(repeated.repeated);

    kill_a_backend(&server, &db).await;
    let after = PgEventStore::connect_with(&db.url, db.config()).await.unwrap();
    assert_eq!(sequences(&after).await, [1, repeated.global_sequence]);
}
