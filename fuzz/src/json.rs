//! JSON, nearly valid.

use serde_json::{Map, Number, Value};

use crate::Source;

/// How deep it nests on purpose.
const DEPTH_MAX: usize = 6;

/// Any JSON.
pub fn json(source: &mut Source<'_>) -> Value {
    value(source, 0)
}

fn value(source: &mut Source<'_>, depth: usize) -> Value {
    match source.below(if depth < DEPTH_MAX { 8 } else { 5 }) {
        0 => Value::Null,
        1 => Value::Bool(source.one_in(2)),
        2 => number(source),
        3 | 4 => Value::String(source.text()),
        5 => (0..source.below(4)).map(|_| value(source, depth + 1)).collect(),
        _ => {
            let fields = source.below(4);
            Value::Object((0..fields).map(|_| (key(source), value(source, depth + 1))).collect())
        }
    }
}

fn number(source: &mut Source<'_>) -> Value {
    let number = source.number();
    if source.one_in(3) {
        return Number::from_f64(number as f64 * 1e-3).map_or(Value::Null, Value::Number);
    }
    match (u64::try_from(number), i64::try_from(number)) {
        (Ok(number), _) => number.into(),
        (_, Ok(number)) => number.into(),
        _ => Number::from_f64(number as f64).map_or(Value::Null, Value::Number),
    }
}

fn key(source: &mut Source<'_>) -> String {
    source.pick(&["text", "id", "0", "count", "", "Unit", "nested", "\u{0}"]).to_owned()
}

/// The same value with something changed in one place: another value there, a field more, less or twice, or nothing.
#[must_use]
pub fn mutated(value: Value, source: &mut Source<'_>) -> Value {
    match value {
        Value::Object(fields) if !fields.is_empty() && !source.one_in(5) => {
            let at = source.below(fields.len());
            let mut changed = Map::new();
            for (n, (key, field)) in fields.into_iter().enumerate() {
                match (n == at, source.below(if n == at { 6 } else { 1 })) {
                    (true, 4) => {}
                    (true, 5) => {
                        changed.insert(format!("{key}x"), field);
                    }
                    (true, _) => {
                        changed.insert(key, mutated(field, source));
                    }
                    (false, _) => {
                        changed.insert(key, field);
                    }
                }
            }
            Value::Object(changed)
        }
        Value::Array(mut items) if !items.is_empty() && !source.one_in(5) => {
            let at = source.below(items.len());
            match source.below(4) {
                3 => drop(items.remove(at)),
                2 => items.insert(at, items[at].clone()),
                _ => items[at] = mutated(items[at].take(), source),
            }
            Value::Array(items)
        }
        Value::Number(_) if !source.one_in(4) => number(source),
        Value::String(text) if !source.one_in(4) => Value::String(match source.below(3) {
            0 => source.text(),
            1 => text + &source.text(),
            _ => text.chars().rev().collect(),
        }),
        _ => json(source),
    }
}
