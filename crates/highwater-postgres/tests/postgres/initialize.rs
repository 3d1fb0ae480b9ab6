//! The layout of the database.

use highwater::backend::{Diagnose, Log};
use highwater::{Error, EventStore};
use highwater_postgres::{PgConfig, PgEventStore};
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use uuid::Uuid;

use crate::support::*;

async fn version(db: &Db) -> i32 {
    let mut connection = db.connection().await;
    sqlx::query_scalar("SELECT max(version) FROM migrations").fetch_one(&mut connection).await.unwrap()
}

#[tokio::test]
async fn initialize_creates_the_global_sequence_column_and_its_sequence() {
    let db = Db::new();
    db.store().await;
    let mut connection = db.connection().await;
    let (nullable, identity): (String, String) = sqlx::query_as(
        "SELECT is_nullable, identity_generation FROM information_schema.columns
         WHERE table_schema = $1 AND table_name = 'events' AND column_name = 'global_sequence'",
    )
    .bind(&db.schema)
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert_eq!((nullable.as_str(), identity.as_str()), ("NO", "ALWAYS"));
    let owned: Option<String> = sqlx::query_scalar("SELECT pg_get_serial_sequence('events', 'global_sequence')")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(owned.unwrap(), format!("{}.events_global_sequence_seq", db.schema));
}

#[tokio::test]
async fn initialize_may_be_called_again_and_by_many_instances_at_once() {
    let db = Db::new();
    let stores: Vec<_> = futures_util::future::join_all((0..12).map(|_| {
        let config = PgConfig { pool_connections_max: 1, ..db.config() };
        PgEventStore::connect_with(&db.url, config)
    }))
    .await;
    let initialized = futures_util::future::join_all(stores.iter().map(|store| store.as_ref().unwrap().initialize()));
    for done in initialized.await {
        done.unwrap();
    }
    let store = stores.into_iter().next().unwrap().unwrap();
    store.append(&one()).await.unwrap();
    store.initialize().await.unwrap();
    assert_eq!(sequences(&store).await, [1]);
}

/// The layout before there were numbers.
const OLD: &str = "CREATE SCHEMA {s}; CREATE TABLE {s}.events (
    id uuid PRIMARY KEY, stream_id uuid NOT NULL, stream_version bigint NOT NULL, event_type varchar(255) NOT NULL,
    data jsonb, created_at timestamptz NOT NULL, UNIQUE (stream_id, stream_version))";

#[tokio::test]
async fn an_older_table_is_numbered_by_time_and_id_in_place() {
    let db = Db::new();
    let mut connection = db.connection().await;
    db.execute(&mut connection, OLD).await;
    let (a, b) = (Uuid::from_u128(0xA), Uuid::from_u128(0xB));
    // By time: b1, then a1 and b2 at the same moment by id, then a2.
    for (id, stream, version, second) in [(9, a, 2, 30), (3, a, 1, 20), (5, b, 2, 20), (7, b, 1, 10)] {
        let id = Uuid::from_u128(id);
        let sql = format!(
            "INSERT INTO {{s}}.events VALUES ('{id}', '{stream}', {version}, 'Noted', '{{\"text\":\"{version}\"}}',
             '2026-01-01T00:00:{second}Z')"
        );
        db.execute(&mut connection, &sql).await;
    }
    let store = db.store().await;
    let events = store.read_all_events_since::<Note>(0).collect().await.unwrap();
    let order: Vec<_> = events.iter().map(|e| (e.id.as_u128(), e.global_sequence.unwrap())).collect();
    assert_eq!(order, [(7, 1), (3, 2), (5, 3), (9, 4)]);
    assert_eq!(events[0].schema_version, 1);
    // And it is an ordinary log from here on.
    let done = store.append(&highwater::Append::to(a).event(note("3"))).await.unwrap();
    assert_eq!((done.stream_version, done.global_sequence), (3, 5));
    store.initialize().await.unwrap();
    store.verify().await.unwrap();
}

