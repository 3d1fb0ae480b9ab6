//! What is read is what was written, by every way of reading, and only of the stream that was asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use highwater::backend::{IntoStreamId, Log, NewRecord, Record, StreamRead};
use highwater::{Append, Error, Event, EventStore, EventTypes, GlobalSequence, Metadata, stream_id};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::support::{Ledger, Reader, deposits, everything, head, new_stream, store, stream, stream_in_pages};
use crate::{Harness, Settings};

/// A record on its way into the log, as a tool that moves events would make it.
fn new_record(stream: impl IntoStreamId, data: &str, metadata: &str) -> NewRecord {
    let stream = stream.into_stream_id();
    NewRecord {
        id: Uuid::now_v7(),
        stream_id: stream.id(),
        stream_name: stream.name().expect("a name that can be stored"),
        event_type: "Noted".to_owned(),
        schema_version: 1,
        data: data.to_owned(),
        metadata: metadata.to_owned(),
        created_at: "2024-02-29T23:59:59.999999Z".parse().expect("this is a time"),
    }
}

/// Stores records and checks that every way of reading gives them back, in every field.
async fn assert_come_back<L: Log>(log: &L, records: &[NewRecord]) {
    let append = records.iter().cloned().fold(Append::to(records[0].stream_id), Append::record);
    let done = store(log, &append).await;
    let wanted: Vec<Record> = (records.iter().zip(&done.positions))
        .map(|(new, position)| Record {
            id: new.id,
            stream_id: new.stream_id,
            stream_name: new.stream_name.clone(),
            stream_version: position.stream_version,
            global_sequence: position.global_sequence,
            event_type: new.event_type.clone(),
            schema_version: new.schema_version,
            data: new.data.clone(),
            metadata: new.metadata.clone(),
            created_at: new.created_at,
        })
        .collect();
    assert_eq!(everything(log).await, wanted, "read with everything");
    for stream_id in append.streams().iter().map(|(stream_id, _)| *stream_id) {
        let of_stream: Vec<Record> = wanted.iter().filter(|record| record.stream_id == stream_id).cloned().collect();
        assert_eq!(stream(log, stream_id).await, of_stream, "read with its stream");
        let mut back = stream_in_pages(log, stream_id, StreamRead::backwards(u64::MAX)).await;
        back.reverse();
        assert_eq!(back, of_stream, "read backwards with its stream");
    }
    for record in &wanted {
        assert_eq!(
            log.record(record.id).await.expect("it can be looked up").as_ref(),
            Some(record),
            "looked up by its id"
        );
    }
    assert_eq!(log.record(Uuid::now_v7()).await.expect("it can be looked up"), None, "an id that no event has");
    let types = EventTypes::only(records.iter().map(|record| record.event_type.clone()));
    let mut reader = Reader::new(types, highwater::backend::ReadLimit::default());
    reader.catch_up(log).await;
    assert_eq!(reader.seen, wanted, "read by its type");
}

