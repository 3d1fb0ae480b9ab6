//! From a row to a record, and how much of a result is taken.

use chrono::{DateTime, Utc};
use futures_util::{Stream, StreamExt};
use highwater::backend::columns;
pub(crate) use highwater::backend::columns::{Stopped, signed, unsigned};
use highwater::backend::rows::StoredRow;
use highwater::backend::{ReadLimit, Record};
use highwater::{BoxError, StreamName};
use sqlx::postgres::PgRow;
use sqlx::{ColumnIndex, Row, ValueRef};
use uuid::Uuid;

/// PostgreSQL counts microseconds from the year 2000.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// Reads a row of `{event}`: its columns, in their order.
///
/// The columns' types are fixed by the migrations and statements of ours are always prepared, so values arrive in the
/// binary format and are taken from it directly: looking each type up again would take a fifth of the time of a long read.
pub(crate) fn record(row: &PgRow) -> Result<Record, sqlx::Error> {
    let number = i64::from_be_bytes(fixed(row, 0)?);
    about(numbered(row, number), || format!("event {number}"))
}

fn numbered(row: &PgRow, number: i64) -> Result<Record, sqlx::Error> {
    Ok(Record {
        global_sequence: positive(number)?,
        stream_id: Uuid::from_bytes(fixed(row, 1)?),
        stream_version: positive(i64::from_be_bytes(fixed(row, 2)?))?,
        stream_name: name(row, 3)?,
        id: Uuid::from_bytes(fixed(row, 4)?),
        event_type: columns::named(text(row, 5)?).map_err(sqlx::Error::Decode)?,
        schema_version: u32::try_from(i32::from_be_bytes(fixed(row, 6)?))
            .map_err(|why| sqlx::Error::Decode(why.into()))?,
        data: json(row, 7)?,
        metadata: json(row, 8)?,
        created_at: time(i64::from_be_bytes(fixed(row, 9)?))?,
    })
}

fn bytes(row: &PgRow, column: usize) -> Result<&[u8], sqlx::Error> {
    row.try_get_raw(column)?.as_bytes().map_err(sqlx::Error::Decode)
}

fn fixed<const N: usize>(row: &PgRow, column: usize) -> Result<[u8; N], sqlx::Error> {
    bytes(row, column)?.try_into().map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

/// The binary format of `json` is its text. That of `jsonb` begins with a number, as no JSON does: were it taken for text,
/// nothing could be decoded any more, and subscribers would put one event after the other to the dead letters.
fn json(row: &PgRow, column: usize) -> Result<String, sqlx::Error> {
    if bytes(row, column)?.first() == Some(&1) {
        return Err(sqlx::Error::Decode("its column was made json, and is jsonb now".into()));
    }
    text(row, column)
}

fn text(row: &PgRow, column: usize) -> Result<String, sqlx::Error> {
    utf8(bytes(row, column)?).map(str::to_owned)
}

/// The name of a stream, if it has one.
fn name(row: &PgRow, column: usize) -> Result<Option<StreamName>, sqlx::Error> {
    let value = row.try_get_raw(column)?;
    if value.is_null() {
        return Ok(None);
    }
    utf8(value.as_bytes().map_err(sqlx::Error::Decode)?).map(|name| Some(name.into()))
}

fn utf8(bytes: &[u8]) -> Result<&str, sqlx::Error> {
    std::str::from_utf8(bytes).map_err(|error| sqlx::Error::Decode(error.into()))
}

/// "infinity" and times beyond what chrono holds are errors: no event of ours has one.
fn time(micros: i64) -> Result<DateTime<Utc>, sqlx::Error> {
    let found = micros.checked_add(EPOCH_MICROS).and_then(DateTime::from_timestamp_micros);
    found.ok_or_else(|| sqlx::Error::Decode("a time is beyond those that can be represented".into()))
}

pub(crate) fn counted(number: i64) -> Result<u64, sqlx::Error> {
    columns::counted(number).map_err(sqlx::Error::Decode)
}

pub(crate) fn positive(number: i64) -> Result<u64, sqlx::Error> {
    columns::positive(number).map_err(sqlx::Error::Decode)
}

/// Says which row it is that cannot be read.
pub(crate) fn about<T>(read: Result<T, sqlx::Error>, row: impl FnOnce() -> String) -> Result<T, sqlx::Error> {
    read.map_err(|error| match error {
        sqlx::Error::Decode(why) => sqlx::Error::Decode(format!("{}: {why}", row()).into()),
        sqlx::Error::ColumnDecode { index, source } => {
            sqlx::Error::Decode(format!("{}: column {index}: {source}", row()).into())
        }
        other => other,
    })
}

/// A row whose columns are read by their names.
pub(crate) struct Named<'r>(pub(crate) &'r PgRow);

impl StoredRow for Named<'_> {
    fn id(&self, column: &str) -> Result<Option<Uuid>, BoxError> {
        Ok(self.0.try_get(column)?)
    }

    fn text(&self, column: &str) -> Result<Option<String>, BoxError> {
        Ok(self.0.try_get(column)?)
    }

    fn number(&self, column: &str) -> Result<Option<i64>, BoxError> {
        Ok(self.0.try_get(column)?)
    }

    fn real(&self, column: &str) -> Result<Option<f64>, BoxError> {
        Ok(self.0.try_get(column)?)
    }

    fn flag(&self, column: &str) -> Result<Option<bool>, BoxError> {
        Ok(self.0.try_get(column)?)
    }

    fn time(&self, column: &str) -> Result<Option<DateTime<Utc>>, BoxError> {
        Ok(moment_if_any(self.0, column)?)
    }
}

/// A time that is there.
pub(crate) fn moment(row: &PgRow, column: usize) -> Result<DateTime<Utc>, sqlx::Error> {
    moment_if_any(row, column)?.ok_or_else(|| sqlx::Error::Decode("a time is missing".into()))
}

/// A time as any role may have written it. The driver panics at "infinity".
fn moment_if_any(row: &PgRow, column: impl ColumnIndex<PgRow>) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    let value = row.try_get_raw(column)?;
    if value.is_null() {
        return Ok(None);
    }
    let micros = value.as_bytes().and_then(|bytes| Ok(i64::from_be_bytes(bytes.try_into()?)));
    micros.map_err(sqlx::Error::Decode).and_then(time).map(Some)
}

/// Reads a row by the names of its columns; see [`highwater::backend::rows`].
pub(crate) fn read<T>(row: &PgRow, of: fn(&dyn StoredRow) -> Result<T, BoxError>) -> Result<T, sqlx::Error> {
    of(&Named(row)).map_err(sqlx::Error::Decode)
}

/// Takes records as they arrive; see [`columns::take_page`].
pub(crate) async fn take_page(
    rows: impl Stream<Item = Result<PgRow, sqlx::Error>> + Unpin,
    limit: ReadLimit,
    expected: usize,
    wanted: impl FnMut(&Record) -> bool,
) -> Result<(Vec<Record>, Stopped), sqlx::Error> {
    let records = rows.map(|row| record(&row?));
    columns::take_page(records, limit, expected, wanted, |error| matches!(error, sqlx::Error::Decode(_))).await
}
