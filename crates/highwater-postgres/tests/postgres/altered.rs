//! A database that stores something else than was sent, and a server that answers with nonsense.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;
use highwater::backend::Log;
use highwater::{Append, Error};
use highwater_postgres::PgEventStore;
use uuid::Uuid;

use crate::support::*;

/// A trigger before every row, with this body. The function belongs to the schema, and goes with it.
fn trigger(body: &str) -> String {
    trigger_at("BEFORE", body)
}

fn trigger_at(time: &str, body: &str) -> String {
    format!(
        "CREATE FUNCTION {{s}}.meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NEW; END $$;
         CREATE TRIGGER meddle {time} INSERT ON {{s}}.events FOR EACH ROW EXECUTE FUNCTION {{s}}.meddle()"
    )
}

const UNMEDDLE: &str = "DROP TRIGGER IF EXISTS meddle ON {s}.events; DROP FUNCTION IF EXISTS {s}.meddle";

/// One append for each way through the database: a lone event, new streams, streams that may exist.
fn every_way(there: Uuid) -> [Append; 4] {
    [
        new(&["bad"]),
        new(&["a", "bad", "c"]),
        Append::to(there).events([note("a"), note("bad")]),
        Append::to(there).event(note("bad")),
    ]
}

async fn assert_altered(store: &PgEventStore, there: Uuid, what: &str) {
    let before = sequences(store).await;
    for append in every_way(there) {
        let refused = store.append(&append).await.unwrap_err();
        assert!(matches!(refused, Error::Altered { .. }), "{what}: {refused:?}");
        assert!(!refused.is_retryable() && refused.to_string().contains("remove the trigger"), "{what}: {refused}");
        let mut work = store.begin().await.unwrap();
        work.append(append);
        let refused = work.commit().await.unwrap_err();
        assert!(matches!(refused, Error::Altered { .. }), "{what}, in a unit of work: {refused:?}");
    }
    assert_eq!(sequences(store).await, before, "{what}: nothing is stored");
}

#[tokio::test]
async fn an_append_of_which_a_trigger_or_rule_would_store_something_else_is_an_error_and_stores_nothing() {
    let db = Db::new();
    let store = db.store().await;
    let there = Uuid::now_v7();
    store.append(&Append::to(there).event(note("first"))).await.unwrap();
    let mut admin = db.connection().await;
    for change in [
        "RETURN NULL;",
        "NEW.id := gen_random_uuid();",
        "NEW.stream_id := gen_random_uuid();",
        "NEW.stream_version := NEW.stream_version + 7;",
        "NEW.global_sequence := NEW.global_sequence + 1000;",
        "NEW.event_type := 'Other';",
        "NEW.schema_version := 7;",
        "NEW.stream_name := 'other/1';",
        "NEW.data := '{\"text\":\"worse\"}';",
    ] {
        let body = format!("IF NEW.data->>'text' = 'bad' THEN {change} END IF;");
        db.execute(&mut admin, &trigger(&body)).await;
        assert_altered(&store, there, change).await;
        db.execute(&mut admin, UNMEDDLE).await;
    }
    for change in [
        "DELETE FROM {s}.events",
        "UPDATE {s}.events SET data = '{\"text\":\"worse\"}'",
        "UPDATE {s}.events SET event_type = 'Other'",
        "UPDATE {s}.events SET stream_id = gen_random_uuid(), stream_version = 1",
    ] {
        let body = format!("IF NEW.data->>'text' = 'bad' THEN {change} WHERE id = NEW.id; END IF;");
        db.execute(&mut admin, &trigger_at("AFTER", &body)).await;
        assert_altered(&store, there, change).await;
        db.execute(&mut admin, UNMEDDLE).await;
    }
    for rule in ["DO INSTEAD NOTHING", "WHERE NEW.data->>'text' = 'bad' DO INSTEAD NOTHING"] {
        let (condition, does) = rule.split_at(rule.find("DO").unwrap());
        db.execute(&mut admin, &format!("CREATE RULE meddle AS ON INSERT TO {{s}}.events {condition} {does}")).await;
        assert_altered(&store, there, rule).await;
        db.execute(&mut admin, "DROP RULE meddle ON {s}.events").await;
    }
    for append in every_way(there) {
        store.append(&append).await.unwrap();
    }
}

#[tokio::test]
async fn a_trigger_that_changes_nothing_of_the_answer_is_left_alone() {
    let db = Db::new();
    let store = db.store().await;
    let there = Uuid::now_v7();
    let mut admin = db.connection().await;
    db.execute(&mut admin, &trigger("NEW.metadata := '{\"by\":\"trigger\"}'; NEW.created_at := '2024-01-01Z';")).await;
    for append in every_way(there) {
        store.append(&append).await.unwrap();
    }
    assert_eq!(sequences(&store).await.len(), 7);
}

