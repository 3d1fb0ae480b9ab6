//! Old events are read as new ones.

use std::sync::Arc;

use highwater::backend::{Log, NewRecord, ReadLimit, Record};
use highwater::{Append, Error, Event, EventStore, EventTypes, Evolve, Upcasters};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::support::{Reader, everything, new_stream, store, stream};
use crate::{Harness, Settings};

/// The events of today. Once `Placed` had no currency, and before that it was called `OrderCreated`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Order {
    Placed { cents: i64, currency: String },
    Shipped,
}

#[derive(Debug, Default, PartialEq)]
struct Total(Vec<String>);

impl Evolve for Total {
    type Event = Order;

    fn evolve(&mut self, event: &Event<Order>) {
        if let Order::Placed { cents, currency } = &event.data {
            self.0.push(format!("{cents} {currency}"));
        }
    }
}

fn upcasters() -> Upcasters {
    let currency = |mut data: serde_json::Value| {
        if data["cents"].is_null() {
            return Err("it has no cents".into());
        }
        data["currency"] = json!("EUR");
        Ok(data)
    };
    let renamed = |data: serde_json::Value| Ok(json!({ "cents": data["amount"] }));
    Upcasters::new()
        .upcast(("Placed", 1), ("Placed", 2), currency)
        .and_then(|upcasters| upcasters.upcast(("OrderCreated", 1), ("OrderCreated", 2), Ok))
        .and_then(|upcasters| upcasters.upcast(("OrderCreated", 2), ("Placed", 1), renamed))
        .expect("these do not contradict each other")
}

/// A record as an earlier version of the application stored it.
fn old(stream_id: Uuid, event_type: &str, schema_version: u32, data: &str) -> NewRecord {
    NewRecord {
        id: Uuid::now_v7(),
        stream_id,
        stream_name: None,
        event_type: event_type.to_owned(),
        schema_version,
        data: data.to_owned(),
        metadata: "{}".to_owned(),
        created_at: "2019-01-01T00:00:00Z".parse().expect("this is a time"),
    }
}

