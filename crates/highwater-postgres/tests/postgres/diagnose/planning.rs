//! What `initialize` would do is said before, and what it would refuse.

use highwater::Error;
use highwater::backend::{Diagnose, Severity};
use throwaway_postgres::ThrowawayPostgres;

use super::{assert_found, connect, find, role};
use crate::support::*;

#[tokio::test]
async fn what_initializing_would_do_is_said_before_and_nothing_is_left_after() {
    let db = Db::new();
    let store = connect(&db).await;
    let planned = store.planned().await.unwrap();
    let steps: Vec<_> = planned.iter().map(|step| (step.version, step.name)).collect();
    assert_eq!(steps, [(1, "events"), (2, "append"), (3, "delivery"), (4, "leadership"), (5, "filling"), (6, "life")]);
    assert_found(&store, Severity::Bad, "layout", "creates the table of events", "initialize()").await;
    let schemas: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_namespace WHERE nspname = $1")
        .bind(&db.schema)
        .fetch_one(store.pool())
        .await
        .unwrap();
    assert_eq!(schemas, 0, "planning does nothing");
    store.initialize().await.unwrap();
    assert!(store.planned().await.unwrap().is_empty());
    db.back_to(&mut db.connection().await, 3).await;
    let planned = store.planned().await.unwrap();
    assert_eq!(planned.iter().map(|step| step.version).collect::<Vec<_>>(), [4, 5, 6]);
    store.initialize().await.unwrap();
    assert!(store.planned().await.unwrap().is_empty());
}

/// A table from before there were numbers, with these columns.
fn old(columns: &str) -> String {
    format!("CREATE SCHEMA {{s}}; CREATE TABLE {{s}}.events ({columns})")
}

const OLD: &str = "id uuid PRIMARY KEY, stream_id uuid NOT NULL, stream_version bigint NOT NULL,
    event_type varchar(255) NOT NULL, data jsonb, created_at timestamptz NOT NULL";

#[tokio::test]
async fn adopting_a_table_is_announced_as_such() {
    let db = Db::new();
    db.execute(&mut db.connection().await, &old(OLD)).await;
    let store = connect(&db).await;
    let planned = store.planned().await.unwrap();
    assert!(planned[0].does.contains("locked meanwhile"), "{planned:?}");
    assert!(!planned[2].does.contains("adopts"), "there are no tables of delivery: {planned:?}");
    store.initialize().await.unwrap();
    assert!(store.planned().await.unwrap().is_empty());
    assert!(find(&store, "indexes", "all are there").await.advice.is_none());
    assert!(find(&store, "constraints", "all are there").await.advice.is_none());
}

#[tokio::test]
async fn what_initializing_would_refuse_is_refused_when_it_is_planned() {
    let newer = "INSERT INTO {s}.migrations VALUES (99, 'from the future')";
    let hole = "INSERT INTO {s}.events VALUES (gen_random_uuid(), gen_random_uuid(), 2, 'Noted', '{}', now())";
    let cases = [
        (true, newer.to_owned(), "upgrade the library"),
        (true, "ALTER SEQUENCE {s}.events_global_sequence_seq CACHE 20".to_owned(), "cache"),
        (false, format!("{}; {hole}", old(OLD)), "versions"),
        (false, old(&OLD.replace("stream_version bigint", "version bigint")), "stream_version"),
        (false, old(&OLD.replace("created_at timestamptz", "created_at boolean")), "created_at"),
        (false, "CREATE SCHEMA {s}; CREATE TABLE {s}.event_bus_pauses (mine text)".to_owned(), "event_bus_pauses"),
    ];
    for (initialized, sql, said) in cases {
        let db = Db::new();
        let store = if initialized { db.store().await } else { connect(&db).await };
        db.execute(&mut db.connection().await, &sql).await;
        let planned = store.planned().await.unwrap_err();
        let refused = store.initialize().await.unwrap_err();
        assert!(matches!(&planned, Error::Unfit { reason } if reason.contains(said)), "{sql}: {planned:?}");
        assert!(matches!(&refused, Error::Unfit { reason } if reason.contains(said)), "{sql}: {refused:?}");
        assert_eq!(find(&store, "layout", said).await.severity, Severity::Bad);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_not_initialize_is_told_before_and_may_look_when_there_is_nothing_to_do() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    let store = role(&db, "app").await;
    let denied = |error: &Error| matches!(error, Error::Denied { .. });
    assert!(denied(&store.planned().await.unwrap_err()) && denied(&store.initialize().await.unwrap_err()));
    let mut admin = db.connection().await;
    db.execute(&mut admin, "CREATE SCHEMA {s}; GRANT USAGE ON SCHEMA {s} TO app").await;
    assert!(denied(&store.planned().await.unwrap_err()) && denied(&store.initialize().await.unwrap_err()));
    assert_eq!(find(&store, "layout", "may not create tables").await.severity, Severity::Bad);
    db.store().await;
    // May create tables, and owns none.
    db.back_to(&mut admin, 3).await;
    db.execute(&mut admin, "GRANT ALL ON SCHEMA {s} TO app; GRANT SELECT ON ALL TABLES IN SCHEMA {s} TO app").await;
    let (planned, refused) = (store.planned().await.unwrap_err(), store.initialize().await.unwrap_err());
    assert!(denied(&planned) && denied(&refused), "{planned:?} {refused:?}");
    db.store().await;
    db.execute(
        &mut admin,
        "GRANT SELECT ON ALL TABLES IN SCHEMA {s} TO app; GRANT SELECT ON ALL SEQUENCES IN SCHEMA {s} TO app",
    )
    .await;
    assert!(store.planned().await.unwrap().is_empty());
}
