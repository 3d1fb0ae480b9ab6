//! Storing appends in a transaction: what every way of appending shares.

mod columns;

use std::borrow::Cow;
use std::collections::HashMap;

use highwater::backend::{NewRecord, Position, Prepared, already_stored};
use highwater::{Appended, Error, ExpectedVersion, StreamName};
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments, Row};
use uuid::Uuid;

use crate::error::{Code, code, failed};
use crate::row::{self, counted, signed, unsigned};
use crate::sql::{self, Inserts, ROWS};
pub(crate) use columns::Columns;

/// Where streams are, as far as the transaction has looked, with what it has stored itself.
#[derive(Debug)]
pub(crate) struct Heads {
    heads: HashMap<Uuid, u64>,
    /// What those are called that have a name.
    names: HashMap<Uuid, StreamName>,
    /// Whether the table has triggers, so that what they leave of an append has to be checked.
    triggers: bool,
}

impl Heads {
    /// Looks where all streams of these appends are.
    pub(crate) async fn of(connection: &mut SqliteConnection, appends: &[&Prepared]) -> Result<Self, sqlx::Error> {
        let mut streams: Vec<Uuid> =
            appends.iter().flat_map(|append| append.streams.iter().map(|(id, _)| *id)).collect();
        streams.sort_unstable();
        streams.dedup();
        let (heads, triggers): (String, bool) =
            sqlx::query_as(sql::heads).bind(row::ids(streams.iter().copied())).fetch_one(connection).await?;
        let found: Vec<(u64, Option<Cow<'_, str>>)> =
            serde_json::from_str(&heads).map_err(|error| sqlx::Error::Decode(error.into()))?;
        let mut names = HashMap::new();
        let named = |(stream, (head, name)): (Uuid, (u64, Option<Cow<'_, str>>))| {
            names.extend(name.map(|name| (stream, StreamName::from(&*name))));
            (stream, head)
        };
        let heads = streams.into_iter().zip(found).map(named).collect();
        Ok(Self { heads, names, triggers })
    }
}

/// Why nothing was inserted, or has to be rolled back.
#[derive(Debug)]
pub(crate) enum NotInserted {
    /// A trigger left something else of it than was sent.
    Altered(String),
    /// A statement failed.
    Failed(sqlx::Error),
}

impl From<sqlx::Error> for NotInserted {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<NotInserted> for Error {
    fn from(why: NotInserted) -> Self {
        match why {
            NotInserted::Altered(reason) => Self::Altered { reason },
            NotInserted::Failed(error) => failed("append", error),
        }
    }
}

/// One append, with the versions that its events get.
pub(crate) struct Numbered<'a> {
    append: &'a Prepared,
    versions: Vec<u64>,
}

/// Gives an append its versions, or says why it cannot have any.
pub(crate) async fn number<'a>(
    connection: &mut SqliteConnection,
    heads: &mut Heads,
    append: &'a Prepared,
) -> Result<Result<Numbered<'a>, Appended>, Error> {
    if let Some(conflict) = append.conflict(&heads.heads) {
        // Ids come before versions: the append may be stored already.
        return stored_before(connection, append).await?.map(Err).ok_or(conflict);
    }
    let next = |record: &NewRecord| {
        let head = heads.heads.entry(record.stream_id).or_default();
        *head += 1;
        if let Some(name) = &record.stream_name {
            heads.names.entry(record.stream_id).or_insert_with(|| name.clone());
        }
        *head
    };
    Ok(Ok(Numbered { append, versions: append.records.iter().map(next).collect() }))
}

/// Inserts the events of several appends, in as few statements as there can be, and says where each append is. All or
/// nothing only together with the transaction.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    sql: &Inserts,
    heads: &Heads,
    appends: &[Numbered<'_>],
) -> Result<Vec<Appended>, NotInserted> {
    let mut numbers = insert_rows(connection, sql, heads, appends).await?.into_iter();
    let mut done = Vec::with_capacity(appends.len());
    for Numbered { append, versions } in appends {
        let positions: Vec<Position> = versions
            .iter()
            .zip(numbers.by_ref())
            .map(|(&stream_version, global_sequence)| Position { stream_version, global_sequence })
            .collect();
        if heads.triggers {
            insist_on_rows(connection, heads, append, &positions).await?;
        }
        done.extend(Appended::new(positions, false));
    }
    Ok(done)
}