pub(crate) async fn every_field_is_read_as_it_was_written<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b) = (new_stream(), stream_id("order", "17"));
    let records = [
        NewRecord { schema_version: 7, ..new_record(a, r#"{"cents":1}"#, r#"{"actor":"anna"}"#) },
        NewRecord { schema_version: i32::MAX as u32, ..new_record(b, "null", "{}") },
        NewRecord { id: Uuid::max(), ..new_record(a, "[1,2]", r#"{"nested":{"list":[1,null,true]}}"#) },
        NewRecord { id: Uuid::nil(), ..new_record(b, "\"text\"", r#"{"":""}"#) },
    ];
    assert_come_back(&log, &records).await;
}

pub(crate) async fn json_comes_back_to_the_byte<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let deep = format!("{}0{}", "[".repeat(100), "]".repeat(100));
    let texts = [
        r#"{"z":1,"a":2,"m":3}"#,
        r#"{"a":1,"a":2}"#,
        r#"{ "spaced" : [ 1 , 2 ] }"#,
        "[1,1.0,1.00,1e0,1E+0,-0,-0.0,0.1000]",
        "[9007199254740993,18446744073709551615,-9223372036854775808]",
        "[123456789012345678901234567890.123456789012345678901234567890,1e400,1e-400]",
        r#"["é","\u00e9","😀","\ud83d\ude00","\/","/","\t","\u0001","\\u0000","\u007f","\u2028"]"#,
        r#"{"ключ":"значение","鍵":"値","🔑":"","'quoted'":"O'Neill -- ; $1 ? :name %s {}"}"#,
        "[true,false,null,{},[],\"\"]",
        "\"\"",
        "null",
        "-1",
        &deep,
    ];
    let metadata = [r#"{"z":1,"a":1.50,"m":{"é":"\u00e9"}}"#, r#"{ "big": 123456789012345678901234567890 }"#, "{}"];
    let records: Vec<NewRecord> = (texts.iter().zip(metadata.iter().cycle()))
        .map(|(data, metadata)| new_record(stream_id, data, metadata))
        .collect();
    assert_come_back(&log, &records).await;
    let raw = new_stream();
    store(&log, &texts.iter().fold(Append::to(raw), |append, text| append.raw("Noted", *text))).await;
    let stored: Vec<String> = stream(&log, raw).await.into_iter().map(|record| record.data).collect();
    assert_eq!(stored, texts, "given as text alone");
}

pub(crate) async fn event_types_come_back_as_they_are<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let types = [
        "a",
        "Order.Placed",
        "order placed",
        "order-placed/v2",
        "*",
        "%",
        "Заказ",
        "注文",
        "O'Neill\"\\",
        " spaced ",
        &"t".repeat(255),
        &"é".repeat(127),
    ];
    let records: Vec<NewRecord> = (types.iter())
        .map(|event_type| NewRecord { event_type: (*event_type).to_owned(), ..new_record(stream_id, "null", "{}") })
        .collect();
    assert_come_back(&log, &records).await;
}

pub(crate) async fn times_come_back_to_the_microsecond<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let times = [
        "0001-01-01T00:00:00.000001Z",
        "1582-10-10T12:00:00Z",
        "1969-12-31T23:59:59.999999Z",
        "1970-01-01T00:00:00Z",
        "2038-01-19T03:14:08.123456Z",
        "2262-04-11T23:47:16.854775Z",
        "9999-12-31T23:59:59.999999Z",
    ];
    let records: Vec<NewRecord> = (times.iter())
        .map(|time| NewRecord {
            created_at: time.parse().expect("this is a time"),
            ..new_record(stream_id, "null", "{}")
        })
        .collect();
    assert_come_back(&log, &records).await;
}

pub(crate) async fn events_far_over_eight_thousand_bytes_come_back<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let records: Vec<NewRecord> = ([7_999, 8_000, 8_001, 100_000].iter())
        .map(|bytes| new_record(stream_id, &format!("\"{}\"", "x".repeat(bytes - 2)), "{}"))
        .chain([new_record(stream_id, "null", &format!("{{\"trace\":\"{}\"}}", "é".repeat(10_000)))])
        .collect();
    assert_come_back(&log, &records).await;
}

pub(crate) async fn values_come_back_as_the_types_they_were<H: Harness>(harness: Arc<H>) {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    enum Odd {
        Integers {
            smallest: i64,
            largest: u64,
            huge: i128,
        },
        Floats(Vec<f64>),
        Text(String),
        Nested(Option<Box<Odd>>),
        Map(BTreeMap<String, Option<char>>),
        Tuple(u8, (), String),
        #[serde(rename = "renamed-variant")]
        Renamed,
        Empty {},
    }
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let nested = (0..40).fold(Odd::Renamed, |inner, _| Odd::Nested(Some(Box::new(inner))));
    let data = [
        Odd::Integers { smallest: i64::MIN, largest: u64::MAX, huge: i128::MIN },
        Odd::Floats(vec![0.1, -0.0, f64::MIN_POSITIVE, f64::MAX, f64::EPSILON, 1.0 / 3.0, 5e-324]),
        Odd::Text("line\r\nbreak\t\u{1}\u{7f}\u{2028}\u{10ffff} \\u0000 \"quoted\" é e\u{301} 😀".into()),
        nested,
        Odd::Map(BTreeMap::from([(String::new(), None), ("ключ".into(), Some('值'))])),
        Odd::Tuple(255, (), "end".into()),
        Odd::Renamed,
        Odd::Empty {},
    ];
    let metadata = Metadata::new().with_actor("anna").with("price", 0.1).with("list", vec![1, 2]);
    store(&log, &Append::to(stream_id).events(data.clone()).metadata(&metadata)).await;
    let events: Vec<Event<Odd>> = log.read_events(stream_id).collect().await.expect("events are read");
    assert!(events.iter().all(|event| event.metadata == metadata), "metadata comes back");
    assert_eq!(events.iter().map(|event| event.event_type.as_str()).nth(6), Some("renamed-variant"));
    assert_eq!(events.into_iter().map(|event| event.data).collect::<Vec<_>>(), data);
}

pub(crate) async fn every_way_of_reading_agrees<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b) = (new_stream(), new_stream());
    for round in 0..4 {
        let append = Append::to(a).events([Ledger::opened(), Ledger::Noted("é".into())]);
        let append = append.and_to(b).event(Ledger::deposited(round)).and_to(a).event(Ledger::Closed);
        store(&log, &append.metadata(&Metadata::new().with_actor("anna").with_correlation_id(round))).await;
    }
    let all: Vec<Event<Ledger>> = log.read_all_events_since(0).collect().await.expect("everything is read");
    assert_eq!(all.len(), 16);
    let records: Vec<(Uuid, Option<u64>)> =
        everything(&log).await.iter().map(|record| (record.id, Some(record.global_sequence))).collect();
    assert_eq!(all.iter().map(|event| (event.id, event.global_sequence)).collect::<Vec<_>>(), records);
    for stream_id in [a, b] {
        let of_stream: Vec<_> = all.iter().filter(|event| event.stream_id == stream_id).cloned().collect();
        let read = log.read_events::<Ledger>(stream_id).collect().await.expect("a stream is read");
        assert_eq!(read, of_stream, "read_events");
        let at = GlobalSequence(of_stream[1].global_sequence.expect("a stored event has its number"));
        let since = log.read_events_since::<Ledger>(stream_id, at).collect().await.expect("a stream is read");
        assert_eq!(since, of_stream[2..], "read_events_since");
        let types = EventTypes::only(["Closed", "Deposited"]);
        let some = log.read_events_of::<Ledger>(stream_id, types.clone()).collect().await.expect("some are read");
        let wanted: Vec<_> = of_stream.iter().filter(|event| types.contains(&event.event_type)).cloned().collect();
        assert_eq!(some, wanted, "read_events_of");
        let from = log.read_events_from::<Ledger>(stream_id, 3).collect().await.expect("a stream is read");
        assert_eq!(from, of_stream[2..], "read_events_from");
        let mut back = log.read_events_backwards::<Ledger>(stream_id).collect().await.expect("a stream is read");
        back.reverse();
        assert_eq!(back, of_stream, "read_events_backwards");
        let last = log.read_last_event::<Ledger>(stream_id).await.expect("a stream is read");
        assert_eq!(last.as_ref(), of_stream.last(), "read_last_event");
    }
    let since = all[6].global_sequence.expect("a stored event has its number");
    let rest = log.read_all_events_since::<Ledger>(since).collect().await.expect("everything is read");
    assert_eq!(rest, all[7..], "read_all_events_since");
    let types = EventTypes::only(["Closed", "Deposited"]);
    let some = log.read_all_events_of::<Ledger>(0, types.clone()).collect().await.expect("some types are read");
    let wanted: Vec<_> = all.iter().filter(|event| types.contains(&event.event_type)).cloned().collect();
    assert_eq!(some, wanted, "read_all_events_of");
}

