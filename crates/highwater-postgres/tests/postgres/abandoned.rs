//! Sessions that are still at work when nobody waits for their answer any more: they must not take the place of others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use highwater::Error;
use highwater::backend::{Log, chain};
use highwater_postgres::{PgConfig, PgEventStore};
use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use throwaway_postgres::ThrowawayPostgres;
use tokio::time::Instant;

use crate::proxy::Proxy;
use crate::support::*;

/// How soon after a failure units of work begin again.
const SOON: Duration = Duration::from_secs(15);

async fn through_proxy(db: &Db) -> (Proxy, PgEventStore) {
    let options: PgConnectOptions = db.url.parse().unwrap();
    let proxy = Proxy::to(options.get_host().to_owned(), options.get_port()).await;
    let config = PgConfig { connect_timeout: Duration::from_secs(2), ..db.config() };
    let store = PgEventStore::connect_to_with(options.host("127.0.0.1").port(proxy.port()), config).await.unwrap();
    (proxy, store)
}

/// As many as the pool has connections, all at the same time.
async fn units_of_work_are_stored_soon(store: &PgEventStore) {
    let deadline = Instant::now() + SOON;
    let places = PgConfig::default().pool_connections_max;
    let mut told = None;
    while Instant::now() < deadline {
        let begun: Result<Vec<_>, _> = join_all((0..places).map(|_| store.begin())).await.into_iter().collect();
        match begun {
            Ok(units) => {
                for mut unit in units {
                    unit.append(one());
                    unit.commit().await.unwrap();
                }
                return;
            }
            Err(error) => told = Some(error),
        }
    }
    panic!("no unit of work begins for {SOON:?}: {told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn units_of_work_begin_again_after_a_host_vanished_in_the_middle_of_their_commits() {
    let db = Db::new();
    db.store().await;
    let (proxy, store) = through_proxy(&db).await;
    let mut units = Vec::new();
    for _ in 0..PgConfig::default().pool_connections_max {
        let mut unit = store.begin().await.unwrap();
        unit.append(one());
        units.push(unit);
    }
    proxy.abandon();
    for told in join_all(units.into_iter().map(|unit| unit.commit())).await {
        assert!(matches!(told, Err(Error::Unavailable { .. })), "{told:?}");
    }
    units_of_work_are_stored_soon(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn units_of_work_begin_again_after_a_host_vanished_when_they_were_about_to_begin() {
    let db = Db::new();
    db.store().await;
    let (proxy, store) = through_proxy(&db).await;
    let begin = || join_all((0..PgConfig::default().pool_connections_max).map(|_| store.begin()));
    for unit in begin().await {
        unit.unwrap().rollback().await.unwrap();
    }
    let places = PgConfig::default().pool_connections_max as usize;
    eventually("all connections are back in the pool", async || store.pool().num_idle() == places).await;
    proxy.abandon();
    for told in begin().await {
        let told = told.map(drop);
        assert!(matches!(told, Err(Error::Unavailable { .. })), "{told:?}");
    }
    units_of_work_are_stored_soon(&store).await;
}

/// A server of the test's own, on which commits can be made to wait for a replica that does not exist.
struct Replicated {
    db: Db,
    admin: PgConnection,
    // Last, so that the schema's end is tried before the server's.
    _server: ThrowawayPostgres,
}

impl Replicated {
    async fn start() -> Self {
        let server = ThrowawayPostgres::builder().setting("max_connections", "60").start().unwrap();
        let db = Db::on(server.url());
        let admin = PgConnection::connect(&db.url).await.unwrap();
        Self { db, admin, _server: server }
    }

    async fn wait_for_replica(&mut self, name: &str) {
        // Otherwise the very change of the setting would be the first to wait.
        self.db.execute(&mut self.admin, "SET synchronous_commit = local").await;
        self.db.execute(&mut self.admin, &format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'")).await;
        self.db.execute(&mut self.admin, "SELECT pg_reload_conf()").await;
        eventually("the setting is in force", async || {
            let now: String =
                sqlx::query_scalar("SHOW synchronous_standby_names").fetch_one(&mut self.admin).await.unwrap();
            now == name
        })
        .await;
    }

    /// Sessions of clients with names that end so.
    async fn sessions(&mut self, name: &str) -> usize {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name LIKE '%' || $1";
        let count: i64 = sqlx::query_scalar(sql).bind(name).fetch_one(&mut self.admin).await.unwrap();
        usize::try_from(count).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_that_wait_for_a_replica_take_no_more_than_two_connections_for_each_lane() {
    let mut replicated = Replicated::start().await;
    let config = PgConfig { append_timeout: Duration::from_millis(300), ..replicated.db.config() };
    let (lanes, store) = (config.append_connections_max, replicated.db.store_with(config).await);
    store.append(&one()).await.unwrap();
    replicated.wait_for_replica("gone").await;
    let not_sent = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let (store, not_sent) = (store.clone(), not_sent.clone());
            tokio::spawn(async move {
                loop {
                    let told = store.append(&one()).await.unwrap_err();
                    if !matches!(told, Error::UnknownOutcome { .. }) {
                        let said = chain(&told);
                        assert!(matches!(told, Error::Unavailable { .. }), "{told:?}");
                        for part in
                            ["nothing of it was sent", "process ", "SyncRep", "replica", "synchronous_standby_names"]
                        {
                            assert!(said.contains(part), "{said}");
                        }
                        not_sent.fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    let mut most = 0;
    eventually("many appends have been refused", async || {
        most = most.max(replicated.sessions(" append").await);
        assert!(callers.iter().all(|caller| !caller.is_finished()), "a caller was told something else");
        not_sent.load(Ordering::SeqCst) > 400
    })
    .await;
    assert!(most <= 2 * lanes, "{most} connections for {lanes} lanes");
    assert!(most > lanes, "no append was given up: this shows nothing");
    for caller in callers {
        caller.abort();
    }
    replicated.wait_for_replica("").await;
    eventually("appends work again", async || store.append(&one()).await.is_ok()).await;
    assert!(sequences(&store).await.len() >= 2);
}

/// The pool of the application has as many connections again for what it gave up, and no more.
#[tokio::test(flavor = "multi_thread")]
async fn units_of_work_that_wait_for_a_replica_take_no_more_than_twice_the_connections_of_the_pool() {
    let mut replicated = Replicated::start().await;
    let config = PgConfig { connect_timeout: Duration::from_millis(800), ..replicated.db.config() };
    let (places, store) = (config.pool_connections_max as usize, replicated.db.store_with(config).await);
    replicated.wait_for_replica("gone").await;
    // A caller that stops waiting for a commit gives its connection back with it.
    let give_up = async || {
        let Ok(mut unit) = store.begin().await else { return false };
        unit.append(one());
        tokio::time::timeout(Duration::from_millis(100), unit.commit()).await.is_err()
    };
    let mut refused = 0;
    while refused < places {
        let given_up = join_all((0..places).map(|_| give_up())).await;
        refused += given_up.iter().filter(|given_up| !**given_up).count();
        let sessions = replicated.sessions(" application").await;
        assert!(sessions <= 2 * places, "{sessions} connections for a pool of {places}");
    }
    replicated.wait_for_replica("").await;
    eventually("units of work begin again", async || store.begin().await.is_ok()).await;
}
