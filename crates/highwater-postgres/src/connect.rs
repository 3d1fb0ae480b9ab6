//! Connections of our own, and who is at the other end of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use highwater::Error;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{Connection, Row};
use tokio::time::Instant;

use crate::error::failed;
use crate::hosts::{Doubts, Hosts};
use crate::row::unsigned;
use crate::sql::Sql;
use crate::write::IDLE_MAX;

/// How long a transaction of ours may be left idle before the server ends it.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(5);

/// The oldest server that has everything we use, as it numbers itself.
const VERSION_MIN: u32 = 140_000;

/// Opens connections that belong to us alone, to whichever host is the primary, and remembers which server they lead to.
#[derive(Clone)]
pub(crate) struct Connector {
    hosts: Hosts,
    sql: Arc<Sql>,
    timeout: Duration,
    /// The highest that was ever seen.
    seen: Arc<Mutex<Option<Incarnation>>>,
}

/// Which server, in which life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Incarnation {
    system: i64,
    timeline: i32,
    started_micros: i64,
}

impl Incarnation {
    /// One number for all of it: the microsecond in which the server was started. A restart changes it, and so does a
    /// failover, because a replica that was promoted was started at a time of its own; and a statement can compare it by
    /// itself with `pg_postmaster_start_time()`.
    pub(crate) fn number(self) -> u64 {
        unsigned(self.started_micros)
    }
}

/// The number of the life that a server began at this time.
pub(crate) fn life(started: DateTime<Utc>) -> u64 {
    unsigned(started.timestamp_micros())
}

impl Connector {
    pub(crate) fn new(hosts: Hosts, sql: Arc<Sql>, timeout: Duration) -> Self {
        Self { hosts, sql, timeout, seen: Arc::default() }
    }

