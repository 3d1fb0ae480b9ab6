//! A connection that stores one group after the other.

use std::sync::Arc;
use std::time::Duration;

use highwater::Error;
use highwater::backend::{Prepared, QueuedAppend, SharedError};
use sqlx::postgres::PgConnection;
use tokio::time::Instant;
use uuid::Uuid;

use super::{announce, costs_the_connection, events};
use crate::connect::{Abandoned, Connector, Kept, Session};
use crate::error::{append_failed, failed, in_time, sqlstate};
use crate::sql::Sql;
use crate::wakeups::Announcer;
use crate::write::{self, Alone, Outcome};

/// How long a group may wait for a row that another transaction is inserting. Streams that exist are never waited for;
/// this is for two transactions that create the same one.
const HELD_MAX: Duration = Duration::from_millis(50);

/// How long a session that was given up may take to end before callers are told of it, and how often to look.
const ENDING_MAX: Duration = Duration::from_millis(250);
const LOOK_AGAIN: Duration = Duration::from_millis(25);

/// What a caller is told whose append was not sent.
pub(super) const NOT_SENT: &str = "append, and nothing of it was sent";

pub(super) struct Lane {
    connector: Connector,
    sql: Arc<Sql>,
    announcer: Announcer,
    timeout: Duration,
    connection: Option<Kept<Session>>,
    /// The session whose answer this lane gave up to wait for. While it is at work nothing is sent: each append that waits as
    /// long as that one would take another connection of the server's.
    abandoned: Abandoned,
}

/// A lane that has answered all callers of its group that it could answer.
pub(super) struct Done {
    pub(super) lane: Lane,
    /// The streams of the group.
    pub(super) streams: Vec<Uuid>,
    /// How many callers and events the group had.
    pub(super) answered: usize,
    pub(super) events: usize,
    /// Streams that another transaction holds.
    pub(super) held: Vec<Uuid>,
    /// The callers that have to wait for them.
    pub(super) wait: Vec<QueuedAppend>,
    /// The callers that may be sent again.
    pub(super) again: Vec<QueuedAppend>,
}

impl Lane {
    pub(super) fn new(connector: Connector, sql: Arc<Sql>, announcer: Announcer, timeout: Duration) -> Self {
        Self { connector, sql, announcer, timeout, connection: None, abandoned: Abandoned::default() }
    }

    /// Stores a group and comes back for more.
    pub(super) async fn store(self, group: Vec<QueuedAppend>) -> Done {
        let streams = group.iter().flat_map(QueuedAppend::streams).collect();
        let (answered, events) = (group.len(), events(&group));
        let mut done =
            Done { lane: self, streams, answered, events, held: Vec::new(), wait: Vec::new(), again: Vec::new() };
        match done.lane.connect().await {
            Ok(()) => done.store_group(group).await,
            Err(error) => refuse(group, error),
        }
        done
    }

    /// Makes sure of a connection, before anything is sent on it, and that no other one is at work.
    async fn connect(&mut self) -> Result<(), Error> {
        let opening = self.connector.connect_known("append", Some(HELD_MAX));
        let mut kept = Kept::or_new(self.connection.take(), &self.connector, opening).await?;
        let found = match self.abandoned.is_empty() {
            true => None,
            false => self.still_at_work(&mut kept).await?,
        };
        self.connection = Some(kept);
        match found {
            Some(found) => Err(Error::Unavailable { action: NOT_SENT, source: found.into() }),
            None => Ok(()),
        }
    }

    /// What the session does that was given up, if it does not end within a moment: it may only have to notice that its client
    /// has gone.
    async fn still_at_work(&self, kept: &mut Kept<Session>) -> Result<Option<String>, Error> {
        let until = Instant::now() + ENDING_MAX;
        in_time(self.connector.timeout(), "see in time whether an earlier append is still at work", async {
            loop {
                let looked = self.abandoned.at_work(kept.connection(), &self.sql, 1).await;
                match looked.map_err(|e| failed("see whether an earlier append is still at work", e))? {
                    Some(_) if Instant::now() < until => tokio::time::sleep(LOOK_AGAIN).await,
                    found => return Ok(found),
                }
            }
        })
        .await
    }

