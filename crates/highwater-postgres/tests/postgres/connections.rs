//! Lost connections, lost answers, and what must not be said about them.

use highwater::{Append, Error, EventStore, ExpectedVersion, Log};
use highwater_postgres::{PgConfig, PgEventStore};
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use crate::proxy::Proxy;
use crate::support::*;

async fn through_proxy(db: &Db) -> (Proxy, PgEventStore) {
    let options: PgConnectOptions = db.url.parse().unwrap();
    let proxy = Proxy::to(options.get_host().to_owned(), options.get_port()).await;
    let store = PgEventStore::connect_to(options.host("127.0.0.1").port(proxy.port()), db.config()).await.unwrap();
    (proxy, store)
}

#[tokio::test]
async fn an_append_whose_answer_is_lost_is_reported_as_unknown_and_a_retry_finds_it() {
    let db = Db::new();
    let direct = db.store().await;
    let (proxy, store) = through_proxy(&db).await;
    store.append(&one()).await.unwrap();
    for events in [1, 3] {
        let stream = Uuid::now_v7();
        let texts = (0..events).map(|n| note(n.to_string()));
        let append = Append::to(stream).expecting(ExpectedVersion::NoStream).events(texts.clone());
        // The first of its kind on a connection is prepared before it is sent; this one shall be lost at the commit.
        let like_it = Append::to(Uuid::now_v7()).expecting(ExpectedVersion::NoStream).events(texts);
        store.append(&like_it).await.unwrap();
        proxy.lose_answers(true);
        let lost = store.append(&append).await.unwrap_err();
        assert!(matches!(lost, Error::UnknownOutcome { .. }), "{lost:?}");
        assert!(lost.to_string().contains("safe to retry with the same ids"));
        proxy.lose_answers(false);
        // The server may still be at it when the connection is gone.
        let retried = store.append(&append).await.unwrap();
        assert!(retried.repeated, "it had been stored");
        assert_eq!(direct.read_events::<Note>(stream).collect().await.unwrap().len(), events);
    }
}

#[tokio::test]
async fn an_append_whose_connection_dies_before_the_commit_is_stored_once_by_a_retry() {
    let db = Db::new();
    let store = db.store().await;
    store.append(&one()).await.unwrap();
    let mut blocker = db.connection().await;
    db.execute(&mut blocker, "BEGIN; LOCK TABLE {s}.events IN SHARE ROW EXCLUSIVE MODE").await;
    db.execute(&mut blocker, "SET LOCAL statement_timeout = 0").await;
    let append = one();
    let sending = tokio::spawn({
        let (store, append) = (store.clone(), append.clone());
        async move { store.append(&append).await }
    });
    // The group waits 50 ms for the table's lock, then its only append waits by itself on a pooled connection.
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND application_name = 'highwater' AND query LIKE '%' || $1 || '%'";
    let mut killer = db.connection().await;
    eventually("the append waits for the lock and is killed", async || {
        sqlx::query_scalar::<_, i64>(kill).bind(&db.schema).fetch_one(&mut killer).await.unwrap() > 0
    })
    .await;
    let lost = sending.await.unwrap().unwrap_err();
    assert!(matches!(lost, Error::UnknownOutcome { .. }), "{lost:?}");
    db.execute(&mut blocker, "ROLLBACK").await;
    let retried = store.append(&append).await.unwrap();
    assert!(!retried.repeated);
    assert_eq!(sequences(&store).await.len(), 2);
}

#[tokio::test]
async fn connections_that_died_while_idle_are_replaced_without_anybody_noticing() {
    let db = Db::new();
    let store = db.store().await;
    store.append(&one()).await.unwrap();
    assert_eq!(page(&store, 0).await.complete_to, 1);
    // Longer than a connection is trusted without asking.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let mut killer = db.connection().await;
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE application_name IN ('highwater append', 'highwater read') AND query LIKE '%' || $1 || '%'";
    let killed: i64 = sqlx::query_scalar(kill).bind(&db.schema).fetch_one(&mut killer).await.unwrap();
    assert_eq!(killed, 2);
    store.append(&one()).await.unwrap();
    assert_eq!(numbers(&page(&store, 1).await), [2]);
}

/// Everything that an error says, down to its last source.
fn everything(error: &dyn std::error::Error) -> String {
    let mut said = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        said += &format!(" {error} {error:?}");
        source = error.source();
    }
    said
}

#[tokio::test]
async fn no_password_appears_in_an_error_or_in_debug_output() {
    let config = || PgConfig { connect_timeout: std::time::Duration::from_millis(500), ..PgConfig::default() };
    for url in [
        "postgres://user:hunter2@127.0.0.1:1/db",
        "postgres://user:hunter2@127.0.0.1:port/db",
        "postgres://user:hunter2@[::1/db",
        "postgres://user:hunter2@127.0.0.1:1/db?sslmode=nonsense",
        "postgres://user:hunter2@no-such-host.invalid/db",
        "mysql://user:hunter2@127.0.0.1/db",
        "hunter2",
    ] {
        let error = PgEventStore::connect_with(url, config()).await.unwrap_err();
        assert!(!everything(&error).contains("hunter2"), "{url}: {}", everything(&error));
    }
    let db = Db::new();
    let options: PgConnectOptions = db.url.parse().unwrap();
    let store = PgEventStore::connect_to(options.password("hunter2"), db.config()).await.unwrap();
    assert!(!format!("{store:?}").contains("hunter2"));
    let error = store.append(&one()).await.unwrap_err();
    assert!(!everything(&error).contains("hunter2"));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_reported_in_time() {
    let config = PgConfig { connect_timeout: std::time::Duration::from_millis(300), ..PgConfig::default() };
    // A listener that never answers: the connection is accepted by the kernel and nothing more.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://user@127.0.0.1:{}/db", silent.local_addr().unwrap().port());
    let error = PgEventStore::connect_with(&url, config).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    for config in [
        PgConfig { schema: "pg_x".to_owned(), ..PgConfig::default() },
        PgConfig { append_queue_max: 0, ..PgConfig::default() },
        PgConfig { read_connections_max: 0, ..PgConfig::default() },
        PgConfig { append_timeout: std::time::Duration::ZERO, ..PgConfig::default() },
        PgConfig { connect_timeout: std::time::Duration::MAX, ..PgConfig::default() },
    ] {
        let refused = PgEventStore::connect_with("postgres://127.0.0.1:1/db", config).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid(_)), "{refused:?}");
    }
}
