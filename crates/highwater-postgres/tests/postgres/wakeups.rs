//! Wake-ups between processes: two stores are as good as two processes.

use highwater::Append;
use highwater::backend::{Log, Wakeups};
use highwater_postgres::PgConfig;
use uuid::Uuid;

use crate::support::*;

pub async fn woken_up_to(wakeup: &mut highwater::backend::Wakeup, global_sequence: u64) {
    let woken = async { while wakeup.next().await.unwrap() < global_sequence {} };
    tokio::time::timeout(std::time::Duration::from_secs(10), woken).await.expect("woken in time");
}

/// Connections that listen for this schema: the last thing they did was to look.
const LISTENING: &str = "application_name = 'highwater listen' AND query LIKE '%' || $1 || '%'";

async fn listeners(db: &Db) -> i64 {
    let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE {LISTENING}");
    let mut connection = db.connection().await;
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(&db.schema).fetch_one(&mut connection).await.unwrap()
}

#[tokio::test]
async fn another_process_is_woken_with_the_highest_number_however_large_the_event() {
    let db = Db::new();
    let (here, there) = (db.store().await, db.store().await);
    let mut wakeup = there.wakeups();
    eventually("it listens", async || listeners(&db).await == 1).await;
    let large = Append::to(Uuid::now_v7()).event(note("x".repeat(100_000)));
    let done = here.append(&large).await.unwrap();
    woken_up_to(&mut wakeup, done.global_sequence).await;
    let mut last = 0;
    for _ in 0..200 {
        last = here.append(&one()).await.unwrap().global_sequence;
    }
    woken_up_to(&mut wakeup, last).await;
}

#[tokio::test]
async fn a_listener_that_was_killed_comes_back_and_says_so() {
    let db = Db::new();
    let (here, there) = (db.store().await, db.store().await);
    let mut wakeup = there.wakeups();
    eventually("it listens", async || listeners(&db).await == 1).await;
    let mut killer = db.connection().await;
    let kill = format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {LISTENING}");
    let killed: i64 =
        sqlx::query_scalar(sqlx::AssertSqlSafe(kill)).bind(&db.schema).fetch_one(&mut killer).await.unwrap();
    assert_eq!(killed, 1);
    // Sent while nobody listened; the hint after the reconnect makes up for it.
    here.append(&one()).await.unwrap();
    assert!(wakeup.next().await.is_some());
    eventually("it listens again", async || listeners(&db).await == 1).await;
    let done = here.append(&one()).await.unwrap();
    woken_up_to(&mut wakeup, done.global_sequence).await;
}

#[tokio::test]
async fn many_waiters_share_one_listening_connection_and_it_ends_with_the_store() {
    let db = Db::new();
    let store = db.store().await;
    let waiters: Vec<_> = (0..50).map(|_| store.wakeups()).collect();
    eventually("it listens", async || listeners(&db).await == 1).await;
    drop(waiters);
    let mut late = store.wakeups();
    let done = db.store().await.append(&one()).await.unwrap();
    woken_up_to(&mut late, done.global_sequence).await;
    drop(store);
    eventually("it stops listening", async || listeners(&db).await == 0).await;
    assert_eq!(late.next().await, None);
}

#[tokio::test]
async fn appends_never_notify_inside_their_transaction() {
    let db = Db::new();
    let store = db.store_with(PgConfig { group_events_max: 10, ..db.config() }).await;
    store.append(&one()).await.unwrap();
    // No trigger, and nothing in the functions that could send one.
    let mut connection = db.connection().await;
    let triggers: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'events'::regclass")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    let bodies: Vec<String> = sqlx::query_scalar("SELECT prosrc FROM pg_proc WHERE pronamespace = to_regnamespace($1)")
        .bind(&db.schema)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert!(triggers == 0 && bodies.len() >= 7, "{triggers} triggers, {} functions", bodies.len());
    assert!(bodies.iter().all(|body| !body.to_lowercase().contains("notify")));
}

#[tokio::test]
async fn a_lost_listener_is_said_to_be_lost_until_it_is_back() {
    let db = Db::new();
    let store = db.store().await;
    assert_eq!(store.push_degraded(), None);
    let _wakeup = store.wakeups();
    eventually("it listens", async || listeners(&db).await == 1).await;
    assert_eq!(store.push_degraded(), None);
    let kill = format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {LISTENING}");
    let mut killer = db.connection().await;
    sqlx::query(sqlx::AssertSqlSafe(kill)).bind(&db.schema).execute(&mut killer).await.unwrap();
    let mut said = None;
    eventually("it says so", async || {
        said = store.push_degraded();
        said.is_some()
    })
    .await;
    assert!(said.unwrap().starts_with("since 20"));
    eventually("it is back", async || store.push_degraded().is_none() && listeners(&db).await == 1).await;
}
