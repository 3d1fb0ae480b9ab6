//! The store's own connections, and the servers at their other end.

mod abandoned;
mod kept;
mod server;
mod session;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::Error;
use highwater::backend::{BoxFuture, lock};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{Connection, Row};
use tokio::time::Instant;

use crate::error::{failed, failed_in_life, in_time, is_starting, ours, sqlstate};
use crate::hosts::Hosts;
use crate::sql::Sql;
use kept::IDLE_MAX;
use server::{ServerIdentity, check, read_server};

use abandoned::Opened;
pub(crate) use abandoned::{Abandoned, Session};
use kept::answers;
pub(crate) use kept::{Kept, Lent, Stock};
pub(crate) use server::{Server, fit};
use session::is_free;
pub(crate) use session::{guard, set_up, set_up_for_application, set_up_for_delivery, set_up_listener};

/// How long to wait before a server that refuses is asked again.
const CONNECT_AGAIN: Duration = Duration::from_millis(50);

/// Opens connections that belong to us alone, to whichever host is the primary, and remembers which server they lead to.
#[derive(Clone)]
pub(crate) struct Connector {
    hosts: Hosts,
    sql: Arc<Sql>,
    timeout: Duration,
    /// The highest that was ever seen.
    seen: Arc<Mutex<Option<ServerIdentity>>>,
}

impl Connector {
    pub(crate) fn new(hosts: Hosts, sql: Arc<Sql>, timeout: Duration) -> Self {
        Self { hosts, sql, timeout, seen: Arc::default() }
    }

