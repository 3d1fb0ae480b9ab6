//! What a store says about itself, with every problem produced for real.

mod holding;
mod planning;

use std::time::Duration;

use highwater::backend::{Diagnose, Finding, Log, Requests, Severity};
use highwater::{Claim, Error, GlobalSequence};
use highwater_postgres::{PgConfig, PgEventBus, PgEventStore};
use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use throwaway_postgres::{PoolMode, ThrowawayPgBouncer, ThrowawayPostgres};

use crate::bus::Recorder;
use crate::leadership::coordinated;
use crate::support::*;

/// The finding about a topic that says this; fails with all that there are.
async fn find(store: &PgEventStore, topic: &str, said: &str) -> Finding {
    let findings = store.diagnose().await.unwrap();
    let found = findings.iter().find(|finding| finding.topic == topic && finding.found.contains(said));
    let found = found.unwrap_or_else(|| panic!("nothing about {topic} says {said:?}: {findings:#?}")).clone();
    assert!(found.severity == Severity::Good || found.advice.is_some(), "{found}");
    found
}

/// The same, as severe as this and with such advice.
async fn assert_found(store: &PgEventStore, severity: Severity, topic: &str, said: &str, advice: &str) {
    let found = find(store, topic, said).await;
    assert_eq!(found.severity, severity, "{found}");
    assert!(found.advice.as_deref().is_some_and(|given| given.contains(advice)), "{found}");
}

/// What is worse than a note.
async fn problems(store: &PgEventStore) -> Vec<String> {
    let findings = store.diagnose().await.unwrap().into_iter();
    findings.filter(|finding| finding.severity > Severity::Note).map(|finding| finding.to_string()).collect()
}

/// A role that may log in, and nothing else yet. On a server of the test's own.
async fn role(db: &Db, name: &str) -> PgEventStore {
    db.execute(&mut db.connection().await, &format!("CREATE ROLE {name} LOGIN")).await;
    let options: PgConnectOptions = db.url.parse().unwrap();
    PgEventStore::connect_to_with(options.username(name), db.config()).await.unwrap()
}

