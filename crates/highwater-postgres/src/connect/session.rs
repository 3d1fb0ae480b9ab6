//! What every session and transaction of the store is like; see `sql/session.sql`.

use std::time::Duration;

use highwater::{Error, Invalid};
use sqlx::Postgres;
use sqlx::Row;
use sqlx::postgres::{PgArguments, PgConnection, PgListener, PgQueryResult, PgRow};
use sqlx::query::Query;

use super::Session;
use crate::error::failed;
use crate::sql::Sql;

/// How long a transaction of ours may be left idle before the server ends it.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(5);

/// The settings that every connection of ours has.
pub(crate) async fn set_up(
    connection: &mut PgConnection,
    sql: &Sql,
    lock_timeout: Option<Duration>,
) -> Result<Session, sqlx::Error> {
    let row = session(connection, sql, lock_timeout, IDLE_IN_TRANSACTION, Whose::Ours).await?;
    watch_client(connection, sql).await?;
    Session::of(&row)
}

/// The same for the connection that listens, once it is known to be a session: behind some poolers setting it up fails.
pub(crate) async fn set_up_listener(listener: &mut PgListener, sql: &Sql) -> Result<(), sqlx::Error> {
    settings(sql, None, IDLE_IN_TRANSACTION, Whose::Ours).execute(&mut *listener).await?;
    watched(sqlx::query(sql.watch_client.clone()).execute(listener).await)
}

/// The same for connections on which the application has its own transactions.
pub(crate) async fn set_up_for_application(connection: &mut PgConnection, sql: &Sql) -> Result<Session, sqlx::Error> {
    let row = session(connection, sql, None, IDLE_IN_TRANSACTION, Whose::Application).await?;
    watch_client(connection, sql).await?;
    Session::of(&row)
}

/// Whether a connection answers within a time, and outside of any transaction. The driver does not roll back a `BEGIN` whose
/// answer it has not seen: what the connection's next user wrote without a transaction would never be committed.
pub(super) async fn is_free(connection: &mut PgConnection, sql: &Sql, patience: Duration) -> bool {
    let asking = sqlx::raw_sql(sql.no_transaction.clone()).fetch_one(connection);
    match tokio::time::timeout(patience, asking).await {
        Ok(Ok(row)) => row.try_get(0).unwrap_or(false),
        Ok(Err(_)) | Err(_) => false,
    }
}

/// The same for connections on which handlers work: they may take longer.
pub(crate) async fn set_up_for_delivery(
    connection: &mut PgConnection,
    sql: &Sql,
    lock_timeout: Duration,
    idle_in_transaction: Duration,
) -> Result<Session, sqlx::Error> {
    let row = session(connection, sql, Some(lock_timeout), idle_in_transaction, Whose::Handlers).await?;
    watch_client(connection, sql).await?;
    Session::of(&row)
}

/// Lets the server end what waits for a lock when its client has given up: each such session would take up a connection for as long as
/// the lock is held.
async fn watch_client(connection: &mut PgConnection, sql: &Sql) -> Result<(), sqlx::Error> {
    watched(sqlx::query(sql.watch_client.clone()).execute(connection).await)
}

fn watched(set: Result<PgQueryResult, sqlx::Error>) -> Result<(), sqlx::Error> {
    match set {
        Err(error) if error.as_database_error().is_some() => {
            tracing::debug!(%error, "the server cannot notice by itself that a client has gone");
            Ok(())
        }
        done => done.map(|_| ()),
    }
}

/// The same for a transaction of the caller's, until it ends. One that does not see what others commit meanwhile is refused:
/// it would take a stream that has grown for what it was, and find conflicts where there are none.
pub(crate) async fn guard(transaction: &mut PgConnection, sql: &Sql) -> Result<(), Error> {
    let settled = session(transaction, sql, None, IDLE_IN_TRANSACTION, Whose::Caller).await;
    let isolation = settled.and_then(|row| row.try_get::<String, _>("isolation"));
    match isolation.map_err(|error| failed("append", error))? {
        level if level == "READ COMMITTED" || level == "READ UNCOMMITTED" => Ok(()),
        level => Err(Invalid::Isolation(level).into()),
    }
}

/// Whose transactions settings are for.
#[derive(Clone, Copy, PartialEq)]
enum Whose {
    Ours,
    /// Ours, in which handlers of the application work.
    Handlers,
    Application,
    /// The one that is open, and no other.
    Caller,
}

/// Settles what a session or a transaction is like, and says how that is isolated and which session it is.
async fn session(
    connection: &mut PgConnection,
    sql: &Sql,
    lock_timeout: Option<Duration>,
    idle_in_transaction: Duration,
    whose: Whose,
) -> Result<PgRow, sqlx::Error> {
    settings(sql, lock_timeout, idle_in_transaction, whose).fetch_one(connection).await
}

fn settings(
    sql: &Sql,
    lock_timeout: Option<Duration>,
    idle_in_transaction: Duration,
    whose: Whose,
) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(sql.session.clone())
        .bind(lock_timeout.map(|timeout| timeout.as_millis().to_string()))
        .bind(whose == Whose::Caller)
        .bind(i32::try_from(idle_in_transaction.as_millis()).unwrap_or(i32::MAX))
        .bind(matches!(whose, Whose::Application | Whose::Caller))
        .bind(whose == Whose::Ours)
}
