//! What other roles write into the tables, or leave open, and what becomes of it.

use highwater::backend::{Batch, CheckpointWrite, Checkpoints, Log, Refused, Requests, Transfer};
use highwater::{Claim, EventStore, Filter, MemoryEventStore};
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnectOptions;

use crate::bus::{Recorder, bus, quick, say};
use crate::roles::Roles;
use crate::support::*;

const REQUEST: &str = "INSERT INTO {s}.event_bus_requests (id, subscriber_id, kind, requested_by, requested_at)
    VALUES (gen_random_uuid(), 'projection:x', 'replay_all', 'me', 'infinity')";

#[tokio::test]
async fn what_is_no_request_cannot_be_stored_by_an_operator() {
    let db = Db::new();
    db.store().await;
    let roles = Roles::create(&db).await;
    let mut connection = db.connection().await;
    db.execute(&mut connection, &format!("SET ROLE {}operator", roles.0)).await;
    let large = REQUEST.replace("'me', 'infinity'", "repeat('x', 8193), now()");
    for sql in [REQUEST, &large] {
        let refused = db.try_execute(&mut connection, sql).await.unwrap_err();
        assert!(refused.to_string().contains("event_bus_requests_sane"), "{refused}");
    }
    drop(connection);
    roles.drop(&db).await;
}

#[tokio::test]
async fn an_operator_says_what_is_to_be_done_and_not_what_came_of_it() {
    let db = Db::new();
    db.store().await;
    let roles = Roles::create(&db).await;
    let mut connection = db.connection().await;
    db.execute(&mut connection, &format!("SET ROLE {}operator", roles.0)).await;
    let request = REQUEST.replace("'infinity'", "'2001-01-01'");
    db.execute(&mut connection, &request).await;
    for (column, value) in [("done", "-1"), ("failed", "-1"), ("error", "'x'"), ("finished_at", "now()")] {
        let sql = request.replace("requested_at)", &format!("requested_at, {column})"));
        let sql = sql.replace("'2001-01-01')", &format!("'2001-01-01', {value})"));
        let refused = db.try_execute(&mut connection, &sql).await.unwrap_err();
        assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "42501", "{column}: {refused}");
    }
    drop(connection);
    roles.drop(&db).await;
}

/// Rows that all instances read all the time, or all observers: `{long}` is longer than any text of ours.
const UNBOUNDED: [(&str, &str); 13] = [
    ("event_bus_requests", "UPDATE {s}.event_bus_requests SET done = -1"),
    ("event_bus_requests", "UPDATE {s}.event_bus_requests SET failed = -1"),
    ("event_bus_requests", "UPDATE {s}.event_bus_requests SET error = {long}"),
    ("event_bus_requests", "UPDATE {s}.event_bus_requests SET reason = {long}"),
    ("event_bus_leaders", "UPDATE {s}.event_bus_leaders SET host = {long}"),
    ("event_bus_leaders", "UPDATE {s}.event_bus_leaders SET label = {long}"),
    ("event_bus_leaders", "UPDATE {s}.event_bus_leaders SET since = 'infinity'"),
    ("event_bus_instances", "UPDATE {s}.event_bus_instances SET label = {long}"),
    ("event_bus_instances", "UPDATE {s}.event_bus_instances SET wants = array_fill({long}, ARRAY[100])"),
    ("event_bus_instances", "UPDATE {s}.event_bus_instances SET prefers = array_fill({long}, ARRAY[100])"),
    ("event_bus_instances", "UPDATE {s}.event_bus_instances SET since = 'infinity'"),
    ("event_bus_reports", "UPDATE {s}.event_bus_reports SET last_error = {long}"),
    ("event_bus_reports", "UPDATE {s}.event_bus_reports SET reads = repeat({long}, 100)"),
];

#[tokio::test]
async fn a_subscriber_cannot_store_what_fills_the_memory_of_every_instance() {
    let db = Db::new();
    db.store().await;
    let roles = Roles::create(&db).await;
    let mut connection = db.connection().await;
    db.execute(&mut connection, &format!("SET ROLE {}subscriber", roles.0)).await;
    let rows = "INSERT INTO {s}.event_bus_leaders (subscriber_id, instance_id, host, pid, term, nonce)
            VALUES ('projection:x', gen_random_uuid(), 'here', 1, 1, gen_random_uuid());
        INSERT INTO {s}.event_bus_instances (session, instance_id, host, pid, wants, prefers)
            VALUES (gen_random_uuid(), gen_random_uuid(), 'here', 1, '{}', '{}');
        INSERT INTO {s}.event_bus_reports (subscriber_id, term, state, global_sequence, rate, reported_at)
            VALUES ('projection:x', 1, 'live', 1, 0, now())";
    db.execute(&mut connection, &format!("{}; {rows}", REQUEST.replace("'infinity'", "now()"))).await;
    for (table, sql) in UNBOUNDED {
        let refused = db.try_execute(&mut connection, &sql.replace("{long}", "repeat('x', 20000)")).await.unwrap_err();
        assert!(refused.to_string().contains(&format!("{table}_sane")), "{sql}: {refused}");
    }
    drop(connection);
    roles.drop(&db).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_no_clock_shows_ends_no_service_of_the_bus() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    let subscription = bus.subscribe(Recorder::new("projection:x")).await.unwrap();
    say(bus.store(), "before").await;
    subscription.caught_up().await.unwrap();
    let mut connection = db.connection().await;
    // As in a layout without the constraint.
    db.execute(&mut connection, "ALTER TABLE {s}.event_bus_requests DROP CONSTRAINT event_bus_requests_sane").await;
    db.execute(&mut connection, REQUEST).await;
    db.execute(&mut connection, "UPDATE {s}.event_bus_reports SET reported_at = 'infinity'").await;
    let other = db.store().await;
    assert_eq!(other.overview().await.unwrap().subscribers.len(), 1);
    assert!(other.set_paused("projection:x", true).await.unwrap());
    eventually("another process's pause is obeyed", async || {
        subscription.progress().await.unwrap().state.name() == "paused"
    })
    .await;
    assert!(bus.health().await.is_live());
    db.execute(&mut connection, "UPDATE {s}.event_bus_checkpoints SET updated_at = 'infinity'").await;
    let damaged = other.checkpoint("projection:x").await.unwrap_err();
    assert!(matches!(damaged, highwater::Error::Damaged { .. }), "{damaged:?}");
    bus.shutdown().await.unwrap();
}

