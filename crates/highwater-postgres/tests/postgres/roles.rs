//! Who may do what. The grants are those of the documentation, word for word.

use highwater::backend::{
    Backend, CheckpointWrite, Checkpoints, Closing, DeadLetters, Log, NewDeadLetter, Opening, ReadLimit, Report,
    Request, RequestKind, Requests, StreamRead,
};
use highwater::operations::DeadLetterQuery;
use highwater::{Append, Claim, Error, EventStore, ExpectedVersion};
use highwater_postgres::PgEventStore;
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use crate::support::*;

const ROLES: &str = include_str!("../../../../docs/postgres-roles.sql");

/// The documented roles, under names of this test's own.
pub struct Roles(pub String);

impl Roles {
    pub async fn create(db: &Db) -> Self {
        let prefix = format!("r{:x}_", fastrand::u64(..));
        let sql = ROLES
            .replace("highwater_", &prefix)
            .replace("SCHEMA highwater", "SCHEMA {s}")
            .replace("highwater.", "{s}.");
        db.execute(&mut db.connection().await, &sql).await;
        Self(prefix)
    }

    /// A store of one of the roles.
    pub async fn store(&self, db: &Db, role: &str) -> PgEventStore {
        let name = format!("{}{role}", self.0);
        let mut admin = db.connection().await;
        db.execute(&mut admin, &format!("ALTER ROLE {name} LOGIN PASSWORD 'secret'")).await;
        let options: PgConnectOptions = db.url.parse().unwrap();
        PgEventStore::connect_to_with(options.username(&name).password("secret"), db.config()).await.unwrap()
    }

