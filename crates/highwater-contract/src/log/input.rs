//! Bad input stores nothing, and is told what is wrong with it.

use std::sync::Arc;

use highwater::backend::NewRecord;
use highwater::{Append, Error, Event, EventStore, ExpectedVersion, Invalid, Limits, Metadata, stream_id};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::support::{Ledger, deposits, everything, invalid, new_stream, store, stream};
use crate::{Harness, Settings};

/// A record that is fine, to be spoilt.
fn sound(stream_id: Uuid) -> NewRecord {
    NewRecord {
        id: Uuid::now_v7(),
        stream_id,
        stream_name: None,
        event_type: "Closed".to_owned(),
        schema_version: 1,
        data: "null".to_owned(),
        metadata: "{}".to_owned(),
        created_at: "2024-02-29T12:00:00Z".parse().expect("this is a time"),
    }
}

/// An append of one record.
fn only(record: NewRecord) -> Append {
    Append::to(record.stream_id).record(record)
}

pub(crate) async fn an_append_without_events_is_refused<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    assert_eq!(invalid(&log, &Append::to(stream_id)).await, Invalid::EmptyAppend);
    let expecting = Append::to(stream_id).expecting(ExpectedVersion::Exact(7));
    assert_eq!(invalid(&log, &expecting).await, Invalid::EmptyAppend, "what it expects does not matter");
    let none = log.store_events(Vec::<Event<Ledger>>::new()).await;
    assert!(matches!(none, Err(Error::Invalid(Invalid::EmptyAppend))), "{none:?}");
    assert_eq!(everything(&log).await, []);
}

pub(crate) async fn a_stream_named_without_an_event_is_refused<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b) = (new_stream(), stream_id("order", "17"));
    let last = deposits(a, 2).and_to(b).expecting(ExpectedVersion::NoStream);
    let first = Append::to(b).and_to(a).event(Ledger::Closed);
    for append in [last, first] {
        let refused = invalid(&log, &append).await;
        assert!(matches!(refused, Invalid::NoEventFor { stream_id, .. } if stream_id == b), "{refused:?}");
        assert!(refused.to_string().contains("order/17"), "{refused}");
    }
}

pub(crate) async fn what_is_too_large_is_refused_by_default<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    // So many bytes of data, with `{}` beside it.
    let sized = |bytes: usize| only(NewRecord { data: format!("\"{}\"", "x".repeat(bytes - 4)), ..sound(stream_id) });
    let (limit, bound) = (1 << 20, 64 << 20);
    let too_large = |bytes, limit| Invalid::EventTooLarge { event_type: "Closed".into(), bytes, limit };
    assert_eq!(invalid(&log, &sized(limit + 1)).await, too_large(limit + 1, limit));
    store(&log, &sized(limit)).await;
    assert_eq!(stream(&log, stream_id).await[0].data.len(), limit - 2, "the largest event comes back whole");
    let log = harness.fresh(Limits { event_bytes_max: usize::MAX, ..Limits::default() }.into()).await;
    assert_eq!(invalid(&log, &sized(bound + 1)).await, too_large(bound + 1, bound), "whatever the limits");
}

pub(crate) async fn what_is_over_a_limit_is_refused<H: Harness>(harness: Arc<H>) {
    let limits = Limits { event_bytes_max: 100, event_type_bytes_max: 6, append_events_max: 5, append_bytes_max: 250 };
    let log = harness.fresh(limits.into()).await;
    let stream_id = new_stream();
    let note = |bytes: usize| Ledger::Noted("x".repeat(bytes - 4));
    let one = |bytes| Append::to(stream_id).event(note(bytes));
    let error = invalid(&log, &one(101)).await;
    assert_eq!(error, Invalid::EventTooLarge { event_type: "Noted".into(), bytes: 101, limit: 100 });
    let error = invalid(&log, &one(60).metadata(&Metadata::new().with("trace", "x".repeat(60)))).await;
    assert!(matches!(error, Invalid::EventTooLarge { limit: 100, .. }), "metadata counts as well: {error:?}");
    let error = invalid(&log, &Append::to(stream_id).events([note(90), note(90), note(90)])).await;
    assert_eq!(error, Invalid::AppendTooLarge { bytes: 270, limit: 250 });
    let error = invalid(&log, &Append::to(stream_id).events(vec![Ledger::Closed; 6])).await;
    assert_eq!(error, Invalid::TooManyEvents { count: 6, limit: 5 });
    let error = invalid(&log, &Append::to(stream_id).event(Ledger::deposited(1))).await;
    assert_eq!(error, Invalid::EventType { event_type: "Deposited".into(), limit: 6 });
    // And what just fits is not refused.
    store(&log, &one(100)).await;
    store(&log, &Append::to(stream_id).events([note(90), note(90), note(70)])).await;
    store(&log, &Append::to(stream_id).events(vec![Ledger::Closed; 5])).await;
    assert_eq!(stream(&log, stream_id).await.len(), 9);
}

