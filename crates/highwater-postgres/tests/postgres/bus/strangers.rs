//! Transactions of others that touched the log's sequence, whether they have drawn a number or not: readers wait for them,
//! and everything that tells how subscribers are says so.

use std::time::Duration;

use highwater::backend::{Diagnose, Log, OpenWriter};
use highwater::operations::Cause;
use highwater::{EventStore, Problem, Subscription};
use highwater_postgres::PgEventBus;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions};

use super::{Recorder, bus, quick, say};
use crate::roles::Roles;
use crate::support::{Db, Warnings, eventually};

const ID: &str = "projection:waits";

/// Another client's session, in a transaction that has touched the sequence.
struct Stranger {
    connection: PgConnection,
    pid: i32,
    role: String,
}

impl Stranger {
    /// Runs these statements; those in front of a `?` may fail.
    async fn new(db: &Db, role: Option<&str>, statements: &[&str]) -> Self {
        let mut options: PgConnectOptions = db.url.parse().unwrap();
        if let Some(role) = role {
            options = options.username(role).password("secret");
        }
        let mut connection = options.application_name("nightly").connect().await.unwrap();
        for statement in statements {
            let done = db.try_execute(&mut connection, statement.trim_end_matches('?')).await;
            assert_eq!(done.is_err(), statement.ends_with('?'), "{statement}: {done:?}");
        }
        let asked: (i32, String) =
            sqlx::query_as("SELECT pg_backend_pid(), session_user::text").fetch_one(&mut connection).await.unwrap();
        Self { connection, pid: asked.0, role: asked.1 }
    }

    fn is(&self, writer: &OpenWriter) -> bool {
        (writer.pid, writer.role.as_deref()) == (Some(self.pid), Some(&*self.role))
            && writer.application_name.as_deref() == Some("nightly")
            && writer.last_statement.is_some()
            && writer.age.is_some()
    }
}

/// A live subscriber that has handled ten events.
async fn live(db: &Db) -> (PgEventBus, Subscription) {
    let bus = bus(db, quick()).await;
    let subscription = bus.subscribe(Recorder::new(ID)).await.unwrap();
    for _ in 0..10 {
        say(bus.store(), "before").await;
    }
    subscription.caught_up().await.unwrap();
    (bus, subscription)
}

/// Whom health names.
async fn named(bus: &PgEventBus) -> Vec<OpenWriter> {
    let named = |problem| match problem {
        Problem::WritersOpen { writers, .. } => writers,
        _ => Vec::new(),
    };
    bus.health().await.problems.into_iter().flat_map(named).collect()
}

/// Everything that tells how subscribers are, while this one is open and ten more events are acknowledged.
async fn is_named_everywhere(db: &Db, role: Option<&str>, statements: &[&str], looked: Option<bool>) {
    let (bus, subscription) = live(db).await;
    let stranger = Stranger::new(db, role, statements).await;
    // Where no number is missing nobody has to wait: one is rolled back.
    let mut rolled_back = db.connection().await;
    db.execute(&mut rolled_back, "BEGIN").await;
    db.insert(&mut rolled_back).await;
    db.execute(&mut rolled_back, "ROLLBACK").await;
    let handled = subscription.progress().await.unwrap().position;
    for _ in 0..10 {
        say(bus.store(), "after").await;
    }
    let head = bus.store().head().await.unwrap();
    assert!(head >= handled + 10);

    let writers = named(&bus).await;
    assert!(writers.len() == 1 && stranger.is(&writers[0]), "the first caller is told: {writers:?}");
    assert!(looked.is_none_or(|looked| writers[0].may_only_have_looked == looked), "{writers:?}");
    let progress = subscription.progress().await.unwrap();
    assert_eq!((progress.position, progress.head, progress.lag_events), (handled, head, head - handled));
    assert!(progress.is_held_back() && progress.time_left.is_none(), "{progress:?}");
    let early = tokio::time::timeout(Duration::from_millis(100), subscription.caught_up()).await;
    assert!(early.is_err(), "ten committed events have not been handled");

    let store = db.store().await;
    let overview = store.overview().await.unwrap();
    let seen = &overview.subscribers[0];
    assert_eq!((seen.state(), seen.lag_events), ("held back", head - handled));
    assert!(overview.open_writers.len() == 1 && stranger.is(&overview.open_writers[0]), "{overview:?}");
    let explained = store.explain(ID).await.unwrap();
    assert!(matches!(&explained.causes[0], Cause::WaitingForWriters { head: said, .. } if *said == head));
    let who = format!("process {} (role {}, application nightly, open for ", stranger.pid, stranger.role);
    assert!(explained.to_string().contains(&who), "{explained}");
    assert_eq!(explained.to_string().contains("may only have looked"), writers[0].may_only_have_looked, "{explained}");
    eventually("the doctor names it", async || {
        let findings = store.diagnose().await.unwrap();
        findings.iter().any(|finding| finding.topic == "writers" && finding.found.contains(&who))
    })
    .await;

    drop(stranger.connection);
    subscription.caught_up().await.unwrap();
    let progress = subscription.progress().await.unwrap();
    assert_eq!((progress.position, progress.lag_events, progress.is_held_back()), (head, 0, false));
    assert!(named(&bus).await.is_empty());
}

