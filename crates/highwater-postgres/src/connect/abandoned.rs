//! Sessions that may still be at work although nobody waits for their answer any more.
//!
//! The server ends a statement whose client has gone, but not a commit that waits for a synchronous replica: that session stays
//! for as long as the replica is away. A caller that opens another connection for each of them takes all that the server has.
//! They are never ended from here: a commit whose wait is ended becomes visible although no replica has it.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use highwater::Error;
use highwater::backend::lock;
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::error::ours;
use crate::sql::Sql;

/// A session of ours, as the server tells it from others: by its process, and a time at which that belonged to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    pid: i32,
    seen: DateTime<Utc>,
}

impl Session {
    /// From the answer by which a session was set up.
    pub(super) fn of(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self { pid: row.try_get("pid")?, seen: row.try_get("seen")? })
    }
}

/// A session that is there, and what it does.
#[derive(Debug)]
struct Found {
    session: Session,
    at_work: bool,
    wait_event: Option<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} is still at what a caller had no answer to in time", self.session.pid)?;
        match self.wait_event.as_deref() {
            Some("SyncRep") => write!(
                f,
                " (wait event SyncRep): commits wait for a synchronous replica; have it started, or change \
                 synchronous_standby_names, and do not end that process"
            ),
            Some(other) => write!(f, " (wait event {other})"),
            None => Ok(()),
        }
    }
}

/// Which of some sessions are there, asked on another connection, and for how long nobody has waited for their answers.
async fn find(
    connection: &mut PgConnection,
    sql: &Sql,
    sessions: &[(Session, Duration)],
) -> Result<Vec<Found>, sqlx::Error> {
    let rows = sqlx::query(sql.sessions_found.clone())
        .bind(sessions.iter().map(|(session, _)| session.pid).collect::<Vec<_>>())
        .bind(sessions.iter().map(|(session, _)| session.seen).collect::<Vec<_>>())
        .bind(sessions.iter().map(|(_, unwaited)| unwaited.as_secs_f64()).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    let found = |row: &PgRow| {
        let (at_work, wait_event) = (row.try_get("at_work")?, row.try_get("wait_event")?);
        Ok(Found { session: Session::of(row)?, at_work, wait_event })
    };
    rows.iter().map(found).collect()
}

/// The sessions that were given up, as far as they may still be at work.
#[derive(Debug, Default)]
pub(crate) struct Abandoned {
    /// With the time since when nobody waits.
    sessions: Mutex<Vec<(Session, Instant)>>,
}

impl Abandoned {
    pub(crate) fn note(&self, session: Session) {
        lock(&self.sessions).push((session, Instant::now()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.sessions).is_empty()
    }

    /// What the first of them does, if so many are at work at this moment. Those that are not are forgotten.
    pub(crate) async fn at_work(
        &self,
        connection: &mut PgConnection,
        sql: &Sql,
        so_many: usize,
    ) -> Result<Option<String>, sqlx::Error> {
        let asked = lock(&self.sessions).clone();
        if asked.len() < so_many {
            return Ok(None);
        }
        let unwaited: Vec<_> = asked.iter().map(|(session, since)| (*session, since.elapsed())).collect();
        let mut found = find(connection, sql, &unwaited).await?;
        found.retain(|found| found.at_work);
        let is_over =
            |one: &(Session, Instant)| asked.contains(one) && !found.iter().any(|found| found.session == one.0);
        lock(&self.sessions).retain(|one| !is_over(one));
        Ok(found.first().filter(|_| found.len() >= so_many).map(ToString::to_string))
    }

    /// Notes a session unless it is said to be [done](UnderWay::done): also when the caller stops waiting.
    pub(crate) fn unless_done(&self, session: Session) -> UnderWay<'_> {
        UnderWay { abandoned: self, session: Some(session) }
    }
}

/// A session whose answer is waited for.
pub(crate) struct UnderWay<'a> {
    abandoned: &'a Abandoned,
    session: Option<Session>,
}

impl UnderWay<'_> {
    pub(crate) fn done(mut self) {
        self.session = None;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session {
            self.abandoned.note(session);
        }
    }
}

/// The sessions that a pool of the driver's has opened, as far as they are there.
pub(super) struct Opened {
    sessions: Mutex<Vec<Session>>,
    /// How many connections the pool has at most.
    max: usize,
}

impl Opened {
    pub(super) fn new(max: usize) -> Self {
        Self { sessions: Mutex::default(), max }
    }

    /// Refuses a new one while more of the others are at work than the pool has: those are not waited for any more.
    pub(super) async fn admit(
        &self,
        connection: &mut PgConnection,
        sql: &Sql,
        session: Session,
    ) -> Result<(), sqlx::Error> {
        let asked = lock(&self.sessions).clone();
        if asked.len() > self.max {
            let at_any_time: Vec<_> = asked.iter().map(|session| (*session, Duration::ZERO)).collect();
            let found = find(connection, sql, &at_any_time).await?;
            let is_gone =
                |session: &Session| asked.contains(session) && !found.iter().any(|found| found.session == *session);
            lock(&self.sessions).retain(|session| !is_gone(session));
            if found.iter().filter(|found| found.at_work).count() > self.max {
                let action = "open another connection: earlier ones are still at work, as `highwater doctor` shows";
                let source = found.iter().find(|found| found.at_work).map(ToString::to_string).unwrap_or_default();
                return Err(ours(Error::Unavailable { action, source: source.into() }));
            }
        }
        lock(&self.sessions).push(session);
        Ok(())
    }
}
