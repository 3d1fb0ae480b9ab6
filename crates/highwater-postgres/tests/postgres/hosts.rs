//! Several hosts of which one is the primary, and what happens when it is that no more.

use std::time::{Duration, Instant};

use highwater::backend::{Checkpoints, Log, Wakeups};
use highwater::{Claim, Error};
use highwater_postgres::{PgConfig, PgEventStore};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use throwaway_postgres::ThrowawayPostgres;
use tokio::net::TcpListener;

use crate::proxy::Proxy;
use crate::replicas::make_standby;
use crate::support::*;
use crate::wakeups::woken_up_to;

/// A URL that names these ports of this machine before whatever it names already.
fn with_ports(url: &str, ports: &[u16]) -> String {
    let hosts: String = ports.iter().map(|port| format!("127.0.0.1:{port},")).collect();
    url.replacen('@', &format!("@{hosts}"), 1)
}

/// A port where nobody listens.
async fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

/// Runs a statement that must also work on a server that is read-only.
async fn run(server: &ThrowawayPostgres, sql: &str) {
    let options: PgConnectOptions = server.url().parse().unwrap();
    let mut connection = options.options([("default_transaction_read_only", "off")]).connect().await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
}

async fn set_read_only(server: &ThrowawayPostgres, on: bool) {
    run(server, &format!("ALTER SYSTEM SET default_transaction_read_only = {on}")).await;
    run(server, "SELECT pg_reload_conf()").await;
}

/// Waits until a replica has so many rows of a table.
async fn has(db: &Db, replica: &ThrowawayPostgres, table: &str, rows: i64) {
    let mut connection = PgConnection::connect(&replica.url()).await.unwrap();
    let count = format!("SELECT count(*) FROM \"{}\".{table}", db.schema);
    eventually("the replica has everything", async || {
        sqlx::query_scalar::<_, i64>(AssertSqlSafe(&*count)).fetch_one(&mut connection).await.unwrap() == rows
    })
    .await;
}

/// Makes a replica the primary, once it has these events.
async fn promote(db: &Db, replica: &ThrowawayPostgres, events: i64) {
    has(db, replica, "events", events).await;
    let mut connection = PgConnection::connect(&replica.url()).await.unwrap();
    assert!(sqlx::query_scalar::<_, bool>("SELECT pg_promote()").fetch_one(&mut connection).await.unwrap());
}

/// The port of the server that the store's pool is connected to.
async fn pool_port(store: &PgEventStore) -> Option<i32> {
    sqlx::query_scalar("SELECT inet_server_port()").fetch_one(store.pool()).await.ok()
}

#[tokio::test]
async fn a_host_that_is_down_is_passed_over() {
    let db = Db::new();
    db.store().await;
    let url = format!("{}?application_name={}", with_ports(&db.url, &[closed_port().await]), db.schema);
    let store = PgEventStore::connect_with(&url, db.config()).await.unwrap();
    let _wakeup = store.wakeups();
    assert_eq!(store.append(&one()).await.unwrap().global_sequence, 1);
    assert_eq!(sequences(&store).await, [1]);
    assert_eq!(store.head().await.unwrap(), 1);
    // What looks after the primary ends with the store, like everything else.
    drop(store);
    let mut connection = db.connection().await;
    let open = "SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, $1)";
    eventually("all connections are closed", async || {
        sqlx::query_scalar::<_, i64>(open).bind(&db.schema).fetch_one(&mut connection).await.unwrap() == 0
    })
    .await;
}

