//! Events of callers that have no Rust type for them.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use highwater::backend::{KindsWritten, NewRecord, Prepared};
use highwater::prelude::*;
use highwater::{Invalid, Limits};
use serde::Serialize;
use uuid::Uuid;

#[derive(Serialize)]
enum Order {
    Placed { cents: i64 },
}

fn upcasters() -> Upcasters {
    Upcasters::new().upcast(("Placed", 1), ("Placed", 2), Ok).unwrap()
}

fn records(append: &Append) -> Result<Vec<NewRecord>, Invalid> {
    let prepared = Prepared::new(append, &Limits::default(), &upcasters(), &KindsWritten::default())?;
    Ok(prepared.complete().collect())
}

#[test]
fn a_raw_event_is_as_one_of_an_enum_but_for_its_text() {
    let (a, b) = (stream_id("order", "a"), stream_id("order", "b"));
    let metadata = Metadata::new().with_actor("anna");
    let append = Append::to(a).event(Order::Placed { cents: 5 }).raw("Placed", r#"{ "cents": 5 }"#);
    let append = append.and_to(b).raw("Placed", "{\"cents\":5}").metadata(&metadata);
    let records = records(&append).unwrap();
    for record in &records {
        assert_eq!((record.event_type.as_str(), record.schema_version), ("Placed", 2));
        assert_eq!((record.id.get_version_num(), record.created_at.timestamp_subsec_nanos() % 1_000), (7, 0));
        assert_eq!(record.metadata, metadata.to_json());
    }
    assert_eq!(records.iter().map(|record| record.stream_id).collect::<Vec<_>>(), [a, a, b]);
    let texts: Vec<&str> = records.iter().map(|record| record.data.as_str()).collect();
    assert_eq!(texts, [r#"{"cents":5}"#, r#"{ "cents": 5 }"#, r#"{"cents":5}"#]);
}

#[test]
fn an_answer_has_the_same_ids_whichever_way_it_is_given() {
    let cause = Event::builder().stream_id(stream_id("order", "a")).data(Order::Placed { cents: 5 }).build().unwrap();
    let answer = || Append::to(cause.stream_id).in_answer_to(&cause, "payment/charge");
    let typed = answer().events([Order::Placed { cents: 1 }, Order::Placed { cents: 2 }]);
    let raw = answer().raw("Placed", "{\"cents\":1}").raw("Placed", "{\"cents\":2}");
    assert!(typed.event_ids().eq(raw.event_ids()));
    assert_eq!(records(&typed).unwrap()[0].metadata, records(&raw).unwrap()[0].metadata);
}

#[test]
fn the_caller_may_give_an_id_and_a_schema_version() {
    let append = Append::to(Uuid::nil()).raw_with_id(Uuid::max(), "Placed", "1").schema_version(1).raw("Placed", "2");
    let records = records(&append).unwrap();
    assert_eq!((records[0].id, records[0].schema_version), (Uuid::max(), 1));
    assert_eq!(records[1].schema_version, 2, "the version is that of one event");
    let early = Append::to(Uuid::nil()).schema_version(1).raw("Placed", "2");
    assert!(matches!(early.checked(&Limits::default()), Err(Invalid::Setting { name: "schema_version", .. })));
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let refused = |event_type: &str, json: &str| records(&Append::to(Uuid::nil()).raw(event_type, json)).unwrap_err();
    for text in ["", "{", "1 2", "'a'", "\"\\ud800\"", &"[".repeat(128)] {
        assert!(matches!(refused("Placed", text), Invalid::NotJson(_)), "{text}");
    }
    assert_eq!(refused("Placed", r#""\u0000""#), Invalid::NulCharacter("the data"));
    assert!(matches!(refused("", "1"), Invalid::EventType { .. }));
}
