//! Whether a connection is a dedicated session, or a pooler shares sessions behind it.
//!
//! What is set, locked or listened to in a session is lost where every transaction may get another one, without an error. So
//! it is tested: two connections that are open at once have two sessions, and keep them. Asked in the simple protocol, which
//! works through any pooler.

use std::time::Duration;

use highwater::Error;
use sqlx::postgres::{PgConnection, PgListener};
use sqlx::{Connection, Row, SqlStr};

use crate::connect::Connector;
use crate::error::{failed, in_time, sqlstate};
use crate::sql::Sql;

/// How often the first connection is asked while the second is busy.
const TRIES: usize = 3;
/// How long the second one is at it by then; a part of the time that it takes.
const HEAD_START: Duration = Duration::from_millis(5);

/// What stands between, as far as can be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Session {
    Dedicated,
    /// And what gave it away.
    Pooled(String),
}

fn stands_between(found: &str) -> String {
    format!("a pooler (PgBouncer in transaction or statement mode?) stands between: {found}")
}

/// What a pooler in the way means for listening, and what to do about it.
pub(crate) fn explain(found: &str) -> String {
    let pooler = stands_between(found);
    format!("{pooler}; new events of other processes are found by polling; give a direct URL in leadership_url")
}

/// The same for what requires a dedicated session.
pub(crate) fn no_session(found: &str) -> Error {
    let reason = format!(
        "{}; leadership hangs on a session, so give a direct URL in PgConfig::leadership_url, or let the pooler work in \
         session mode",
        stands_between(found)
    );
    Error::NoSession { reason }
}

/// What can be asked which process of the server serves it.
pub(crate) trait Served: Send {
    /// In the simple protocol.
    fn pid(&mut self, statement: &SqlStr) -> impl Future<Output = Result<i32, sqlx::Error>> + Send;
}

impl Served for PgConnection {
    async fn pid(&mut self, statement: &SqlStr) -> Result<i32, sqlx::Error> {
        sqlx::raw_sql(statement.clone()).fetch_one(self).await?.try_get(0)
    }
}

impl Served for PgListener {
    async fn pid(&mut self, statement: &SqlStr) -> Result<i32, sqlx::Error> {
        sqlx::raw_sql(statement.clone()).fetch_one(self).await?.try_get(0)
    }
}

/// Checks whether `first` is a dedicated session. `second` is another connection to the same server.
pub(crate) async fn is_own_session(
    first: &mut impl Served,
    second: &mut impl Served,
    sql: &Sql,
) -> Result<Session, sqlx::Error> {
    compare(first, second, sql).await.or_else(|error| told_by(&error).map(Session::Pooled).ok_or(error))
}

/// The same, with a second connection that is opened and closed for it.
pub(crate) async fn session(
    first: &mut PgConnection,
    way: &Connector,
    purpose: &str,
    sql: &Sql,
) -> Result<Session, Error> {
    let mut second = way.connect(purpose, None).await?;
    let asking = async {
        let found = is_own_session(first, &mut second, sql).await;
        let found = found.map_err(|e| failed("see whether a connection is a dedicated session", e))?;
        second.close().await.map_err(|e| failed("close a connection", e))?;
        Ok(found)
    };
    in_time(way.timeout(), "see in time whether a connection is a dedicated session", asking).await
}

/// Refuses a connection that a pooler lends out: what is locked on it would soon be another client's, and nobody would know.
pub(crate) async fn insist_on_session(
    connection: &mut PgConnection,
    way: &Connector,
    purpose: &str,
    sql: &Sql,
) -> Result<(), Error> {
    match session(connection, way, purpose, sql).await? {
        Session::Dedicated => Ok(()),
        Session::Pooled(found) => Err(no_session(&found)),
    }
}

async fn compare(first: &mut impl Served, second: &mut impl Served, sql: &Sql) -> Result<Session, sqlx::Error> {
    let (own, other) = (first.pid(&sql.backend_pid).await?, second.pid(&sql.backend_pid).await?);
    if own == other {
        return Ok(Session::Pooled("two connections at once are served by one process".to_owned()));
    }
    for _ in 0..TRIES {
        // A session that was lent to both in turn is busy for the second now, so the first gets another one.
        let asked_meanwhile = async {
            tokio::time::sleep(HEAD_START).await;
            first.pid(&sql.backend_pid).await
        };
        let (now, _) = tokio::try_join!(asked_meanwhile, second.pid(&sql.backend_pid_later))?;
        if now != own {
            return Ok(Session::Pooled("the process that serves a connection changes".to_owned()));
        }
    }
    Ok(Session::Dedicated)
}

/// What gives a pooler away in an error: no dedicated session forgets, or knows beforehand, what was prepared in it.
pub(crate) fn told_by(error: &sqlx::Error) -> Option<String> {
    let code = sqlstate(error)?;
    is_theirs(&code).then(|| format!("prepared statements come and go (SQLSTATE {code})"))
}

fn is_theirs(code: &str) -> bool {
    matches!(code, "26000" | "42P05")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::SchemaName;

    /// What a connection answers, one after the other.
    struct Script<'a>(std::slice::Iter<'a, i32>);

    impl Served for Script<'_> {
        async fn pid(&mut self, _: &SqlStr) -> Result<i32, sqlx::Error> {
            Ok(*self.0.next().expect("it is not asked so often"))
        }
    }

    async fn compared(first: &[i32], second: &[i32]) -> Session {
        let sql = Sql::new(&SchemaName::new("highwater").unwrap());
        is_own_session(&mut Script(first.iter()), &mut Script(second.iter()), &sql).await.unwrap()
    }

    #[tokio::test]
    async fn two_sessions_that_stay_are_their_own() {
        assert_eq!(compared(&[1; 4], &[2; 4]).await, Session::Dedicated);
    }

    #[tokio::test]
    async fn one_process_for_two_connections_is_a_pooler() {
        assert!(matches!(compared(&[1], &[1]).await, Session::Pooled(_)));
    }

    #[tokio::test]
    async fn a_process_that_changes_is_a_pooler() {
        assert!(matches!(compared(&[1, 1, 3], &[2; 3]).await, Session::Pooled(_)));
    }

    #[test]
    fn some_errors_are_only_given_by_poolers() {
        assert!(is_theirs("26000") && is_theirs("42P05"));
        assert!(!is_theirs("42P01") && !is_theirs("08P01"));
    }
}