    /// Another way to the same server.
    pub(crate) fn by_way_of(&self, hosts: Hosts) -> Self {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Self { hosts, seen: Arc::new(Mutex::new(seen)), ..self.clone() }
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether a connection that was opened then may lead to a server that was replaced since.
    pub(crate) fn doubts(&self, opened: Instant) -> bool {
        self.hosts.doubts().concern(opened.elapsed())
    }

    /// A connection named after what it is for. Refuses a replica, another cluster than before, and a server that was
    /// replaced; among several hosts also one that is read-only. The host that was the primary is asked first, then the
    /// others, each for its share of the time that is left: one that never answers must not use up all of it.
    pub(crate) async fn connect(
        &self,
        purpose: &str,
        lock_timeout: Option<Duration>,
    ) -> Result<(PgConnection, Incarnation), Error> {
        let deadline = Instant::now() + self.timeout;
        let mut wrong = Vec::new();
        let turn = self.hosts.in_turn();
        for (left, host) in (1..=turn.len() as u32).rev().zip(turn) {
            let patience = deadline.saturating_duration_since(Instant::now()) / left;
            let options = self.hosts.options(host, Some(purpose));
            match tokio::time::timeout(patience, self.connect_to(&options, lock_timeout)).await {
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

    /// Makes sure which of several hosts is the primary, for whoever cannot connect through this.
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
    ) -> Result<(PgConnection, Incarnation), Error> {
        let mut connection = PgConnection::connect_with(options).await.map_err(|e| failed("connect", e))?;
        fit(connection.server_version_num())?;
        set_up(&mut connection, &self.sql, lock_timeout).await.map_err(|e| failed("set up a connection", e))?;
        let server = self.look(&mut connection).await?;
        Ok((connection, self.recognise(&server)?))
    }

    /// The same for what may be lost when the server crashes: commits do not wait for the disk.
    pub(crate) async fn connect_asynchronous(
        &self,
        purpose: &str,
        lock_timeout: Option<Duration>,
    ) -> Result<(PgConnection, Incarnation), Error> {
        let (mut connection, incarnation) = self.connect(purpose, lock_timeout).await?;
        let done = sqlx::query(self.sql.asynchronous.clone()).execute(&mut connection).await;
        done.map_err(|e| failed("set up a connection", e))?;
        Ok((connection, incarnation))
    }

    /// Whether the server at the other end is what it was when the connection was opened.
    pub(crate) async fn still_primary(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let server = self.look(connection).await?;
        self.recognise(&server).map(|_| ())
    }

    /// Who is at the other end.
    pub(crate) async fn look(&self, connection: &mut PgConnection) -> Result<Server, Error> {
        look(connection, &self.sql).await.map_err(|e| failed("identify the server", e))
    }

    fn recognise(&self, server: &Server) -> Result<Incarnation, Error> {
        let found = server.primary(self.hosts.are_several())?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        check(*seen, found)?;
        if seen.replace(found).is_some_and(|seen| seen != found) {
            self.hosts.moved();
        }
        Ok(found)
    }
}

/// What a server says of itself.
pub(crate) struct Server {
    system: i64,
    /// None in recovery.
    timeline: Option<i32>,
    started_micros: i64,
    read_only: bool,
    database: String,
}

impl Server {
    fn primary(&self, writable: bool) -> Result<Incarnation, Error> {
        let Some(timeline) = self.timeline else {
            return Err(Error::NotPrimary { reason: "the server is a replica, in recovery".to_owned() });
        };
        if writable && self.read_only {
            return Err(Error::NotPrimary { reason: "the server is read-only".to_owned() });
        }
        Ok(Incarnation { system: self.system, timeline, started_micros: self.started_micros })
    }

    /// What is different about another one, in words, unless both are the same database of the same cluster.
    pub(crate) fn differs_from(&self, other: &Self) -> Option<String> {
        let place = |server: &Self| format!("database {:?} of cluster {}", server.database, server.system);
        let same = (self.system, &self.database) == (other.system, &other.database);
        (!same).then(|| format!("{} instead of {}", place(self), place(other)))
    }
}

async fn look(connection: &mut PgConnection, sql: &Sql) -> Result<Server, sqlx::Error> {
    let row = sqlx::query(sql.incarnation.clone()).fetch_one(connection).await?;
    Ok(Server {
        system: row.try_get(0)?,
        timeline: row.try_get(1)?,
        started_micros: row.try_get(2)?,
        read_only: row.try_get(3)?,
        database: row.try_get(4)?,
    })
}

/// Refuses a server that is too old. One that does not say how old it is gets the benefit of the doubt.
pub(crate) fn fit(version: Option<u32>) -> Result<(), Error> {
    match version {
        Some(version) if version < VERSION_MIN => {
            // Since 10 the last four digits are the minor version, before that there were two of two.
            let (major, minor) =
                (version / 10_000, if version < 100_000 { version / 100 % 100 } else { version % 10_000 });
            let reason = format!(
                "the server is PostgreSQL {major}.{minor}, and {} or later is needed; upgrade the server",
                VERSION_MIN / 10_000
            );
            Err(Error::Unfit { reason })
        }
        _ => Ok(()),
    }
}

/// A pool whose connections are asked whether they are still there only after a short rest: the driver would ask every
/// time. Those about which there are doubts are replaced.
pub(crate) fn pool_options(connections_max: u32, timeout: Duration, doubts: Doubts) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(timeout)
        .test_before_acquire(false)
        .before_acquire(move |connection, meta| {
            let doubted = doubts.concern(meta.age);
            Box::pin(async move {
                if !doubted && meta.idle_for > IDLE_MAX {
                    connection.ping().await?;
                }
                Ok(!doubted)
            })
        })
}

/// Among several hosts, keeps a pool from a server that is not the primary. The pool tries again until its time is up, and
/// wherever it is directed meanwhile.
pub(crate) async fn insist_on_primary(
    connection: &mut PgConnection,
    sql: &Sql,
    several: bool,
) -> Result<(), sqlx::Error> {
    if several && let Err(error) = look(connection, sql).await?.primary(true) {
        return Err(sqlx::Error::Configuration(error.into()));
    }
    Ok(())
}

/// The settings that every connection of ours has; see `sql/session.sql`.
pub(crate) async fn set_up(
    connection: &mut PgConnection,
    sql: &Sql,
    lock_timeout: Option<Duration>,
) -> Result<(), sqlx::Error> {
    session(connection, sql, lock_timeout, IDLE_IN_TRANSACTION, false).await
}

/// The same for connections on which handlers work: they may take longer, and when they are given up, the server is to
/// notice.
pub(crate) async fn set_up_for_delivery(
    connection: &mut PgConnection,
    sql: &Sql,
    lock_timeout: Duration,
    idle_in_transaction: Duration,
) -> Result<(), sqlx::Error> {
    session(connection, sql, Some(lock_timeout), idle_in_transaction, false).await?;
    match sqlx::query(sql.watch_client.clone()).execute(connection).await {
        Err(error) if error.as_database_error().is_some() => {
            tracing::debug!(%error, "the server cannot notice by itself that a client has gone");
            Ok(())
        }
        done => done.map(|_| ()),
    }
}

/// The same for a transaction of the caller's, until it ends.
pub(crate) async fn guard(transaction: &mut PgConnection, sql: &Sql) -> Result<(), sqlx::Error> {
    session(transaction, sql, None, IDLE_IN_TRANSACTION, true).await
}

async fn session(
    connection: &mut PgConnection,
    sql: &Sql,
    lock_timeout: Option<Duration>,
    idle_in_transaction: Duration,
    local: bool,
) -> Result<(), sqlx::Error> {
    sqlx::query(sql.session.clone())
        .bind(lock_timeout.map(|timeout| timeout.as_millis().to_string()))
        .bind(local)
        .bind(i32::try_from(idle_in_transaction.as_millis()).unwrap_or(i32::MAX))
        .execute(connection)
        .await?;
    Ok(())
}

/// A server that answers under the same address must be the same cluster, and not an older life of it.
fn check(seen: Option<Incarnation>, found: Incarnation) -> Result<(), Error> {
    let Some(seen) = seen else { return Ok(()) };
    if found.system != seen.system {
        let reason =
            format!("another database cluster answers (system identifier {} instead of {})", found.system, seen.system);
        return Err(Error::Interrupted { reason });
    }
    if found.timeline < seen.timeline {
        let reason = format!(
            "the server is on timeline {}, but {} has been seen: it was replaced",
            found.timeline, seen.timeline
        );
        return Err(Error::NotPrimary { reason });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_timeline_and_another_cluster_are_refused() {
        let seen = Incarnation { system: 7, timeline: 3, started_micros: 1 };
        assert!(check(None, seen).is_ok());
        assert!(check(Some(seen), Incarnation { started_micros: 2, ..seen }).is_ok());
        assert!(check(Some(seen), Incarnation { timeline: 4, ..seen }).is_ok());
        assert!(matches!(check(Some(seen), Incarnation { timeline: 2, ..seen }), Err(Error::NotPrimary { .. })));
        assert!(matches!(check(Some(seen), Incarnation { system: 8, ..seen }), Err(Error::Interrupted { .. })));
    }

    #[test]
    fn a_server_is_refused_by_what_it_is_and_among_several_by_what_it_may() {
        let server = |timeline, read_only| Server {
            system: 7,
            timeline,
            started_micros: 1,
            read_only,
            database: "shop".to_owned(),
        };
        assert!(server(Some(3), false).primary(true).is_ok());
        assert!(server(Some(3), true).primary(false).is_ok());
        assert!(matches!(server(Some(3), true).primary(true), Err(Error::NotPrimary { .. })));
        assert!(matches!(server(None, false).primary(false), Err(Error::NotPrimary { .. })));
    }

    #[test]
    fn the_same_database_of_the_same_cluster_is_the_same_place() {
        let server = |system, timeline, database: &str| Server {
            system,
            timeline,
            started_micros: 1,
            read_only: false,
            database: database.to_owned(),
        };
        let shop = server(7, Some(3), "shop");
        assert_eq!(server(7, None, "shop").differs_from(&shop), None);
        let words = server(7, Some(3), "till").differs_from(&shop).unwrap();
        assert_eq!(words, r#"database "till" of cluster 7 instead of database "shop" of cluster 7"#);
        assert!(server(8, Some(3), "shop").differs_from(&shop).is_some());
    }

    #[test]
    fn an_old_server_is_refused_with_its_version_and_the_one_that_is_needed() {
        for (version, named) in [(130_014, "13.14"), (100_001, "10.1"), (90_624, "9.6"), (139_999, "13.9999")] {
            let Err(Error::Unfit { reason }) = fit(Some(version)) else { panic!("{version} is too old") };
            assert!(reason.contains(&format!("PostgreSQL {named},")) && reason.contains("14 or later"), "{reason}");
        }
        for version in [Some(140_000), Some(150_018), Some(180_000), None] {
            assert!(fit(version).is_ok(), "{version:?}");
        }
    }

    #[test]
    fn every_life_of_a_server_has_a_number_of_its_own() {
        let life = Incarnation { system: 7, timeline: 3, started_micros: 1 };
        assert_eq!(life.number(), life.number());
        assert_ne!(life.number(), Incarnation { started_micros: 2, ..life }.number());
    }

    #[test]
    fn a_life_is_numbered_alike_wherever_it_is_read() {
        let began = DateTime::from_timestamp_micros(1_790_000_000_123_456).unwrap();
        let read = Incarnation { system: 7, timeline: 3, started_micros: 1_790_000_000_123_456 };
        assert_eq!(life(began), read.number());
    }
}
