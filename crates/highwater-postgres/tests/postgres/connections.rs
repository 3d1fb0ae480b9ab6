//! Lost connections, lost answers, and what must not be said about them.

use std::time::Duration;

use chrono::Utc;
use highwater::backend::{
    BoxFuture, Checkpoints, DeadLetters, Diagnose, Leadership, Log, ReadLimit, Request, RequestKind, Requests,
    StreamRead, Transfer, chain,
};
use highwater::operations::DeadLetterQuery;
use highwater::{Append, Claim, Error, EventStore, ExpectedVersion};
use highwater_postgres::{PgConfig, PgEventBus, PgEventStore};
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use crate::bus::Recorder;
use crate::leadership::coordinated;
use crate::proxy::Proxy;
use crate::support::*;
use throwaway_postgres::ThrowawayPostgres;

async fn through_proxy(db: &Db) -> (Proxy, PgEventStore) {
    let options: PgConnectOptions = db.url.parse().unwrap();
    let proxy = Proxy::to(options.get_host().to_owned(), options.get_port()).await;
    let store = PgEventStore::connect_to_with(options.host("127.0.0.1").port(proxy.port()), db.config()).await.unwrap();
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

/// Before the COMMIT nothing is stored, whatever was sent; after it, nobody can tell. On a dedicated server: its transactions
/// stay open, and others would wait for them.
#[tokio::test]
async fn a_unit_of_work_that_is_not_answered_ends_within_a_time_and_says_what_became_of_it() {
    let server = ThrowawayPostgres::builder().start().unwrap();
    let db = Db::on(server.url());
    let direct = db.store().await;
    db.execute(
        &mut db.connection().await,
        "CREATE TABLE {s}.slow (n int);
         CREATE FUNCTION {s}.takes_long() RETURNS trigger LANGUAGE plpgsql
             AS 'BEGIN PERFORM pg_sleep(3600); RETURN NULL; END';
         CREATE CONSTRAINT TRIGGER takes_long AFTER INSERT ON {s}.slow DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION {s}.takes_long()",
    )
    .await;
    let mut slow = direct.begin().await.unwrap();
    db.execute(slow.tx(), "INSERT INTO {s}.slow VALUES (1)").await;
    slow.append(one());
    let (proxy, store) = through_proxy(&db).await;
    let mut hangs = store.begin().await.unwrap();
    hangs.append(one());
    let empty = store.begin().await.unwrap();
    let mut tx = store.pool().begin().await.unwrap();
    proxy.silence(true);
    let append = one();
    let (slow, hangs, empty, appended) =
        tokio::join!(slow.commit(), hangs.commit(), empty.commit(), store.append_on(&mut tx, &append));
    assert!(matches!(slow, Err(Error::UnknownOutcome { .. })), "{slow:?}");
    for told in [hangs.unwrap_err(), empty.unwrap_err(), appended.unwrap_err()] {
        assert!(matches!(told, Error::Unavailable { .. }), "{told:?}");
    }
    assert!(sequences(&direct).await.is_empty());
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
    let store = PgEventStore::connect_to_with(options.password("hunter2"), db.config()).await.unwrap();
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

fn forwards() -> StreamRead {
    StreamRead { limit: ReadLimit::events(10), ..StreamRead::forwards(1) }
}

/// Everything that is asked on the store's own pool, by name, with nothing to initialize.
async fn ask(store: &PgEventStore) -> Vec<(&'static str, Result<(), Error>)> {
    let (ids, query, id) = (["x".to_owned()], DeadLetterQuery::of("x"), Uuid::now_v7());
    let request = Request {
        id,
        subscriber_id: "x".to_owned(),
        kind: RequestKind::ReplayAll,
        requested_by: "a test".to_owned(),
        requested_at: Utc::now(),
        outcome: None,
    };
    let asking: Vec<(&'static str, BoxFuture<'_, Result<(), Error>>)> = vec![
        ("head", Box::pin(async { store.head().await.map(drop) })),
        ("frontier", Box::pin(async { store.frontier().await.map(drop) })),
        ("open_writers", Box::pin(async { store.open_writers().await.map(drop) })),
        ("read_stream", Box::pin(async { store.read_stream(id, forwards()).await.map(drop) })),
        ("checkpoint", Box::pin(async { store.checkpoint("x").await.map(drop) })),
        ("checkpoints", Box::pin(async { store.checkpoints().await.map(drop) })),
        ("set_paused", Box::pin(async { store.set_paused("x", false).await.map(drop) })),
        ("paused", Box::pin(async { store.paused(&ids).await.map(drop) })),
        ("reports", Box::pin(async { store.reports().await.map(drop) })),
        ("take_over", Box::pin(async { store.take_over(&Claim::of("x")).await.map(drop) })),
        ("leaders", Box::pin(async { store.leaders().await.map(drop) })),
        ("lock_holders", Box::pin(async { store.lock_holders(&ids).await.map(drop) })),
        ("parked", Box::pin(async { store.parked("x").await.map(drop) })),
        ("dead_letters", Box::pin(async { store.dead_letters(&query).await.map(drop) })),
        ("count_dead_letters", Box::pin(async { store.count_dead_letters(&query).await.map(drop) })),
        ("dead_letter", Box::pin(async { store.dead_letter(id).await.map(drop) })),
        ("file_request", Box::pin(async { store.file_request(&request).await })),
        ("open_requests", Box::pin(async { store.open_requests(&ids).await.map(drop) })),
        ("request", Box::pin(async { store.request(id).await.map(drop) })),
        ("filling", Box::pin(async { store.filling().await.map(drop) })),
        ("all_open_requests", Box::pin(async { store.all_open_requests(None, 1).await.map(drop) })),
        ("planned", Box::pin(async { store.planned().await.map(drop) })),
        ("verify", Box::pin(async { store.verify().await })),
        ("initialize", Box::pin(async { store.initialize().await })),
    ];
    let (names, asking): (Vec<_>, Vec<_>) = asking.into_iter().unzip();
    names.into_iter().zip(futures_util::future::join_all(asking).await).collect()
}

#[tokio::test]
async fn whatever_the_store_asks_by_itself_ends_when_the_server_does_not_answer_and_works_when_it_does() {
    let db = Db::new();
    db.store().await;
    let (proxy, store) = through_proxy(&db).await;
    for (what, answer) in ask(&store).await {
        answer.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    }
    proxy.silence(true);
    let unanswered = tokio::time::timeout(Duration::from_secs(60), ask(&store)).await.expect("nothing waits for ever");
    for (what, answer) in unanswered {
        assert!(matches!(answer, Err(Error::Unavailable { .. })), "{what}: {answer:?}");
    }
    // What was given up does not come back: those connections are lost, and none of them is waited for.
    proxy.abandon();
    for (what, answer) in ask(&store).await {
        answer.unwrap_or_else(|error| panic!("{what} does not work again: {error:?}"));
    }
}

#[tokio::test]
async fn connections_that_have_vanished_without_a_word_are_replaced() {
    let db = Db::new();
    db.store().await;
    let (proxy, store) = through_proxy(&db).await;
    ask(&store).await;
    proxy.abandon();
    // Each may be tried once.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while ask(&store).await.iter().any(|(_, answer)| answer.is_err()) {
        assert!(tokio::time::Instant::now() < deadline, "connections that are only half open are used again and again");
    }
}

/// A backend that is frozen as soon as it has been connected to, at each statement by which a session is opened.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_freezes_while_it_is_opened_is_given_up_and_replaced() {
    let db = Db::new();
    let beside = PgEventBus::with_config(db.store().await, coordinated());
    beside.subscribe(Recorder::new("projection:beside")).await.unwrap();
    let options: PgConnectOptions = db.url.parse().unwrap();
    let proxy = Proxy::to(options.get_host().to_owned(), options.get_port()).await;
    let config = || PgConfig { connect_timeout: Duration::from_secs(2), ..db.config() };
    let through = || options.clone().host("127.0.0.1").port(proxy.port()).application_name("through");
    let store = PgEventStore::connect_to_with(through(), config()).await.unwrap();
    let bus = PgEventBus::with_config(store.clone(), coordinated());
    // When it is asked whether it is a dedicated session.
    proxy.freeze_at("lead", "pg_backend_pid()");
    let subscribing = bus.subscribe(Recorder::new("projection:a"));
    let told = tokio::time::timeout(Duration::from_secs(30), subscribing).await.expect("it is answered").map(drop);
    assert!(matches!(told, Err(Error::Unavailable { .. })), "{told:?}");
    // When the one that watches a neighbour is set up.
    proxy.freeze_at("neighbour", "client_connection_check_interval");
    bus.subscribe(Recorder::new("projection:a")).await.unwrap();
    eventually("it is frozen", async || proxy.frozen() > 1).await;
    proxy.freeze_at("", "");
    let watches = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'through neighbour' AND query LIKE '%' || $1 || '%session_is_gone%')";
    let mut admin = db.connection().await;
    eventually("the neighbour is watched", async || {
        sqlx::query_scalar::<_, bool>(watches).bind(&db.schema).fetch_one(&mut admin).await.unwrap()
    })
    .await;
    // Nothing is to be done, and that cannot be seen.
    let store = PgEventStore::connect_to_with(through(), config()).await.unwrap();
    proxy.freeze_at("through", "pg_namespace");
    let initializing = tokio::time::timeout(Duration::from_secs(30), store.initialize()).await;
    let told = initializing.expect("it is answered").unwrap_err();
    assert!(matches!(told, Error::Unavailable { .. }), "{told:?}");
}

