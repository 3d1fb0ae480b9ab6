//! Storing appends on a connection: what every way of appending shares.

mod columns;

use std::collections::HashMap;
use std::time::Duration;

use highwater::backend::{Position, Prepared, already_stored};
use highwater::{Appended, Error, ExpectedVersion, StreamName};
use sqlx::Row;
use sqlx::postgres::PgConnection;
use uuid::Uuid;

use crate::error::{append_failed, failed, sqlstate};
use crate::row::{self, counted, positive, signed};
use crate::sql::Sql;
use columns::Columns;
pub(crate) use columns::{Events, Statement};

/// How often an append is retried because another writer took its version. Each time one writer succeeds.
const ATTEMPTS_MAX: u32 = 50;

/// What came of an attempt.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Everything is stored: the answers, in the order of the appends.
    Stored(Vec<Appended>),
    /// Nothing is stored: these streams are at these versions, and not all as expected.
    Conflict(HashMap<Uuid, u64>),
    /// Nothing is stored: another transaction holds these streams.
    Held(Vec<Uuid>),
}

/// Stores appends in one statement, all or nothing. No two of them may name the same stream unless the later one
/// expects nothing of it. Waits for held streams only if told how long.
pub(crate) async fn store(
    connection: &mut PgConnection,
    sql: &Sql,
    appends: &[&Prepared],
    wait: Option<Duration>,
) -> Result<Outcome, sqlx::Error> {
    match appends {
        [append] if wait.is_none() && append.records.len() == 1 => store_one(connection, sql, append).await,
        _ => store_many(connection, sql, appends, wait).await,
    }
}

fn expectation(expected: ExpectedVersion) -> Option<i64> {
    match expected {
        ExpectedVersion::Any => None,
        ExpectedVersion::NoStream => Some(0),
        ExpectedVersion::StreamExists => Some(-1),
        ExpectedVersion::Exact(version) => Some(signed(version)),
    }
}

async fn store_one(connection: &mut PgConnection, sql: &Sql, append: &Prepared) -> Result<Outcome, sqlx::Error> {
    let ((stream_id, expected), record) = (append.streams[0], &append.records[0]);
    let statement = sqlx::query(sql.append_one.clone()).bind(stream_id).bind(expectation(expected));
    let statement = statement.bind(record.stream_name.as_ref().map(StreamName::as_str));
    let statement = Events::bind_one_to(statement, record, append.schema_versions[0]);
    let answer: Option<Vec<i64>> = statement.fetch_one(connection).await?.try_get(0)?;
    match answer.as_deref() {
        None => Ok(Outcome::Held(vec![stream_id])),
        Some(&[head]) => Ok(Outcome::Conflict(HashMap::from([(stream_id, counted(head)?)]))),
        Some(&[head, number]) => {
            let position = Position { stream_version: counted(head)? + 1, global_sequence: positive(number)? };
            Ok(Outcome::Stored(Appended::new(vec![position], false).into_iter().collect()))
        }
        Some(other) => {
            Err(sqlx::Error::Decode(format!("the server gave {} numbers for one event", other.len()).into()))
        }
    }
}

async fn store_many(
    connection: &mut PgConnection,
    sql: &Sql,
    appends: &[&Prepared],
    wait: Option<Duration>,
) -> Result<Outcome, sqlx::Error> {
    let columns = Columns::new(appends);
    // An error would end a transaction of the caller's, so this is for connections of our own.
    if wait.is_none() && columns.only_new_streams() {
        match store_new(connection, sql, appends, &columns).await {
            // One of the streams is there, or one of the ids: which, a closer look will tell.
            Err(error) if sqlstate(&error).as_deref() == Some("23505") => {}
            outcome => return outcome,
        }
    }
    store_group(connection, sql, appends, &columns, wait).await
}

async fn store_new(
    connection: &mut PgConnection,
    sql: &Sql,
    appends: &[&Prepared],
    columns: &Columns<'_>,
) -> Result<Outcome, sqlx::Error> {
    let statement = sqlx::query(sql.append_new.clone())
        .bind(columns.stream_ids())
        .bind(columns.steps.iter().map(|step| i64::from(*step)).collect::<Vec<_>>())
        .bind(columns.stream_names());
    let sequences: Vec<i64> = columns.events.bind_json_to(statement).fetch_one(connection).await?.try_get(0)?;
    Ok(Outcome::Stored(columns.answers(appends, &vec![0; columns.streams.len()], &sequences)?))
}

