//! Wake-ups from other processes, and life without them.

use std::time::Duration;

use highwater::{Problem, ReliableDeliveryConfig, SubscriptionState};

use super::{Recorder, bus, quick, say, until};
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
    let store = highwater_postgres::PgEventStore::connect_to(through, db.config()).await.unwrap();
    let bus = highwater_postgres::PgEventBus::new(store, config);
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
