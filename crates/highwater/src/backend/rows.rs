//! From rows to dead letters, requests and reports: how they are read, for every SQL backend.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::columns::counted;
use super::{
    DeadLetter, DeadLetterAttempt, DeadLetterState, Report, Request, RequestColumns, RequestOutcome, StateColumns,
};
use crate::{BoxError, Filter, StreamName};

/// A row as a driver returns it, by the names of its columns. `None` is NULL.
#[expect(clippy::missing_errors_doc, reason = "each fails where the column does not hold what it should")]
pub trait StoredRow {
    /// An id.
    fn id(&self, column: &str) -> Result<Option<Uuid>, BoxError>;
    /// A text.
    fn text(&self, column: &str) -> Result<Option<String>, BoxError>;
    /// A whole number.
    fn number(&self, column: &str) -> Result<Option<i64>, BoxError>;
    /// A number with a fraction.
    fn real(&self, column: &str) -> Result<Option<f64>, BoxError>;
    /// Yes or no.
    fn flag(&self, column: &str) -> Result<Option<bool>, BoxError>;
    /// A time.
    fn time(&self, column: &str) -> Result<Option<DateTime<Utc>>, BoxError>;
}

/// Reads a dead letter.
///
/// # Errors
/// Says which one cannot be read, and why.
pub fn dead_letter(row: &dyn StoredRow) -> Result<DeadLetter, BoxError> {
    let id = there("id", row.id("id"))?;
    let read = || {
        let state = text(row, "state")?;
        Ok(DeadLetter {
            id,
            subscriber_id: text(row, "subscriber_id")?,
            event_id: there("event_id", row.id("event_id"))?,
            global_sequence: count(row, "global_sequence")?,
            stream_id: there("stream_id", row.id("stream_id"))?,
            stream_name: row.text("stream_name")?.map(|name| StreamName::from(name.as_str())),
            event_type: text(row, "event_type")?,
            error_message: row.text("error_message")?,
            retry_count: u32::try_from(count(row, "retry_count")?)?,
            created_at: time(row, "created_at")?,
            last_retry_at: row.time("last_retry_at")?,
            state: DeadLetterState::from_name(&state)
                .ok_or_else(|| format!("unknown state of a dead letter: {state:?}"))?,
            parks: there("parks", row.flag("parks"))?,
            resolved_at: row.time("resolved_at")?,
            resolved_by: row.text("resolved_by")?,
            reason: row.text("reason")?,
        })
    };
    read().map_err(|why: BoxError| format!("dead letter {id}: {why}").into())
}

/// Reads one thing that was done with a dead letter.
///
/// # Errors
/// Says which column cannot be read, and why.
pub fn attempt(row: &dyn StoredRow) -> Result<DeadLetterAttempt, BoxError> {
    Ok(DeadLetterAttempt {
        at: time(row, "attempted_at")?,
        by: text(row, "attempted_by")?,
        outcome: text(row, "outcome")?,
        detail: row.text("detail")?,
    })
}

/// Reads a request. Of one that is open, columns of an outcome are not looked at, and need not be there.
///
/// # Errors
/// Says which one cannot be read, and why.
pub fn request(row: &dyn StoredRow) -> Result<Request, BoxError> {
    let id = there("id", row.id("id"))?;
    let read = || {
        let (kind, reason) = (text(row, "kind")?, row.text("reason")?);
        let columns = RequestColumns {
            kind: &kind,
            dead_letter: row.id("dead_letter_id")?,
            stream_id: row.id("stream_id")?,
            reason: reason.as_deref(),
        };
        let outcome = match row.time("finished_at")? {
            None => None,
            finished_at => Some(RequestOutcome {
                done: count(row, "done")?,
                failed: count(row, "failed")?,
                error: row.text("error")?,
                finished_at,
            }),
        };
        Ok(Request {
            id,
            subscriber_id: text(row, "subscriber_id")?,
            kind: columns.read().ok_or_else(|| format!("unknown request: {kind:?}"))?,
            requested_by: text(row, "requested_by")?,
            requested_at: time(row, "requested_at")?,
            outcome,
        })
    };
    read().map_err(|why: BoxError| format!("request {id}: {why}").into())
}

/// The requests that can be read. One that cannot waits for an operator, and keeps no others waiting.
#[must_use]
pub fn readable_requests(rows: impl IntoIterator<Item = impl StoredRow>) -> Vec<Request> {
    rows.into_iter().filter_map(|row| request(&row).ok()).collect()
}

/// The reports that can be read. Reports inform: one that cannot be read says nothing, and keeps no other from being read.
#[must_use]
pub fn readable_reports(rows: impl IntoIterator<Item = impl StoredRow>) -> Vec<Report> {
    rows.into_iter().filter_map(|row| report(&row).ok().flatten()).collect()
}

/// `None` for a state that only a newer version knows.
fn report(row: &dyn StoredRow) -> Result<Option<Report>, BoxError> {
    let (state, reason) = (text(row, "state")?, row.text("reason")?);
    let columns = StateColumns {
        state: &state,
        failing: row.number("failing")?.map(counted).transpose()?,
        failures: row.number("failures")?.map(u32::try_from).transpose()?,
        next_at: row.time("next_at")?,
        reason: reason.as_deref(),
    };
    let (term, last_error) = (count(row, "term")?, row.text("last_error")?);
    let Some(state) = columns.read(term, last_error.as_deref()) else { return Ok(None) };
    Ok(Some(Report {
        subscriber_id: text(row, "subscriber_id")?,
        term,
        state,
        position: count(row, "global_sequence")?,
        rate: there("rate", row.real("rate"))?,
        last_error,
        push_degraded: row.text("push_degraded")?,
        reads: row.text("reads")?.and_then(|text| Filter::from_text(&text)),
        reported_at: time(row, "reported_at")?,
    }))
}

fn text(row: &dyn StoredRow, column: &str) -> Result<String, BoxError> {
    there(column, row.text(column))
}

fn time(row: &dyn StoredRow, column: &str) -> Result<DateTime<Utc>, BoxError> {
    there(column, row.time(column))
}

fn count(row: &dyn StoredRow, column: &str) -> Result<u64, BoxError> {
    counted(there(column, row.number(column))?).map_err(|why| format!("{column}: {why}").into())
}

fn there<T>(column: &str, read: Result<Option<T>, BoxError>) -> Result<T, BoxError> {
    read?.ok_or_else(|| format!("{column} is NULL").into())
}