pub(crate) async fn streams_do_not_see_each_other<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let one_bit_apart = Uuid::from_u128(new_stream().as_u128() ^ 1);
    let streams = [new_stream(), one_bit_apart, Uuid::nil(), Uuid::max(), stream_id("order", "17").id()];
    for (count, stream_id) in (1..).zip(streams) {
        store(&log, &deposits(stream_id, count)).await;
    }
    for (count, stream_id) in (1..).zip(streams) {
        assert_eq!(stream(&log, stream_id).await.len(), count);
        let back = stream_in_pages(&log, stream_id, StreamRead::backwards(u64::MAX)).await;
        assert_eq!(back.len(), count);
        let last = log.read_last_event::<Ledger>(stream_id).await.expect("a stream is read").expect("it has events");
        assert_eq!((last.stream_id, last.stream_version), (stream_id, count as u64));
    }
}

pub(crate) async fn a_stream_that_does_not_exist_is_empty<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    for nobody_else in [true, false] {
        let missing = new_stream();
        for read in [
            StreamRead::forwards(0),
            StreamRead::forwards(1),
            StreamRead::forwards(u64::MAX),
            StreamRead::backwards(0),
            StreamRead::backwards(1),
            StreamRead::backwards(u64::MAX),
        ] {
            assert_eq!(stream_in_pages(&log, missing, read).await, []);
        }
        assert_eq!(log.read_events::<Ledger>(missing).collect().await.expect("it reads as empty"), []);
        assert_eq!(log.read_events_backwards::<Ledger>(missing).collect().await.expect("it reads as empty"), []);
        assert_eq!(log.read_last_event::<Ledger>(missing).await.expect("it reads as empty"), None);
        if nobody_else {
            assert_eq!(everything(&log).await, [], "a new log is empty");
            assert_eq!(head(&log).await, 0, "the head of an empty log is 0");
            store(&log, &deposits(new_stream(), 3)).await;
        }
    }
}