#[tokio::test]
async fn the_function_for_plain_sql_says_so_too() {
    let db = Db::new();
    db.store().await;
    let mut admin = db.connection().await;
    db.execute(&mut admin, &trigger("RETURN NULL;")).await;
    let refused =
        db.try_execute(&mut admin, "SELECT {s}.append(gen_random_uuid(), 'Noted', 'null')").await.unwrap_err();
    assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "HW007");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_callers_whose_rows_are_dropped_are_refused_and_the_appender_continues() {
    let db = Db::new();
    let store = db.store().await;
    let mut admin = db.connection().await;
    db.execute(&mut admin, &trigger("IF NEW.data->>'text' = 'bad' THEN RETURN NULL; END IF;")).await;
    let refused = AtomicU32::new(0);
    join_all((0..60).map(|n| {
        let (store, refused) = (store.clone(), &refused);
        async move {
            let text = if n % 3 == 0 { "bad" } else { "good" };
            match store.append(&new(&["a", text])).await {
                Ok(done) => assert_eq!((text, done.stream_version), ("good", 2)),
                Err(Error::Altered { .. }) => {
                    assert_eq!(text, "bad");
                    refused.fetch_add(1, Ordering::SeqCst);
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }))
    .await;
    assert_eq!((refused.load(Ordering::SeqCst), sequences(&store).await.len()), (20, 80));
    db.execute(&mut admin, UNMEDDLE).await;
    store.append(&new(&["bad"])).await.unwrap();
}

/// What a function could answer instead, as the value of its last statement.
const NONSENSE: [&str; 8] = [
    "NULL::bigint[]",
    "'{}'::bigint[]",
    "'{5}'::bigint[]",
    "'{5,4,3}'::bigint[]",
    "'{5,5,5}'::bigint[]",
    "'{-3,-2,-1}'::bigint[]",
    "'{5,NULL,7}'::bigint[]",
    "'{1,2,3,4,5,6,7,8,9}'::bigint[]",
];

const FUNCTIONS: [&str; 3] = ["append_new", "append_one", "append_group"];

/// The answer was looked at: it was not that there is no such function, and nothing panicked.
fn is_disbelief(told: &Error) -> bool {
    match told {
        Error::Damaged { .. } => true,
        // Versions that could be true, or a conflict that is none, every time again.
        Error::Conflict { .. } => true,
        Error::Unavailable { action, .. } => action.contains("others were faster"),
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_of_a_server_ends_the_appender() {
    let db = Db::new();
    let store = db.store().await;
    let mut admin = db.connection().await;
    for name in FUNCTIONS {
        db.execute(&mut admin, &format!("ALTER FUNCTION {{s}}.{name} RENAME TO {name}_good")).await;
    }
    let group_of = |heads: &str, held: &str, sequences: &str| {
        format!("{heads} AS heads, {held} AS held, {sequences} AS sequences")
    };
    let none = "NULL::uuid[]";
    let mut answers: Vec<(String, String)> = Vec::new();
    for wrong in NONSENSE {
        answers.push((wrong.to_owned(), group_of("ARRAY[0]::bigint[]", none, wrong)));
        // One version for one stream could be true.
        let versions = wrong.replace("'{5}'", "'{-5}'");
        answers.push((wrong.to_owned(), group_of(&versions, none, "'{1,2,3}'::bigint[]")));
        answers.push((wrong.to_owned(), group_of(wrong, none, "NULL::bigint[]")));
    }
    answers.push((NONSENSE[0].to_owned(), group_of("'{0}'::bigint[]", "'{}'::uuid[]", "NULL::bigint[]")));
    answers.push((NONSENSE[0].to_owned(), group_of("'{0}'::bigint[]", "ARRAY[gen_random_uuid()]", "NULL::bigint[]")));
    for (plain, group) in answers {
        for (name, body) in FUNCTIONS.iter().zip([&plain, &plain, &group]) {
            // With the arguments of the good one, whatever they are.
            let broken = format!(
                "DO $do$ BEGIN EXECUTE (SELECT format('CREATE OR REPLACE FUNCTION {{s}}.{name}(%s) RETURNS %s LANGUAGE sql AS %L',
                    pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), 'SELECT {}')
                    FROM pg_proc p WHERE p.oid = '{{s}}.{name}_good'::regproc); END $do$",
                body.replace('\'', "''")
            );
            db.execute(&mut admin, &broken).await;
        }
        let appends = [new(&["a", "b", "c"]), Append::to(Uuid::now_v7()).events([note("a"), note("b"), note("c")])];
        let calls = appends.iter().cycle().take(8).map(|append| {
            let (append, store) = (append.clone(), store.clone());
            async move { store.append(&append).await }
        });
        for told in join_all(calls).await {
            let told = told.expect_err("nothing is stored");
            assert!(is_disbelief(&told), "{plain} {group}: {told:?}");
        }
        let told = store.append(&one()).await.unwrap_err();
        assert!(is_disbelief(&told), "alone: {plain} {group}: {told:?}");
        let mut work = store.begin().await.unwrap();
        work.append(new(&["a", "b", "c"]));
        let told = work.commit().await.unwrap_err();
        assert!(is_disbelief(&told), "in a unit of work: {plain} {group}: {told:?}");
    }
    for name in FUNCTIONS {
        db.execute(
            &mut admin,
            &format!("DROP FUNCTION {{s}}.{name}; ALTER FUNCTION {{s}}.{name}_good RENAME TO {name}"),
        )
        .await;
    }
    for append in every_way(Uuid::now_v7()) {
        store.append(&append).await.unwrap();
    }
}
