//! Appending twice is appending once: the rule, for every backend.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

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
    let found: HashMap<Uuid, &Record> = found.iter().map(|stored| (stored.id, stored)).collect();
    let mut positions = Vec::with_capacity(append.len());
    for new in append {
        let Some(stored) = found.get(&new.id) else { continue };
        if let Some(differs_in) = difference(new, stored) {
            return Err(Error::IdTaken {
                event_id: new.id,
                stream_id: stored.stream_id,
                stream_name: stored.stream_name.clone(),
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

/// Byte for byte, or at least the same value: a map may be written in another order the second time. Numbers are compared
/// as they are written, so that none is rounded into another.
fn same_json(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    if let (Some(a), Some(b)) = (parse::<BTreeMap<String, &RawValue>>(a), parse::<BTreeMap<String, &RawValue>>(b)) {
        return a.len() == b.len()
            && a.iter().zip(&b).all(|((key_a, a), (key_b, b))| key_a == key_b && same_json(a.get(), b.get()));
    }
    if let (Some(a), Some(b)) = (parse::<Vec<&RawValue>>(a), parse::<Vec<&RawValue>>(b)) {
        return a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same_json(a.get(), b.get()));
    }
    if let (Some(a), Some(b)) = (parse::<String>(a), parse::<String>(b)) {
        return a == b;
    }
    a.trim() == b.trim()
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Option<T> {
    serde_json::from_str(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_the_same_in_another_order_and_with_other_spaces_but_not_with_other_numbers() {
        assert!(same_json(r#"{"a":1,"b":[1, {"x":"\u0041"}]}"#, r#"{ "b":[1,{"x":"A"}], "a":1 }"#));
        assert!(!same_json(r#"{"a":1}"#, r#"{"a":1,"b":1}"#));
        assert!(!same_json("[1,2]", "[2,1]"));
        assert!(!same_json("340282366920938463463374607431768211455", "340282366920938463463374607431768211454"));
        assert!(!same_json("null", "[]"));
    }
}
