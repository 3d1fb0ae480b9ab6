//! Connections of our own, and who is at the other end of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use highwater::Error;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Row};

use crate::error::failed;
use crate::row::unsigned;
use crate::sql::Sql;
use crate::write::IDLE_MAX;

/// How long a transaction of ours may be left idle before the server ends it.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(5);

/// Opens connections that belong to us alone, and remembers which server they lead to.
#[derive(Clone)]
pub(crate) struct Connector {
    options: PgConnectOptions,
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
    pub(crate) fn new(options: &PgConnectOptions, sql: Arc<Sql>, timeout: Duration) -> Self {
        Self { options: options.clone().disable_statement_logging(), sql, timeout, seen: Arc::default() }
    }

    /// A connection named after what it is for. Refuses a replica, another cluster than before, and a server that was
    /// replaced.
    pub(crate) async fn connect(
        &self,
        purpose: &str,
        lock_timeout: Option<Duration>,
    ) -> Result<(PgConnection, Incarnation), Error> {
        let name = self.options.get_application_name().unwrap_or("highwater");
        let options = self.options.clone().application_name(&format!("{name} {purpose}"));
        let connect = async {
            let mut connection = PgConnection::connect_with(&options).await.map_err(|e| failed("connect", e))?;
            set_up(&mut connection, &self.sql, lock_timeout).await.map_err(|e| failed("set up a connection", e))?;
            let incarnation = self.identify(&mut connection).await?;
            Ok((connection, incarnation))
        };
        match tokio::time::timeout(self.timeout, connect).await {
            Ok(connected) => connected,
            Err(elapsed) => Err(Error::Unavailable { action: "connect in time", source: elapsed.into() }),
        }
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

    async fn identify(&self, connection: &mut PgConnection) -> Result<Incarnation, Error> {
        let row = sqlx::query(self.sql.incarnation.clone())
            .fetch_one(connection)
            .await
            .map_err(|e| failed("identify the server", e))?;
        let read = |e| failed("identify the server", e);
        let Some(timeline) = row.try_get(1).map_err(read)? else {
            return Err(Error::NotPrimary { reason: "the server is a replica, in recovery".to_owned() });
        };
        let found = Incarnation {
            system: row.try_get(0).map_err(read)?,
            timeline,
            started_micros: row.try_get(2).map_err(read)?,
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        check(*seen, found)?;
        *seen = Some(found);
        Ok(found)
    }
}

/// A pool whose connections are asked whether they are still there only after a short rest: the driver would ask every time.
pub(crate) fn pool_options(connections_max: u32, timeout: Duration) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(timeout)
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > IDLE_MAX {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
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
