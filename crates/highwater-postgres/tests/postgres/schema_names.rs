//! Schemas with names that were chosen to do harm.

use std::collections::BTreeSet;

use highwater::GlobalSequence;
use highwater::backend::{Diagnose, Log, Severity, Transfer, Wakeups};
use highwater_postgres::{PgConfig, PgEventStore};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};
use throwaway_postgres::ThrowawayPostgres;

use crate::bus::{Recorder, quick};
use crate::support::{one, sequences};

/// Everything that has a name in the database, with the schema that it is in.
async fn everything(connection: &mut PgConnection) -> BTreeSet<(String, String)> {
    let sql = "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
        UNION SELECT n.nspname::text, p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
        UNION SELECT n.nspname::text, '' FROM pg_namespace n WHERE n.nspname NOT LIKE 'pg\\_%'
        UNION SELECT r.rolname::text, 'role' FROM pg_roles r";
    sqlx::query_as::<_, (String, String)>(sql).fetch_all(connection).await.unwrap().into_iter().collect()
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = [
        "\"",
        "'",
        "''",
        "\"\"",
        "a\"b",
        "a'b",
        "\"quoted\"",
        "'quoted'",
        ".",
        "a.b",
        "\"a\".\"b\"",
        "..",
        ";",
        "--",
        "a b",
        " ",
        " a",
        "a ",
        "select",
        "SELECT",
        "user",
        "public.events",
        "Public",
        "PUBLIC",
        "null",
        "events",
        "{schema}",
        "{schema_text}",
        "{schema",
        "}",
        "é",
        "Straße",
        "\u{1f4a9}",
        "\u{202e}txt",
        "\u{feff}",
        "e\u{301}",
        "0",
        "1a",
        "-1",
        "a,b",
        "a)b",
        "(",
        "[]",
        "@",
        "?",
        ":a",
        "#",
        "!",
        "~",
        "=",
        "|",
        "&",
        "^",
        "`",
        "Robert'); DROP TABLE events;--",
        "\"; DROP SCHEMA public CASCADE; --",
        "x\" AUTHORIZATION evil; --",
        "U&\"d\"",
        "E'x'",
    ]
    .map(str::to_owned)
    .into();
    names.push("x".repeat(63));
    names.push("é".repeat(31));
    names.push("\"".repeat(63));
    names.push("'".repeat(63));
    names
}

/// On a server of its own: whatever is made anywhere is seen.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_outside_of_a_schema_is_made_or_changed_whatever_its_name_is() {
    let server = ThrowawayPostgres::start().unwrap();
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    let before = everything(&mut connection).await;
    for (place, name) in names().into_iter().enumerate() {
        let config = PgConfig { schema: name.clone(), pool_connections_max: 4, ..PgConfig::default() };
        let store =
            PgEventStore::connect_with(&server.url(), config).await.unwrap_or_else(|e| panic!("{name:?}: {e:?}"));
        store.initialize().await.unwrap_or_else(|error| panic!("{name:?}: {error:?}"));
        store.append(&one()).await.unwrap();
        assert_eq!(sequences(&store).await, [1], "{name:?}");
        let bad = |found: &highwater::backend::Finding| found.severity == Severity::Bad;
        let findings = store.diagnose().await.unwrap();
        assert!(!findings.iter().any(bad), "{name:?}: {findings:#?}");
        // Some of the rest for each: a bus, and triggers that are made and dropped.
        match place % 3 {
            0 => {
                let bus = highwater_postgres::PgEventBus::with_config(store.clone(), quick());
                bus.subscribe(Recorder::new("projection:x")).await.unwrap();
                bus.wait_for("projection:x", GlobalSequence(1)).await.unwrap();
                assert_eq!(store.push_degraded(), None, "{name:?}");
                bus.shutdown().await.unwrap();
            }
            1 => {
                let emptied = format!("TRUNCATE \"{}\".events", name.replace('"', "\"\""));
                sqlx::raw_sql(AssertSqlSafe(emptied)).execute(&mut connection).await.unwrap();
                store.fill("elsewhere").await.unwrap().finish().await.unwrap();
            }
            _ => {}
        }
        let appeared = everything(&mut connection).await;
        let outside: Vec<_> = appeared.difference(&before).filter(|(schema, _)| *schema != name).collect();
        assert!(outside.is_empty(), "{name:?}: {outside:?}");
        assert!(before.is_subset(&appeared), "{name:?}: something is gone");
        assert!(appeared.contains(&(name.clone(), "events".to_owned())), "{name:?}");
        drop(store);
        let dropped = format!("DROP SCHEMA \"{}\" CASCADE", name.replace('"', "\"\""));
        sqlx::raw_sql(AssertSqlSafe(dropped)).execute(&mut connection).await.unwrap();
    }
}
