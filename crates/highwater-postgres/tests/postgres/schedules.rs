//! Schedules and layouts in which something was once lost, hidden or refused.

use std::time::Duration;

use highwater::backend::{Log, ReadLimit};
use highwater::{Append, EventStore, Filter, GlobalSequence, Problem, StartAt, SubscriberOptions, SubscriptionState};
use highwater_postgres::PgEventBus;
use sqlx::Row;
use uuid::Uuid;

use crate::bus::handlers::{Counting, nothing};
use crate::bus::{Recorder, quick, say, say_many};
use crate::support::{Db, INSERT, eventually, note, numbers, page_of};

/// Refuses new connections to a database, and ends those that are there.
fn closed(database: &str) -> [String; 2] {
    [
        format!("ALTER DATABASE {database} ALLOW_CONNECTIONS false"),
        format!("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{database}'"),
    ]
}

fn starting(start: StartAt) -> SubscriberOptions {
    SubscriberOptions::new().start(start)
}

/// G33: nothing moves beyond what is settled.
#[tokio::test]
async fn a_repair_moves_nothing_beyond_what_is_settled_also_when_another_subscriber_was_started_by_hand() {
    let db = Db::new();
    let bus = PgEventBus::with_config(db.store().await, quick());
    say_many(bus.store(), 3).await;
    bus.subscribe(Recorder::new("projection:a")).await.unwrap().caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
    let mut late = db.connection().await;
    db.execute(&mut late, &format!("BEGIN; {INSERT}")).await;
    let bus = PgEventBus::with_config(db.store().await, quick());
    say_many(bus.store(), 6).await;
    let b = bus.subscribe(Recorder::with("projection:b", starting(StartAt::After(6)))).await.unwrap();
    b.caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
    let store = db.store().await;
    let moved = store.repair().by("anna").set_checkpoint("projection:a", 8).await;
    db.execute(&mut late, "COMMIT").await;
    let bus = PgEventBus::with_config(db.store().await, quick());
    let a = Recorder::new("projection:a");
    bus.subscribe(a.clone()).await.unwrap().caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
    assert!(moved.is_err(), "4 was open and may still have come: moved to {moved:?}");
}

/// Who holds readers back is named from the first look.
#[tokio::test]
async fn who_holds_one_subscriber_back_is_named_though_another_was_started_beyond() {
    let db = Db::new();
    let bus = PgEventBus::with_config(db.store().await, quick());
    say_many(bus.store(), 3).await;
    let a = bus.subscribe(Recorder::new("projection:a")).await.unwrap();
    a.caught_up().await.unwrap();
    let mut late = db.connection().await;
    db.execute(&mut late, &format!("BEGIN; {INSERT}")).await;
    say_many(bus.store(), 6).await;
    let other = PgEventBus::with_config(db.store().await, quick());
    let b = other.subscribe(Recorder::with("projection:b", starting(StartAt::After(6)))).await.unwrap();
    b.caught_up().await.unwrap();
    let health = bus.health().await;
    let in_health = health.problems.iter().any(|problem| matches!(problem, Problem::WritersOpen { .. }));
    let overview = db.store().await.overview().await.unwrap();
    let why = db.store().await.explain("projection:a").await.unwrap();
    let named = in_health
        && why.causes.iter().any(|cause| matches!(cause, highwater::operations::Cause::WaitingForWriters { .. }));
    assert!(named && overview.open_writers.len() == 1, "{why}");
}

/// A proof is about the numbers of one sequence.
#[tokio::test]
async fn a_checkpoint_from_before_the_sequence_was_restarted_proves_nothing_later_either() {
    let db = Db::new();
    let bus = PgEventBus::with_config(db.store().await, quick());
    say_many(bus.store(), 10).await;
    bus.subscribe(Recorder::new("projection:old")).await.unwrap().caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
    db.execute(&mut db.connection().await, "TRUNCATE {s}.events RESTART IDENTITY").await;
    let bus = PgEventBus::with_config(db.store().await, quick());
    say_many(bus.store(), 3).await;
    let mut late = db.connection().await;
    db.execute(&mut late, &format!("BEGIN; {INSERT}")).await;
    say_many(bus.store(), 8).await;
    // As one that has handled nothing it wants so far: a checkpoint that names an event is known not to be of this log.
    db.execute(&mut db.connection().await, "UPDATE {s}.event_bus_checkpoints SET last_event_id = NULL").await;
    // The one whose checkpoint was forgotten continues at 11, and knows nothing of 4.
    bus.subscribe(Recorder::new("projection:old")).await.unwrap().caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
    let reader = db.store().await;
    let page = page_of(&reader, 0, &["Noted"]).await;
    db.execute(&mut late, "COMMIT").await;
    assert!(page.complete_to < 4, "4 may still come, and now has");
}

