//! From rows to dead letters, attempts and requests.

use highwater::StreamName;
use highwater::backend::{DeadLetter, DeadLetterAttempt, DeadLetterState, Request, RequestColumns, RequestOutcome};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use crate::row::{about, counted, time, time_if_any};

pub(super) fn dead_letter(row: &SqliteRow) -> Result<DeadLetter, sqlx::Error> {
    let id: Uuid = row.try_get("id")?;
    about(readable_dead_letter(row, id), || format!("dead letter {id}"))
}

fn readable_dead_letter(row: &SqliteRow, id: Uuid) -> Result<DeadLetter, sqlx::Error> {
    let state: &str = row.try_get("state")?;
    let state = DeadLetterState::from_name(state).ok_or_else(|| unknown("state of a dead letter", state))?;
    Ok(DeadLetter {
        id,
        subscriber_id: row.try_get("subscriber_id")?,
        event_id: row.try_get("event_id")?,
        global_sequence: counted(row.try_get("global_sequence")?)?,
        stream_id: row.try_get("stream_id")?,
        stream_name: row.try_get::<Option<&str>, _>("stream_name")?.map(StreamName::from),
        event_type: row.try_get("event_type")?,
        error_message: row.try_get("error_message")?,
        retry_count: row.try_get("retry_count")?,
        created_at: time(row.try_get("created_at")?)?,
        last_retry_at: time_if_any(row.try_get("last_retry_at")?)?,
        state,
        parks: row.try_get("parks")?,
        resolved_at: time_if_any(row.try_get("resolved_at")?)?,
        resolved_by: row.try_get("resolved_by")?,
        reason: row.try_get("reason")?,
    })
}

pub(super) fn attempt(row: &SqliteRow) -> Result<DeadLetterAttempt, sqlx::Error> {
    Ok(DeadLetterAttempt {
        at: time(row.try_get("attempted_at")?)?,
        by: row.try_get("attempted_by")?,
        outcome: row.try_get("outcome")?,
        detail: row.try_get("detail")?,
    })
}

pub(crate) fn request(row: &SqliteRow) -> Result<Request, sqlx::Error> {
    let id: Uuid = row.try_get("id")?;
    about(readable_request(row, id), || format!("request {id}"))
}

/// Those that can be read. One that cannot waits for an operator, and keeps no others waiting.
pub(super) fn readable_requests(rows: &[SqliteRow]) -> Result<Vec<Request>, sqlx::Error> {
    rows.iter().map(request).filter(|read| !matches!(read, Err(sqlx::Error::Decode(_)))).collect()
}

fn readable_request(row: &SqliteRow, id: Uuid) -> Result<Request, sqlx::Error> {
    let columns = RequestColumns {
        kind: row.try_get("ask")?,
        dead_letter: row.try_get("letter")?,
        stream_id: row.try_get("stream_id")?,
        reason: row.try_get("reason")?,
    };
    let finished_at = time_if_any(row.try_get("finished_at")?)?;
    let outcome = RequestOutcome {
        done: counted(row.try_get("done")?)?,
        failed: counted(row.try_get("failed")?)?,
        error: row.try_get("error")?,
        finished_at,
    };
    Ok(Request {
        id,
        subscriber_id: row.try_get("subscriber_id")?,
        kind: columns.read().ok_or_else(|| unknown("request", columns.kind))?,
        requested_by: row.try_get("requested_by")?,
        requested_at: time(row.try_get("requested_at")?)?,
        outcome: finished_at.is_some().then_some(outcome),
    })
}

fn unknown(what: &str, name: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("unknown {what}: {name:?}").into())
}