pub(crate) async fn positions_beyond_the_end_read_as_nothing<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    store(&log, &deposits(stream_id, 3)).await;
    for beyond in [4, 1_000, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
        assert_eq!(stream_in_pages(&log, stream_id, StreamRead::forwards(beyond)).await, []);
        assert_eq!(
            stream_in_pages(&log, stream_id, StreamRead::backwards(beyond)).await.len(),
            3,
            "backwards from the end"
        );
        assert_eq!(log.read_events_from::<Ledger>(stream_id, beyond).collect().await.expect("it reads"), []);
    }
    assert_eq!(stream_in_pages(&log, stream_id, StreamRead::forwards(0)).await.len(), 3, "from before the beginning");
    assert_eq!(stream_in_pages(&log, stream_id, StreamRead::backwards(0)).await, [], "from before the beginning");
    let head = head(&log).await;
    for beyond in [head, head + 1_000, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
        let mut reader = Reader::of_everything().starting_after(beyond);
        assert!(!reader.step(&log).await, "there is nothing beyond the end to move on to");
        assert_eq!(reader.seen, []);
        assert_eq!(log.read_all_events_since::<Ledger>(beyond).collect().await.expect("it reads"), []);
    }
}

pub(crate) async fn types_the_reader_does_not_know_are_an_error_in_a_stream_and_skipped_in_the_log<H: Harness>(
    harness: Arc<H>,
) {
    #[derive(Debug, PartialEq, Deserialize)]
    enum Narrow {
        Deposited { cents: i64 },
    }
    let log = harness.fresh(Settings::default()).await;
    let (known, mixed) = (new_stream(), new_stream());
    store(&log, &deposits(known, 1)).await;
    store(&log, &deposits(mixed, 1).event(Ledger::Closed).event(Ledger::deposited(3))).await;
    assert_eq!(log.read_events::<Narrow>(known).collect().await.expect("it knows these").len(), 1);
    match log.read_events::<Narrow>(mixed).collect().await {
        Err(ref error @ Error::Undecodable { ref event_type, stream_id, stream_version, ref source, .. }) => {
            assert_eq!((event_type.as_str(), stream_id, stream_version), ("Closed", mixed, 2));
            let (said, why) = (error.to_string(), source.to_string());
            assert!(why.contains("does not know") && said.ends_with(&why), "it says why: {said}");
        }
        other => panic!("a reader of a stream must not miss a part of it: {other:?}"),
    }
    match log.read_events_since::<Narrow>(mixed, GlobalSequence(0)).collect().await {
        Err(Error::Undecodable { stream_version: 2, .. }) => {}
        other => panic!("nor a reader of what has come since: {other:?}"),
    }
    for types in [EventTypes::All, EventTypes::only(["Deposited", "Closed"])] {
        let some =
            log.read_events_of::<Narrow>(mixed, types).collect().await.expect("what is not asked for is skipped");
        assert_eq!(some.iter().map(|event| event.stream_version).collect::<Vec<_>>(), [1, 3]);
    }
    let all = log.read_all_events_since::<Narrow>(0).collect().await.expect("what it does not know is skipped");
    let cents: Vec<i64> = all.iter().map(|Event { data: Narrow::Deposited { cents }, .. }| *cents).collect();
    assert_eq!(cents, [1, 1, 3]);
}

