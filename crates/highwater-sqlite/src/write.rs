//! Storing appends in a transaction: what every way of appending shares.

use std::collections::HashMap;

use highwater::{Appended, Error, ExpectedVersion, Position, Prepared, already_stored};
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments, Row};
use uuid::Uuid;

use crate::error::{Code, code, failed};
use crate::row::{self, counted, micros, signed, unsigned};
use crate::sql::{self, Inserts, ROWS};

/// Where streams are, as far as the transaction has looked, with what it has stored itself.
#[derive(Debug, Default)]
pub(crate) struct Heads(HashMap<Uuid, u64>);

impl Heads {
    /// Looks where all streams of these appends are.
    pub(crate) async fn of(connection: &mut SqliteConnection, appends: &[&Prepared]) -> Result<Self, sqlx::Error> {
        let mut streams: Vec<Uuid> =
            appends.iter().flat_map(|append| append.streams.iter().map(|(id, _)| *id)).collect();
        streams.sort_unstable();
        streams.dedup();
        let heads: String =
            sqlx::query_scalar(sql::heads).bind(row::ids(streams.iter().copied())).fetch_one(connection).await?;
        let heads: Vec<u64> = serde_json::from_str(&heads).map_err(|error| sqlx::Error::Decode(error.into()))?;
        Ok(Self(streams.into_iter().zip(heads).collect()))
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
    if let Some(conflict) = append.conflict(&heads.0) {
        // Ids come before versions: the append may be stored already.
        return stored_before(connection, append).await?.map(Err).ok_or(conflict);
    }
    let next = |record: &highwater::NewRecord| {
        let head = heads.0.entry(record.stream_id).or_default();
        *head += 1;
        *head
    };
    Ok(Ok(Numbered { append, versions: append.records.iter().map(next).collect() }))
}

/// Inserts the events of several appends, in as few statements as there can be, and says where each append is. All or
/// nothing only together with the transaction.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    sql: &Inserts,
    appends: &[Numbered<'_>],
) -> Result<Vec<Appended>, sqlx::Error> {
    let mut rows = appends.iter().flat_map(|numbered| {
        let Numbered { append, versions } = numbered;
        append.records.iter().zip(&append.schema_versions).zip(versions)
    });
    let mut left: usize = appends.iter().map(|numbered| numbered.versions.len()).sum();
    let mut numbers = Vec::with_capacity(left);
    while left > 0 {
        let (statement, count) = sql.for_some_of(left);
        let mut arguments = SqliteArguments::default();
        arguments.reserve(count * 8, 0);
        for ((record, schema_version), version) in rows.by_ref().take(count) {
            let added = arguments
                .add(signed(*version))
                .and_then(|()| arguments.add(micros(record.created_at)))
                .and_then(|()| arguments.add(record.id))
                .and_then(|()| arguments.add(record.stream_id))
                .and_then(|()| arguments.add(*schema_version))
                .and_then(|()| arguments.add(record.event_type.as_str()))
                .and_then(|()| arguments.add(record.data.as_str()))
                .and_then(|()| arguments.add(record.metadata.as_str()));
            added.map_err(sqlx::Error::Encode)?;
        }
        let done = sqlx::query_with(statement, arguments).execute(&mut *connection).await?;
        if done.rows_affected() != count as u64 {
            let why = format!("{} of {count} events were stored: a trigger on the table?", done.rows_affected());
            return Err(sqlx::Error::Protocol(why));
        }
        // Nobody else draws numbers meanwhile, so those of one statement follow each other.
        let last = unsigned(done.last_insert_rowid());
        numbers.extend(last + 1 - count as u64..=last);
        left -= count;
    }
    let mut numbers = numbers.into_iter();
    let appended = appends.iter().map(|numbered| {
        let versions = numbered.versions.iter().copied();
        let place = |(stream_version, global_sequence)| Position { stream_version, global_sequence };
        Appended::new(versions.zip(numbers.by_ref()).map(place).collect(), false)
            .expect("an append has at least one event: it was checked")
    });
    Ok(appended.collect())
}

/// Stores one append of one event, in a transaction that is this one statement: half of what a lone caller waits for is the
/// way to the connection's thread. `None` when the stream is not as expected; then nothing is stored.
pub(crate) async fn store_alone(
    connection: &mut SqliteConnection,
    append: &Prepared,
) -> Result<Option<Appended>, sqlx::Error> {
    let ((stream_id, expected), record) = (append.streams[0], &append.records[0]);
    // To its end: what is committed is told by the end of the statement, and not by its first row.
    let rows = sqlx::query(sql::append_one)
        .bind(stream_id)
        .bind(micros(record.created_at))
        .bind(record.id)
        .bind(append.schema_versions[0])
        .bind(&record.event_type)
        .bind(&record.data)
        .bind(&record.metadata)
        .bind(expectation(expected))
        .fetch_all(connection)
        .await?;
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
/// transaction has to be taken back.
pub(crate) async fn store(
    connection: &mut SqliteConnection,
    sql: &Inserts,
    append: &Prepared,
) -> Result<Appended, Error> {
    let append_failed = |e| failed("append", e);
    let mut heads = Heads::of(connection, &[append]).await.map_err(|e| failed("look up streams", e))?;
    let numbered = match number(connection, &mut heads, append).await? {
        Ok(numbered) => numbered,
        Err(stored_before) => return Ok(stored_before),
    };
    // A statement is all or nothing by itself; several are not.
    let inserted = match ROWS.contains(&append.records.len()) {
        true => insert(connection, sql, &[numbered]).await,
        false => insert_whole(connection, sql, numbered).await,
    };
    match inserted {
        Ok(mut appended) => Ok(appended.pop().expect("one append went in, so one answer came out")),
        // The versions are free, so it was an id.
        Err(error) if code(&error) == Some(Code::Unique) => {
            stored_before(connection, append).await?.ok_or_else(|| append_failed(error))
        }
        Err(error) => Err(append_failed(error)),
    }
}

/// Several statements that leave nothing behind when one of them fails.
async fn insert_whole(
    connection: &mut SqliteConnection,
    sql: &Inserts,
    numbered: Numbered<'_>,
) -> Result<Vec<Appended>, sqlx::Error> {
    sqlx::query(sql::savepoint).execute(&mut *connection).await?;
    let inserted = insert(connection, sql, &[numbered]).await;
    if let Err(error) = inserted {
        // A full disk may have ended the transaction, and the savepoint with it: what was said first is what is wrong.
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
    let rows =
        sqlx::query(sql::find_ids).bind(row::ids(append.ids())).fetch_all(connection).await.map_err(look_failed)?;
    let found = rows.iter().map(row::record).collect::<Result<Vec<_>, _>>().map_err(look_failed)?;
    already_stored(&append.records, &found)
}