    /// Does not wait for an answer any more. The session may still be at work.
    fn give_up(&mut self) {
        if let Some(kept) = self.connection.take() {
            self.abandoned.note(kept.known);
        }
    }

    /// Gives up the connection if an error costs it. Only where no answer was seen something may still be under way.
    fn after(&mut self, error: &Error) {
        match error {
            Error::UnknownOutcome { .. } => self.give_up(),
            error if costs_the_connection(error) => self.connection = None,
            _ => {}
        }
    }

    /// Whether it sends nothing at the moment.
    pub(super) fn is_waiting(&self) -> bool {
        !self.abandoned.is_empty()
    }

    fn connection(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("connect() came before").connection()
    }
}

impl Done {
    async fn store_group(&mut self, group: Vec<QueuedAppend>) {
        let outcome = {
            let appends: Vec<&Prepared> = group.iter().map(|request| &request.append).collect();
            let (sql, timeout) = (self.lane.sql.clone(), self.lane.timeout);
            tokio::time::timeout(timeout, write::store(self.lane.connection(), &sql, &appends, None)).await
        };
        match outcome {
            Ok(Ok(Outcome::Stored(answers))) => {
                announce(&self.lane.announcer, &answers);
                for (request, answer) in group.into_iter().zip(answers) {
                    request.answer(Ok(answer));
                }
            }
            Ok(Ok(Outcome::Held(streams))) => {
                self.held = streams;
                self.again = group;
            }
            Ok(Ok(Outcome::Conflict(heads))) => {
                let (concerned, rest): (Vec<_>, Vec<_>) =
                    group.into_iter().partition(|request| request.append.conflict(&heads).is_some());
                // Were the database and this library ever to disagree about an expectation, going singly tells each caller
                // something; going again would be for ever.
                let (again, singly) = if concerned.is_empty() { (concerned, rest) } else { (rest, concerned) };
                self.again = again;
                self.store_singly(singly).await;
            }
            Ok(Err(error)) if concerns_some(&error) => self.store_singly(group).await,
            Ok(Err(error)) => {
                let error = append_failed(error);
                self.lane.after(&error);
                self.lane.connector.hosts().doubts().note(&error);
                refuse(group, error);
            }
            // Not answered in time. Whether it was stored is open; the connection is not used again.
            Err(elapsed) => {
                self.lane.give_up();
                refuse(group, Error::UnknownOutcome { source: elapsed.into() });
            }
        }
    }

    /// All callers of a group that cannot be stored as one, one after the other.
    async fn store_singly(&mut self, group: Vec<QueuedAppend>) {
        let mut group = group.into_iter();
        while let Some(request) = group.next() {
            if let Err(error) = self.lane.connect().await {
                return refuse(std::iter::once(request).chain(group).collect(), error);
            }
            let (sql, timeout) = (self.lane.sql.clone(), self.lane.timeout);
            let stored = write::store_alone(self.lane.connection(), &sql, &request.append, None);
            match tokio::time::timeout(timeout, stored).await {
                Ok(Alone::Answered(answer)) => {
                    match &answer {
                        Ok(appended) => announce(&self.lane.announcer, [appended]),
                        Err(error) if costs_the_connection(error) => {
                            self.lane.after(error);
                            self.lane.connector.hosts().doubts().note(error);
                        }
                        Err(_) => {}
                    }
                    request.answer(answer);
                }
                Ok(Alone::Held) => self.wait.push(request),
                Err(elapsed) => {
                    self.lane.give_up();
                    request.answer(Err(Error::UnknownOutcome { source: elapsed.into() }));
                }
            }
        }
    }
}

/// Errors caused by one caller in the group, so that the others deserve another try: a unique violation, bad data, a lock, a
/// deadlock, a violated check, a name that the database refuses, a trigger that drops or changes some rows.
fn concerns_some(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|code| {
        code.starts_with("22")
            || code.starts_with("23")
            || matches!(code.as_str(), "40P01" | "40001" | "55P03" | "54000" | "HW007" | "HW008")
    })
}

fn refuse(group: Vec<QueuedAppend>, error: Error) {
    let shared = SharedError::new(error);
    for request in group {
        request.answer(Err(shared.for_caller()));
    }
}