/// A row does not tell who locked it within a savepoint, as many clients do, or which of several sessions did.
#[tokio::test]
async fn who_may_hold_a_checkpoint_is_named_where_it_cannot_be_told_for_certain() {
    let db = Db::new();
    let store = db.store().await;
    let fence = store.take_over(&Claim::of("s")).await.unwrap().checkpoint.fence();
    let share = "BEGIN; SELECT FROM {s}.event_bus_checkpoints FOR SHARE";
    let saved = "BEGIN; SAVEPOINT a; UPDATE {s}.event_bus_checkpoints SET updated_at = now(); RELEASE a";
    for (statements, said) in [(&[saved][..], "process "), (&[share, share], "one of process ")] {
        let mut holders = Vec::new();
        for statement in statements {
            let mut holder = db.connection().await;
            let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut holder).await.unwrap();
            db.execute(&mut holder, statement).await;
            holders.push((holder, pid));
        }
        let write = CheckpointWrite { fence: fence.clone(), global_sequence: 3, event_id: None };
        let refused = store.store_checkpoints(&[write]).await.unwrap();
        let [Some(Refused::Held { by: Some(by) })] = &refused[..] else { panic!("{refused:?}") };
        assert!(by.starts_with(said), "{by}");
        for (mut holder, pid) in holders {
            assert!(by.contains(&format!("process {pid}")), "{by}");
            db.execute(&mut holder, "ROLLBACK").await;
        }
    }
}

#[tokio::test]
async fn a_number_that_cannot_be_counted_on_from_is_not_filled_in() {
    let db = Db::new();
    let (store, source) = (db.store().await, MemoryEventStore::new());
    source.append(&one()).await.unwrap();
    let mut records = source.read_all(0, &Filter::ALL, Default::default()).await.unwrap().records;
    for number in [u64::MAX, i64::MAX as u64, (1 << 62) + 1] {
        records[0].global_sequence = number;
        let mut filling = store.fill("somewhere").await.unwrap();
        let refused = filling.put(Batch::Records(&records)).await.unwrap_err();
        assert!(matches!(refused, highwater::Error::Invalid(_)), "{refused:?}");
        filling.abandon().await.unwrap();
    }
    records[0].global_sequence = 1 << 62;
    let mut filling = store.fill("somewhere").await.unwrap();
    filling.put(Batch::Records(&records)).await.unwrap();
    filling.abandon().await.unwrap();
    assert_eq!(store.append(&one()).await.unwrap().global_sequence, (1 << 62) + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_keeps_a_filling_from_being_abandoned_is_named_and_readers_do_not_wait() {
    let db = Db::new();
    let (store, source) = (db.store().await, MemoryEventStore::new());
    source.append(&one()).await.unwrap();
    let records = source.read_all(0, &Filter::ALL, Default::default()).await.unwrap().records;
    let mut filling = store.fill("somewhere").await.unwrap();
    filling.put(Batch::Records(&records)).await.unwrap();
    let mut admin = db.connection().await;
    let role = format!("nobody{:x}", fastrand::u64(..));
    db.execute(&mut admin, &format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'")).await;
    let oid: i64 = sqlx::query_scalar("SELECT 'events_global_sequence_seq'::regclass::oid::bigint")
        .fetch_one(&mut admin)
        .await
        .unwrap();
    let options: PgConnectOptions = db.url.parse().unwrap();
    let options = options.username(&role).password("secret").application_name("nobody");
    let mut nobody = sqlx::ConnectOptions::connect(&options).await.unwrap();
    sqlx::raw_sql("BEGIN; SAVEPOINT a").execute(&mut nobody).await.unwrap();
    let draw = AssertSqlSafe(format!("SELECT nextval({oid}::regclass)"));
    sqlx::raw_sql(draw).execute(&mut nobody).await.unwrap_err();
    sqlx::raw_sql("ROLLBACK TO a").execute(&mut nobody).await.unwrap();
    let abandoning = tokio::spawn(filling.abandon());
    eventually("it waits for the sequence", async || {
        let waiting =
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'events_global_sequence_seq'::regclass";
        sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut admin).await.unwrap() == 1
    })
    .await;
    assert_eq!(numbers(&page(&store, 0).await), [1]);
    let told = highwater::backend::chain(&abandoning.await.unwrap().unwrap_err());
    assert!(told.contains("nobody") && told.contains("has to end first"), "{told}");
    sqlx::raw_sql("ROLLBACK").execute(&mut nobody).await.unwrap();
    assert!(store.abandon().await.unwrap());
    drop(nobody);
    eventually("the role's session ends", async || {
        db.try_execute(&mut db.connection().await, &format!("DROP ROLE {role}")).await.is_ok()
    })
    .await;
}