pub(crate) async fn numbers_that_json_cannot_hold_are_refused<H: Harness>(harness: Arc<H>) {
    #[derive(Serialize)]
    enum Measured {
        Bare(f64),
        Single(f32),
        Nested { list: Vec<Option<(u8, f64)>> },
        Deep(std::collections::BTreeMap<String, Box<Measured>>),
    }
    use Measured::{Bare, Deep, Nested, Single};
    let log = harness.fresh(Settings::default()).await;
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let nested = || Nested { list: vec![None, Some((1, 0.5)), Some((2, number))] };
        let deep = Deep([("a".to_owned(), Box::new(Deep([("b".to_owned(), Box::new(nested()))].into())))].into());
        for measured in [Bare(number), Single(number as f32), nested(), deep] {
            let error = invalid(&log, &Append::to(new_stream()).event(measured)).await;
            assert_eq!(error, Invalid::NotFinite(number.to_string()));
        }
    }
}

pub(crate) async fn the_nul_character_is_refused<H: Harness>(harness: Arc<H>) {
    #[derive(Serialize)]
    enum Noted {
        Noted(serde_json::Value),
    }
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let values = [json!("\0"), json!("a\0b"), json!({ "\0": 1 }), json!([{ "deep": ["\\\0"] }]), json!("\\u0000\u{0}")];
    for value in values {
        let error = invalid(&log, &Append::to(stream_id).event(Noted::Noted(value))).await;
        assert_eq!(error, Invalid::NulCharacter("the data"));
    }
    for metadata in [Metadata::new().with_actor("\0"), Metadata::new().with("a\0", json!(["b"]))] {
        let error = invalid(&log, &deposits(stream_id, 2).metadata(&metadata)).await;
        assert_eq!(error, Invalid::NulCharacter("the metadata"));
    }
    for json in [r#""\u0000""#, "\"\0\""] {
        let error = invalid(&log, &only(NewRecord { data: json.into(), ..sound(stream_id) })).await;
        assert_eq!(error, Invalid::NulCharacter("the data"));
        let metadata = format!("{{\"trace\":{json}}}");
        let error = invalid(&log, &only(NewRecord { metadata, ..sound(stream_id) })).await;
        assert_eq!(error, Invalid::NulCharacter("the metadata"));
    }
    // A backslash that merely stands before `u0000` is not one.
    store(&log, &Append::to(stream_id).event(Noted::Noted(json!("\\u0000")))).await;
}

pub(crate) async fn metadata_that_is_no_object_is_refused<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    for metadata in ["[]", "null", "1", "\"text\"", "", "{", "{} {}"] {
        let append = only(NewRecord { metadata: metadata.to_owned(), ..sound(new_stream()) });
        assert_eq!(invalid(&log, &append).await, Invalid::MetadataNotAnObject, "{metadata:?}");
    }
}

pub(crate) async fn event_types_that_cannot_be_used_are_refused<H: Harness>(harness: Arc<H>) {
    #[derive(Serialize)]
    enum Nameless {
        #[serde(rename = "")]
        Empty,
        #[serde(rename = "a\0b")]
        Nul,
    }
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let error = invalid(&log, &Append::to(stream_id).event(Nameless::Empty)).await;
    assert_eq!(error, Invalid::EventType { event_type: String::new(), limit: 255 });
    let error = invalid(&log, &Append::to(stream_id).event(Nameless::Nul)).await;
    assert_eq!(error, Invalid::EventType { event_type: "a\0b".into(), limit: 255 });
    for event_type in ["x".repeat(256), "é".repeat(128), "x".repeat(100_000)] {
        let error = invalid(&log, &only(NewRecord { event_type, ..sound(stream_id) })).await;
        assert!(matches!(error, Invalid::EventType { limit: 255, .. }), "{error:?}");
    }
}

pub(crate) async fn an_id_twice_in_one_append_is_refused<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b, id) = (new_stream(), new_stream(), Uuid::now_v7());
    let twice = Append::to(a).event_with_id(id, Ledger::Closed);
    assert_eq!(invalid(&log, &twice.clone().event_with_id(id, Ledger::Closed)).await, Invalid::DuplicateId(id));
    let elsewhere = twice.event(Ledger::Closed).and_to(b).event_with_id(id, Ledger::opened());
    assert_eq!(invalid(&log, &elsewhere).await, Invalid::DuplicateId(id));
}

pub(crate) async fn versions_that_do_not_follow_each_other_are_refused<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b) = (new_stream(), new_stream());
    let event = |(stream_id, version)| {
        Event::builder().stream_id(stream_id).stream_version(version).data(Ledger::Closed).build().expect("an event")
    };
    for (versions, wanted, found) in [
        (vec![(a, 1), (a, 3)], 2, 3),
        (vec![(a, 1), (a, 1)], 2, 1),
        (vec![(a, 1), (b, 1), (a, 2), (b, 5), (a, 3)], 2, 5),
        (vec![(a, 7), (a, 8), (a, 7)], 9, 7),
    ] {
        match log.store_events(versions.into_iter().map(event).collect()).await {
            Err(Error::Invalid(Invalid::VersionsNotContiguous { wanted: said, found: that, .. })) => {
                assert_eq!((said, that), (wanted, found));
            }
            other => panic!("versions in one append follow each other: {other:?}"),
        }
    }
    assert_eq!(everything(&log).await, []);
}