#[tokio::test]
async fn an_older_table_that_a_recovery_would_empty_is_adopted_as_one_that_it_does_not() {
    let db = Db::new();
    let mut connection = db.connection().await;
    db.execute(&mut connection, &OLD.replace("CREATE TABLE", "CREATE UNLOGGED TABLE")).await;
    db.store().await.append(&one()).await.unwrap();
    let unlogged = "SELECT array_agg(relname::text) FROM pg_class
        WHERE relnamespace = $1::regnamespace AND relpersistence = 'u' AND relkind = 'r'";
    let unlogged: Vec<String> = sqlx::query_scalar(unlogged).bind(&db.schema).fetch_one(&mut connection).await.unwrap();
    assert_eq!(unlogged, ["server_life"]);
}

/// Verifying reads how far readers are and where the sequence stands, and writers append in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_written_to_while_it_is_verified_is_fit() {
    let db = Db::new();
    let store = db.store().await;
    store.append(&one()).await.unwrap();
    let (mut admin, mut holder) = (db.connection().await, db.connection().await);
    db.execute(&mut holder, "BEGIN; LOCK TABLE {s}.settled IN ACCESS EXCLUSIVE MODE").await;
    let verifying = tokio::spawn({
        let store = store.clone();
        async move { store.verify().await }
    });
    eventually("it waits for what readers have proved", async || {
        let waiting =
            "SELECT EXISTS (SELECT FROM pg_locks l WHERE NOT l.granted AND l.relation = '{s}.settled'::regclass)";
        let waiting = sqlx::AssertSqlSafe(waiting.replace("{s}", &db.schema));
        sqlx::query_scalar(waiting).fetch_one(&mut admin).await.unwrap()
    })
    .await;
    for _ in 0..3 {
        store.append(&one()).await.unwrap();
    }
    // As a reader does that has got to the end.
    let proof = "UPDATE {s}.settled SET settled_to = (SELECT max(global_sequence) FROM {s}.events),
        settled_in = hashtextextended(pg_relation_filepath('{s}.events_global_sequence_seq'::regclass) COLLATE \"C\", 0)";
    db.execute(&mut holder, proof).await;
    db.execute(&mut holder, "COMMIT").await;
    verifying.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_table_that_numbers_by_a_default_is_adopted_with_its_numbers() {
    let db = Db::new();
    let mut connection = db.connection().await;
    db.execute(&mut connection, OLD).await;
    db.execute(
        &mut connection,
        "CREATE SEQUENCE {s}.events_global_sequence_seq;
         ALTER TABLE {s}.events ADD COLUMN global_sequence bigint NOT NULL DEFAULT nextval('{s}.events_global_sequence_seq');
         ALTER SEQUENCE {s}.events_global_sequence_seq OWNED BY {s}.events.global_sequence;
         SELECT setval('{s}.events_global_sequence_seq', 41);
         INSERT INTO {s}.events (id, stream_id, stream_version, event_type, data, created_at)
         VALUES (gen_random_uuid(), gen_random_uuid(), 1, 'Struck', NULL, now())",
    )
    .await;
    let store = db.store().await;
    assert_eq!(sequences(&store).await, [42]);
    assert_eq!(store.append(&one()).await.unwrap().global_sequence, 43);
}

#[tokio::test]
async fn an_older_table_with_holes_in_its_versions_is_refused_and_left_alone() {
    let db = Db::new();
    let mut connection = db.connection().await;
    db.execute(&mut connection, OLD).await;
    db.execute(
        &mut connection,
        "INSERT INTO {s}.events VALUES (gen_random_uuid(), gen_random_uuid(), 2, 'Noted', '{}', now())",
    )
    .await;
    let store = PgEventStore::connect_with(&db.url, db.config()).await.unwrap();
    let refused = store.initialize().await.unwrap_err();
    assert!(matches!(&refused, Error::Unfit { reason } if reason.contains("versions")), "{refused}");
    let columns: i64 = sqlx::query_scalar("SELECT count(*) FROM information_schema.columns WHERE table_schema = $1")
        .bind(&db.schema)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(columns, 6);
}

#[tokio::test]
async fn a_database_with_newer_migrations_is_refused() {
    let db = Db::new();
    let store = db.store().await;
    let newer = version(&db).await + 1;
    let mut connection = db.connection().await;
    db.execute(&mut connection, &format!("INSERT INTO {{s}}.migrations VALUES ({newer}, 'from the future')")).await;
    let refused = store.initialize().await.unwrap_err().to_string();
    assert!(refused.contains("upgrade the library") && refused.contains(&newer.to_string()), "{refused}");
}

#[tokio::test]
async fn a_newer_layout_that_says_that_it_fits_is_worked_with() {
    let db = Db::new();
    let store = db.store().await;
    let (known, newer) = (version(&db).await, version(&db).await + 1);
    let mut connection = db.connection().await;
    let future = format!("INSERT INTO {{s}}.migrations VALUES ({newer}, 'from the future', now(), {known})");
    db.execute(&mut connection, &future).await;
    for store in [store, db.store().await] {
        store.initialize().await.unwrap();
        store.append(&one()).await.unwrap();
    }
    assert_eq!(version(&db).await, newer, "it is left as it is");
    db.execute(&mut connection, &format!("UPDATE {{s}}.migrations SET oldest = {newer} WHERE version = {newer}")).await;
    let store = PgEventStore::connect_with(&db.url, db.config()).await.unwrap();
    let refused = store.initialize().await.unwrap_err().to_string();
    assert!(refused.contains("upgrade the library"), "{refused}");
}

#[tokio::test]
async fn a_layout_that_ends_earlier_is_brought_up_to_date() {
    let db = Db::new();
    db.store().await;
    let latest = version(&db).await;
    let mut connection = db.connection().await;
    db.back_to(&mut connection, 3).await;
    let store = db.store().await;
    assert!(highwater::backend::Leadership::leaders(&store).await.unwrap().is_empty());
    assert_eq!(version(&db).await, latest);
    // Each says who may keep working with it.
    let silent: i64 = sqlx::query_scalar("SELECT count(*) FROM migrations WHERE oldest IS NULL OR oldest > version")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(silent, 0);
}

#[tokio::test]
async fn what_the_order_rests_on_is_verified() {
    let db = Db::new();
    let store = db.store().await;
    store.append(&one()).await.unwrap();
    let mut connection = db.connection().await;
    for (tamper, fix, complaint) in [
        (
            "ALTER SEQUENCE {s}.events_global_sequence_seq CACHE 20",
            "ALTER SEQUENCE {s}.events_global_sequence_seq CACHE 1",
            "cache",
        ),
        (
            "ALTER SEQUENCE {s}.events_global_sequence_seq INCREMENT 2",
            "ALTER SEQUENCE {s}.events_global_sequence_seq INCREMENT 1",
            "by one",
        ),
        (
            "ALTER SEQUENCE {s}.events_global_sequence_seq CYCLE",
            "ALTER SEQUENCE {s}.events_global_sequence_seq NO CYCLE",
            "starts again",
        ),
        (
            "ALTER TABLE {s}.events ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE {s}.events DISABLE ROW LEVEL SECURITY",
            "row-level security",
        ),
        (
            "ALTER TABLE {s}.event_bus_checkpoints ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE {s}.event_bus_checkpoints DISABLE ROW LEVEL SECURITY",
            "row-level security",
        ),
        ("ALTER TABLE {s}.events SET UNLOGGED", "ALTER TABLE {s}.events SET LOGGED", "would empty it"),
        ("ALTER TABLE {s}.settled SET UNLOGGED", "ALTER TABLE {s}.settled SET LOGGED", "would empty it"),
        ("ALTER TABLE {s}.server_life SET LOGGED", "ALTER TABLE {s}.server_life SET UNLOGGED", "unnoticed"),
        (
            "ALTER TABLE {s}.events ALTER global_sequence SET GENERATED BY DEFAULT",
            "ALTER TABLE {s}.events ALTER global_sequence SET GENERATED ALWAYS",
            "ALWAYS",
        ),
        (
            "SELECT setval('{s}.events_global_sequence_seq', 1, false)",
            "SELECT setval('{s}.events_global_sequence_seq', 1)",
            "below the highest",
        ),
        (
            "ALTER SEQUENCE {s}.events_global_sequence_seq RENAME TO other",
            "ALTER SEQUENCE {s}.other RENAME TO events_global_sequence_seq",
            "does not exist",
        ),
    ] {
        store.verify().await.unwrap();
        db.execute(&mut connection, tamper).await;
        let found = store.initialize().await.unwrap_err();
        assert!(matches!(&found, Error::Unfit { reason } if reason.contains(complaint)), "{tamper}: {found}");
        db.execute(&mut connection, fix).await;
    }
    store.initialize().await.unwrap();
}

#[tokio::test]
async fn schemas_with_awkward_names_work_and_do_not_see_each_other() {
    for name in ["Ünïcode schéma", "it's \"quoted\"; DROP TABLE x; --", "{schema}", "select"] {
        let db = Db { url: url(), schema: format!("{name} {}", fastrand::u32(..)).replace('"', "\"") };
        let config = PgConfig { schema: db.schema.clone(), ..PgConfig::default() };
        let store = db_store(&db, config).await;
        assert_eq!(store.append(&one()).await.unwrap().global_sequence, 1, "{name}");
        assert_eq!(sequences(&store).await, [1]);
        assert_eq!(page_of(&store, 0, &["Noted"]).await.complete_to, 1);
        store.open_writers().await.unwrap();
        let mut connection = <sqlx::PgConnection as sqlx::Connection>::connect(&db.url).await.unwrap();
        let drop_it = format!("DROP SCHEMA \"{}\" CASCADE", db.schema.replace('"', "\"\""));
        db.execute(&mut connection, &drop_it).await;
    }
}

async fn db_store(db: &Db, config: PgConfig) -> PgEventStore {
    let store = PgEventStore::connect_with(&db.url, config).await.unwrap();
    store.initialize().await.unwrap();
    store
}

#[tokio::test]
async fn an_uninitialized_schema_says_so() {
    let db = Db::new();
    let store = PgEventStore::connect_with(&db.url, db.config()).await.unwrap();
    for error in [
        store.append(&one()).await.unwrap_err(),
        store.head().await.unwrap_err(),
        store.read_last_event::<Note>(Uuid::now_v7()).await.unwrap_err(),
    ] {
        assert!(matches!(&error, Error::Unfit { reason } if reason.contains("initialize()")), "{error}");
    }
}

/// What a migration waits for, writers would wait for behind it.
#[tokio::test]
async fn a_migration_that_waits_for_a_reader_lets_writers_through_and_is_done_when_the_reader_ends() {
    let db = Db::new();
    let mut connection = db.connection().await;
    db.execute(&mut connection, OLD).await;
    let mut reads = db.connection().await;
    db.execute(&mut reads, "BEGIN; SELECT count(*) FROM {s}.events").await;
    let store = PgEventStore::connect_with(&db.url, db.config()).await.unwrap();
    let migrating = tokio::spawn({
        let store = store.clone();
        async move { store.initialize().await }
    });
    let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'events'::regclass AND NOT granted)";
    let waiting = async |connection: &mut sqlx::PgConnection| -> bool {
        sqlx::query_scalar(waits).fetch_one(connection).await.unwrap()
    };
    eventually("the migration waits", async || waiting(&mut connection).await).await;
    // Behind it, until it gives up for the time being.
    let event =
        "INSERT INTO {s}.events VALUES (gen_random_uuid(), gen_random_uuid(), 1, 'Noted', '{\"text\":\"a\"}', now())";
    db.execute(&mut connection, event).await;
    let begun: bool =
        sqlx::query_scalar("SELECT to_regclass('migrations') IS NOT NULL").fetch_one(&mut connection).await.unwrap();
    assert!(!begun, "it has left nothing");
    db.execute(&mut reads, "COMMIT").await;
    migrating.await.unwrap().unwrap();
    assert_eq!(sequences(&store).await, [1]);
    assert_eq!(store.append(&one()).await.unwrap().global_sequence, 2);
}