/// Inserts rows, and gives their numbers.
async fn insert_rows(
    connection: &mut SqliteConnection,
    sql: &Inserts,
    heads: &Heads,
    appends: &[Numbered<'_>],
) -> Result<Vec<u64>, NotInserted> {
    let mut rows = appends.iter().flat_map(|numbered| {
        let Numbered { append, versions } = numbered;
        append.records.iter().zip(&append.schema_versions).zip(versions)
    });
    let mut left: usize = appends.iter().map(|numbered| numbered.versions.len()).sum();
    let mut numbers = Vec::with_capacity(left);
    while left > 0 {
        let (statement, count) = sql.for_some_of(left);
        let mut arguments = SqliteArguments::default();
        arguments.reserve(count * Columns::NAMES.len(), 0);
        for ((record, schema_version), version) in rows.by_ref().take(count) {
            let name = heads.names.get(&record.stream_id);
            Columns::new(record, *schema_version, *version, name).add_to(&mut arguments)?;
        }
        let done = sqlx::query_with(statement, arguments).execute(&mut *connection).await?;
        let (stored, last) = (done.rows_affected(), unsigned(done.last_insert_rowid()));
        if stored != count as u64 || last < stored {
            return Err(NotInserted::Altered(format!("of {count} events that were sent, {stored} would be stored")));
        }
        // No other writer draws numbers meanwhile, so those of one statement follow each other.
        numbers.extend(last + 1 - stored..=last);
        left -= count;
    }
    Ok(numbers)
}

/// Reads back what was just stored. Metadata and times are not compared: a trigger may add to them.
async fn insist_on_rows(
    connection: &mut SqliteConnection,
    heads: &Heads,
    append: &Prepared,
    positions: &[Position],
) -> Result<(), NotInserted> {
    let rows = sqlx::query(sql::find_ids.clone()).bind(row::ids(append.ids())).fetch_all(connection).await?;
    let stored = rows.iter().map(row::record).collect::<Result<Vec<_>, _>>()?;
    let stored: HashMap<_, _> = stored.iter().map(|it| (it.id, it)).collect();
    let as_sent = append.records.iter().zip(&append.schema_versions).zip(positions).filter(|((sent, version), at)| {
        stored.get(&sent.id).is_some_and(|it| {
            let name = heads.names.get(&sent.stream_id).or(sent.stream_name.as_ref());
            (it.stream_id, it.stream_version, it.global_sequence)
                == (sent.stream_id, at.stream_version, at.global_sequence)
                && (&it.event_type, it.schema_version.cast_signed(), &it.data)
                    == (&sent.event_type, **version, &sent.data)
                && it.stream_name.as_ref() == name
        })
    });
    match (append.records.len(), as_sent.count()) {
        (sent, stored) if sent == stored => Ok(()),
        (sent, stored) => Err(NotInserted::Altered(format!(
            "of {sent} events that were sent, {stored} would be stored as they were sent"
        ))),
    }
}

/// Stores one append of one event, in a transaction that is this one statement: half of what a lone caller waits for is the
/// way to the connection's thread. `None` when the stream is not as expected; then nothing is stored.
pub(crate) async fn store_alone(
    connection: &mut SqliteConnection,
    append: &Prepared,
) -> Result<Option<Appended>, sqlx::Error> {
    let ((_, expected), record) = (append.streams[0], &append.records[0]);
    let mut arguments = SqliteArguments::default();
    arguments.add(expectation(expected)).map_err(sqlx::Error::Encode)?;
    Columns::new(record, append.schema_versions[0], 0, None).add_own_to(&mut arguments)?;
    // To its end: the end of the statement shows what is committed, not its first row.
    let rows = sqlx::query_with(sql::append_one.clone(), arguments).fetch_all(connection).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (stream_version, global_sequence) = (counted(row.try_get(0)?)?, counted(row.try_get(1)?)?);
    Ok(Appended::new(vec![Position { stream_version, global_sequence }], false))
}

fn expectation(expected: ExpectedVersion) -> Option<i64> {
    match expected {
        ExpectedVersion::Any => None,
        ExpectedVersion::NoStream => Some(0),
        ExpectedVersion::StreamExists => Some(-1),
        ExpectedVersion::Exact(version) => Some(signed(version)),
    }
}

/// Stores one append in a transaction, all or nothing. After an error that says nothing about the append itself the
/// transaction has to be rolled back.
pub(crate) async fn store(
    connection: &mut SqliteConnection,
    sql: &Inserts,
    append: &Prepared,
) -> Result<Appended, Error> {
    let mut heads = Heads::of(connection, &[append]).await.map_err(|e| failed("look up streams", e))?;
    let numbered = match number(connection, &mut heads, append).await? {
        Ok(numbered) => numbered,
        Err(stored_before) => return Ok(stored_before),
    };
    // A statement is all or nothing by itself, unless a trigger drops a row of it; several are not.
    let inserted = match ROWS.contains(&append.records.len()) && !heads.triggers {
        true => insert(connection, sql, &heads, &[numbered]).await,
        false => insert_whole(connection, sql, &heads, numbered).await,
    };
    match inserted {
        Ok(mut appended) => Ok(appended.pop().expect("one append went in, so one answer came out")),
        // The versions are free, so it was an id.
        Err(NotInserted::Failed(error)) if code(&error) == Some(Code::Unique) => {
            stored_before(connection, append).await?.ok_or_else(|| failed("append", error))
        }
        Err(why) => Err(why.into()),
    }
}

/// Several statements that leave nothing behind when one of them fails.
async fn insert_whole(
    connection: &mut SqliteConnection,
    sql: &Inserts,
    heads: &Heads,
    numbered: Numbered<'_>,
) -> Result<Vec<Appended>, NotInserted> {
    sqlx::query(sql::savepoint).execute(&mut *connection).await?;
    let inserted = insert(connection, sql, heads, &[numbered]).await;
    if let Err(error) = inserted {
        // A full disk may have ended the transaction, and the savepoint with it: the first error is the cause.
        if let Err(gone) = sqlx::query(sql::savepoint_back).execute(&mut *connection).await {
            tracing::debug!(error = %gone, "there was no savepoint left to go back to");
            return Err(error);
        }
        sqlx::query(sql::savepoint_release).execute(connection).await?;
        return Err(error);
    }
    sqlx::query(sql::savepoint_release).execute(connection).await?;
    inserted
}

/// The append as it was stored before, if it was.
pub(crate) async fn stored_before(
    connection: &mut SqliteConnection,
    append: &Prepared,
) -> Result<Option<Appended>, Error> {
    let look_failed = |e| failed("look up event ids", e);
    let rows = sqlx::query(sql::find_ids.clone())
        .bind(row::ids(append.ids()))
        .fetch_all(connection)
        .await
        .map_err(look_failed)?;
    let found = rows.iter().map(row::record).collect::<Result<Vec<_>, _>>().map_err(look_failed)?;
    already_stored(&append.records, &found)
}
