//! Appending twice is appending once: the rule, for every backend.

use serde_json::Value;

use crate::{Appended, Error, NewRecord, Position, Record};

/// Whether an append has been stored before, judged by the records that were `found` under its ids.
///
/// `Ok(None)`: it has not. `Ok(Some(…))`: it has, whole, and these are its positions.
///
/// # Errors
/// [`Error::IdTaken`] when an id belongs to another event; [`Error::PartlyStored`] when only some of the ids are known.
pub fn already_stored(append: &[NewRecord], found: &[Record]) -> Result<Option<Appended>, Error> {
    if found.is_empty() {
        return Ok(None);
    }
    let mut positions = Vec::with_capacity(append.len());
    for new in append {
        let Some(stored) = found.iter().find(|stored| stored.id == new.id) else { continue };
        if let Some(differs_in) = difference(new, stored) {
            return Err(Error::IdTaken {
                event_id: new.id,
                stream_id: stored.stream_id,
                stream_version: stored.stream_version,
                differs_in,
            });
        }
        positions.push(Position { stream_version: stored.stream_version, global_sequence: stored.global_sequence });
    }
    if positions.len() < append.len() {
        return Err(Error::PartlyStored { stored: positions.len(), total: append.len() });
    }
    Ok(Appended::new(positions, true))
}

/// Metadata and time are not compared: a second attempt may well have its own.
fn difference(new: &NewRecord, stored: &Record) -> Option<&'static str> {
    if new.stream_id != stored.stream_id {
        Some("stream")
    } else if new.event_type != stored.event_type {
        Some("event type")
    } else if !same_json(&new.data, &stored.data) {
        Some("payload")
    } else {
        None
    }
}

/// Byte for byte, or at least the same value: a map may be written in another order the second time.
fn same_json(a: &str, b: &str) -> bool {
    let parse = |text| serde_json::from_str::<Value>(text).ok();
    a == b || parse(a).is_some_and(|a| Some(a) == parse(b))
}
