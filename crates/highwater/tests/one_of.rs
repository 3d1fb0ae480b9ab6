//! Several enums as one.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::{Arc, Mutex};

use highwater::backend::Record;
use highwater::codec::{decode, encode, event_types};
use highwater::prelude::*;
use highwater::{EventTypes, Invalid, MemoryTx};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Bike {
    Rented { by: String },
    Serviced(Vec<u8>, u8),
    Returned,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Customer {
    #[serde(rename = "customer-joined", alias = "Registered")]
    Joined(String),
    Left,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Invoice {
    Paid { cents: i64 },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Wrapped(Invoice);

type Two = OneOf<Bike, Customer>;
type Three = OneOf<Bike, OneOf<Customer, Wrapped>>;

fn three() -> Vec<(Three, &'static str, &'static str)> {
    use OneOf::{First, Second};
    vec![
        (First(Bike::Rented { by: "anna".into() }), "Rented", r#"{"by":"anna"}"#),
        (First(Bike::Serviced(vec![1], 2)), "Serviced", "[[1],2]"),
        (First(Bike::Returned), "Returned", "null"),
        (Second(First(Customer::Joined("anna".into()))), "customer-joined", r#""anna""#),
        (Second(First(Customer::Left)), "Left", "null"),
        (Second(Second(Wrapped(Invoice::Paid { cents: 5 }))), "Paid", r#"{"cents":5}"#),
    ]
}

fn record(event_type: &str, data: &str) -> Record {
    let append = Append::to(stream_id("a", "b")).event(Bike::Returned);
    let new = append.checked(&highwater::Limits::default()).unwrap()[0].clone();
    let mut record = new.at(highwater::backend::Position { stream_version: 1, global_sequence: 1 });
    (record.event_type, record.data) = (event_type.to_owned(), data.to_owned());
    record
}

/// `Err("unknown")` for a type that the enums do not know.
fn read<D: serde::de::DeserializeOwned>(event_type: &str, data: &str) -> Result<D, String> {
    let types = event_types::<D>().unwrap();
    match decode(record(event_type, data), &types, &Upcasters::new()) {
        Ok(Ok(event)) => Ok(event.data),
        Ok(Err(_)) => Err("unknown".to_owned()),
        Err(error) => Err(format!("{:?}", std::error::Error::source(&error).map(ToString::to_string))),
    }
}

#[test]
fn the_names_are_those_of_all_enums() {
    let EventTypes::Only(mut names) = event_types::<Three>().unwrap() else { panic!("not everything") };
    names.sort();
    assert_eq!(
        names,
        ["Left", "Paid", "Registered", "Rented", "Returned", "Serviced", "customer-joined"].map(str::to_owned)
    );
}

#[test]
fn every_form_of_variant_is_written_as_its_enum_writes_it_and_read_back() {
    for (event, event_type, data) in three() {
        let encoded = encode(&event).unwrap();
        assert_eq!((encoded.event_type, encoded.data.as_str()), (event_type, data));
        assert_eq!(read::<Three>(event_type, data).unwrap(), event);
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Three>(&text).unwrap(), event, "in plain JSON: {text}");
        assert_eq!(serde_json::from_value::<Three>(json!(event)).unwrap(), event, "from owned text: {text}");
    }
    assert_eq!(read::<Two>("Registered", "\"ben\"").unwrap(), OneOf::Second(Customer::Joined("ben".into())));
}

#[test]
fn content_that_does_not_fit_is_the_same_error_as_for_the_enum_alone() {
    for (event_type, data) in [("Rented", "{}"), ("Rented", ""), ("Serviced", "[[1]]"), ("Returned", "{}")] {
        assert_eq!(read::<Three>(event_type, data).unwrap_err(), read::<Bike>(event_type, data).unwrap_err());
    }
    assert!(read::<Three>("Paid", r#"{"cents":"five"}"#).unwrap_err().contains("invalid type"));
    assert_eq!(read::<Three>("Elsewhere", "1").unwrap_err(), "unknown");
    let unknown = decode::<Three>(record("Elsewhere", "1"), &EventTypes::All, &Upcasters::new());
    assert!(unknown.is_err(), "whatever the caller says that the enums know");
    assert!(serde_json::from_str::<Three>(r#"{"Elsewhere":1}"#).is_err());
}

#[derive(Debug, Serialize, Deserialize)]
enum Shop {
    Opened,
    #[serde(rename = "customer-left", alias = "Left")]
    Lost,
}

#[test]
fn a_type_that_two_enums_know_is_refused_by_its_name() {
    let refused = [
        event_types::<OneOf<Customer, Shop>>(),
        event_types::<OneOf<Bike, OneOf<Customer, Shop>>>(),
        event_types::<OneOf<Customer, OneOf<Bike, Shop>>>(),
        event_types::<OneOf<OneOf<Bike, Customer>, OneOf<Invoice, Shop>>>(),
    ];
    for refused in refused {
        let Err(Invalid::KnownTwice { event_type, first, second }) = refused else { panic!("{refused:?}") };
        assert_eq!(event_type, "Left");
        assert!(first.ends_with("Customer") && second.ends_with("Shop"), "{first} {second}");
    }
    assert!(matches!(event_types::<OneOf<Bike, Bike>>(), Err(Invalid::KnownTwice { .. })));
    // Also for a caller that has not asked which names there are.
    type Ambiguous = OneOf<Customer, OneOf<Bike, Shop>>;
    let either = decode::<Ambiguous>(record("Left", "null"), &EventTypes::All, &Upcasters::new());
    assert!(either.is_err(), "{either:?}");
    assert!(serde_json::from_str::<Ambiguous>("\"Left\"").is_err());
    assert!(serde_json::from_str::<Ambiguous>("\"Opened\"").is_ok());
}

#[derive(Debug, Serialize, Deserialize)]
enum Tolerant {
    Opened,
    #[serde(other)]
    Other,
}

#[test]
fn an_enum_that_knows_every_type_cannot_be_one_of_several() {
    for refused in [event_types::<OneOf<Tolerant, Bike>>(), event_types::<OneOf<Bike, OneOf<Invoice, Tolerant>>>()] {
        let Err(Invalid::KnowsEverything(tolerant)) = refused else { panic!("{refused:?}") };
        assert!(tolerant.ends_with("Tolerant"));
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Bike(Bike),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type")]
enum Tagged {
    Bike(Bike),
}

#[test]
fn an_enum_that_gives_no_names_is_named_and_so_is_the_way_to_combine_enums() {
    let refused = [
        (event_types::<Untagged>(), "Untagged"),
        (event_types::<Tagged>(), "Tagged"),
        (event_types::<OneOf<Invoice, OneOf<Tagged, Bike>>>(), "Tagged"),
        (event_types::<OneOf<Invoice, String>>(), "String"),
    ];
    for (refused, name) in refused {
        let said = refused.unwrap_err().to_string();
        assert!(said.contains(&format!("{name} gives no names")) && said.contains("OneOf<A, B>"), "{said}");
    }
}

/// What it was handed, in the order that it came.
#[derive(Default)]
struct Seen(Mutex<Vec<Three>>);

impl Projection<Three> for Seen {
    const STATE: StateIs = StateIs::InMemory;

    fn subscriber_id(&self) -> &str {
        "projection:seen"
    }

    async fn apply(&self, event: &Event<Three>) -> Result<(), BoxError> {
        self.0.lock().unwrap().push(event.data.clone());
        Ok(())
    }
}

#[derive(Default)]
struct InTransaction(Seen);

impl TransactionalProjection<Three, MemoryTx> for InTransaction {
    fn subscriber_id(&self) -> &str {
        "projection:in-transaction"
    }

    async fn apply(&self, _: &mut MemoryTx, event: &Event<Three>) -> Result<(), BoxError> {
        self.0.apply(event).await
    }
}

#[derive(Default)]
struct Folded(Vec<Three>);

impl Evolve for Folded {
    type Event = Three;

    fn evolve(&mut self, event: &Event<Three>) {
        self.0.push(event.data.clone());
    }
}

#[tokio::test]
async fn it_is_used_wherever_an_enum_is() {
    let store = MemoryEventStore::new();
    let (bus, stream) = (MemoryEventBus::new(store.clone()), stream_id("a", "b"));
    let (seen, within, called) = (Arc::<Seen>::default(), Arc::<InTransaction>::default(), Arc::<Seen>::default());
    bus.subscribe(seen.clone()).await.unwrap();
    bus.subscribe(within.clone()).await.unwrap();
    let calls = called.clone();
    let function = observer_fn("projection:called", move |event: Event<Three>| {
        let calls = calls.clone();
        async move { calls.apply(&event).await }
    });
    bus.subscribe(function).await.unwrap();
    let wanted: Vec<Three> = three().into_iter().map(|(event, ..)| event).collect();
    let done = store.append(&Append::to(stream).events(wanted.clone())).await.unwrap();
    for (id, seen) in
        [("projection:seen", &*seen), ("projection:in-transaction", &within.0), ("projection:called", &called)]
    {
        bus.wait_for(id, &done).await.unwrap();
        assert_eq!(*seen.0.lock().unwrap(), wanted, "{id}");
    }
    bus.shutdown().await.unwrap();
    let all = store.read_all_events_since::<Three>(0).collect().await.unwrap();
    assert_eq!(all.into_iter().map(|event| event.data).collect::<Vec<_>>(), wanted);
    let some = store.read_all_events_since::<OneOf<Wrapped, Customer>>(0).collect().await.unwrap();
    assert_eq!(some.len(), 3, "what neither knows is skipped");
    assert_eq!(store.load::<Folded>(stream).await.unwrap().state.0, wanted);
    let done = store.execute(stream, |_: &Folded| Ok::<_, Error>(OneOf::First(Bike::Returned))).await.unwrap();
    assert_eq!(done.unwrap().stream_version, 7);
}

#[tokio::test]
async fn a_subscriber_whose_enums_know_the_same_type_is_refused() {
    let bus = MemoryEventBus::new(MemoryEventStore::new());
    let ambiguous = observer_fn("projection:a", |_: Event<OneOf<Customer, Shop>>| async { Ok(()) });
    let refused = bus.subscribe(ambiguous).await.unwrap_err();
    assert!(refused.to_string().contains("\"Left\""), "{refused}");
}