/// The same by a checkpoint that is set back in plain SQL under its leader.
#[tokio::test]
async fn a_checkpoint_set_back_under_a_leader_that_began_by_hand_proves_nothing() {
    let db = Db::new();
    let bus = PgEventBus::with_config(db.store().await, quick());
    say_many(bus.store(), 3).await;
    let mut late = db.connection().await;
    db.execute(&mut late, &format!("BEGIN; {INSERT}")).await;
    say_many(bus.store(), 6).await;
    let b = bus.subscribe(Recorder::with("projection:b", starting(StartAt::After(6)))).await.unwrap();
    b.caught_up().await.unwrap();
    db.execute(&mut db.connection().await, "UPDATE {s}.event_bus_checkpoints SET last_global_sequence = 0").await;
    say(bus.store(), "one more").await;
    b.caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
    let reader = db.store().await;
    let page = page_of(&reader, 0, &["Noted"]).await;
    db.execute(&mut late, "COMMIT").await;
    assert!(page.complete_to < 4);
}

/// A key of the application's that refers to the table of checkpoints.
#[tokio::test]
async fn a_foreign_key_that_refers_to_checkpoints_stops_no_transactional_subscriber() {
    let db = Db::new();
    let bus = PgEventBus::with_config(db.store().await, quick());
    let counting = Counting::new(&db, "projection:counting", quick(), nothing()).await;
    let subscription = bus.subscribe(counting).await.unwrap();
    say(bus.store(), "first").await;
    subscription.caught_up().await.unwrap();
    let mut stranger = db.connection().await;
    db.execute(
        &mut stranger,
        "CREATE TABLE {s}.mine (subscriber_id varchar(255) REFERENCES {s}.event_bus_checkpoints)",
    )
    .await;
    db.execute(&mut stranger, "BEGIN; INSERT INTO {s}.mine VALUES ('projection:counting')").await;
    say(bus.store(), "second").await;
    let done = tokio::time::timeout(Duration::from_secs(8), subscription.caught_up()).await;
    db.execute(&mut stranger, "COMMIT").await;
    assert!(matches!(done, Ok(Ok(_))) && !matches!(subscription.state(), SubscriptionState::Halted { .. }));
}

/// Whatever the store asks by itself has a time-out on this side.
#[tokio::test]
async fn reading_ends_within_a_time_also_when_another_session_is_first_to_ask_for_the_life_and_stays_open() {
    let db = Db::new();
    let store = db.store().await;
    say_many(&store, 3).await;
    // What a recovery does.
    db.execute(&mut db.connection().await, "TRUNCATE {s}.server_life").await;
    let mut stranger = db.connection().await;
    db.execute(&mut stranger, "BEGIN; SELECT {s}.life()").await;
    let store = db.store().await;
    let read = store.read_all(0, &Filter::ALL, ReadLimit::events(10));
    let read = tokio::time::timeout(Duration::from_secs(45), read).await;
    assert!(read.is_ok(), "no answer and no error within 45 s");
}

/// G3: also for a caller of the functions in the database.
#[tokio::test]
async fn no_caller_of_append_group_makes_a_hole() {
    let db = Db::new();
    let store = db.store().await;
    let (seven, other) = (Uuid::now_v7(), Uuid::now_v7());
    store.append(&Append::to(seven).events((0..7).map(|n| note(n.to_string())))).await.unwrap();
    let mut writer = db.connection().await;
    let sql = r#"SELECT {s}.append_group('[0:1]={SEVEN,OTHER}'::uuid[], ARRAY[NULL, NULL]::bigint[], NULL, ARRAY[1], ARRAY[1],
            ARRAY[gen_random_uuid()], ARRAY['Noted'], ARRAY[1], ARRAY['{"text":"x"}'], ARRAY['{}'], ARRAY[now()])"#;
    let sql = sql.replace("SEVEN", &seven.to_string()).replace("OTHER", &other.to_string());
    assert!(db.try_execute(&mut writer, &sql).await.is_err());
    let versions: Vec<i64> = sqlx::query_scalar("SELECT stream_version FROM events WHERE stream_id = $1")
        .bind(other)
        .fetch_all(&mut writer)
        .await
        .unwrap();
    assert!(versions.is_empty(), "{versions:?}");
}