#[tokio::test]
async fn a_table_with_times_that_no_reader_could_represent_is_adopted_and_doctor_names_what_is_left_to_do() {
    let validated = async |connection: &mut sqlx::PgConnection| -> bool {
        let sql = "SELECT convalidated FROM pg_constraint WHERE conname = 'events_created_at_sane'
            AND conrelid = 'events'::regclass";
        sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
    };
    let event = "INSERT INTO {s}.events VALUES (gen_random_uuid(), gen_random_uuid(), 1, 'Noted', '{}', 'now')";
    let db = Db::new();
    let mut connection = db.connection().await;
    db.execute(&mut connection, &format!("{OLD}; {event}")).await;
    db.store().await;
    assert!(validated(&mut connection).await, "rows from before are looked at");

    let db = Db::new();
    let mut connection = db.connection().await;
    db.execute(&mut connection, &format!("{OLD}; {}", event.replace("now", "infinity"))).await;
    let store = db.store().await;
    assert!(!validated(&mut connection).await);
    let findings = highwater::backend::Diagnose::diagnose(&store).await.unwrap();
    let advice =
        findings.iter().filter(|finding| finding.topic == "constraints").find_map(|found| found.advice.clone());
    assert!(advice.unwrap().contains("VALIDATE CONSTRAINT events_created_at_sane"));
    db.execute(&mut connection, "UPDATE {s}.events SET created_at = now()").await;
    db.execute(&mut connection, "ALTER TABLE {s}.events VALIDATE CONSTRAINT events_created_at_sane").await;
    let findings = highwater::backend::Diagnose::diagnose(&store).await.unwrap();
    assert!(findings.iter().any(|finding| finding.topic == "constraints" && finding.advice.is_none()));
}

