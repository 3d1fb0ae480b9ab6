//! From a row to a record, and how much of a result is taken.

use chrono::{DateTime, Utc};
use futures_util::{Stream, StreamExt};
use highwater::backend::columns;
use highwater::backend::columns::Stopped;
pub(crate) use highwater::backend::columns::{signed, unsigned};
use highwater::backend::rows::StoredRow;
use highwater::backend::{ReadLimit, Record};
use highwater::{BoxError, StreamName};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use crate::write::Columns;

/// The columns of an event as they are read: those that are stored, in their order, but both ids as one. The driver makes a copy of
/// each column, and that is most of what reading costs.
pub(crate) fn columns_read() -> String {
    Columns::NAMES.join(", ").replace("id, stream_id", "CAST(id || stream_id AS BLOB)")
}

/// Reads a row of [`columns_read`], in their order. Their types are fixed by the migrations (the tables are STRICT), so they are
/// not looked up again.
pub(crate) fn record(row: &SqliteRow) -> Result<Record, sqlx::Error> {
    let number = row.try_get_unchecked(0)?;
    about(numbered(row, number), || format!("event {number}"))
}

fn numbered(row: &SqliteRow, number: i64) -> Result<Record, sqlx::Error> {
    let (id, stream_id) = ids_of(row.try_get_unchecked(4)?)?;
    Ok(Record {
        global_sequence: positive(number)?,
        id,
        stream_id,
        stream_version: positive(row.try_get_unchecked(1)?)?,
        stream_name: row.try_get_unchecked::<Option<&str>, _>(2)?.map(StreamName::from),
        created_at: time(row.try_get_unchecked(3)?)?,
        schema_version: row.try_get_unchecked(5)?,
        event_type: columns::named(row.try_get_unchecked(6)?).map_err(sqlx::Error::Decode)?,
        data: row.try_get_unchecked(7)?,
        metadata: row.try_get_unchecked(8)?,
    })
}

fn ids_of(both: &[u8]) -> Result<(Uuid, Uuid), sqlx::Error> {
    let found = both.split_first_chunk().zip(both.split_last_chunk()).filter(|_| both.len() == 32);
    let ((id, _), (_, stream_id)) = found.ok_or_else(|| sqlx::Error::Decode("ids have 16 bytes each".into()))?;
    Ok((Uuid::from_bytes(*id), Uuid::from_bytes(*stream_id)))
}

/// A time as it is stored.
pub(crate) fn micros(time: DateTime<Utc>) -> i64 {
    time.timestamp_micros()
}

/// The time now, as it is stored.
pub(crate) fn now() -> i64 {
    micros(Utc::now())
}

pub(crate) fn time(micros: i64) -> Result<DateTime<Utc>, sqlx::Error> {
    let beyond = || sqlx::Error::Decode("a time is beyond those that can be represented".into());
    DateTime::from_timestamp_micros(micros).ok_or_else(beyond)
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
pub(crate) struct Named<'r>(pub(crate) &'r SqliteRow);

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
        Ok(self.0.try_get::<Option<i64>, _>(column)?.map(time).transpose()?)
    }
}

/// Reads a row by the names of its columns; see [`highwater::backend::rows`].
pub(crate) fn read<T>(row: &SqliteRow, of: fn(&dyn StoredRow) -> Result<T, BoxError>) -> Result<T, sqlx::Error> {
    of(&Named(row)).map_err(sqlx::Error::Decode)
}

/// Texts as a JSON array, for `json_each`.
pub(crate) fn array<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<serde_json::Value> = texts.into_iter().map(|text| text.as_ref().into()).collect();
    serde_json::Value::from(texts).to_string()
}

/// Ids as a JSON array, for `json_each` and `unhex`.
pub(crate) fn ids(ids: impl IntoIterator<Item = Uuid>) -> String {
    let mut array = String::from("[");
    for (place, id) in ids.into_iter().enumerate() {
        let mut text = Uuid::encode_buffer();
        array.push_str(if place == 0 { "\"" } else { ",\"" });
        array.push_str(id.simple().encode_lower(&mut text));
        array.push('"');
    }
    array.push(']');
    array
}

/// Takes records as they arrive; see [`columns::take_page`]. True when the result was over.
pub(crate) async fn take_page(
    rows: impl Stream<Item = Result<SqliteRow, sqlx::Error>> + Unpin,
    limit: ReadLimit,
    expected: usize,
) -> Result<(Vec<Record>, bool), sqlx::Error> {
    let records = rows.map(|row| record(&row?));
    let damaged = |error: &sqlx::Error| matches!(error, sqlx::Error::Decode(_));
    let (records, stopped) = columns::take_page(records, limit, expected, |_| true, damaged).await?;
    Ok((records, stopped == Stopped::End))
}
