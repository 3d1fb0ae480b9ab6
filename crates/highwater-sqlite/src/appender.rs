//! Group commit: one task that stores whatever concurrent callers have asked for while the group before was committing.
//!
//! No timer and no added delay: a lone call goes out at once. Each caller gets its own answer: a conflict or a bad id fails
//! that caller alone. Dropping a caller's future withdraws its append if it is still in the queue; if it is under way it is
//! stored whole or not at all, as if the caller had waited. The task ends when the last handle of the store is gone and
//! everything is answered.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use highwater::backend::{AppendQueue, Appender, Backlog, Prepared, QueuedAppend, SharedError};
use highwater::{Appended, Error};
use sqlx::sqlite::SqliteConnection;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::config::SqliteConfig;
use crate::connect::Connector;
use crate::error::{Code, code, commit_failed, failed};
use crate::gate::{self, Gate, Permit};
use crate::sql::Inserts;
use crate::wakeups;
use crate::write::{self, Heads, NotInserted};
use crate::write_ahead::WriteAhead;

/// Groups of fewer than so many events are waited for a little, so that callers that were just answered can join.
const SMALL: usize = 64;

/// Starts the task, and gives the callers' end of its queue.
pub(crate) fn start(
    connector: &Connector,
    gate: &Gate,
    sql: &Arc<Inserts>,
    config: &SqliteConfig,
    hints: &watch::Sender<u64>,
) -> AppendQueue {
    let writer = Writer {
        connector: connector.clone(),
        gate: gate.clone(),
        sql: sql.clone(),
        hints: hints.clone(),
        timeout: config.append_timeout,
        events_max: config.group_events_max,
        bytes_max: config.group_bytes_max,
        ahead: WriteAhead::start(connector),
    };
    AppendQueue::start(config.append_queue_max, config.append_timeout, writer)
}

struct Writer {
    connector: Connector,
    gate: Gate,
    sql: Arc<Inserts>,
    hints: watch::Sender<u64>,
    timeout: Duration,
    events_max: usize,
    bytes_max: usize,
    ahead: WriteAhead,
}

/// The answers for a group's callers, in their order.
type Answers = Vec<Result<Appended, Error>>;

impl Appender for Writer {
    async fn run(&self, backlog: &mut Backlog) {
        let mut connection = None;
        loop {
            backlog.fill();
            if backlog.waiting.is_empty() && !backlog.arrived().await {
                return;
            }
            let mut group = backlog.take_group(&HashSet::new(), self.events_max, self.bytes_max);
            if group.is_empty() {
                continue;
            }
            // One time for all that a group waits for.
            let deadline = Instant::now() + self.timeout;
            let permit = self.gate.enter("append", self.timeout).await;
            // Callers that have given up meanwhile were told that nothing is stored.
            group.retain(|request| !request.answer.is_closed());
            let (answered, events) =
                (group.len(), group.iter().map(|request| request.append.records.len()).sum::<usize>());
            let stored = match permit {
                Ok(permit) => self.store(&mut connection, &group, permit, deadline).await,
                Err(error) => Err(error),
            };
            match stored {
                Ok(answers) => {
                    wakeups::announce(&self.hints, answers.iter().flatten());
                    self.ahead.grew(events);
                    group.into_iter().zip(answers).for_each(|(request, answer)| request.answer(answer));
                }
                Err(error) => {
                    let shared = SharedError::new(error);
                    group.into_iter().for_each(|request| request.answer(Err(shared.for_caller())));
                }
            }
            if answered > 1 && events < SMALL {
                backlog.let_callers_run(answered).await;
            }
        }
    }
}

