//! What depends on the version of the server, or on its being PostgreSQL at all.

use std::time::Duration;

use highwater::backend::{Diagnose, Log, Severity};
use highwater::{Error, GlobalSequence};
use highwater_postgres::{PgEventBus, PgEventStore};
use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use throwaway_postgres::{Builder, ThrowawayPostgres};

use crate::bus::handlers::{Counting, counted};
use crate::bus::{Recorder, say};
use crate::leadership::coordinated;
use crate::support::*;

/// A server of the newest version, for settings that older ones do not know.
fn newest() -> Builder {
    ThrowawayPostgres::builder().major(18)
}

/// A store of another role.
async fn store_of(db: &Db, role: &str) -> PgEventStore {
    let options: PgConnectOptions = db.url.parse().unwrap();
    PgEventStore::connect_to_with(options.username(role), db.config()).await.unwrap()
}

/// What the server says about the layout and what it rests on.
async fn layout(store: &PgEventStore) -> (Severity, String) {
    let findings = store.diagnose().await.unwrap();
    let found = findings.into_iter().find(|finding| finding.topic == "layout").unwrap();
    (found.severity, found.found)
}

#[tokio::test]
async fn a_server_that_does_not_show_who_draws_numbers_is_refused() {
    // As servers do that only speak PostgreSQL's protocol: locks that nobody shows, and numbers drawn without a lock.
    let fakes = [
        (
            "locks",
            "ALTER VIEW pg_catalog.pg_locks RENAME TO pg_all_locks;
            CREATE VIEW pg_catalog.pg_locks AS SELECT l.* FROM pg_catalog.pg_all_locks l WHERE l.locktype <> 'relation'",
        ),
        (
            "numbers",
            "ALTER FUNCTION pg_catalog.nextval(regclass) RENAME TO nextval_with_a_lock;
            CREATE FUNCTION pg_catalog.nextval(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
        ),
    ];
    for (name, fake) in fakes {
        let database = Database::create().await;
        let db = Db::on(database.url.clone());
        let store = db.store().await;
        let mut connection = db.connection().await;
        db.execute(&mut connection, &format!("SET allow_system_table_mods = on; {fake}")).await;
        let refused = store.initialize().await.unwrap_err();
        assert!(
            matches!(&refused, Error::Unfit { reason } if reason.contains("does not show who draws numbers")),
            "{name}: {refused}"
        );
        assert!(matches!(store.planned().await, Err(Error::Unfit { .. })), "{name}");
        let (severity, found) = layout(&store).await;
        assert_eq!(severity, Severity::Bad, "{name}: {found}");
        assert!(found.contains("does not show who draws numbers"), "{name}: {found}");
        drop((store, db, connection));
        database.remove().await;
    }
}

#[tokio::test]
async fn looking_whether_a_server_is_fit_draws_no_number_holds_no_reader_back_and_needs_no_right() {
    let db = Db::new();
    let owner = db.store().await;
    let mut connection = db.connection().await;
    let role = format!("{}_reader", db.schema);
    let grants =
        "CREATE ROLE {r} LOGIN; GRANT USAGE ON SCHEMA {s} TO {r}; GRANT SELECT ON ALL TABLES IN SCHEMA {s} TO {r};
        GRANT SELECT ON SEQUENCE {s}.events_global_sequence_seq TO {r};
        ALTER ROLE {r} SET default_transaction_read_only = on";
    db.execute(&mut connection, &grants.replace("{r}", &role)).await;
    let terms = async |connection: &mut PgConnection| -> (i64, bool) {
        let sql = format!("SELECT last_value, is_called FROM \"{}\".event_bus_terms", db.schema);
        sqlx::query_as(sqlx::AssertSqlSafe(sql)).fetch_one(connection).await.unwrap()
    };
    let before = terms(&mut connection).await;
    let reader = store_of(&db, &role).await;
    for store in [&owner, &reader] {
        store.initialize().await.unwrap();
        store.verify().await.unwrap();
        assert_eq!(layout(store).await.0, Severity::Good);
    }
    assert_eq!(terms(&mut connection).await, before);
    assert_eq!(owner.open_writers().await.unwrap().len(), 0);
    owner.append(&one()).await.unwrap();
    assert_eq!(sequences(&reader).await, [1]);
    drop(reader);
    eventually("the role's sessions end", async || {
        let sql = format!("DROP OWNED BY {role}; DROP ROLE {role}");
        db.try_execute(&mut connection, &sql).await.is_ok()
    })
    .await;
}

/// Far longer than the role's transactions may take.
const PAUSE: Duration = Duration::from_millis(900);

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_timeout_of_the_role_ends_no_session_of_ours_and_the_applications_own_are_left_to_it() {
    let server = newest().start().unwrap();
    let db = Db::on(server.url());
    db.store().await;
    let mut admin = db.connection().await;
    db.execute(&mut admin, "CREATE ROLE app LOGIN SUPERUSER; ALTER ROLE app SET transaction_timeout = '300ms'").await;
    // Two instances: one waits for the other's end, in a statement that takes as long as that lives.
    let first = PgEventBus::with_config(store_of(&db, "app").await, coordinated());
    let second = PgEventBus::with_config(store_of(&db, "app").await, coordinated());
    let pausing = Counting::new(
        &db,
        "projection:pausing",
        coordinated(),
        Box::new(|_, _, _| {
            Box::pin(async {
                tokio::time::sleep(PAUSE).await;
                Ok(())
            })
        }),
    )
    .await;
    first.subscribe(pausing).await.unwrap();
    second.subscribe(Recorder::new("projection:other")).await.unwrap();
    let (one, two) = (say(first.store(), "one").await, say(first.store(), "two").await);
    first.wait_for("projection:pausing", GlobalSequence(two)).await.unwrap();
    second.wait_for("projection:other", GlobalSequence(two)).await.unwrap();
    assert_eq!(counted(&db).await, [i64::try_from(one).unwrap(), i64::try_from(two).unwrap()]);
    assert!(!server.log().contains("due to transaction timeout"), "{}", server.log());

    let findings = first.store().diagnose().await.unwrap();
    let said = findings.iter().find(|finding| finding.found.contains("transaction_timeout is")).unwrap();
    assert_eq!(said.severity, Severity::Note, "{said}");
    assert!(said.advice.as_deref().unwrap().contains("transaction_timeout = 0"), "{said}");

    // What the operator has set for the application holds for the application, and is an error like any lost connection.
    let limit: String = sqlx::query_scalar("SHOW transaction_timeout").fetch_one(first.store().pool()).await.unwrap();
    assert_eq!(limit, "300ms");
    let mut work = first.store().begin().await.unwrap();
    let ended = sqlx::query("SELECT pg_sleep(10)").execute(&mut **work.tx()).await.unwrap_err();
    assert_eq!(ended.as_database_error().unwrap().code().unwrap(), "25P04", "{ended}");
    for bus in [first, second] {
        bus.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_reserved_for_others_are_not_promised() {
    let settings = [("max_connections", "60"), ("superuser_reserved_connections", "3"), ("reserved_connections", "40")];
    let server = settings.iter().fold(newest(), |server, (name, value)| server.setting(*name, *value)).start().unwrap();
    let db = Db::on(server.url());
    let owner = db.store().await;
    let mut admin = db.connection().await;
    db.execute(&mut admin, "CREATE ROLE app LOGIN; CREATE ROLE trusted LOGIN IN ROLE pg_use_reserved_connections")
        .await;
    let room = async |store: &PgEventStore| {
        let findings = store.diagnose().await.unwrap();
        findings.into_iter().find(|finding| finding.topic == "connections").unwrap()
    };
    let app = store_of(&db, "app").await;
    let said = room(&app).await;
    assert!(said.found.contains("of the 17 connections of the server"), "{said}");
    assert_eq!(said.severity, Severity::Warning, "{said}");
    drop(app);
    // As many as it gets: with the others gone, to the last one.
    let said = room(&store_of(&db, "trusted").await).await;
    assert!(said.found.contains("of the 57 connections of the server"), "{said}");
    let said = room(&owner).await;
    assert!(said.found.contains("of the 57 connections of the server"), "{said}");

    let options: PgConnectOptions = db.url.parse().unwrap();
    let mut got = Vec::new();
    while let Ok(connection) = PgConnection::connect_with(&options.clone().username("app")).await {
        got.push(connection);
        assert!(got.len() <= 17, "the role gets more than it was promised");
    }
}

/// The statement that ends a former leader's transaction.
const EVICT: &str = include_str!("../../sql/evict.sql");

#[tokio::test(flavor = "multi_thread")]
async fn a_former_leaders_transaction_is_ended_by_a_role_that_may_and_is_only_named_by_one_that_may_not() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    let mut admin = db.connection().await;
    let roles = "CREATE TABLE public.held AS SELECT 1 AS n; CREATE ROLE former LOGIN; GRANT ALL ON public.held TO former;
        CREATE ROLE stranger LOGIN; CREATE ROLE member LOGIN NOINHERIT IN ROLE former; CREATE ROLE heir LOGIN IN ROLE former;
        CREATE ROLE guard LOGIN IN ROLE pg_signal_backend";
    db.execute(&mut admin, roles).await;
    let options: PgConnectOptions = db.url.parse().unwrap();
    let connect = async |role: &str, purpose: &str| {
        let options = options.clone().username(role).application_name(purpose);
        PgConnection::connect_with(&options).await.unwrap()
    };
    for (role, holder, ends) in [
        ("stranger", "former", false),
        // A member without what it is a member of: pg_terminate_backend would refuse it.
        ("member", "former", false),
        ("heir", "former", true),
        ("guard", "former", true),
        ("guard", "highwater", false),
        ("highwater", "former", true),
    ] {
        let mut former = connect(holder, "highwater deliver").await;
        db.execute(&mut former, "BEGIN; SELECT FROM public.held FOR UPDATE").await;
        let mut waiting = connect("former", "waiting").await;
        let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut waiting).await.unwrap();
        let waits = tokio::spawn(async move {
            sqlx::raw_sql("SELECT FROM public.held FOR UPDATE").execute(&mut waiting).await.unwrap();
        });
        eventually("it waits", async || {
            let blocked = "SELECT cardinality(pg_blocking_pids($1)) > 0";
            sqlx::query_scalar(blocked).bind(pid).fetch_one(&mut admin).await.unwrap()
        })
        .await;
        let mut evicting = connect(role, "evict").await;
        let ended: (i32, String, Option<bool>) =
            sqlx::query_as(EVICT).bind(pid).fetch_one(&mut evicting).await.unwrap();
        assert_eq!((ended.1.as_str(), ended.2), (holder, ends.then_some(true)), "{role} and {holder}");
        if !ends {
            db.execute(&mut former, "ROLLBACK").await;
        }
        waits.await.unwrap();
    }
}
