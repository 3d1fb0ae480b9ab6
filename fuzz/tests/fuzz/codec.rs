//! Whatever stands in the log: it is decoded, or it is an error that names the event.

use std::collections::BTreeMap;

use highwater::backend::Record;
use highwater::codec::{decode, encode, event_types};
use highwater::{Error, EventTypes, Upcasters};
use highwater_fuzz::{Outcomes, Source, json, mutated};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::fuzz;

/// Every shape that a variant can have, and what serde lets one say about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Shape {
    Unit,
    Newtype(String),
    Number(i64),
    Wide(u64),
    Option(Option<Box<Inner>>),
    Tuple(u8, String),
    Struct {
        text: String,
        count: u32,
    },
    #[serde(rename = "renamed-with-a-hyphen")]
    Renamed {
        id: Uuid,
    },
    #[serde(alias = "Formerly")]
    Aliased(bool),
    Defaulted(#[serde(default)] Inner),
    Map(BTreeMap<String, Vec<i32>>),
    Any(serde_json::Value),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Inner {
    nested: Vec<Option<char>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Uuid>,
}

const NAMES: [&str; 15] = [
    "Unit",
    "Newtype",
    "Number",
    "Wide",
    "Option",
    "Tuple",
    "Struct",
    "renamed-with-a-hyphen",
    "Aliased",
    "Formerly",
    "Defaulted",
    "Map",
    "Any",
    "Gone",
    "",
];

/// A value of any shape.
fn shape(source: &mut Source<'_>) -> Shape {
    let number = source.number();
    match source.below(12) {
        0 => Shape::Unit,
        1 => Shape::Newtype(source.text()),
        2 => Shape::Number(number as i64),
        3 => Shape::Wide(number as u64),
        4 => Shape::Option(source.one_in(2).then(|| Box::new(inner(source)))),
        5 => Shape::Tuple(source.byte(), source.text()),
        6 => Shape::Struct { text: source.text(), count: number as u32 },
        7 => Shape::Renamed { id: Uuid::from_u128(number as u128) },
        8 => Shape::Aliased(source.one_in(2)),
        9 => Shape::Defaulted(inner(source)),
        10 => Shape::Map((0..source.below(3)).map(|n| (source.text(), vec![number as i32; n])).collect()),
        _ => Shape::Any(json(source)),
    }
}

fn inner(source: &mut Source<'_>) -> Inner {
    let nested = (0..source.below(4)).map(|_| source.text().chars().next()).collect();
    Inner { nested, id: source.one_in(2).then(|| Uuid::from_u128(7)) }
}

fn record(event_type: String, schema_version: u32, data: String, metadata: String) -> Record {
    Record {
        id: Uuid::from_u128(1),
        stream_id: Uuid::from_u128(2),
        stream_name: None,
        stream_version: 3,
        global_sequence: 4,
        event_type,
        schema_version,
        data,
        metadata,
        created_at: std::time::SystemTime::UNIX_EPOCH.into(),
    }
}

/// Steps from some names and versions to others, as far as they are accepted.
fn upcasters(source: &mut Source<'_>) -> Upcasters {
    let mut upcasters = Upcasters::new();
    for _ in 0..source.below(5) {
        let from = (source.pick(&NAMES), source.below(3) as u32 + 1);
        let to = (source.pick(&NAMES), source.below(3) as u32 + 1);
        let (kind, with) = (source.below(4), json(source));
        let step = move |data: serde_json::Value| match kind {
            0 => Ok(data),
            1 => Err("this one never succeeds".into()),
            2 => Ok(with.clone()),
            _ => Ok(serde_json::json!({ "text": data, "count": 1 })),
        };
        // One that is refused changes nothing.
        if let Ok(more) = upcasters.clone().upcast(from, to, step) {
            upcasters = more;
        }
    }
    upcasters
}

#[test]
fn whatever_is_encoded_comes_back() {
    let mut outcomes = Outcomes::default();
    fuzz!(4_000, |bytes: &[u8]| {
        let mut source = Source::new(bytes);
        let value = shape(&mut source);
        let Ok(encoded) = encode(&value) else {
            // There is no U+0000 in any database.
            assert!(serde_json::to_string(&value).unwrap().contains("\\u0000"), "{value:?}");
            outcomes.add("refused");
            return;
        };
        let record = record(encoded.event_type.to_owned(), 1, encoded.data, "{}".to_owned());
        let types = event_types::<Shape>().unwrap();
        let event = decode::<Shape>(record, &types, &Upcasters::new()).unwrap().unwrap();
        match (&event.data, &value) {
            // Floats in `Value` may be written shorter than they are.
            (Shape::Any(_), Shape::Any(_)) => assert_eq!(encode(&event.data), encode(&value)),
            (decoded, value) => assert_eq!(decoded, value),
        }
        outcomes.add(encoded.event_type);
    });
    let mut all = NAMES[..13].to_vec();
    all.retain(|name| *name != "Formerly");
    outcomes.assert(20, &all);
    outcomes.assert(20, &["refused"]);
}

#[test]
fn whatever_is_stored_is_decoded_or_named() {
    let mut outcomes = Outcomes::default();
    fuzz!(6_000, |bytes: &[u8]| {
        let mut source = Source::new(bytes);
        // Of a shape that fits, mostly: with something changed, or cut off.
        let data = match source.below(4) {
            0 => String::from_utf8_lossy(source.bytes(64)).into_owned(),
            kind => {
                let value = serde_json::to_value(shape(&mut source)).unwrap();
                let content = match value {
                    serde_json::Value::Object(fields) => {
                        fields.into_iter().next().map_or_else(Default::default, |(_, content)| content)
                    }
                    other => other,
                };
                let text = if kind == 1 { content } else { mutated(content, &mut source) }.to_string();
                let cut = if source.one_in(6) { source.below(text.len() + 1) } else { text.len() };
                text.chars().take(cut).collect()
            }
        };
        let metadata = match source.below(4) {
            3 => json(&mut source).to_string(),
            _ => "{}".to_owned(),
        };
        let upcasters = upcasters(&mut source);
        let (name, version) = (source.pick(&NAMES).to_owned(), source.below(4) as u32);
        let types = match source.below(3) {
            0 => event_types::<Shape>().unwrap(),
            1 => EventTypes::only(["Unit", "Struct"]),
            _ => EventTypes::All,
        };
        match decode::<Shape>(record(name, version, data, metadata), &types, &upcasters) {
            Ok(Ok(event)) => {
                // What was read can be stored, or holds what no database takes.
                outcomes.add(if encode(&event.data).is_ok() { "decoded" } else { "decoded, with U+0000" });
            }
            Ok(Err(_)) => outcomes.add("unknown"),
            Err(Error::Undecodable { event_id, .. }) => {
                assert_eq!(event_id, Uuid::from_u128(1));
                outcomes.add("undecodable");
            }
            Err(other) => panic!("no kind of error for this: {other:?}"),
        }
    });
    outcomes.assert(200, &["decoded", "unknown", "undecodable"]);
}

/// The same check catches a codec that takes any content for any variant.
#[test]
fn a_codec_that_loses_something_is_caught() {
    let forgets = |value: &Shape| serde_json::to_value(value).map(|_| Shape::Unit).unwrap();
    let mut caught = 0;
    highwater_fuzz::seeded(100, |bytes| {
        let value = shape(&mut Source::new(bytes));
        caught += usize::from(forgets(&value) != value);
    });
    assert!(caught > 50, "{caught}");
}