#[tokio::test]
async fn a_host_that_never_answers_does_not_use_up_the_time_of_the_others() {
    let db = Db::new();
    db.store().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = with_ports(&db.url, &[silent.local_addr().unwrap().port()]);
    let config = PgConfig { connect_timeout: Duration::from_secs(4), ..db.config() };
    let started = Instant::now();
    let store = PgEventStore::connect_with(&url, config).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    // Known by now, and asked first.
    let started = Instant::now();
    store.append(&one()).await.unwrap();
    assert_eq!(store.head().await.unwrap(), 1);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_passed_over_and_without_a_primary_every_host_is_named() {
    let mut standby = ThrowawayPostgres::start().unwrap();
    make_standby(&mut standby);
    let db = Db::new();
    db.store().await;
    let store = PgEventStore::connect_with(&with_ports(&db.url, &[standby.port()]), db.config()).await.unwrap();
    store.append(&one()).await.unwrap();
    assert_eq!(sequences(&store).await, [1]);

    let closed = closed_port().await;
    let url = with_ports(&standby.url(), &[closed]).replacen('@', ":hunter2@", 1);
    let Err(Error::NotPrimary { reason }) = PgEventStore::connect_with(&url, db.config()).await else {
        panic!("there is no primary")
    };
    assert!(reason.contains(&format!("127.0.0.1:{closed}: unavailable")), "{reason}");
    assert!(reason.contains(&format!("127.0.0.1:{}: not the primary", standby.port())), "{reason}");
    assert!(!reason.contains("hunter2"), "{reason}");

    let nobody = format!("postgres://app@127.0.0.1:{closed},127.0.0.1:{closed}/db");
    let error = PgEventStore::connect_with(&nobody, db.config()).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_promoted_is_found_by_everything_that_connects() {
    let mut old = ThrowawayPostgres::start().unwrap();
    let db = Db::on(old.url());
    db.store().await;
    let new = old.replica().unwrap();
    let url = with_ports(&new.url(), &[old.port()]);
    // Short, for the pools' sake: the longer it is, the more rarely they look where to connect.
    let config = PgConfig { connect_timeout: Duration::from_secs(3), ..db.config() };
    let store = PgEventStore::connect_with(&url, config.clone()).await.unwrap();
    let mut wakeup = store.wakeups();
    store.append(&one()).await.unwrap();
    assert_eq!(sequences(&store).await, [1]);
    // One that does nothing but what pools do.
    let pools = PgEventStore::connect_with(&url, config).await.unwrap();
    pools.take_over(&Claim::of("a")).await.unwrap();
    has(&db, &new, "event_bus_checkpoints", 1).await;
    old.crash().unwrap();
    promote(&db, &new, 1).await;

    eventually("the pools are there", async || pools.take_over(&Claim::of("a")).await.is_ok()).await;
    eventually("appending continues", async || store.append(&one()).await.is_ok()).await;
    eventually("reading continues", async || store.frontier().await.is_ok()).await;
    assert_eq!(sequences(&store).await.len(), 2);
    assert_eq!(pool_port(&store).await, Some(i32::from(new.port())));
    eventually("wake-ups are back", async || store.push_degraded().is_none()).await;
    // The old one comes back as if nothing had happened. Nobody believes it.
    old.start_again().unwrap();
    let done = pools.append(&one()).await.unwrap();
    woken_up_to(&mut wakeup, done.global_sequence).await;
    assert_eq!(sequences(&store).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_lives_on_read_only_is_left_for_the_one_that_took_its_place() {
    let old = ThrowawayPostgres::start().unwrap();
    let db = Db::on(old.url());
    db.store().await;
    let new = old.replica().unwrap();
    let config = PgConfig { pool_connections_max: 1, ..db.config() };
    let store = PgEventStore::connect_with(&with_ports(&new.url(), &[old.port()]), config).await.unwrap();
    store.append(&one()).await.unwrap();
    assert_eq!(sequences(&store).await, [1]);
    assert_eq!(pool_port(&store).await, Some(i32::from(old.port())));
    let mut wakeup = store.wakeups();
    let mut connection = db.connection().await;
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'highwater listen'
        AND query LIKE '%' || $1 || '%'";
    eventually("it listens", async || {
        sqlx::query_scalar::<_, i64>(listening).bind(&db.schema).fetch_one(&mut connection).await.unwrap() == 1
    })
    .await;
    set_read_only(&old, true).await;
    promote(&db, &new, 1).await;
    // Nobody writes. The pool's connection still answers, and so do the reader's and the one that listens.
    eventually("the pool leaves", async || pool_port(&store).await == Some(i32::from(new.port()))).await;
    let done = PgEventStore::connect_with(&new.url(), db.config()).await.unwrap().append(&one()).await.unwrap();
    woken_up_to(&mut wakeup, done.global_sequence).await;
    assert_eq!(sequences(&store).await.len(), 2);
    store.append(&one()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn among_several_hosts_no_pool_is_content_with_a_replica() {
    let mut server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    db.store().await;
    let config = PgConfig { connect_timeout: Duration::from_secs(1), ..db.config() };
    let url = with_ports(&server.url(), &[closed_port().await]);
    let store = PgEventStore::connect_with(&url, config).await.unwrap();
    assert_eq!(store.head().await.unwrap(), 0);
    make_standby(&mut server);
    for attempt in 0..3 {
        let refused = store.head().await.unwrap_err();
        // The first may meet the connection that ended with the primary.
        let lost = attempt == 0 && matches!(refused, Error::Unavailable { .. });
        assert!(lost || matches!(refused, Error::NotPrimary { .. }), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_moves_to_another_server_takes_open_connections_along() {
    let old = ThrowawayPostgres::start().unwrap();
    let db = Db::on(old.url());
    db.store().await;
    let new = old.replica().unwrap();
    let proxy = Proxy::to("127.0.0.1".to_owned(), old.port()).await;
    let options: PgConnectOptions = db.url.parse().unwrap();
    // With room for a second connection it might be that one which is used, opened after the move.
    let config = PgConfig { pool_connections_max: 1, ..db.config() };
    let store = PgEventStore::connect_to_with(options.port(proxy.port()), config).await.unwrap();
    store.append(&one()).await.unwrap();
    assert_eq!(sequences(&store).await, [1]);
    store.take_over(&Claim::of("a")).await.unwrap();
    assert_eq!(pool_port(&store).await, Some(i32::from(old.port())));
    set_read_only(&old, true).await;
    promote(&db, &new, 1).await;
    proxy.redirect(new.port());
    // The old one is open still, and says only of a write that it is not what it was.
    assert_eq!(pool_port(&store).await, Some(i32::from(old.port())));
    let refused = store.take_over(&Claim::of("a")).await.unwrap_err();
    assert!(matches!(refused, Error::NotPrimary { .. }), "{refused:?}");
    store.take_over(&Claim::of("a")).await.unwrap();
    assert_eq!(pool_port(&store).await, Some(i32::from(new.port())));
    store.append(&one()).await.unwrap();
    assert_eq!(sequences(&store).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_read_only_for_a_while_is_used_again() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    db.store().await;
    let closed = closed_port().await;
    for url in [server.url(), with_ports(&server.url(), &[closed])] {
        let store = PgEventStore::connect_with(&url, db.config()).await.unwrap();
        store.append(&one()).await.unwrap();
        set_read_only(&server, true).await;
        let not_primary = |error: Error| matches!(error, Error::NotPrimary { .. });
        eventually("appending says why not", async || store.append(&one()).await.is_err_and(not_primary)).await;
        eventually("taking over says why not", async || {
            // A pool that keeps looking for a primary has nothing better to say than that it found none in time.
            let taken = store.take_over(&Claim::of("a")).await;
            taken.is_err_and(|error| matches!(error, Error::NotPrimary { .. } | Error::Unavailable { .. }))
        })
        .await;
        set_read_only(&server, false).await;
        eventually("appending works again", async || store.append(&one()).await.is_ok()).await;
        eventually("taking over works again", async || store.take_over(&Claim::of("a")).await.is_ok()).await;
        assert!(store.frontier().await.is_ok());
    }
}

#[tokio::test]
async fn a_role_that_is_read_only_by_choice_may_read_from_several_hosts() {
    let db = Db::new();
    db.store().await.append(&one()).await.unwrap();
    let options: PgConnectOptions = db.url.parse().unwrap();
    let options = options.options([("default_transaction_read_only", "on")]);
    let hosts = vec![options.clone().port(closed_port().await), options];
    let store = PgEventStore::connect_to_any_with(hosts, db.config()).await.unwrap();
    assert_eq!(sequences(&store).await, [1]);
    let none = PgEventStore::connect_to_any_with(Vec::new(), db.config()).await.unwrap_err();
    assert!(matches!(none, Error::Invalid(_)), "{none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_direct_url_is_used_for_listening_and_must_lead_to_the_same_database() {
    let db = Db::new();
    db.store().await;
    let config = |url: &str| PgConfig { leadership_url: Some(url.to_owned()), ..db.config() };
    let direct = format!("{}?application_name=direct-{}", with_ports(&db.url, &[closed_port().await]), db.schema);
    let store = PgEventStore::connect_with(&db.url, config(&direct)).await.unwrap();
    let mut wakeup = store.wakeups();
    let mut connection = db.connection().await;
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'direct-%listen'
        AND query LIKE '%' || $1 || '%'";
    eventually("it listens there", async || {
        sqlx::query_scalar::<_, i64>(listening).bind(&db.schema).fetch_one(&mut connection).await.unwrap() == 1
    })
    .await;
    let done = db.store().await.append(&one()).await.unwrap();
    woken_up_to(&mut wakeup, done.global_sequence).await;

    let other_cluster = ThrowawayPostgres::start().unwrap();
    let other_database = db.url.replace("/postgres", "/template1");
    for url in [other_cluster.url(), other_database, "postgres://user:hunter2@one,/db".to_owned()] {
        assert!(!format!("{:?}", config(&url)).contains("hunter2"));
        let Err(Error::Invalid(refused)) = PgEventStore::connect_with(&db.url, config(&url)).await else {
            panic!("{url} is refused")
        };
        assert!(refused.to_string().starts_with("setting leadership_url: "), "{refused}");
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
    }
}