/// Default privileges may take functions away from PUBLIC.
#[tokio::test]
async fn a_reader_reads_where_functions_are_not_for_everybody_by_default() {
    let db = Db::new();
    let mut admin = db.connection().await;
    let role = format!("r_{}", db.schema);
    db.execute(&mut admin, "CREATE SCHEMA {s}; ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC").await;
    let store = db.store().await;
    db.execute(&mut admin, "ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC").await;
    say_many(&store, 3).await;
    db.execute(
        &mut admin,
        &format!(
            "CREATE ROLE {role} LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA {{s}} TO {role};
             GRANT SELECT ON ALL TABLES IN SCHEMA {{s}} TO {role};
             GRANT SELECT ON SEQUENCE {{s}}.events_global_sequence_seq TO {role}"
        ),
    )
    .await;
    let options: sqlx::postgres::PgConnectOptions = db.url.parse().unwrap();
    let options = options.username(&role).password("secret");
    let reader = highwater_postgres::PgEventStore::connect_to_with(options, db.config()).await.unwrap();
    let read = reader.read_all(0, &Filter::ALL, ReadLimit::events(10)).await;
    let read = read.map(|page| numbers(&page));
    db.execute(&mut admin, &format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    assert_eq!(read.unwrap(), [1, 2, 3]);
}

/// A database that is put back from a copy on the same server is another life.
#[tokio::test]
async fn a_copy_of_a_database_is_another_life() {
    let db = Db::new();
    let mut admin = db.connection().await;
    let name = format!("c_{}", db.schema);
    db.execute(&mut admin, &format!("CREATE DATABASE {name}_a")).await;
    let url = |suffix: &str| format!("{}/{name}{suffix}", db.url.rsplit_once('/').unwrap().0);
    let here = Db { url: url("_a"), schema: db.schema.clone() };
    let store = here.store().await;
    say_many(&store, 3).await;
    assert_eq!(store.frontier().await.unwrap(), 3);
    drop(store);
    for sql in closed(&format!("{name}_a")) {
        db.execute(&mut admin, &sql).await;
    }
    db.execute(&mut admin, &format!("CREATE DATABASE {name}_b TEMPLATE {name}_a")).await;
    db.execute(&mut admin, &format!("ALTER DATABASE {name}_a ALLOW_CONNECTIONS true")).await;
    let mut lives = Vec::new();
    for suffix in ["_a", "_b"] {
        let there = Db { url: url(suffix), schema: db.schema.clone() };
        let mut connection = there.connection().await;
        let row = sqlx::query("SELECT life()").fetch_one(&mut connection).await.unwrap();
        lives.push(row.get::<i64, _>(0));
        std::mem::forget(there);
    }
    std::mem::forget(here);
    assert_ne!(lives[0], lives[1]);
}

/// Running readers are interrupted and start again from their checkpoints. Forwards: nothing is issued again.
#[tokio::test]
async fn a_running_subscriber_continues_after_the_sequence_was_changed() {
    for changed in [
        "ALTER TABLE {s}.events ALTER COLUMN global_sequence RESTART WITH 1000",
        // What the doctor advises for one that is nearly used up.
        "ALTER SEQUENCE {s}.events_global_sequence_seq NO MAXVALUE",
    ] {
        let db = Db::new();
        let bus = PgEventBus::with_config(db.store().await, quick());
        let subscription = bus.subscribe(Recorder::new("projection:a")).await.unwrap();
        say_many(bus.store(), 3).await;
        subscription.caught_up().await.unwrap();
        db.execute(&mut db.connection().await, changed).await;
        let said = say(bus.store(), "after").await;
        let waited = bus.wait_for_within("projection:a", GlobalSequence(said), Duration::from_secs(10)).await;
        assert!(waited.is_ok(), "{changed}: {waited:?}");
        bus.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_takeover_that_waits_for_the_life_says_so() {
    let db = Db::new();
    let store = db.store().await;
    db.execute(&mut db.connection().await, "TRUNCATE {s}.server_life").await;
    let mut stranger = db.connection().await;
    db.execute(&mut stranger, "BEGIN; SELECT {s}.life()").await;
    let claim = highwater::Claim::of("projection:a");
    let taken = highwater::backend::Checkpoints::take_over(&store, &claim).await;
    let said = taken.map(|_| ()).unwrap_err().to_string();
    assert!(!said.contains("holds the checkpoint"), "{said}");
}

/// Behind a pooler in transaction mode a connection outlives a recovery, which the truncation stands for here.
#[tokio::test]
async fn a_checkpoint_of_another_life_is_refused_also_on_a_connection_that_outlived_it() {
    let db = Db::new();
    let store = db.store().await;
    say_many(&store, 6).await;
    let claim = highwater::Claim::of("projection:a");
    let taken = highwater::backend::Checkpoints::take_over(&store, &claim).await.unwrap();
    let fence = taken.checkpoint.fence();
    let write = |fence: &highwater::backend::Fence, global_sequence| highwater::backend::CheckpointWrite {
        fence: fence.clone(),
        global_sequence,
        event_id: Some(Uuid::now_v7()),
    };
    assert_eq!(highwater::backend::Checkpoints::store_checkpoints(&store, &[write(&fence, 3)]).await.unwrap(), [None]);
    db.execute(&mut db.connection().await, "TRUNCATE {s}.server_life; SELECT {s}.life()").await;
    let stale = highwater::backend::Checkpoints::store_checkpoints(&store, &[write(&fence, 6)]).await.unwrap();
    let now = highwater::backend::Checkpoints::checkpoint(&store, "projection:a").await.unwrap().unwrap();
    let renewed = highwater::backend::Fence { incarnation: now.incarnation, ..fence };
    assert_eq!(stale, [Some(highwater::backend::Refused::Interrupted)]);
    assert_eq!(
        highwater::backend::Checkpoints::store_checkpoints(&store, &[write(&renewed, 6)]).await.unwrap(),
        [None]
    );
}

/// A database that is put back from a copy, on the same server, under a running subscriber.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_appended_after_a_database_was_put_back_from_a_copy_is_delivered() {
    let server = Db::new();
    let mut admin = server.connection().await;
    let name = format!("d_{}", server.schema);
    server.execute(&mut admin, &format!("CREATE DATABASE {name}")).await;
    let url = format!("{}/{name}", server.url.rsplit_once('/').unwrap().0);
    let db = Db { url, schema: server.schema.clone() };
    let bus = PgEventBus::with_config(db.store().await, quick());
    let recorder = Recorder::new("projection:a");
    bus.subscribe(recorder.clone()).await.unwrap();
    say_many(bus.store(), 3).await;
    bus.wait_for("projection:a", GlobalSequence(3)).await.unwrap();
    for sql in closed(&name) {
        server.execute(&mut admin, &sql).await;
    }
    server.execute(&mut admin, &format!("CREATE DATABASE {name}_backup TEMPLATE {name}")).await;
    server.execute(&mut admin, &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).await;
    for text in ["four", "five", "six"] {
        let store = db.store().await;
        let at = say(&store, text).await;
        bus.wait_for_within("projection:a", GlobalSequence(at), Duration::from_secs(10)).await.unwrap();
    }
    for sql in closed(&name) {
        server.execute(&mut admin, &sql).await;
    }
    server.execute(&mut admin, &format!("DROP DATABASE {name}")).await;
    server.execute(&mut admin, &format!("ALTER DATABASE {name}_backup RENAME TO {name}")).await;
    let store = db.store().await;
    let mut said = Vec::new();
    for text in ["FOUR", "FIVE", "SIX", "SEVEN", "EIGHT"] {
        said.push(say(&store, text).await);
    }
    bus.wait_for_within("projection:a", GlobalSequence(*said.last().unwrap()), Duration::from_secs(10)).await.unwrap();
    eventually("all of them are handed over", async || {
        let texts = recorder.texts();
        ["FOUR", "FIVE", "SIX", "SEVEN", "EIGHT"].iter().all(|text| texts.iter().any(|seen| seen == text))
    })
    .await;
    bus.shutdown().await.unwrap();
}

/// A schema with a dedicated owner, that a superuser has brought up to date: what is new is the superuser's.
#[tokio::test]
async fn appends_work_after_a_superuser_has_migrated_an_owners_schema() {
    let db = Db::new();
    let store = db.store().await;
    let mut admin = db.connection().await;
    let role = format!("o_{}", db.schema);
    db.execute(
        &mut admin,
        &format!(
            "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {{s}} TO {role}; ALTER TABLE {{s}}.events OWNER TO {role};
             ALTER FUNCTION {{s}}.append_group OWNER TO {role}; ALTER FUNCTION {{s}}.append_new OWNER TO {role};
             ALTER FUNCTION {{s}}.append_one OWNER TO {role};
             CREATE TABLE {{s}}.refers (id uuid REFERENCES {{s}}.events (id))"
        ),
    )
    .await;
    let (one, two) = (Uuid::now_v7(), Uuid::now_v7());
    let done = store.append(&Append::to(one).event(note("mine")).and_to(two).event(note("mine"))).await;
    db.execute(
        &mut admin,
        &format!("REASSIGN OWNED BY {role} TO CURRENT_USER; DROP OWNED BY {role}; DROP ROLE {role}"),
    )
    .await;
    assert!(done.is_ok());
}
