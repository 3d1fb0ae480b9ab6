//! Wake-ups from other processes, and life without them.

use std::time::Duration;

use highwater::backend::Wakeups;
use highwater::{Problem, ReliableDeliveryConfig, SubscriptionState};

use super::{Recorder, bus, quick, say, until};
use crate::forger::Forger;
use crate::support::{Db, eventually};

/// Never by polling, within any patience of ours.
fn pushed() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig { poll_interval: Duration::from_secs(600), ..quick() }
}

async fn kill_listeners(db: &Db) -> i64 {
    let mut connection = db.connection().await;
    sqlx::query_scalar(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE application_name = 'highwater listen' AND query LIKE '%' || $1 || '%'",
    )
    .bind(&db.schema)
    .fetch_one(&mut connection)
    .await
    .unwrap()
}

#[tokio::test]
async fn another_processs_events_are_delivered_without_polling() {
    let db = Db::new();
    let bus = bus(&db, pushed()).await;
    let recorder = Recorder::new("projection:pushed");
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    until(&subscription, SubscriptionState::is_live).await;
    let other = db.store().await;
    for n in 0..10 {
        say(&other, &n.to_string()).await;
        eventually("it is delivered", async || recorder.texts().len() == n + 1).await;
    }
}

#[tokio::test]
async fn a_listener_that_was_killed_comes_back_and_what_was_missed_is_delivered() {
    let db = Db::new();
    let bus = bus(&db, pushed()).await;
    let recorder = Recorder::new("projection:reconnected");
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    until(&subscription, SubscriptionState::is_live).await;
    let other = db.store().await;
    say(&other, "1").await;
    eventually("the first is delivered", async || recorder.texts() == ["1"]).await;
    for n in 2..5 {
        eventually("there is a listener to be killed", async || kill_listeners(&db).await == 1).await;
        say(&other, &n.to_string()).await;
        eventually("it is delivered", async || recorder.texts().len() == n).await;
    }
    assert_eq!(recorder.texts(), ["1", "2", "3", "4"]);
}

#[tokio::test]
async fn without_push_polling_delivers_and_the_health_says_so() {
    let db = Db::new();
    // A role that may do everything but connect a second time: its listener never gets through.
    let config = ReliableDeliveryConfig { poll_interval: Duration::from_millis(20), ..quick() };
    let url: sqlx::postgres::PgConnectOptions = db.url.parse().unwrap();
    let proxy = crate::proxy::Proxy::to(url.get_host().to_owned(), url.get_port()).await;
    let through = url.host("127.0.0.1").port(proxy.port()).ssl_mode(sqlx::postgres::PgSslMode::Disable);
    db.store().await;
    let store = highwater_postgres::PgEventStore::connect_to_with(through, db.config()).await.unwrap();
    let bus = highwater_postgres::PgEventBus::with_config(store, config);
    let recorder = Recorder::new("projection:polled");
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    until(&subscription, SubscriptionState::is_live).await;
    assert!(bus.health().await.is_ready());
    proxy.refuse("listen");
    eventually("there is a listener to be killed", async || kill_listeners(&db).await == 1).await;
    let degraded = async || {
        let problems = bus.health().await.problems;
        problems.iter().any(|problem| matches!(problem, Problem::PushDegraded { .. }))
    };
    eventually("push is degraded", degraded).await;
    assert!(bus.health().await.is_ready(), "that alone is no reason not to be ready");
    assert!(subscription.progress().await.unwrap().push_degraded.is_some());
    let other = db.store().await;
    say(&other, "polled").await;
    eventually("it is delivered all the same", async || recorder.texts() == ["polled"]).await;
    proxy.refuse("");
    eventually("push works again", async || !degraded().await).await;
}

#[tokio::test]
async fn a_bus_that_is_idle_asks_the_server_little() {
    let db = Db::new();
    let config = ReliableDeliveryConfig { poll_interval: Duration::from_millis(100), ..quick() };
    let bus = bus(&db, config).await;
    for n in 0..50 {
        bus.subscribe(Recorder::new(&format!("projection:{n}"))).await.unwrap();
    }
    for subscription in bus.subscriptions() {
        until(&subscription, SubscriptionState::is_live).await;
    }
    let mut connection = db.connection().await;
    let connections: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'highwater%' AND query LIKE '%' || $1 || '%'",
    )
    .bind(&db.schema)
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert!(connections <= 10, "fifty subscribers need {connections} connections");
}

/// How often the events of a schema were looked at, as far as the server has counted it.
async fn looks(db: &Db) -> i64 {
    let asking = sqlx::query_scalar(
        "SELECT (seq_scan + coalesce(idx_scan, 0))::bigint FROM pg_stat_user_tables
         WHERE schemaname = $1 AND relname = 'events'",
    );
    asking.bind(&db.schema).fetch_one(&mut db.connection().await).await.unwrap()
}

#[tokio::test]
async fn a_hint_of_a_role_without_grants_above_the_sequence_does_not_raise_the_idle_load() {
    let db = Db::new();
    let bus = bus(&db, pushed()).await;
    let recorder = Recorder::new("projection:hinted");
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    until(&subscription, SubscriptionState::is_live).await;
    let other = db.store().await;
    say(&other, "1").await;
    eventually("it listens", async || recorder.texts() == ["1"]).await;
    let forger = Forger::create(&db).await;
    let mut connection = forger.connection().await;
    let before = looks(&db).await;
    forger.say(&mut connection, &u64::MAX.to_string()).await;
    // Some twenty a second, as long as it is believed.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let looked = looks(&db).await - before;
    assert!(looked < 60, "{looked} looks at a log in which nothing happened");
    // Also not with every hint that follows, and none of these is lost.
    for n in 2..5 {
        say(&other, &n.to_string()).await;
        eventually("it is delivered", async || recorder.texts().len() == n).await;
    }
    drop(connection);
    forger.drop(&db).await;
}

#[tokio::test]
async fn a_listening_connection_whose_other_end_has_vanished_is_called_degraded_and_replaced() {
    let db = Db::new();
    let url: sqlx::postgres::PgConnectOptions = db.url.parse().unwrap();
    let proxy = crate::proxy::Proxy::to(url.get_host().to_owned(), url.get_port()).await;
    let through = url.host("127.0.0.1").port(proxy.port()).ssl_mode(sqlx::postgres::PgSslMode::Disable);
    let other = db.store().await;
    let store = highwater_postgres::PgEventStore::connect_to_with(through, db.config()).await.unwrap();
    let bus = highwater_postgres::PgEventBus::with_config(store, pushed());
    let recorder = Recorder::new("projection:half-open");
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    until(&subscription, SubscriptionState::is_live).await;
    say(&other, "1").await;
    eventually("it listens", async || recorder.texts() == ["1"]).await;
    proxy.refuse("listen");
    proxy.abandon();
    // Five seconds until it is asked, and five for the answer.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while bus.store().push_degraded().is_none() {
        assert!(tokio::time::Instant::now() < deadline, "a connection that is only half open is not noticed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    proxy.refuse("");
    eventually("it listens again", async || bus.store().push_degraded().is_none()).await;
    say(&other, "2").await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while recorder.texts() != ["1", "2"] {
        assert!(tokio::time::Instant::now() < deadline, "what came since is not delivered: {:?}", subscription.state());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