#[tokio::test]
async fn who_has_appended_and_not_committed_is_named_from_the_first_second() {
    let db = Db::new();
    db.store().await;
    let insert = crate::support::INSERT;
    is_named_everywhere(&db, None, &["BEGIN", insert], Some(false)).await;
}

#[tokio::test]
async fn who_has_drawn_a_number_and_nothing_else_is_named_from_the_first_second() {
    let db = Db::new();
    db.store().await;
    let draw = "SELECT nextval('{s}.events_global_sequence_seq')";
    // Whether that needs a transaction id depends on how many numbers are logged ahead.
    is_named_everywhere(&db, None, &["BEGIN", draw], None).await;
}

#[tokio::test]
async fn who_may_only_have_looked_is_named_and_said_to_have() {
    let db = Db::new();
    db.store().await;
    let (draw, look) =
        ("SELECT nextval('{s}.events_global_sequence_seq')", "SELECT currval('{s}.events_global_sequence_seq')");
    is_named_everywhere(&db, None, &[draw, "BEGIN", look], Some(true)).await;
}

#[tokio::test]
async fn a_reader_of_the_documented_role_that_looks_at_pg_sequences_is_named_and_said_to_have_looked() {
    let db = Db::new();
    db.store().await;
    let roles = Roles::create(&db).await;
    drop(roles.store(&db, "reader").await);
    let reader = format!("{}reader", roles.0);
    let looks = format!("SELECT * FROM pg_sequences WHERE schemaname = '{}'", db.schema);
    is_named_everywhere(&db, Some(&reader), &["BEGIN READ ONLY", &looks], Some(true)).await;
    roles.drop(&db).await;
}

#[tokio::test]
async fn a_role_without_any_grants_whose_nextval_was_refused_is_named_all_the_same() {
    let db = Db::new();
    let store = db.store().await;
    let role = format!("stranger_{:x}", fastrand::u64(..));
    let mut admin = db.connection().await;
    db.execute(&mut admin, &format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'")).await;
    let sequence: i64 = sqlx::query_scalar(AssertSqlSafe(format!(
        "SELECT '\"{}\".events_global_sequence_seq'::regclass::oid::bigint",
        db.schema
    )))
    .fetch_one(&mut admin)
    .await
    .unwrap();
    let draw = format!("SELECT nextval({sequence}::oid::regclass)?");
    let refused = ["BEGIN", "SAVEPOINT s", &draw, "ROLLBACK TO s"];
    is_named_everywhere(&db, Some(&role), &refused, Some(true)).await;
    drop(store);
    eventually("the role's sessions end", async || {
        db.try_execute(&mut admin, &format!("DROP ROLE {role}")).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn live_subscribers_that_are_held_back_say_so_once_in_the_log() {
    let warnings = Warnings::default();
    let _listening = tracing::subscriber::set_default(warnings.clone());
    let db = Db::new();
    let (bus, subscription) = live(&db).await;
    let stranger = Stranger::new(&db, None, &["BEGIN", crate::support::INSERT]).await;
    say(bus.store(), "after").await;
    let who = format!("process {} (role {}", stranger.pid, stranger.role);
    let said = || warnings.said().matches(&who).count();
    eventually("it is logged", async || said() == 1).await;
    say(bus.store(), "later").await;
    drop(stranger.connection);
    subscription.caught_up().await.unwrap();
    assert_eq!(said(), 1, "{warnings:?}");
}