    /// Another way to the same server.
    pub(crate) fn by_way_of(&self, hosts: Hosts) -> Self {
        let seen = *lock(&self.seen);
        Self { hosts, seen: Arc::new(Mutex::new(seen)), ..self.clone() }
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    pub(crate) fn sql(&self) -> &Sql {
        &self.sql
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// A connection named after what it is for. Refuses a replica, another cluster than before, and a server that was
    /// replaced; among several hosts also one that is read-only. The host that was the primary is asked first, then the
    /// others, each for its share of the time that is left: one that never answers must not use up all of it.
    pub(crate) async fn connect(&self, purpose: &str, lock_timeout: Option<Duration>) -> Result<PgConnection, Error> {
        Ok(self.open(Some(purpose), lock_timeout, true).await?.0)
    }

    /// The same, with what tells its session from others.
    pub(crate) async fn connect_known(
        &self,
        purpose: &str,
        lock_timeout: Option<Duration>,
    ) -> Result<(PgConnection, Session), Error> {
        self.open(Some(purpose), lock_timeout, true).await
    }

    /// The same for what may be asked of a replica as well, where it is the only host. A server that is about to start
    /// refuses for a while, and among several hosts none may be the primary yet: this retries until the time is up.
    pub(crate) async fn connect_patiently(&self) -> Result<(PgConnection, Session), Error> {
        let deadline = Instant::now() + self.timeout;
        loop {
            match self.open(None, None, self.hosts.are_several()).await {
                Err(error) if is_starting(&error) && Instant::now() + CONNECT_AGAIN < deadline => {
                    tokio::time::sleep(CONNECT_AGAIN).await;
                }
                opened => return opened,
            }
        }
    }

    async fn open(
        &self,
        purpose: Option<&str>,
        lock_timeout: Option<Duration>,
        primary: bool,
    ) -> Result<(PgConnection, Session), Error> {
        let deadline = Instant::now() + self.timeout;
        let mut wrong = Vec::new();
        let turn = self.hosts.in_turn();
        for (left, host) in (1..=turn.len() as u32).rev().zip(turn) {
            let patience = deadline.saturating_duration_since(Instant::now()) / left;
            let options = self.hosts.options(host, purpose);
            match tokio::time::timeout(patience, self.connect_to(&options, lock_timeout, primary)).await {
                Ok(Ok(connected)) => {
                    self.hosts.found(host);
                    return Ok(connected);
                }
                Ok(Err(error)) => wrong.push((host, error)),
                Err(elapsed) => {
                    wrong.push((host, Error::Unavailable { action: "connect in time", source: elapsed.into() }));
                }
            }
        }
        let error = self.hosts.none(wrong);
        self.hosts.doubts().note(&error);
        Err(error)
    }

    /// Finds out which of several hosts is the primary, for callers that cannot connect through this.
    pub(crate) async fn locate(&self, purpose: &str) -> Result<(), Error> {
        if self.hosts.are_several() {
            self.connect(purpose, None).await?;
        }
        Ok(())
    }

    async fn connect_to(
        &self,
        options: &PgConnectOptions,
        lock_timeout: Option<Duration>,
        primary: bool,
    ) -> Result<(PgConnection, Session), Error> {
        let mut connection = PgConnection::connect_with(options).await.map_err(|e| failed("connect", e))?;
        fit(connection.server_version_num())?;
        let set_up = set_up(&mut connection, &self.sql, lock_timeout).await;
        let session = set_up.map_err(|e| failed("set up a connection", e))?;
        if primary {
            self.still_primary(&mut connection).await?;
        }
        Ok((connection, session))
    }

    /// The same for what may be lost when the server crashes: commits do not wait for the disk.
    pub(crate) async fn connect_asynchronous(
        &self,
        purpose: &str,
        lock_timeout: Option<Duration>,
    ) -> Result<PgConnection, Error> {
        let mut connection = self.connect(purpose, lock_timeout).await?;
        let setting_up = sqlx::query(self.sql.asynchronous.clone()).execute(&mut connection);
        let done = in_time(self.timeout, "set up a connection in time", async { Ok(setting_up.await) }).await?;
        done.map_err(|e| failed("set up a connection", e))?;
        Ok(connection)
    }

    /// The life of the server at the other end; see `migrations/0006_life.sql`.
    pub(crate) async fn life(&self, connection: &mut PgConnection) -> Result<u64, Error> {
        let cannot_tell = |e| failed_in_life("identify the server", e);
        match ask_life(connection, &self.sql).await {
            // This life has no number yet, and the role only reads by default.
            Err(error) if sqlstate(&error).as_deref() == Some("25006") => {
                let mut tx = connection.begin_with(self.sql.life_begin.clone()).await.map_err(cannot_tell)?;
                let number = ask_life(&mut tx, &self.sql).await.map_err(cannot_tell)?;
                tx.commit().await.map_err(cannot_tell).map(|()| number)
            }
            number => number.map_err(cannot_tell),
        }
    }

    /// Whether the server at the other end is the primary, of the cluster that was seen before.
    pub(crate) async fn still_primary(&self, connection: &mut PgConnection) -> Result<(), Error> {
        self.recognise(&self.read_server(connection).await?)
    }

    /// The server at the other end.
    pub(crate) async fn read_server(&self, connection: &mut PgConnection) -> Result<Server, Error> {
        let reading = async { read_server(connection, &self.sql).await.map_err(|e| failed("identify the server", e)) };
        in_time(self.timeout, "identify the server in time", reading).await
    }

    fn recognise(&self, server: &Server) -> Result<(), Error> {
        let found = server.primary(self.hosts.are_several())?;
        let mut seen = lock(&self.seen);
        check(*seen, found)?;
        if seen.replace(found).is_some_and(|seen| seen != found) {
            self.hosts.moved();
        }
        Ok(())
    }
}

/// The number of the life that a connection leads to, drawn if there is none yet.
pub(crate) async fn ask_life(connection: &mut PgConnection, sql: &Sql) -> Result<u64, sqlx::Error> {
    let row = sqlx::query(sql.life.clone()).fetch_one(connection).await?;
    row.try_get(1).map(life)
}

/// The number of a life, as statements give it.
pub(crate) fn life(number: i64) -> u64 {
    number.cast_unsigned()
}

/// How a connection of a pool is set up.
type SetUp = for<'a> fn(&'a mut PgConnection, &'a Sql) -> BoxFuture<'a, Result<Session, sqlx::Error>>;

/// A pool of the driver's, for transactions that others hold: its connections are asked whether they are still there only
/// after a short rest, where the driver would ask every time. Those about which there are doubts are replaced. Among several
/// hosts it is kept from a server that is not the primary: it retries until its time is up, wherever it is directed
/// meanwhile.
///
/// A connection that comes back and is not free within `release` is closed: the driver would wait for its answer without an
/// end, and keep its place in the pool meanwhile. The server ends what it was at by itself; see `sql/watch_client.sql`. What it
/// does not end, a commit that waits for a replica, counts: twice as many sessions as the pool has connections are at work at
/// most.
pub(crate) fn pool_options(
    hosts: &Hosts,
    sql: &Arc<Sql>,
    connections_max: u32,
    timeout: Duration,
    release: Duration,
    set_up: SetUp,
) -> PgPoolOptions {
    let (sql, several, doubts) = (sql.clone(), hosts.are_several(), hosts.doubts().clone());
    let (returned, opened) = (sql.clone(), Arc::new(Opened::new(connections_max as usize)));
    PgPoolOptions::new()
        .after_connect(move |connection, _| {
            let (sql, opened) = (sql.clone(), opened.clone());
            Box::pin(async move {
                let session = set_up(connection, &sql).await?;
                opened.admit(connection, &sql, session).await?;
                if several && let Err(error) = read_server(connection, &sql).await?.primary(true) {
                    return Err(ours(error));
                }
                Ok(())
            })
        })
        .max_connections(connections_max)
        .acquire_timeout(timeout)
        .test_before_acquire(false)
        .before_acquire(move |connection, meta| {
            let doubted = doubts.concern(meta.age);
            Box::pin(async move {
                if !doubted && meta.idle_for > IDLE_MAX && !answers(connection, timeout / 4).await {
                    // An error, so that the driver does not try to say goodbye to a server that says nothing.
                    return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
                }
                Ok(!doubted)
            })
        })
        .after_release(move |connection, _| {
            let sql = returned.clone();
            Box::pin(async move { Ok(is_free(connection, &sql, release).await) })
        })
}