/// A stream with one event of each age, and what a reader of today sees in it.
async fn aged<L: Log>(log: &L) -> (Uuid, Vec<Order>) {
    let stream_id = new_stream();
    let append = Append::to(stream_id)
        .record(old(stream_id, "OrderCreated", 1, r#"{"amount":1}"#))
        .record(old(stream_id, "OrderCreated", 2, r#"{"amount":2}"#))
        .record(old(stream_id, "Placed", 1, r#"{"cents":3}"#))
        .event(Order::Placed { cents: 4, currency: "USD".into() })
        .event(Order::Shipped)
        .record(old(stream_id, "OrderCreated", 1, r#"{"amount":6}"#));
    store(log, &append).await;
    let placed = |cents, currency: &str| Order::Placed { cents, currency: currency.into() };
    let seen =
        [placed(1, "EUR"), placed(2, "EUR"), placed(3, "EUR"), placed(4, "USD"), Order::Shipped, placed(6, "EUR")];
    (stream_id, seen.into())
}

fn data(events: Vec<Event<Order>>) -> Vec<Order> {
    events.into_iter().map(|event| event.data).collect()
}

pub(crate) async fn old_events_are_read_as_new_ones_everywhere<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(upcasters().into()).await;
    let (stream_id, seen) = aged(&log).await;
    let read = log.read_events(stream_id).collect().await.expect("a stream is read");
    assert!(read.iter().take(4).all(|event: &Event<Order>| event.event_type == "Placed" && event.schema_version == 2));
    assert_eq!(data(read), seen, "read_events");
    let read = log.read_events_from(stream_id, 2).collect().await.expect("a stream is read");
    assert_eq!(data(read), seen[1..], "read_events_from");
    let mut read = data(log.read_events_backwards(stream_id).collect().await.expect("a stream is read"));
    read.reverse();
    assert_eq!(read, seen, "read_events_backwards");
    let last = log.read_last_event(stream_id).await.expect("a stream is read");
    assert_eq!(last.map(|event: Event<Order>| event.data).as_ref(), seen.last(), "read_last_event");
    let read = log.read_all_events_since(0).collect().await.expect("everything is read");
    assert_eq!(data(read), seen, "read_all_events_since");
    let read = log.read_all_events_of(0, EventTypes::only(["Shipped", "Placed"])).collect().await;
    assert_eq!(data(read.expect("some types are read")), seen, "read_all_events_of");
    let total = log.load::<Total>(stream_id).await.expect("a stream is folded");
    assert_eq!((total.state.0.join(", ").as_str(), total.version), ("1 EUR, 2 EUR, 3 EUR, 4 USD, 6 EUR", 6), "load");
    let done = log.execute(stream_id, |total: &Total| match total.0.last() {
        Some(last) if last == "6 EUR" => Ok(Order::Shipped),
        other => Err(format!("{other:?} is not what was stored last")),
    });
    assert_eq!(done.await.expect("it decides on what is there").map(|done| done.stream_version), Some(7), "execute");
}

pub(crate) async fn a_filter_finds_events_under_their_former_names<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(upcasters().into()).await;
    let (stream_id, seen) = aged(&log).await;
    let placed = log.read_all_events_of(0, EventTypes::only(["Placed"])).collect().await.expect("a type is read");
    let wanted: Vec<Order> = seen.iter().filter(|order| **order != Order::Shipped).cloned().collect();
    assert_eq!(data(placed), wanted);
    let placed = log.read_events_of(stream_id, EventTypes::only(["Placed"])).collect().await.expect("a type is read");
    assert_eq!(data(placed), wanted, "in its stream");
    let shipped = log.read_all_events_of(0, EventTypes::only(["Shipped"])).collect().await.expect("a type is read");
    assert_eq!(data(shipped), [Order::Shipped]);
    // The same for readers of records, as subscribers do.
    let types = log.upcasters().stored_types(&EventTypes::only(["Placed"]));
    let mut reader = Reader::new(types, ReadLimit::events(2));
    reader.catch_up(&log).await;
    let versions: Vec<u64> = reader.seen.iter().map(|record| record.stream_version).collect();
    assert_eq!(versions, [1, 2, 3, 4, 6]);
}

pub(crate) async fn what_is_stored_never_changes<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(upcasters().into()).await;
    let (stream_id, _) = aged(&log).await;
    let stored = |records: Vec<Record>| -> Vec<(String, u32, String)> {
        records.into_iter().map(|record| (record.event_type, record.schema_version, record.data)).collect()
    };
    let as_written = [
        ("OrderCreated", 1, r#"{"amount":1}"#),
        ("OrderCreated", 2, r#"{"amount":2}"#),
        ("Placed", 1, r#"{"cents":3}"#),
        ("Placed", 2, r#"{"cents":4,"currency":"USD"}"#),
        ("Shipped", 1, "null"),
        ("OrderCreated", 1, r#"{"amount":6}"#),
    ]
    .map(|(event_type, version, data)| (event_type.to_owned(), version, data.to_owned()));
    assert_eq!(stored(stream(&log, stream_id).await), as_written);
    assert_eq!(stored(everything(&log).await), as_written);
}

pub(crate) async fn new_events_are_stored_with_the_current_schema_version<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(upcasters().into()).await;
    let stream_id = new_stream();
    let placed = || Order::Placed { cents: 1, currency: "EUR".into() };
    store(&log, &Append::to(stream_id).event(placed()).event(Order::Shipped)).await;
    let json = r#"{"currency": "EUR", "cents": 1}"#;
    store(&log, &Append::to(stream_id).raw("Placed", json).raw("Placed", r#"{"cents":1}"#).schema_version(1)).await;
    let event = Event::builder().stream_id(stream_id).data(placed()).build().expect("an event");
    assert_eq!(log.store_event(event).await.expect("an event is stored").schema_version, 2);
    let event = Event::builder().stream_id(stream_id).data(placed()).schema_version(9).build().expect("an event");
    assert_eq!(log.store_event(event).await.expect("an event is stored").schema_version, 9);
    let versions: Vec<u32> = stream(&log, stream_id).await.iter().map(|record| record.schema_version).collect();
    assert_eq!(versions, [2, 1, 2, 1, 2, 9], "the current one, unless the event names its own");
    let read = log.read_events_from(stream_id, 3).collect().await.expect("a stream is read");
    assert_eq!(data(read)[..2], [placed(), placed()], "whichever way it was written");
}

pub(crate) async fn the_newest_schema_version_of_a_type_is_known<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let newest = async |event_type: &str| log.newest_schema_version(event_type).await.expect("the log is asked");
    assert_eq!(newest("Placed").await, None, "no event is stored");
    let stream_id = new_stream();
    store(&log, &Append::to(stream_id).record(old(stream_id, "Placed", 2, "2"))).await;
    store(&log, &Append::to(stream_id).record(old(stream_id, "Shipped", 9, "9"))).await;
    assert_eq!((newest("Placed").await, newest("Shipped").await), (Some(2), Some(9)), "each type has its own");
    // Whatever an older writer stores afterwards, and whatever comes in between.
    let mut others = Append::to(stream_id).record(old(stream_id, "Placed", 3, "3"));
    for _ in 0..200 {
        others = others.record(old(stream_id, "Shipped", 1, "1"));
    }
    store(&log, &others.record(old(stream_id, "Placed", 1, "1"))).await;
    assert_eq!((newest("Placed").await, newest("Shipped").await), (Some(3), Some(9)), "the highest, not the last");
    for other in ["placed", "Place", "Placed ", "%", ""] {
        assert_eq!(newest(other).await, None, "{other:?} is another type");
    }
    // What may yet be rolled back does not count.
    let stream_id = new_stream();
    let open = harness.begin(&log, Append::to(stream_id).record(old(stream_id, "Placed", 7, "7"))).await;
    assert_eq!(newest("Placed").await, Some(3), "it is not committed");
    open.expect("an append can be begun").rollback().await.expect("an open append can be rolled back");
}

pub(crate) async fn upcasters_apply_to_what_was_stored_before_there_were_any<H: Harness>(harness: Arc<H>) {
    #[derive(Serialize)]
    enum FormerOrder {
        OrderCreated { amount: i64 },
    }
    let before = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    store(&before, &Append::to(stream_id).event(FormerOrder::OrderCreated { amount: 5 })).await;
    let log = harness.reopen(&before, upcasters().into()).await;
    store(&log, &Append::to(stream_id).event(Order::Placed { cents: 6, currency: "USD".into() })).await;
    let total = log.load::<Total>(stream_id).await.expect("a stream is folded");
    assert_eq!(total.state.0, ["5 EUR", "6 USD"]);
    let all = log.read_all_events_since::<Order>(0).collect().await.expect("everything is read");
    assert_eq!(all.len(), 2);
}

pub(crate) async fn an_upcaster_that_fails_makes_the_event_undecodable<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(upcasters().into()).await;
    let stream_id = new_stream();
    let broken = old(stream_id, "Placed", 1, r#"{"no":"cents"}"#);
    let id = broken.id;
    store(&log, &Append::to(stream_id).event(Order::Shipped).record(broken)).await;
    let reads = [
        log.read_events::<Order>(stream_id).collect().await.map(|_| ()),
        log.read_events_backwards::<Order>(stream_id).collect().await.map(|_| ()),
        log.read_last_event::<Order>(stream_id).await.map(|_| ()),
        log.read_all_events_since::<Order>(0).collect().await.map(|_| ()),
        log.read_all_events_of::<Order>(0, EventTypes::only(["Placed"])).collect().await.map(|_| ()),
        log.load::<Total>(stream_id).await.map(|_| ()),
    ];
    for read in reads {
        match read {
            Err(Error::Undecodable { event_id, event_type, schema_version, stream_version, source, .. }) => {
                assert_eq!((event_id, event_type.as_str(), schema_version, stream_version), (id, "Placed", 1, 2));
                assert_eq!(source.to_string(), "it has no cents", "the reason is kept");
            }
            other => panic!("an event that cannot be brought up to date is undecodable: {other:?}"),
        }
    }
}
