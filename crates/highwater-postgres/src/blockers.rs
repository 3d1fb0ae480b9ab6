//! Which sessions others wait for: a transaction of another program, left open, that has locked what a statement of ours needs.

use std::fmt;
use std::time::Duration;

use highwater::backend::LockHolder;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Row, SqlStr};

use crate::sql::Sql;

/// How long to look for them, when something has waited for long enough already.
pub(crate) const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// A session that others wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blocker {
    session: LockHolder,
    /// The table that it has locked, if it is a whole one.
    table: Option<String>,
    /// Whether that cannot even be read.
    pub(crate) wholly: bool,
}

impl Blocker {
    /// What to do about it.
    pub(crate) fn advice(&self) -> String {
        match self.session.pid {
            Some(pid) => format!("have its transaction end, or SELECT pg_terminate_backend({pid})"),
            None => "look for it in pg_prepared_xacts, and commit it or roll it back".to_owned(),
        }
    }
}

/// `process 4711 (psql, role "intern") has locked the table events`
impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.session.pid, &self.table) {
            (Some(_), _) => write!(f, "{}", self.session)?,
            (None, _) => f.write_str("a prepared transaction")?,
        }
        match &self.table {
            Some(table) => write!(f, " has locked the table {table}"),
            None => f.write_str(" has a lock that others wait for"),
        }
    }
}

/// Those that anything of ours waits for at this moment. It waits for nothing itself.
pub(crate) async fn blockers(connection: &mut PgConnection, sql: &Sql) -> Result<Vec<Blocker>, sqlx::Error> {
    ask(connection, &sql.blockers, None).await
}

/// What keeps a subscriber's checkpoint locked, in words for an error. By now it may be over.
pub(crate) async fn of_checkpoint(
    connection: &mut PgConnection,
    sql: &Sql,
    subscriber_id: &str,
) -> Result<Option<String>, sqlx::Error> {
    let found = blockers(connection, sql).await?;
    match found.iter().any(|blocker| blocker.table.is_some()) {
        true => Ok(in_words(&found)),
        false => Ok(in_words(&ask(connection, &sql.checkpoint_holders, Some(subscriber_id)).await?)),
    }
}

/// What keeps anything of ours waiting, in words for an error.
pub(crate) async fn of_anything(connection: &mut PgConnection, sql: &Sql) -> Result<Option<String>, sqlx::Error> {
    Ok(in_words(&blockers(connection, sql).await?))
}

fn in_words(found: &[Blocker]) -> Option<String> {
    let first = found.first()?;
    Some(format!("{first}: {}", first.advice()))
}

async fn ask(
    connection: &mut PgConnection,
    statement: &SqlStr,
    subscriber_id: Option<&str>,
) -> Result<Vec<Blocker>, sqlx::Error> {
    let mut query = sqlx::query(statement.clone());
    if let Some(id) = subscriber_id {
        query = query.bind(id);
    }
    query.fetch_all(connection).await?.iter().map(blocker).collect()
}

fn blocker(row: &PgRow) -> Result<Blocker, sqlx::Error> {
    let mut session = LockHolder::of("");
    session.pid = row.try_get::<Option<i32>, _>(0)?.and_then(|pid| u32::try_from(pid).ok());
    (session.role, session.application_name) = (row.try_get(1)?, row.try_get(2)?);
    Ok(Blocker { session, table: row.try_get(3)?, wholly: row.try_get(4)? })
}
