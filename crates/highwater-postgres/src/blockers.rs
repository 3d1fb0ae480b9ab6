//! Which sessions others wait for: a transaction of another program, left open, that has locked what a statement of ours needs.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use highwater::backend::{LockHolder, START_REPLICA};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::sql::Sql;

/// How long to look for them, when something has waited for long enough already.
pub(crate) const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// Sessions that are named where it may be any of them.
const NAMED_MAX: usize = 3;

/// A session that others wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blocker {
    session: LockHolder,
    /// The table that it has locked, if it is a whole one.
    table: Option<String>,
    /// Whether that cannot even be read.
    pub(crate) wholly: bool,
    /// Whether it is about to commit, and waits for a synchronous replica.
    waits_for_replica: bool,
}

impl Blocker {
    /// Its process, or that it has none.
    fn who(&self) -> String {
        match self.session.pid {
            Some(_) => self.session.to_string(),
            None => "a prepared transaction".to_owned(),
        }
    }

    /// What to do about it.
    pub(crate) fn advice(&self) -> String {
        match self.session.pid {
            _ if self.waits_for_replica => START_REPLICA.to_owned(),
            Some(pid) => format!("have its transaction end, or SELECT pg_terminate_backend({pid})"),
            None => "look for it in pg_prepared_xacts, and commit it or roll it back".to_owned(),
        }
    }
}

/// `process 4711 (psql, role "intern") has locked the table events`
impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.who())?;
        match &self.table {
            Some(table) => write!(f, " has locked the table {table}"),
            None => f.write_str(" has a lock that others wait for"),
        }?;
        if self.waits_for_replica { f.write_str(", and its commit waits for a synchronous replica") } else { Ok(()) }
    }
}

/// Those that anything of ours waits for at this moment. It waits for nothing itself.
pub(crate) async fn blockers(connection: &mut PgConnection, sql: &Sql) -> Result<Vec<Blocker>, sqlx::Error> {
    let rows = sqlx::query(sql.blockers.clone()).fetch_all(connection).await?;
    let blocker = |row: &PgRow| {
        let (table, wholly, waits_for_replica) = (row.try_get(3)?, row.try_get(4)?, row.try_get(5)?);
        Ok(Blocker { session: session(row)?, table, wholly, waits_for_replica })
    };
    rows.iter().map(blocker).collect()
}

/// What keeps anything of ours waiting, in words for an error.
pub(crate) async fn of_anything(connection: &mut PgConnection, sql: &Sql) -> Result<Option<String>, sqlx::Error> {
    let found = blockers(connection, sql).await?;
    // A lock on a whole table more likely than one that something else waits for.
    let first = found.iter().find(|blocker| blocker.table.is_some()).or(found.first());
    Ok(first.map(|first| format!("{first}: {}", first.advice())))
}

/// What keeps the checkpoints of subscribers locked, in words for errors. By now it may be over.
pub(crate) async fn of_checkpoints(
    connection: &mut PgConnection,
    sql: &Sql,
    subscriber_ids: &[&str],
) -> Result<Holders, sqlx::Error> {
    let mut holders = Holders::default();
    let found = blockers(connection, sql).await?;
    if let Some(table) = found.iter().find(|blocker| blocker.table.is_some()) {
        holders.all = Some(format!("{table}: {}", table.advice()));
        return Ok(holders);
    }
    let rows = sqlx::query(sql.checkpoint_holders.clone()).bind(subscriber_ids).fetch_all(connection).await?;
    let mut perhaps = Vec::new();
    for row in &rows {
        let blocker =
            Blocker { session: session(row)?, table: None, wholly: false, waits_for_replica: row.try_get(4)? };
        match row.try_get::<Option<String>, _>(3)? {
            Some(id) => drop(holders.each.insert(id, format!("{blocker}: {}", blocker.advice()))),
            None => perhaps.push(blocker),
        }
    }
    holders.all = match &perhaps[..] {
        [] => None,
        [one] => Some(format!("{one}: {}", one.advice())),
        several => {
            let named: Vec<String> = several.iter().take(NAMED_MAX).map(Blocker::who).collect();
            Some(format!("one of {}: {}", named.join(", "), several[0].advice()))
        }
    };
    Ok(holders)
}

/// Who keeps checkpoints locked.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    each: HashMap<String, String>,
    /// Of those that are not known by themselves.
    all: Option<String>,
}

impl Holders {
    pub(crate) fn of(&self, subscriber_id: &str) -> Option<String> {
        self.each.get(subscriber_id).or(self.all.as_ref()).cloned()
    }
}

fn session(row: &PgRow) -> Result<LockHolder, sqlx::Error> {
    let mut session = LockHolder::of("");
    session.pid = row.try_get::<Option<i32>, _>(0)?.and_then(|pid| u32::try_from(pid).ok());
    (session.role, session.application_name) = (row.try_get(1)?, row.try_get(2)?);
    Ok(session)
}
