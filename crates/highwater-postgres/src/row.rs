//! From a row to a record, and how much of a result is taken.

use futures_util::{Stream, StreamExt};
use highwater::{ReadLimit, Record};
use sqlx::Row;
use sqlx::postgres::PgRow;

/// Reads a row with the columns that every `sql/read_*.sql` selects, in their order.
///
/// The columns' types are fixed by the migrations, so they are not looked up again for every value; `json` is text as it
/// is.
pub(crate) fn record(row: &PgRow) -> Result<Record, sqlx::Error> {
    Ok(Record {
        global_sequence: unsigned(row.try_get_unchecked(0)?),
        id: row.try_get_unchecked(1)?,
        stream_id: row.try_get_unchecked(2)?,
        stream_version: unsigned(row.try_get_unchecked(3)?),
        event_type: row.try_get_unchecked(4)?,
        schema_version: u32::try_from(row.try_get_unchecked::<i32, _>(5)?).unwrap_or_default(),
        data: row.try_get_unchecked(6)?,
        metadata: row.try_get_unchecked(7)?,
        created_at: row.try_get_unchecked(8)?,
    })
}

/// Numbers of the log as PostgreSQL has them. None is negative: sequence and versions start at 1.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// Numbers of ours as PostgreSQL has them. What is beyond its range is beyond every event.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Why a result was not read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It was over.
    End,
    /// The limit on bytes was reached; there may be a lot left, and the connection still has to swallow it.
    Bytes,
    /// The next record was not wanted any more.
    Unwanted,
}

/// Takes records as they arrive, until `limit.bytes` is reached or a record is not `wanted`.
pub(crate) async fn take(
    mut rows: impl Stream<Item = Result<PgRow, sqlx::Error>> + Unpin,
    limit: ReadLimit,
    mut wanted: impl FnMut(&Record) -> bool,
) -> Result<(Vec<Record>, Stopped), sqlx::Error> {
    let mut records = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next().await {
        if bytes >= limit.bytes.max(1) {
            return Ok((records, Stopped::Bytes));
        }
        let record = record(&row?)?;
        if !wanted(&record) {
            return Ok((records, Stopped::Unwanted));
        }
        bytes += record.bytes();
        records.push(record);
    }
    Ok((records, Stopped::End))
}