pub(crate) async fn what_is_not_a_variant_is_refused<H: Harness>(harness: Arc<H>) {
    #[derive(Serialize)]
    struct Record {
        cents: i64,
    }
    #[derive(Serialize)]
    #[serde(tag = "type")]
    enum Internal {
        Deposited { cents: i64 },
    }
    #[derive(Serialize)]
    #[serde(tag = "type", content = "data")]
    enum Adjacent {
        Deposited { cents: i64 },
    }
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Untagged {
        Deposited { cents: i64 },
    }
    let log = harness.fresh(Settings::default()).await;
    let to = || Append::to(new_stream());
    let appends = [
        to().event(Record { cents: 1 }),
        to().event(Internal::Deposited { cents: 1 }),
        to().event(Adjacent::Deposited { cents: 1 }),
        to().event(Untagged::Deposited { cents: 1 }),
        to().event("text"),
        to().event(1),
        to().event(()),
        to().event([1, 2]),
        to().event(Some(Ledger::Closed)),
        to().event(json!({ "Deposited": { "cents": 1 } })),
    ];
    for append in appends {
        let error = invalid(&log, &append).await;
        assert!(matches!(error, Invalid::NotAnEvent(_)), "this is no event: {error:?}");
    }
}

pub(crate) async fn what_cannot_be_written_as_json_is_refused<H: Harness>(harness: Arc<H>) {
    #[derive(Serialize)]
    enum Keyed {
        Keyed(std::collections::BTreeMap<(u8, u8), u8>),
    }
    let log = harness.fresh(Settings::default()).await;
    let error = invalid(&log, &Append::to(new_stream()).event(Keyed::Keyed([((1, 2), 3)].into()))).await;
    assert!(matches!(error, Invalid::NotJson(_)), "{error:?}");
    for text in ["", "{", "nothing", "1 2", "{\"a\":}", "\"\\ud800\""] {
        let error = invalid(&log, &Append::to(new_stream()).raw("Noted", text)).await;
        assert!(matches!(error, Invalid::NotJson(_)), "{text}: {error:?}");
    }
}

pub(crate) async fn numbers_and_times_out_of_range_are_refused<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    for schema_version in [i32::MAX as u32 + 1, u32::MAX] {
        let error = invalid(&log, &only(NewRecord { schema_version, ..sound(stream_id) })).await;
        assert_eq!(error, Invalid::SchemaVersion(schema_version));
    }
    for time in ["+10000-01-01T00:00:00Z", "0000-12-31T23:59:59.999999Z", "-0044-03-15T12:00:00Z"] {
        let record = NewRecord { created_at: time.parse().expect("a time"), ..sound(stream_id) };
        let error = invalid(&log, &only(record)).await;
        assert!(matches!(error, Invalid::CreatedAt(_)), "{error:?}");
    }
}

pub(crate) async fn one_bad_event_keeps_the_whole_append_out<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b) = (new_stream(), new_stream());
    store(&log, &deposits(a, 2)).await;
    for bad in 0..4 {
        let append = (0..4).fold(Append::to(a), |append, nth| {
            let text = if nth == bad { "\0" } else { "fine" };
            append.and_to(if nth % 2 == 0 { a } else { b }).event(Ledger::Noted(text.into()))
        });
        assert_eq!(invalid(&log, &append).await, Invalid::NulCharacter("the data"));
    }
    assert_eq!((stream(&log, a).await.len(), stream(&log, b).await.len()), (2, 0));
}

pub(crate) async fn the_ids_of_bad_input_stay_free<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (stream_id, id) = (new_stream(), Uuid::now_v7());
    let bad = Append::to(stream_id).event_with_id(id, Ledger::Closed).event(Ledger::Noted("\0".into()));
    invalid(&log, &bad).await;
    let done = store(&log, &Append::to(stream_id).event_with_id(id, Ledger::opened())).await;
    assert_eq!((done.repeated, done.stream_version), (false, 1));
}

pub(crate) async fn bad_input_is_refused_whatever_the_log_holds<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (stream_id, id) = (new_stream(), Uuid::now_v7());
    store(&log, &Append::to(stream_id).event_with_id(id, Ledger::Closed)).await;
    // Known ids, and expectations that do not hold: the input is looked at first, so one mistake has one name.
    let repeated = Append::to(stream_id).event_with_id(id, Ledger::Closed).event(Ledger::Noted("\0".into()));
    let expecting = repeated.clone().expecting(ExpectedVersion::Exact(99));
    for append in [repeated, expecting] {
        assert_eq!(invalid(&log, &append).await, Invalid::NulCharacter("the data"));
    }
}