impl Writer {
    /// Stores a group in one transaction, on the connection that is kept for it.
    ///
    /// # Errors
    /// An error of the whole group: then nothing is stored, or it is unknown.
    async fn store(
        &self,
        kept: &mut Option<SqliteConnection>,
        group: &[QueuedAppend],
        _permit: Permit,
        deadline: Instant,
    ) -> Result<Answers, Error> {
        let left = || deadline.saturating_duration_since(Instant::now());
        // Taken out: it is put back when it is known to be usable.
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => self.connector.connect_writer().await.map_err(|e| failed("append", e))?,
        };
        if let [only] = group
            && only.append.records.len() == 1
            && let Some(appended) = alone(&mut connection, &only.append, left()).await?
        {
            *kept = Some(connection);
            return Ok(vec![Ok(appended)]);
        }
        gate::begin_on(&mut connection, left()).await?;
        let mut stored = together(&mut connection, &self.sql, group).await;
        if matches!(&stored, Ok(None)) {
            // A caller's ids are taken, or its rows altered. Nothing is left of the attempt, and each append is sent singly.
            if !gate::rollback_on(&mut connection).await {
                let source = "the transaction could not be taken back".into();
                return Err(Error::Unavailable { action: "append", source });
            }
            gate::begin_on(&mut connection, left()).await?;
            stored = singly(&mut connection, &self.sql, group).await.map(Some);
        }
        let stored = match stored {
            Ok(answers) => {
                gate::commit_on(&mut connection).await.map_err(|e| commit_failed("append", e)).map(|()| answers)
            }
            Err(error) => Err(error),
        };
        if stored.is_ok() || gate::rollback_on(&mut connection).await {
            *kept = Some(connection);
        }
        stored.map(|answers| answers.unwrap_or_default())
    }
}

/// A lone event. `None` when something speaks against it: then nothing is stored, and the long way tells what it is.
async fn alone(
    connection: &mut SqliteConnection,
    append: &Prepared,
    patience: Duration,
) -> Result<Option<Appended>, Error> {
    let started = Instant::now();
    loop {
        match write::store_alone(connection, append).await {
            Ok(stored) => return Ok(stored),
            Err(error) => match code(&error) {
                Some(Code::Unique) => return Ok(None),
                Some(Code::Busy) => gate::ask_again_on(connection, error, started, patience).await?,
                _ => return Err(commit_failed("append", error)),
            },
        }
    }
}

/// All callers in as few statements as possible. `None` when a caller's ids are taken, or a trigger has altered its rows:
/// then it has to be rolled back.
async fn together(
    connection: &mut SqliteConnection,
    sql: &Inserts,
    group: &[QueuedAppend],
) -> Result<Option<Answers>, Error> {
    let appends: Vec<_> = group.iter().map(|request| &request.append).collect();
    let mut heads = Heads::of(connection, &appends).await.map_err(|e| failed("look up streams", e))?;
    let mut answers: Vec<Option<Result<Appended, Error>>> = Vec::with_capacity(group.len());
    let mut numbered = Vec::with_capacity(group.len());
    for append in appends {
        answers.push(match write::number(connection, &mut heads, append).await {
            Ok(Ok(taken)) => {
                numbered.push(taken);
                None
            }
            Ok(Err(stored_before)) => Some(Ok(stored_before)),
            Err(error) if concerns_one(&error) => Some(Err(error)),
            Err(error) => return Err(error),
        });
    }
    let mut inserted = match write::insert(connection, sql, &heads, &numbered).await {
        Ok(inserted) => inserted.into_iter(),
        Err(NotInserted::Failed(error)) if code(&error) == Some(Code::Unique) => return Ok(None),
        Err(NotInserted::Altered(_)) => return Ok(None),
        Err(NotInserted::Failed(error)) => return Err(failed("append", error)),
    };
    let answer =
        |answer: Option<_>| answer.unwrap_or_else(|| Ok(inserted.next().expect("one for each that was numbered")));
    Ok(Some(answers.into_iter().map(answer).collect()))
}

/// One after the other, in the same transaction.
async fn singly(connection: &mut SqliteConnection, sql: &Inserts, group: &[QueuedAppend]) -> Result<Answers, Error> {
    let mut answers = Vec::with_capacity(group.len());
    for request in group {
        match write::store(connection, sql, &request.append).await {
            Err(error) if !concerns_one(&error) => return Err(error),
            answer => answers.push(answer),
        }
    }
    Ok(answers)
}

/// Whether an error is one caller's own: nothing of that append is stored, and the others are not touched by it.
fn concerns_one(error: &Error) -> bool {
    matches!(
        error,
        Error::Conflict { .. }
            | Error::IdTaken { .. }
            | Error::PartlyStored { .. }
            | Error::Invalid(_)
            | Error::Altered { .. }
    )
}
