//! Who has something locked or open that others wait for is named.

use std::time::Duration;

use highwater::backend::{Diagnose, Log, Severity};
use highwater_postgres::PgConfig;
use throwaway_postgres::ThrowawayPostgres;

use super::{assert_found, find, problems};
use crate::support::*;

#[tokio::test]
async fn who_has_locked_a_table_is_named_and_nothing_that_waits_for_it_is_looked_at() {
    let db = Db::new();
    let store = db.store().await;
    assert_eq!(find(&store, "locks", "none is waited for").await.severity, Severity::Good);
    let mut stranger = db.connection().await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut stranger).await.unwrap();
    for (mode, looks_on) in [("SHARE ROW EXCLUSIVE", true), ("ACCESS EXCLUSIVE", false)] {
        db.execute(&mut stranger, &format!("BEGIN; LOCK TABLE {{s}}.events IN {mode} MODE")).await;
        let said = format!("process {pid}");
        assert_found(&store, Severity::Bad, "locks", &said, &format!("pg_terminate_backend({pid})")).await;
        assert!(find(&store, "locks", &said).await.found.contains("has locked the table events"));
        let topics: Vec<_> = store.diagnose().await.unwrap().iter().map(|finding| finding.topic).collect();
        assert_eq!(topics.contains(&"layout"), looks_on, "{topics:?}");
        db.execute(&mut stranger, "ROLLBACK").await;
    }
    // A forgotten reader, and a change of the table that waits for it: nobody else gets past that.
    db.execute(&mut stranger, "BEGIN; SELECT count(*) FROM {s}.events").await;
    let mut changing = db.connection().await;
    let alter = format!("ALTER TABLE {}.events ADD COLUMN more int", db.schema);
    let changing = tokio::spawn(async move { sqlx::raw_sql(sqlx::AssertSqlSafe(alter)).execute(&mut changing).await });
    let mut admin = db.connection().await;
    eventually("the change waits", async || {
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'events'::regclass";
        sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut admin).await.unwrap() > 0
    })
    .await;
    let findings = store.diagnose().await.unwrap();
    let last = findings.last().unwrap();
    assert!(last.topic == "locks" && last.found.contains(&format!("process {pid}")), "{findings:#?}");
    db.execute(&mut stranger, "ROLLBACK").await;
    changing.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_and_transactions_that_stay_open_are_named() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    let store = db.store().await;
    let mut forgotten = db.connection().await;
    db.execute(&mut forgotten, "BEGIN").await;
    db.insert(&mut forgotten).await;
    let mut prepared = db.connection().await;
    db.execute(&mut prepared, "BEGIN").await;
    db.insert(&mut prepared).await;
    db.execute(&mut prepared, "PREPARE TRANSACTION 'left'").await;
    eventually("they hold readers back", async || {
        problems(&store).await.iter().filter(|said| said.contains("no reader gets past it")).count() == 2
    })
    .await;
    assert_found(&store, Severity::Warning, "writers", "\"left\"", "ROLLBACK PREPARED 'left'").await;
    assert_found(&store, Severity::Warning, "writers", "process", "pg_terminate_backend").await;
    eventually("they have been open for long", async || {
        let findings = store.diagnose().await.unwrap();
        findings.iter().filter(|finding| finding.topic == "transactions" && finding.advice.is_some()).count() == 2
    })
    .await;
    assert_found(&store, Severity::Note, "transactions", "idle in transaction", "pg_terminate_backend").await;
    assert_found(&store, Severity::Note, "transactions", "\"left\"", "ROLLBACK PREPARED").await;
    db.execute(&mut prepared, "ROLLBACK PREPARED 'left'").await;
    drop(forgotten);
}

#[tokio::test]
async fn looking_does_not_take_the_lock_by_which_readers_know_writers() {
    let db = Db::new();
    let store = db.store().await;
    store.append(&one()).await.unwrap();
    // A session that wants the lock of a writer waits for this; one that only reads the sequence does not.
    let mut altering = db.connection().await;
    db.execute(&mut altering, "BEGIN; ALTER SEQUENCE {s}.events_global_sequence_seq NO CYCLE").await;
    let findings = store.diagnose().await.unwrap();
    let unseen: Vec<_> = findings.iter().filter(|finding| finding.found.contains("could not be looked at")).collect();
    assert!(unseen.is_empty(), "{unseen:#?}");
    // Looking as others do would have waited.
    let mut looking = db.connection().await;
    db.execute(&mut looking, "SET lock_timeout = '100ms'").await;
    let as_others_do = format!("SELECT last_value FROM pg_sequences WHERE schemaname = '{}'", db.schema);
    let refused = db.try_execute(&mut looking, &as_others_do).await.unwrap_err();
    assert_eq!(refused.as_database_error().and_then(|error| error.code()).as_deref(), Some("55P03"), "{refused:?}");
}

/// Ending it would make visible what no replica has, and a promotion would take that back.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_waits_for_a_replica_is_named_and_nobody_is_told_to_end_it() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    let store = db.store_with(PgConfig { append_timeout: Duration::from_millis(100), ..db.config() }).await;
    find(&store, "commits", "none waits for a synchronous replica").await;
    let mut admin = db.connection().await;
    db.execute(&mut admin, "SET synchronous_commit = local").await;
    db.execute(&mut admin, "ALTER SYSTEM SET synchronous_standby_names = 'gone'").await;
    db.execute(&mut admin, "SELECT pg_reload_conf()").await;
    eventually("an append waits for the replica", async || {
        let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')";
        drop(store.append(&one()).await);
        sqlx::query_scalar(waits).fetch_one(&mut admin).await.unwrap()
    })
    .await;
    let [writer] = &store.open_writers().await.unwrap()[..] else { panic!("one append is open") };
    assert!(writer.waits_for_replica && writer.to_string().contains("waits for a synchronous replica"), "{writer}");
    eventually("it has waited for long", async || {
        let findings = store.diagnose().await.unwrap();
        ["commits", "writers", "transactions"].iter().all(|topic| {
            findings.iter().any(|finding| {
                finding.topic == *topic && finding.found.contains("synchronous replica") && finding.advice.is_some()
            })
        })
    })
    .await;
    assert_found(&store, Severity::Bad, "commits", "1 wait for a synchronous replica, the first for", "start").await;
    assert_found(&store, Severity::Warning, "writers", "is committing", "synchronous_standby_names").await;
    for finding in store.diagnose().await.unwrap() {
        assert!(!finding.advice.as_deref().unwrap_or_default().contains("pg_terminate_backend"), "{finding}");
    }
    db.execute(&mut admin, "ALTER SYSTEM RESET synchronous_standby_names").await;
    db.execute(&mut admin, "SELECT pg_reload_conf()").await;
    eventually("appends work again", async || store.append(&one()).await.is_ok()).await;
    find(&store, "commits", "none waits for a synchronous replica").await;
}