#[tokio::test]
async fn a_table_whose_own_column_of_that_name_is_no_text_is_refused_and_left_alone() {
    let db = Db::new();
    let mut connection = db.connection().await;
    db.execute(&mut connection, OLD).await;
    db.execute(&mut connection, "ALTER TABLE {s}.events ADD COLUMN stream_name integer").await;
    let store = PgEventStore::connect_with(&db.url, db.config()).await.unwrap();
    let refused = store.initialize().await.unwrap_err();
    assert!(matches!(&refused, Error::Unfit { reason } if reason.contains("stream_name")), "{refused}");
    let columns: i64 = sqlx::query_scalar("SELECT count(*) FROM information_schema.columns WHERE table_schema = $1")
        .bind(&db.schema)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(columns, 7);
}

#[tokio::test]
async fn a_schema_that_was_renamed_is_refused_because_its_functions_append_to_the_former_name() {
    let db = Db::new();
    let store = db.store().await;
    store.append(&one()).await.unwrap();
    let renamed = format!("{}_renamed", db.schema);
    let mut admin = db.connection().await;
    db.execute(&mut admin, &format!("ALTER SCHEMA {{s}} RENAME TO {renamed}")).await;
    // Under the former name there is another log.
    db.store().await;
    let config = PgConfig { schema: renamed.clone(), ..db.config() };
    let moved = PgEventStore::connect_with(&db.url, config).await.unwrap();
    for refused in [moved.initialize().await, moved.verify().await] {
        let refused = refused.unwrap_err();
        assert!(matches!(&refused, Error::Unfit { reason } if reason.contains("renamed")), "{refused:?}");
    }
    let findings = moved.diagnose().await.unwrap();
    assert!(findings.iter().any(|finding| finding.found.contains("the schema was renamed")), "{findings:#?}");
    db.execute(&mut admin, &format!("DROP SCHEMA {renamed} CASCADE")).await;
}

#[tokio::test]
async fn a_database_that_does_not_hold_text_as_utf_8_is_refused_and_left_as_it_was() {
    let database = Database::create_with("ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0").await;
    let store = PgEventStore::connect(&database.url).await.unwrap();
    let refused = store.initialize().await.unwrap_err();
    assert!(matches!(&refused, Error::Unfit { reason } if reason.contains("SQL_ASCII")), "{refused:?}");
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'highwater'";
    assert_eq!(sqlx::query_scalar::<_, i64>(schemas).fetch_one(&mut connection).await.unwrap(), 0);
    drop((store, connection));
    database.remove().await;
}