async fn store_group(
    connection: &mut PgConnection,
    sql: &Sql,
    appends: &[&Prepared],
    columns: &Columns<'_>,
    wait: Option<Duration>,
) -> Result<Outcome, sqlx::Error> {
    let statement = sqlx::query(sql.append_group.clone())
        .bind(&columns.streams)
        .bind(&columns.expected)
        .bind(columns.names.iter().any(Option::is_some).then_some(&columns.names))
        .bind(wait.map(|wait| i32::try_from(wait.as_millis()).unwrap_or(i32::MAX).max(1)))
        .bind(&columns.event_streams)
        .bind(&columns.steps);
    let row = columns.events.bind_to(statement).fetch_one(connection).await?;
    let heads: Vec<i64> = row.try_get(0)?;
    if let Some(held) = row.try_get::<Option<Vec<Uuid>>, _>(1)? {
        // Were none of them ours, we would ask again without end.
        return match held.iter().any(|stream| columns.streams.contains(stream)) {
            true => Ok(Outcome::Held(held)),
            false => {
                Err(sqlx::Error::Decode("the server says that other streams than those of the append are held".into()))
            }
        };
    }
    let Some(sequences) = row.try_get::<Option<Vec<i64>>, _>(2)? else {
        let heads = columns.streams.iter().zip(heads).map(|(stream, head)| Ok((*stream, counted(head)?)));
        return Ok(Outcome::Conflict(heads.collect::<Result<_, sqlx::Error>>()?));
    };
    Ok(Outcome::Stored(columns.answers(appends, &heads, &sequences)?))
}

/// The append as it was stored before, if it was. In a separate statement, begun after the one that raised the doubt.
///
/// That it can be seen does not mean that it is safe: its writer may not have waited for the disk, or may have been ended while it
/// waited for a replica. So the answer waits until it is; on an open transaction, its commit does.
pub(crate) async fn stored_before(
    connection: &mut PgConnection,
    sql: &Sql,
    append: &Prepared,
) -> Result<Option<Appended>, Error> {
    let rows = sqlx::query(sql.find_ids.clone())
        .bind(append.ids())
        .fetch_all(&mut *connection)
        .await
        .map_err(|e| failed("look up event ids", e))?;
    let found =
        rows.iter().map(row::record).collect::<Result<Vec<_>, _>>().map_err(|e| failed("look up event ids", e))?;
    let stored = already_stored(&append.records, &found)?;
    if stored.is_some() {
        until_durable(connection, sql).await?;
    }
    Ok(stored)
}

/// Waits until everything that can be seen is as safe as what this session commits.
pub(crate) async fn until_durable(connection: &mut PgConnection, sql: &Sql) -> Result<(), Error> {
    sqlx::query(sql.until_durable.clone()).execute(connection).await.map(drop).map_err(append_failed)
}

/// What came of an append that went alone.
pub(crate) enum Alone {
    /// This is the answer.
    Answered(Result<Appended, Error>),
    /// Another transaction holds one of its streams.
    Held,
}