pub(crate) async fn a_payload_that_does_not_fit_is_an_error<H: Harness>(harness: Arc<H>) {
    #[derive(Debug, Deserialize)]
    enum Stricter {
        Noted(#[expect(dead_code, reason = "only whether it can be read matters")] u32),
    }
    let log = harness.fresh(Settings::default()).await;
    let append = Append::to(new_stream()).event(Ledger::Noted("not a number".into()));
    store(&log, &append).await;
    let id = append.event_ids().next();
    let everything = log.read_all_events_since::<Stricter>(0).collect().await;
    let stream = log.read_events::<Stricter>(append.streams()[0].0).collect().await;
    for read in [everything, stream] {
        match read {
            Err(Error::Undecodable { event_id, event_type, .. }) => {
                assert_eq!((Some(event_id), event_type.as_str()), (id, "Noted"));
            }
            other => panic!("a type it knows with a content that does not fit is an error: {other:?}"),
        }
    }
}

pub(crate) async fn renames_aliases_and_other_are_followed<H: Harness>(harness: Arc<H>) {
    #[derive(Debug, PartialEq, Deserialize)]
    enum Later {
        #[serde(rename = "Deposited")]
        PaidIn { cents: i64 },
        #[serde(alias = "Closed")]
        Ended,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    enum Tolerant {
        Closed,
        #[serde(other)]
        Whatever,
    }
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    store(&log, &Append::to(stream_id).event(Ledger::deposited(5)).event(Ledger::Closed)).await;
    store(&log, &Append::to(new_stream()).event(Ledger::opened())).await;
    let data = |events: Vec<Event<Later>>| events.into_iter().map(|event| event.data).collect::<Vec<_>>();
    let wanted = [Later::PaidIn { cents: 5 }, Later::Ended];
    assert_eq!(data(log.read_events(stream_id).collect().await.expect("a stream is read")), wanted);
    assert_eq!(data(log.read_all_events_since(0).collect().await.expect("everything is read")), wanted);
    let all: Vec<Event<Tolerant>> = log.read_all_events_since(0).collect().await.expect("everything is read");
    let all: Vec<(&str, &Tolerant)> = all.iter().map(|event| (event.event_type.as_str(), &event.data)).collect();
    let wanted = [("Deposited", &Tolerant::Whatever), ("Closed", &Tolerant::Closed), ("Opened", &Tolerant::Whatever)];
    assert_eq!(all, wanted);
}

pub(crate) async fn an_event_is_as_old_as_its_append<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let before: DateTime<Utc> = Utc::now() - chrono::Duration::microseconds(1);
    let append = deposits(stream_id, 1);
    let after = Utc::now();
    store(&log, &append).await;
    let made = stream(&log, stream_id).await[0].created_at;
    assert!(before <= made && made <= after, "{made} lies between {before} and {after}");
}
