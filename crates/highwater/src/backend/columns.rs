//! What columns of SQL backends may hold: the rules, for every backend. What does not keep them was not written by one.

use std::collections::HashSet;

use futures_util::{Stream, StreamExt};
use uuid::Uuid;

use crate::backend::{ReadLimit, Record};
use crate::transfer::TransferError;
use crate::{BoxError, Error};

/// A counter from the database. Negative values are an error, not 0.
///
/// # Errors
/// For a negative one.
pub fn counted(number: i64) -> Result<u64, BoxError> {
    u64::try_from(number).map_err(|_| format!("{number} is stored where nothing is negative").into())
}

/// The same where counting begins at 1: what was no number at all is read as 0 by some drivers.
///
/// # Errors
/// For a negative one, and for 0.
pub fn positive(number: i64) -> Result<u64, BoxError> {
    match counted(number)? {
        0 => Err("0 is stored where counting begins at 1".into()),
        number => Ok(number),
    }
}

/// The name of an event's type.
///
/// # Errors
/// For an empty one.
pub fn named(event_type: String) -> Result<String, BoxError> {
    if event_type.is_empty() { Err("its type has no name".into()) } else { Ok(event_type) }
}

/// What comes after all texts that begin with `prefix`, in the order of their bytes; `None` after the empty one, which is the
/// beginning of all.
#[must_use]
pub fn after_prefix(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // Nothing lies between the surrogates, which are no characters.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(last as u32 + 1) };
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

/// A number as a column holds it. What is beyond its range is beyond every event.
#[must_use]
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A count or a time of the database's own, which is never negative.
#[must_use]
pub fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// What keeps a store from being filled: four columns say whether it holds events, checkpoints, dead letters, requests.
///
/// # Errors
/// When a column cannot be read.
pub fn not_empty<E>(holds: impl Fn(usize) -> Result<bool, E>) -> Result<Option<Error>, E> {
    let mut found = Vec::new();
    for (column, what) in ["events", "checkpoints", "dead letters", "requests"].into_iter().enumerate() {
        if holds(column)? {
            found.push(what);
        }
    }
    Ok((!found.is_empty()).then(|| Error::Transfer(TransferError::NotEmpty { found: found.join(", ") })))
}

/// The streams that records continue, whose versions a filling looks up. One that begins with them is left to the
/// unique index.
#[must_use]
pub fn continued(records: &[Record]) -> Vec<Uuid> {
    let mut seen = HashSet::new();
    let continues = |record: &&Record| seen.insert(record.stream_id) && record.stream_version > 1;
    records.iter().filter(continues).map(|record| record.stream_id).collect()
}

/// Why a result was not read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It was over.
    End,
    /// The limit on bytes was reached; there may be a lot left, which the connection still has to read.
    Bytes,
    /// The next record was not wanted any more.
    Unwanted,
    /// The next record cannot be read. A caller that asks for the next page gets the reason.
    Damaged,
}

/// Takes records as they arrive, until `limit.bytes` is reached or a record is not `wanted`. Room is made for as many as are
/// `expected`. Records before one that is `damaged` are still returned.
///
/// # Errors
/// When the result cannot be read, or its first record is damaged.
pub async fn take_page<E>(
    mut rows: impl Stream<Item = Result<Record, E>> + Unpin,
    limit: ReadLimit,
    expected: usize,
    mut wanted: impl FnMut(&Record) -> bool,
    damaged: impl Fn(&E) -> bool,
) -> Result<(Vec<Record>, Stopped), E> {
    let mut records = Vec::with_capacity(expected.min(limit.events));
    let mut bytes = 0;
    while let Some(row) = rows.next().await {
        if bytes >= limit.bytes.max(1) {
            return Ok((records, Stopped::Bytes));
        }
        let record = match row {
            Err(error) if !records.is_empty() && damaged(&error) => return Ok((records, Stopped::Damaged)),
            read => read?,
        };
        if !wanted(&record) {
            return Ok((records, Stopped::Unwanted));
        }
        bytes += record.bytes();
        records.push(record);
    }
    Ok((records, Stopped::End))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_a_prefix_comes_after_all_that_begin_with_it() {
        assert_eq!(after_prefix("order/").as_deref(), Some("order0"));
        assert_eq!(after_prefix("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(after_prefix("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(after_prefix(""), None);
    }

    #[test]
    fn only_what_a_backend_writes_is_read() {
        assert_eq!((counted(0).unwrap(), positive(1).unwrap(), named("T".into()).unwrap()), (0, 1, "T".to_owned()));
        for wrong in [counted(-1), positive(0), positive(i64::MIN)] {
            assert!(wrong.unwrap_err().to_string().contains("is stored where"));
        }
        assert!(named(String::new()).is_err());
    }

    #[test]
    fn what_is_held_is_named_in_order() {
        let held = |held: [bool; 4]| not_empty(|column| Ok::<_, ()>(held[column])).unwrap();
        assert!(held([false; 4]).is_none());
        let Some(Error::Transfer(TransferError::NotEmpty { found })) = held([false, true, false, true]) else {
            panic!("it is not empty")
        };
        assert_eq!(found, "checkpoints, requests");
    }
}