/// Stores one append on an autocommit connection, as often as it takes to tell what became of it.
pub(crate) async fn store_alone(
    connection: &mut PgConnection,
    sql: &Sql,
    append: &Prepared,
    wait: Option<Duration>,
) -> Alone {
    let mut last = None;
    for _ in 0..ATTEMPTS_MAX {
        let doubt = match store(connection, sql, &[append], wait).await {
            Ok(Outcome::Stored(answers)) => return Alone::Answered(only(answers).map_err(|e| failed("append", e))),
            Ok(Outcome::Held(_)) => return Alone::Held,
            Ok(Outcome::Conflict(heads)) => append.conflict(&heads),
            Err(error) => match sqlstate(&error).as_deref() {
                // A unique index was violated. Which one does not matter: the ids are looked up before an error is returned.
                Some("23505") => {
                    last = Some(error);
                    None
                }
                // No caller is to blame for a deadlock or a serialization failure; retry.
                Some("40P01" | "40001") => {
                    last = Some(error);
                    continue;
                }
                Some("55P03") => return Alone::Held,
                _ => return Alone::Answered(Err(append_failed(error))),
            },
        };
        // Ids come before versions: the doubt may be about an append that is stored already.
        match stored_before(connection, sql, append).await {
            Ok(Some(appended)) => return Alone::Answered(Ok(appended)),
            Ok(None) => {}
            Err(error) => return Alone::Answered(Err(error)),
        }
        let conflict = match doubt {
            Some(conflict) => Ok(Some(conflict)),
            None => current_conflict(connection, sql, append).await,
        };
        match conflict {
            Ok(Some(conflict)) | Err(conflict) => return Alone::Answered(Err(conflict)),
            // As expected after all: the writer that took the version has ended, or was quicker. Retry.
            Ok(None) => {}
        }
    }
    let source = last.map_or_else(|| "the stream kept changing".into(), Into::into);
    Alone::Answered(Err(Error::Unavailable { action: "append: others were faster every time", source }))
}

fn only(answers: Vec<Appended>) -> Result<Appended, sqlx::Error> {
    let mut answers = answers.into_iter();
    answers.next().ok_or_else(|| sqlx::Error::Decode("an append has no answer".into()))
}

/// Stores one append inside a transaction that is the caller's. Cannot go again: an error has ended the transaction.
pub(crate) async fn store_within(
    connection: &mut PgConnection,
    sql: &Sql,
    append: &Prepared,
    wait: Duration,
) -> Result<Appended, NotAppended> {
    let outcome = store(connection, sql, &[append], Some(wait)).await.map_err(NotAppended::Failed)?;
    match outcome {
        Outcome::Stored(answers) => only(answers).map_err(NotAppended::Failed),
        Outcome::Held(_) => Err(NotAppended::Error(append.held(wait))),
        Outcome::Conflict(heads) => match stored_before(connection, sql, append).await {
            Ok(Some(appended)) => Ok(appended),
            Ok(None) => Err(append.conflict(&heads).map_or_else(
                || {
                    let why = "the server speaks of a conflict where all streams are as expected";
                    NotAppended::Failed(sqlx::Error::Decode(why.into()))
                },
                NotAppended::Error,
            )),
            Err(error) => Err(NotAppended::Error(error)),
        },
    }
}

/// Why an append within a transaction failed.
pub(crate) enum NotAppended {
    /// It was told why.
    Error(Error),
    /// The statement failed, and the transaction with it.
    Failed(sqlx::Error),
}

/// Makes sure that a foreign transaction can still be committed: PostgreSQL answers the COMMIT of one in which a statement
/// has failed by rolling back, and the driver does not pass that on.
///
/// # Errors
/// [`Error::Aborted`] when a statement in it has failed, or has ended it.
pub(crate) async fn still_open(transaction: &mut PgConnection, sql: &Sql) -> Result<(), Error> {
    match sqlx::raw_sql(sql.still_open.clone()).execute(transaction).await {
        Ok(_) => Ok(()),
        Err(error) => Err(match sqlstate(&error).as_deref() {
            Some("25P01" | "25P02") => Error::Aborted { source: error.into() },
            _ => failed("look at the transaction", error),
        }),
    }
}

/// Where the streams of an append are now, if that is not as expected.
pub(crate) async fn current_conflict(
    connection: &mut PgConnection,
    sql: &Sql,
    append: &Prepared,
) -> Result<Option<Error>, Error> {
    let streams: Vec<Uuid> = append.streams.iter().map(|(stream, _)| *stream).collect();
    let rows = sqlx::query(sql.heads.clone())
        .bind(streams)
        .fetch_all(connection)
        .await
        .map_err(|e| failed("look up streams", e))?;
    let head = |row: &sqlx::postgres::PgRow| Ok((row.try_get(0)?, counted(row.try_get(1)?)?));
    let heads: Result<HashMap<Uuid, u64>, sqlx::Error> = rows.iter().map(head).collect();
    Ok(append.conflict(&heads.map_err(|e| failed("look up streams", e))?))
}