    pub async fn drop(self, db: &Db) {
        let mut admin = db.connection().await;
        for role in ["writer", "reader", "subscriber", "operator"] {
            let name = format!("{}{role}", self.0);
            db.execute(&mut admin, &format!("DROP OWNED BY {name}")).await;
        }
        for role in ["writer", "operator", "subscriber", "reader"] {
            eventually("the role's sessions end", || async {
                let mut admin = db.connection().await;
                db.try_execute(&mut admin, &format!("DROP ROLE IF EXISTS {}{role}", self.0)).await.is_ok()
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_writer_appends_and_reads_but_cannot_touch_the_table_otherwise() {
    let db = Db::new();
    db.store().await;
    let roles = Roles::create(&db).await;
    let store = roles.store(&db, "writer").await;
    store.initialize().await.unwrap();
    let stream = Uuid::now_v7();
    let append = Append::to(stream).event(note("a"));
    store.append(&append).await.unwrap();
    assert!(store.append(&append).await.unwrap().repeated);
    let new = Append::to(Uuid::now_v7()).expecting(ExpectedVersion::NoStream).events([note("a"), note("b")]);
    assert_eq!(store.append(&new).await.unwrap().stream_version, 2);
    let both = Append::to(stream).event(note("b")).and_to(Uuid::now_v7()).event(note("c"));
    store.append(&both).await.unwrap();
    assert_eq!(sequences(&store).await.len(), 5);
    let mut work = store.begin().await.unwrap();
    work.append(one());
    work.commit().await.unwrap();
    for sql in [
        "INSERT INTO {s}.events (id, stream_id, stream_version, event_type, data) VALUES (gen_random_uuid(), gen_random_uuid(), 1, 'x', '1')",
        "UPDATE {s}.events SET data = '1'",
        "DELETE FROM {s}.events",
        "TRUNCATE {s}.events",
        "SELECT setval('{s}.events_global_sequence_seq', 1)",
        "SELECT nextval('{s}.events_global_sequence_seq')",
        "UPDATE {s}.migrations SET version = 99",
        "DROP TABLE {s}.events",
    ] {
        let mut connection = store.pool().acquire().await.unwrap();
        let refused = db.try_execute(&mut connection, sql).await.unwrap_err();
        let code = refused.as_database_error().unwrap().code().unwrap().into_owned();
        assert_eq!(code, "42501", "{sql}: {refused}");
    }
    drop(store);
    roles.drop(&db).await;
}

/// What a writer could ask of the functions to ruin a stream, by plain SQL: `{there}` is one that has two events.
const RUINOUS: [&str; 25] = [
    "append_new(ARRAY[gen_random_uuid()], ARRAY[7], {ids1}, {rest1})",
    "append_new(ARRAY[gen_random_uuid()], ARRAY[9223372036854775807], {ids1}, {rest1})",
    "append_new(ARRAY[gen_random_uuid()], ARRAY[0], {ids1}, {rest1})",
    "append_new(ARRAY[gen_random_uuid()], ARRAY[NULL::bigint], {ids1}, {rest1})",
    "append_new(ARRAY[gen_random_uuid()], '{}', {ids1}, {rest1})",
    "append_new(ARRAY['{there}'::uuid], ARRAY[1], {ids1}, {rest1})",
    "append_new(ARRAY['{there}'::uuid], ARRAY[3], {ids1}, {rest1})",
    "append_new(ARRAY['{there}'::uuid], ARRAY[4], {ids1}, {rest1})",
    "append_new(ARRAY['{one}', '{one}']::uuid[], ARRAY[1, 3], {ids2}, {rest2})",
    "append_new(ARRAY['{one}', '{one}']::uuid[], ARRAY[1, 1], {ids2}, {rest2})",
    "append_new(ARRAY['{one}', '{one}']::uuid[], ARRAY[2, 3], {ids2}, {rest2})",
    "append_new(ARRAY['{one}', '{one}']::uuid[], ARRAY[2, 1], {ids2}, {rest2})",
    "append_new(ARRAY['{one}']::uuid[], ARRAY[1, 2], {ids2}, {rest2})",
    "append_new(ARRAY['{one}', '{one}']::uuid[], ARRAY[1, 2], {ids1}, {rest2})",
    "append_group(ARRAY['{there}'::uuid], NULL, NULL, ARRAY[1], ARRAY[2], {ids1}, {group1})",
    "append_group(ARRAY['{there}'::uuid], NULL, NULL, ARRAY[1], ARRAY[0], {ids1}, {group1})",
    "append_group(ARRAY['{there}'::uuid], NULL, NULL, ARRAY[1], ARRAY[2147483647], {ids1}, {group1})",
    "append_group(ARRAY['{there}'::uuid], NULL, NULL, ARRAY[2], ARRAY[1], {ids1}, {group1})",
    "append_group(ARRAY['{there}'::uuid], NULL, NULL, ARRAY[1, 1], ARRAY[1, 3], {ids2}, {group2})",
    "append_group(ARRAY['{there}'::uuid], NULL, NULL, ARRAY[1, 1], ARRAY[2, 0], {ids2}, {group2})",
    "append_group(ARRAY['{there}'::uuid], NULL, NULL, ARRAY[1, 1], ARRAY[2, 1], {ids2}, {group2})",
    "append_group(ARRAY['{one}'::uuid], NULL, NULL, ARRAY[1, 1], ARRAY[2, 1], {ids2}, {group2})",
    "append_group(ARRAY['{there}', '{there}']::uuid[], NULL, NULL, ARRAY[1, 2], ARRAY[1, 3], {ids2}, {group2})",
    "append_group(ARRAY['{there}'::uuid], NULL, NULL, ARRAY[1, 1], ARRAY[1], {ids2}, {group2})",
    "append_group(ARRAY['{there}'::uuid], NULL, NULL, ARRAY[1, NULL], ARRAY[1, 2], {ids2}, {group2})",
];

/// With the rest of one event or two.
fn filled(call: &str) -> String {
    call.replace("{ids1}", "ARRAY[gen_random_uuid()]")
        .replace("{ids2}", "ARRAY[gen_random_uuid(), gen_random_uuid()]")
        .replace("{rest1}", "ARRAY['x'], ARRAY[1], ARRAY['1']::json[], ARRAY['{}']::json[], ARRAY[now()]")
        .replace("{group1}", "ARRAY['x'], ARRAY[1], ARRAY['1'], ARRAY['{}'], ARRAY[now()]")
        .replace(
            "{rest2}",
            "ARRAY['x','x'], ARRAY[1,1], ARRAY['1','2']::json[], ARRAY['{}','{}']::json[], ARRAY[now(), now()]",
        )
        .replace("{group2}", "ARRAY['x','x'], ARRAY[1,1], ARRAY['1','2'], ARRAY['{}','{}'], ARRAY[now(), now()]")
}

#[tokio::test]
async fn a_writer_that_calls_the_functions_by_itself_cannot_make_a_hole_or_end_a_stream() {
    let db = Db::new();
    let owner = db.store().await;
    let there = Uuid::now_v7();
    owner.append(&Append::to(there).events([note("a"), note("b")])).await.unwrap();
    let roles = Roles::create(&db).await;
    let store = roles.store(&db, "writer").await;
    let mut writer = store.pool().acquire().await.unwrap();
    let one = Uuid::now_v7();
    for call in RUINOUS {
        let sql = filled(call).replace("{there}", &there.to_string()).replace("{one}", &one.to_string());
        let refused = db.try_execute(&mut writer, &format!("SELECT {{s}}.{sql}")).await.unwrap_err();
        let code = refused.as_database_error().unwrap().code().unwrap().into_owned();
        // By the functions or by a constraint.
        assert!(["HW008", "23502", "23505", "23514"].contains(&&*code), "{call}: {refused}");
    }
    // Interleaved: unusual, and as good as any other.
    let interleaved = format!(
        "SELECT {{s}}.append_new(ARRAY['{one}', '{}', '{one}']::uuid[], ARRAY[1, 1, 2],
            ARRAY[gen_random_uuid(), gen_random_uuid(), gen_random_uuid()], ARRAY['x', 'x', 'x'], ARRAY[1, 1, 1],
            ARRAY['1', '1', '1']::json[], ARRAY['{{}}', '{{}}', '{{}}']::json[], ARRAY[now(), now(), now()])",
        Uuid::now_v7()
    );
    db.execute(&mut writer, &interleaved).await;
    for (stream, events) in [(there, 2), (one, 2)] {
        let read = StreamRead { limit: ReadLimit::events(100), ..StreamRead::forwards(1) };
        assert_eq!(owner.read_stream(stream, read).await.unwrap().records.len(), events);
    }
    assert_eq!(owner.append(&Append::to(there).event(note("c"))).await.unwrap().stream_version, 3);
    drop(writer);
    drop(store);
    roles.drop(&db).await;
}

/// What a writer could ask of the functions so that a stream has two names, or one that is none: `{named}` is called `a/1` and has
/// an event.
const RENAMING: [&str; 13] = [
    "append_one('{new}', 0, gen_random_uuid(), 'x', 1, '1', '{}', now(), 'none')",
    "append_one('{named}', NULL, gen_random_uuid(), 'x', 1, '1', '{}', now(), 'a/')",
    "append_one('{unnamed}', 1, gen_random_uuid(), 'x', 1, '1', '{}', now(), '/1')",
    "append_new(ARRAY['{new}', '{new}']::uuid[], ARRAY[1, 2], {ids2}, {rest2}, ARRAY['a/1', 'a/2'])",
    "append_new(ARRAY['{new}', '{new}']::uuid[], ARRAY[1, 2], {ids2}, {rest2}, ARRAY['a/1', NULL])",
    "append_new(ARRAY['{new}', '{new}']::uuid[], ARRAY[1, 2], {ids2}, {rest2}, ARRAY[NULL, 'a/1'])",
    "append_new(ARRAY['{new}', '{new}']::uuid[], ARRAY[1, 2], {ids2}, {rest2}, ARRAY['a/1'])",
    "append_new(ARRAY['{new}', '{new}']::uuid[], ARRAY[1, 2], {ids2}, {rest2}, ARRAY[E'a/1\n', E'a/1\n'])",
    "append_group(ARRAY['{new}', '{new}']::uuid[], NULL, NULL, ARRAY[1, 2], ARRAY[1, 2], {ids2}, {group2}, ARRAY['a/1', 'a/2'])",
    "append_group(ARRAY['{unnamed}', '{unnamed}']::uuid[], NULL, NULL, ARRAY[1, 2], ARRAY[1, 2], {ids2}, {group2}, ARRAY[NULL, 'a/2'])",
    "append_group(ARRAY['{unnamed}']::uuid[], NULL, NULL, ARRAY[1, 1], ARRAY[1, 2], {ids2}, {group2}, ARRAY['none'])",
    "append_group(ARRAY['{unnamed}']::uuid[], NULL, NULL, ARRAY[1, 1], ARRAY[1, 2], {ids2}, {group2}, ARRAY['a/' || repeat('x', 126)])",
    "append('{unnamed}', 'x', '1', stream_name => 'a/' || chr(133))",
];

#[tokio::test]
async fn a_writer_that_calls_the_functions_by_itself_cannot_give_a_stream_two_names_or_one_that_is_none() {
    let db = Db::new();
    let owner = db.store().await;
    let (named, unnamed) = (Uuid::now_v7(), Uuid::now_v7());
    let roles = Roles::create(&db).await;
    let store = roles.store(&db, "writer").await;
    let mut writer = store.pool().acquire().await.unwrap();
    let first = "SELECT {s}.append('{named}', 'x', '1', stream_name => 'a/1'), {s}.append('{unnamed}', 'x', '1')";
    let fill = |sql: &str| {
        filled(sql)
            .replace("{named}", &named.to_string())
            .replace("{unnamed}", &unnamed.to_string())
            .replace("{new}", &Uuid::now_v7().to_string())
    };
    db.execute(&mut writer, &fill(first)).await;
    for call in RENAMING {
        let refused = db.try_execute(&mut writer, &fill(&format!("SELECT {{s}}.{call}"))).await.unwrap_err();
        assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "HW008", "{call}: {refused}");
    }
    // Other names are ignored, and the stream is called by its own.
    let others = "SELECT {s}.append_one('{named}', 1, gen_random_uuid(), 'x', 1, '1', '{}', now(), 'b/1'),
        {s}.append_group(ARRAY['{named}']::uuid[], NULL, NULL, ARRAY[1, 1], ARRAY[1, 2], {ids2}, {group2}, ARRAY['c/1'])";
    db.execute(&mut writer, &fill(others)).await;
    let conflict = "SELECT {s}.append('{named}', 'x', '1', 7, stream_name => 'd/1')";
    let refused = db.try_execute(&mut writer, &fill(conflict)).await.unwrap_err().to_string();
    assert!(refused.contains("stream a/1 is at version 4"), "{refused}");
    let id = "(SELECT id FROM {s}.events WHERE stream_name = 'a/1' LIMIT 1)";
    let taken = fill(&format!("SELECT {{s}}.append('{{unnamed}}', 'x', '1', id => {id})"));
    let refused = db.try_execute(&mut writer, &taken).await.unwrap_err().to_string();
    assert!(refused.contains("belongs to another event, in stream a/1"), "{refused}");
    let names: Vec<Option<String>> = sqlx::query_scalar("SELECT stream_name FROM events ORDER BY global_sequence")
        .fetch_all(&mut db.connection().await)
        .await
        .unwrap();
    let a = Some("a/1".to_owned());
    assert_eq!(names, [a.clone(), None, a.clone(), a.clone(), a], "one a stream");
    drop((writer, owner, store));
    roles.drop(&db).await;
}

#[tokio::test]
async fn times_that_no_reader_could_represent_are_refused_from_every_writer() {
    let db = Db::new();
    let store = db.store().await;
    let mut connection = db.connection().await;
    let by_function =
        "SELECT {s}.append_one(gen_random_uuid(), 0, gen_random_uuid(), 'Noted', 1, 'null', '{}', '{time}')";
    let by_hand = "INSERT INTO {s}.events (id, stream_id, stream_version, event_type, data, created_at)
        VALUES (gen_random_uuid(), gen_random_uuid(), 1, 'Noted', 'null', '{time}')";
    for sql in [by_function, by_hand] {
        for time in ["infinity", "-infinity", "10000-01-01 00:00:00+00", "0001-12-31 23:59:59+00 BC", "294276-01-01"] {
            let refused = db.try_execute(&mut connection, &sql.replace("{time}", time)).await.unwrap_err();
            assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "23514", "{time}: {refused}");
        }
        for time in ["0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"] {
            db.execute(&mut connection, &sql.replace("{time}", time)).await;
        }
    }
    assert_eq!(page(&store, 0).await.records.len(), 4);
}

#[tokio::test]
async fn an_event_larger_than_every_reader_can_take_is_refused_from_every_writer() {
    const BOUND: usize = 64 << 20;
    let db = Db::new();
    let store = db.store().await;
    let mut connection = db.connection().await;
    let (id, data) = ("gen_random_uuid()", "('\"' || repeat('x', {bytes}) || '\"')");
    let writers = [
        format!("SELECT {{s}}.append_one({id}, 0, {id}, 'Noted', 1, {data}, '{{}}', now())"),
        format!("SELECT {{s}}.append({id}, 'Noted', {data}::json)"),
        format!(
            "SELECT {{s}}.append_new(ARRAY[{id}], ARRAY[1]::bigint[], ARRAY[{id}], ARRAY['Noted'], ARRAY[1],
            ARRAY[{data}::json], ARRAY['{{}}'::json], ARRAY[now()])"
        ),
        format!(
            "INSERT INTO {{s}}.events (id, stream_id, stream_version, event_type, data)
            VALUES ({id}, {id}, 1, 'Noted', {data}::json)"
        ),
    ];
    for sql in &writers {
        let refused = db.try_execute(&mut connection, &sql.replace("{bytes}", &(BOUND + 8).to_string())).await;
        assert_eq!(refused.unwrap_err().as_database_error().unwrap().code().unwrap(), "23514", "{sql}");
    }
    // The quotes, and the braces of the metadata, count as well.
    db.execute(&mut connection, &writers[0].replace("{bytes}", &(BOUND - 4).to_string())).await;
    let stored = page(&store, 0).await;
    assert_eq!(stored.records[0].data.len(), BOUND - 2, "the largest event comes back whole");
    assert_eq!(stored.records.len(), 1, "and alone: the others were refused");
}

#[tokio::test]
async fn a_reader_reads_everything_and_appends_nothing() {
    let db = Db::new();
    let owner = db.store().await;
    owner.append(&one()).await.unwrap();
    let roles = Roles::create(&db).await;
    let store = roles.store(&db, "reader").await;
    store.initialize().await.unwrap();
    assert_eq!(sequences(&store).await, [1]);
    assert_eq!(page_of(&store, 0, &["Noted"]).await.complete_to, 1);
    let refused = store.append(&one()).await.unwrap_err();
    assert!(matches!(refused, Error::Denied { .. }), "{refused:?}");
    assert_eq!(sequences(&store).await, [1]);
    drop(store);
    roles.drop(&db).await;
}

#[tokio::test]
async fn an_operator_sees_what_a_writer_runs_and_a_reader_is_told_why_not() {
    let db = Db::new();
    db.store().await;
    let roles = Roles::create(&db).await;
    let mut connection = db.connection().await;
    let mut tx = sqlx::Connection::begin(&mut connection).await.unwrap();
    db.insert(&mut tx).await;
    let seen = roles.store(&db, "operator").await.open_writers().await.unwrap();
    assert!(seen[0].last_statement.is_some() && seen[0].hidden.is_none(), "{seen:?}");
    let seen = roles.store(&db, "reader").await.open_writers().await.unwrap();
    assert_eq!((seen.len(), seen[0].last_statement.as_deref()), (1, None));
    assert!(seen[0].pid.is_some());
    assert!(seen[0].hidden.as_deref().unwrap().contains("pg_read_all_stats"));
    tx.rollback().await.unwrap();
    roles.drop(&db).await;
}

fn report() -> Report {
    Report {
        subscriber_id: "s".to_owned(),
        term: 1,
        state: highwater::SubscriptionState::Live { term: 1 },
        position: 0,
        rate: 0.0,
        last_error: None,
        push_degraded: None,
        reads: None,
        reported_at: chrono::Utc::now(),
    }
}

#[tokio::test]
async fn a_subscriber_keeps_its_books_and_cannot_touch_the_log() {
    let db = Db::new();
    let owner = db.store().await;
    owner.append(&one()).await.unwrap();
    let roles = Roles::create(&db).await;
    let store = roles.store(&db, "subscriber").await;
    store.initialize().await.unwrap();
    let taken = store.take_over(&Claim::of("s")).await.unwrap();
    let fence = taken.checkpoint.fence();
    let write = CheckpointWrite { fence: fence.clone(), global_sequence: 1, event_id: None };
    assert_eq!(store.store_checkpoints(&[write]).await.unwrap(), [None]);
    let record = page(&store, 0).await.records.remove(0);
    let dead_letter = NewDeadLetter {
        event_id: record.id,
        global_sequence: 2,
        stream_id: record.stream_id,
        event_type: record.event_type,
        error_message: Some("no".into()),
        retry_count: 0,
        parks: false,
    };
    let tx = Backend::begin(&store, &fence, Opening::Handler, None).await.unwrap().tx;
    store.commit(tx, &fence, Closing::Bury { dead_letter: &dead_letter, from: 1 }).await.unwrap();
    let id = store.dead_letters(&DeadLetterQuery::default()).await.unwrap()[0].id;
    let tx = Backend::begin(&store, &fence, Opening::Handler, Some(id)).await.unwrap().tx;
    store.commit(tx, &fence, Closing::Replayed { dead_letter: id, by: "me" }).await.unwrap();
    assert_eq!(store.purge_dead_letters("s", chrono::Utc::now() + chrono::TimeDelta::hours(1)).await.unwrap(), 1);
    let tx = Backend::begin(&store, &fence, Opening::Handler, None).await.unwrap().tx;
    store
        .commit(tx, &fence, Closing::Reset { to: 0, by: "me", nonce: Uuid::now_v7(), setup_version: None })
        .await
        .unwrap();
    assert_eq!(store.repair().force().reset("s").await.unwrap().to, 0);
    store.store_reports(&[report()]).await.unwrap();
    assert!(store.set_paused("s", true).await.unwrap());
    assert!(matches!(store.append(&one()).await.unwrap_err(), Error::Denied { .. }));
    drop(store);
    roles.drop(&db).await;
}

#[tokio::test]
async fn an_operator_asks_and_pauses_but_takes_nothing_over_and_a_reader_only_looks() {
    let db = Db::new();
    let owner = db.store().await;
    owner.take_over(&Claim::of("s")).await.unwrap();
    let roles = Roles::create(&db).await;
    let request = Request {
        id: Uuid::now_v7(),
        subscriber_id: "s".into(),
        kind: RequestKind::ReplayAll,
        requested_by: "me".into(),
        requested_at: chrono::Utc::now(),
        outcome: None,
    };
    let operator = roles.store(&db, "operator").await;
    operator.file_request(&request).await.unwrap();
    assert!(operator.set_paused("s", true).await.unwrap());
    assert_eq!(operator.paused(&["s".into()]).await.unwrap(), ["s"]);
    assert!(operator.set_paused("s", false).await.unwrap());
    assert!(matches!(operator.take_over(&Claim::of("s")).await.unwrap_err(), Error::Denied { .. }));
    let reader = roles.store(&db, "reader").await;
    assert_eq!(reader.open_requests(&["s".into()]).await.unwrap().len(), 1);
    assert_eq!(reader.checkpoints().await.unwrap().len(), 1);
    assert_eq!(reader.overview().await.unwrap().subscribers.len(), 1);
    let refused = operator.repair().force().reset("s").await.unwrap_err();
    assert!(matches!(refused, Error::Denied { .. }), "{refused:?}");
    for refused in [
        reader.set_paused("s", true).await.unwrap_err(),
        reader.file_request(&request).await.unwrap_err(),
        reader.take_over(&Claim::of("s")).await.unwrap_err(),
        reader.store_reports(&[report()]).await.unwrap_err(),
    ] {
        assert!(matches!(refused, Error::Denied { .. }), "{refused:?}");
    }
    drop((operator, reader));
    roles.drop(&db).await;
}