async fn connect(db: &Db) -> PgEventStore {
    PgEventStore::connect_with(&db.url, db.config()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_database_has_nothing_to_warn_of() {
    let server = ThrowawayPostgres::builder().durable().start().unwrap();
    let db = Db::on(server.url());
    let store = db.store().await;
    for _ in 0..3 {
        store.append(&one()).await.unwrap();
    }
    let findings = store.diagnose().await.unwrap();
    let worse: Vec<_> = findings.iter().filter(|finding| finding.severity > Severity::Note).collect();
    assert!(worse.is_empty(), "{worse:#?}");
    let mut topics: Vec<_> = findings.iter().map(|finding| finding.topic).collect();
    topics.dedup();
    let all = [
        "connection",
        "server",
        "encryption",
        "pooler",
        "settings",
        "connections",
        "replication slots",
        "transactions",
        "commits",
        "locks",
        "layout",
        "filling",
        "indexes",
        "columns",
        "constraints",
        "rows",
        "stream names",
        "rights",
        "writers",
        "vacuum",
        "growth",
        "sequences",
        "dead letters",
        "subscribers",
    ];
    assert_eq!(topics, all);
    assert!(find(&store, "growth", "3 events").await.found.contains("each"));
    assert!(find(&store, "rights", "owns the log").await.found.contains("append"));
    assert!(store.planned().await.unwrap().is_empty());
    let options: PgConnectOptions = db.url.parse().unwrap();
    let options = options.options([("quote_all_identifiers", "on")]);
    let quoting = PgEventStore::connect_to_with(options, db.config()).await.unwrap();
    assert_eq!(problems(&quoting).await, [""; 0], "however names are written");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_role_may_not_do_or_see_is_a_note() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    db.store().await;
    let store = role(&db, "app").await;
    assert_found(&store, Severity::Bad, "layout", "permission denied", "role").await;
    let mut admin = db.connection().await;
    db.execute(
        &mut admin,
        "GRANT USAGE ON SCHEMA {s} TO app; GRANT SELECT ON ALL TABLES IN SCHEMA {s} TO app;
         GRANT SELECT ON SEQUENCE {s}.events_global_sequence_seq TO app",
    )
    .await;
    assert_found(&store, Severity::Note, "rights", "may not append", "docs/postgres-roles.sql").await;
    assert_found(&store, Severity::Note, "rights", "may not process for subscribers", "docs/postgres-roles.sql").await;
    assert_found(&store, Severity::Note, "rights", "of other roles", "pg_read_all_stats").await;
    let mut writing = db.connection().await;
    let mut tx = writing.begin().await.unwrap();
    db.insert(&mut tx).await;
    assert_found(&store, Severity::Note, "writers", "another role", "pg_terminate_backend").await;
    tx.rollback().await.unwrap();
    db.execute(&mut admin, "REVOKE SELECT ON {s}.event_bus_dlq FROM app").await;
    assert_found(&store, Severity::Note, "dead letters", "permission denied", "highwater_operator").await;
    assert_found(&store, Severity::Bad, "rights", "may not read: it lacks SELECT ON event_bus_dlq", "grant").await;
    db.execute(&mut admin, "ALTER FUNCTION {s}.append_one RENAME TO another").await;
    assert_found(&store, Severity::Bad, "rights", "EXECUTE ON append_one", "restore").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_do_harm_are_named() {
    let mut server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    db.store().await;
    for (name, value) in [
        ("autovacuum", "off"),
        ("full_page_writes", "off"),
        ("synchronous_commit", "off"),
        ("idle_session_timeout", "60s"),
        ("idle_in_transaction_session_timeout", "2s"),
        ("statement_timeout", "5s"),
    ] {
        server.set(name, value).unwrap();
    }
    let store = connect(&db).await;
    for (severity, said, advice) in [
        (Severity::Warning, "autovacuum is off", "autovacuum = on"),
        (Severity::Warning, "fsync is off", "fsync = on"),
        (Severity::Warning, "full_page_writes is off", "full_page_writes = on"),
        (Severity::Note, "synchronous_commit is off", "synchronous_commit = on"),
        (Severity::Note, "idle_session_timeout is 60 s", "idle_session_timeout = 0"),
        (Severity::Warning, "idle_in_transaction_session_timeout is 2 s", "raise it"),
        (Severity::Warning, "statement_timeout is 5 s", "statement_timeout = 0"),
    ] {
        assert_found(&store, severity, "settings", said, advice).await;
    }
    // Of a role alone.
    let store = role(&db, "app").await;
    let mut admin = db.connection().await;
    db.execute(
        &mut admin,
        "ALTER ROLE app SET statement_timeout = '1min'; ALTER ROLE app SET default_transaction_read_only = on",
    )
    .await;
    drop(store);
    let options: PgConnectOptions = db.url.parse().unwrap();
    let store = PgEventStore::connect_to_with(options.username("app"), db.config()).await.unwrap();
    assert_found(&store, Severity::Note, "settings", "statement_timeout is 60 s", "initializes").await;
    assert_found(&store, Severity::Note, "settings", "by its own setting", "RESET").await;
    server.set("default_transaction_read_only", "on").unwrap();
    assert_found(&connect(&db).await, Severity::Bad, "settings", "nothing can be written", "primary").await;
    server.set("default_transaction_read_only", "off").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_out_is_said_in_time() {
    let server = ThrowawayPostgres::builder().setting("max_connections", "50").start().unwrap();
    let db = Db::on(server.url());
    let store = db.store().await;
    let (mut admin, mut others) = (db.connection().await, Vec::new());
    assert_eq!(find(&store, "connections", "of the server").await.severity, Severity::Good);
    for _ in 0..30 {
        others.push(PgConnection::connect(&db.url).await.unwrap());
    }
    assert_found(&store, Severity::Warning, "connections", "of the server", "max_connections").await;
    drop(others);
    db.execute(&mut admin, "ALTER DATABASE postgres CONNECTION LIMIT 12").await;
    assert_found(&store, Severity::Warning, "connections", "of this database", "CONNECTION LIMIT").await;

    db.execute(&mut admin, "SELECT pg_create_physical_replication_slot('left_alone', true)").await;
    assert_found(&store, Severity::Note, "replication slots", "left_alone", "pg_drop_replication_slot('left_alone')")
        .await;

    db.execute(&mut admin, "ALTER SEQUENCE {s}.events_global_sequence_seq MAXVALUE 4").await;
    for _ in 0..3 {
        store.append(&one()).await.unwrap();
    }
    assert_found(&store, Severity::Warning, "sequences", "3 of 4", "NO MAXVALUE").await;
    store.append(&one()).await.unwrap();
    assert_found(&store, Severity::Bad, "sequences", "4 of 4", "NO MAXVALUE").await;
    db.execute(&mut admin, "ALTER SEQUENCE {s}.events_global_sequence_seq NO MAXVALUE").await;
    assert_eq!(find(&store, "sequences", "enough").await.severity, Severity::Good);
}

#[tokio::test]
async fn indexes_and_constraints_are_known_by_what_they_are() {
    let db = Db::new();
    let store = db.store().await;
    for _ in 0..2 {
        store.append(&one()).await.unwrap();
    }
    let mut admin = db.connection().await;
    // Under another name it is still the same.
    db.execute(
        &mut admin,
        "ALTER INDEX {s}.idx_dlq_created_at RENAME TO another; ALTER TABLE {s}.events RENAME CONSTRAINT
        events_metadata_check TO yet_another",
    )
    .await;
    find(&store, "indexes", "all are there").await;
    find(&store, "constraints", "all are there").await;
    // Under the same name it is not, if it is something else.
    db.execute(
        &mut admin,
        "DROP INDEX {s}.event_bus_dlq_open; CREATE INDEX event_bus_dlq_open ON {s}.event_bus_dlq (stream_id)",
    )
    .await;
    assert_found(&store, Severity::Warning, "indexes", "takes long", "event_bus_dlq (subscriber_id, stream_id) WHERE")
        .await;
    assert_found(&store, Severity::Note, "indexes", "event_bus_dlq_open is not ours", "DROP INDEX").await;
    db.execute(
        &mut admin,
        "ALTER TABLE {s}.events DROP CONSTRAINT events_id_key; CREATE INDEX events_id_key ON {s}.events (id)",
    )
    .await;
    assert_found(&store, Severity::Bad, "indexes", "keeps doubles out", "CREATE UNIQUE INDEX CONCURRENTLY ON").await;
    db.execute(&mut admin, "ALTER TABLE {s}.events DROP CONSTRAINT yet_another, ADD CHECK (metadata IS NOT NULL)")
        .await;
    assert_found(&store, Severity::Warning, "constraints", "one is missing", "json_typeof(metadata)").await;
    for table in ["requests", "leaders", "instances", "reports"] {
        let drop = format!("ALTER TABLE {{s}}.event_bus_{table} DROP CONSTRAINT event_bus_{table}_sane");
        db.execute(&mut admin, &drop).await;
        let findings = store.diagnose().await.unwrap();
        let mut advice = findings.iter().filter_map(|finding| finding.advice.as_deref());
        assert!(advice.any(|advice| advice.contains(&format!("event_bus_{table} ADD CHECK"))), "{table}: {findings:?}");
    }
    // What the advice says fixes it.
    for topic in ["indexes", "constraints"] {
        for finding in store.diagnose().await.unwrap().iter().filter(|finding| finding.topic == topic) {
            let advice = finding.advice.as_deref().unwrap().trim_start_matches("while nothing writes, ");
            db.execute(&mut admin, advice.split(", unless").next().unwrap()).await;
        }
    }
    find(&store, "indexes", "all are there").await;
    find(&store, "constraints", "all are there").await;
    let doubles = "CREATE UNIQUE INDEX CONCURRENTLY by_type ON {s}.events (event_type)";
    assert!(db.try_execute(&mut admin, doubles).await.is_err(), "two events have one type");
    assert_found(&store, Severity::Warning, "indexes", "by_type is invalid", "REINDEX INDEX CONCURRENTLY").await;
}

/// What the documented roles say about the whole database, ready to be run.
fn about_the_database(name: &str) -> String {
    let lines = include_str!("../../../../docs/postgres-roles.sql").lines();
    let commented = lines.filter_map(|line| line.strip_prefix("--     "));
    commented
        .filter(|line| !line.contains("transaction_timeout = '1h'"))
        .collect::<Vec<_>>()
        .join("\n")
        .replace("shop", name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_out_that_bounds_everybody_is_asked_for_until_the_database_has_it() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    let store = db.store().await;
    let (said, advice) =
        ("idle_in_transaction_session_timeout is not set for the database", "ALTER DATABASE postgres SET");
    assert_found(&store, Severity::Note, "settings", said, advice).await;
    let mut admin = db.connection().await;
    let role: String = sqlx::query_scalar("SELECT session_user::text").fetch_one(&mut admin).await.unwrap();
    db.execute(&mut admin, &format!("ALTER ROLE {role} SET idle_in_transaction_session_timeout = '60s'")).await;
    assert_found(&connect(&db).await, Severity::Note, "settings", said, advice).await;
    let sql = about_the_database("postgres");
    assert!(sql.contains("ALTER DATABASE") && sql.contains("REVOKE"), "{sql}");
    db.execute(&mut admin, &sql).await;
    let findings = connect(&db).await.diagnose().await.unwrap();
    let asked: Vec<_> = findings.iter().filter(|finding| finding.found.contains(said)).collect();
    assert!(asked.is_empty(), "{asked:#?}");
    // A role that nobody thought of does not get in, and one that does is ended.
    let stranger =
        "CREATE ROLE stranger LOGIN; CREATE ROLE invited LOGIN; GRANT CONNECT ON DATABASE postgres TO invited";
    db.execute(&mut admin, stranger).await;
    let options: PgConnectOptions = db.url.parse().unwrap();
    let refused = PgConnection::connect_with(&options.clone().username("stranger")).await.unwrap_err();
    assert_eq!(refused.as_database_error().and_then(|error| error.code()).as_deref(), Some("42501"), "{refused:?}");
    let mut invited = PgConnection::connect_with(&options.username("invited")).await.unwrap();
    let show = sqlx::query_scalar("SELECT current_setting('idle_in_transaction_session_timeout')");
    let limit: String = show.fetch_one(&mut invited).await.unwrap();
    assert_eq!(limit, "1min");
}

#[tokio::test(flavor = "multi_thread")]
async fn vacuum_that_does_not_come_is_noticed() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    let store = db.store().await;
    let mut admin = db.connection().await;
    db.execute(&mut admin, "ALTER TABLE {s}.events SET (autovacuum_enabled = off)").await;
    assert_found(&store, Severity::Warning, "vacuum", "switched off", "RESET (autovacuum_enabled)").await;
    // A session still sees the old versions, so they stay.
    let mut looking = db.connection().await;
    db.execute(&mut looking, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await;
    let many = "INSERT INTO {s}.event_bus_checkpoints (subscriber_id) SELECT 's' || n FROM generate_series(1, 25000) n";
    db.execute(&mut admin, many).await;
    db.execute(&mut admin, "UPDATE {s}.event_bus_checkpoints SET last_global_sequence = 1").await;
    // A session that goes says what it has done.
    drop(admin);
    eventually("it is counted", async || problems(&store).await.iter().any(|said| said.contains("dead rows"))).await;
    assert_found(&store, Severity::Warning, "vacuum", "dead rows", "VACUUM").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_in_the_way_is_found() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    db.store().await;
    let pooler = ThrowawayPgBouncer::start(&server, PoolMode::Transaction).unwrap();
    let config = PgConfig { leadership_url: Some(pooler.url()), ..db.config() };
    let store = PgEventStore::connect_with(&db.url, config).await.unwrap();
    assert_found(&store, Severity::Bad, "pooler", "leadership_url", "session mode").await;
    let pooler = ThrowawayPgBouncer::start(&server, PoolMode::Session).unwrap();
    let store = PgEventStore::connect_with(&pooler.url(), db.config()).await.unwrap();
    assert_eq!(find(&store, "pooler", "dedicated session").await.severity, Severity::Good);
}

#[tokio::test]
async fn dead_letters_that_wait_and_those_that_could_go_are_counted() {
    let db = Db::new();
    let store = db.store().await;
    let dead_letter = "INSERT INTO {s}.event_bus_dlq (subscriber_id, event_id, global_sequence, stream_id, event_type, state, resolved_at)
        VALUES ('s', gen_random_uuid(), 1, gen_random_uuid(), 'Noted', ";
    let mut admin = db.connection().await;
    db.execute(
        &mut admin,
        &format!("{dead_letter} 'replayed', now() - interval '31 days'); {dead_letter} 'replayed', now())"),
    )
    .await;
    db.execute(
        &mut admin,
        "INSERT INTO {s}.event_bus_requests (id, subscriber_id, kind, requested_by, finished_at)
        VALUES (gen_random_uuid(), 's', 'replay_all', 'me', now() - interval '31 days')",
    )
    .await;
    assert_found(
        &store,
        Severity::Note,
        "dead letters",
        "1 resolved dead letters and 1 finished requests",
        "purge_dead_letters",
    )
    .await;
    db.execute(&mut admin, &format!("{dead_letter} 'dead', NULL); {dead_letter} 'parked', NULL)")).await;
    assert_found(
        &store,
        Severity::Warning,
        "dead letters",
        "1 wait to be replayed or discarded, and 1 are parked",
        "replay",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_that_nobody_processes_for_are_named() {
    use highwater::EventStore;
    use highwater::backend::Checkpoints;
    let db = Db::new();
    let store = db.store().await;
    let bus = PgEventBus::with_config(store.clone(), coordinated());
    let led = bus.subscribe(Recorder::new("projection:led")).await.unwrap();
    eventually("it is led", async || led.state().is_live()).await;
    store.take_over(&Claim::of("projection:alone")).await.unwrap();
    find(&store, "subscribers", "all 2 subscribers").await;
    let at = store.append(&one()).await.unwrap().global_sequence;
    bus.wait_for("projection:led", GlobalSequence(at)).await.unwrap();
    // It may be about to.
    find(&store, "subscribers", "all 2 subscribers").await;
    let long_ago = "UPDATE {s}.event_bus_checkpoints SET updated_at = now() - interval '5 minutes'";
    db.execute(&mut db.connection().await, long_ago).await;
    assert_found(&store, Severity::Warning, "subscribers", "\"projection:alone\" is up to 1 events behind", "start")
        .await;
    bus.shutdown().await.unwrap();
    store.append(&one()).await.unwrap();
    assert_found(
        &store,
        Severity::Warning,
        "subscribers",
        "\"projection:led\" is up to 1 events behind",
        "start an instance",
    )
    .await;
    store.set_paused("projection:led", true).await.unwrap();
    assert_found(&store, Severity::Note, "subscribers", "\"projection:led\" is paused", "resume()").await;
    assert_eq!(store.read_all_events_since::<Note>(0).collect().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_is_one_finding() {
    let mut server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    let config = PgConfig { connect_timeout: Duration::from_millis(500), ..db.config() };
    let store = db.store_with(config).await;
    server.stop().unwrap();
    let findings = store.diagnose().await.unwrap();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].severity == Severity::Bad && findings[0].topic == "connection", "{}", findings[0]);
    assert!(matches!(store.planned().await.unwrap_err(), Error::Unavailable { .. }));
    server.start_again().unwrap();
    // A connection from before may be met first.
    eventually("the server answers", async || {
        let findings = store.diagnose().await.unwrap();
        findings.iter().any(|finding| finding.topic == "connection" && finding.found.contains("answers within"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_said_to_be_one() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    db.store().await;
    let replica = server.replica().unwrap();
    let store = PgEventStore::connect_with(&replica.url(), db.config()).await.unwrap();
    assert_found(&store, Severity::Bad, "server", "in recovery", "primary").await;
}