/// Each would otherwise wait in the server for as long as the lock is held, on a connection that the client has left.
#[tokio::test]
async fn what_was_given_up_while_it_waited_for_a_lock_leaves_no_session_behind() {
    let db = Db::new();
    let store = db.store().await;
    let mut stranger = db.connection().await;
    db.execute(&mut stranger, "BEGIN; LOCK TABLE {s}.event_bus_checkpoints, {s}.event_bus_pauses").await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1";
    let mut admin = db.connection().await;
    let mut waiting = async || {
        let query = format!("%\"{}\".event_bus_%", db.schema);
        sqlx::query_scalar::<_, i64>(waiting).bind(query).fetch_one(&mut admin).await.unwrap()
    };
    // One that waits until the time is over says what it waited for.
    let late = tokio::spawn({
        let store = store.clone();
        async move { store.checkpoints().await.unwrap_err() }
    });
    eventually("it waits for the lock", async || waiting().await == 1).await;
    let said = chain(&late.await.unwrap());
    assert!(said.contains("has locked the table event_bus_") && said.contains("pg_terminate_backend("), "{said}");
    eventually("the server has ended it", async || waiting().await == 0).await;
    let asking = futures_util::future::join_all((0..4).map(|_| store.checkpoints()));
    tokio::select! {
        answered = asking => panic!("the table is locked: {answered:?}"),
        () = eventually("all wait for the lock", async || waiting().await == 4) => {}
    }
    eventually("the server has ended what nobody waits for", async || waiting().await == 0).await;
}
