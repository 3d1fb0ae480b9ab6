//! Events and what they are made of.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use chrono::{DateTime, Utc};
use highwater::backend::Record;
use highwater::codec::{decode, encode, event_types};
use highwater::{
    BoxError, Event, EventObserver, EventTypes, Invalid, Metadata, Projection, StateIs, Upcasters, stream_id,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Shop {
    Placed { cents: i64 },
    Shipped,
}

/// A part of the shop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Shipping {
    Shipped,
}

impl TryFrom<Shop> for Shipping {
    type Error = &'static str;

    fn try_from(event: Shop) -> Result<Self, Self::Error> {
        match event {
            Shop::Shipped => Ok(Self::Shipped),
            Shop::Placed { .. } => Err("not about shipping"),
        }
    }
}

impl From<Shipping> for Shop {
    fn from(Shipping::Shipped: Shipping) -> Self {
        Self::Shipped
    }
}

fn stored(data: Shop) -> Event<Shop> {
    let event = Event::builder().stream_id(stream_id("order", "17")).stream_version(3).schema_version(2);
    event.global_sequence(100).metadata(Metadata::new().with_actor("anna")).data(data).build().unwrap()
}

#[test]
fn an_event_has_no_global_sequence_until_it_is_given_one() {
    let event = Event::builder().stream_id(Uuid::now_v7()).data(Shop::Shipped);
    assert_eq!(event.clone().build().unwrap().global_sequence, None);
    assert_eq!(event.global_sequence(42).build().unwrap().global_sequence, Some(42));
}

#[test]
fn a_builder_draws_an_id_and_a_time_and_takes_the_type_from_the_data() {
    let event = Event::builder().stream_id(Uuid::now_v7()).data(Shop::Placed { cents: 5 }).build().unwrap();
    assert_eq!(event.event_type, "Placed");
    assert_eq!(event.id.get_version_num(), 7);
    assert_eq!(event.created_at.timestamp_subsec_nanos() % 1_000, 0);
    assert_eq!((event.stream_version, event.schema_version), (0, 0));
}

#[test]
fn a_builder_without_stream_or_data_is_refused() {
    let no_data = Event::<Shop>::builder().stream_id(Uuid::now_v7()).build();
    assert_eq!(no_data.unwrap_err(), Invalid::Missing("data"));
    assert_eq!(Event::builder().data(Shop::Shipped).build().unwrap_err(), Invalid::Missing("stream_id"));
}

#[test]
fn taking_an_event_apart_and_putting_it_together_keeps_everything() {
    let event = stored(Shop::Shipped);
    assert_eq!(event.clone().into_builder().build().unwrap(), event);
    assert_eq!(event.clone().into_builder().global_sequence(7).build().unwrap().global_sequence, Some(7));
}

#[test]
fn narrowing_and_widening_keep_everything_but_the_type_of_the_data() {
    let event = stored(Shop::Shipped);
    let narrow = event.to_subset_event::<Shipping>().unwrap();
    assert_eq!((narrow.global_sequence, &narrow.metadata), (Some(100), &event.metadata));
    assert_eq!(narrow.data, Shipping::Shipped);
    assert_eq!(narrow.to_superset_event::<Shop>(), event);
    assert!(stored(Shop::Placed { cents: 1 }).to_subset_event::<Shipping>().is_err());
}

#[test]
fn what_an_event_causes_carries_its_conversation_on() {
    let first = stored(Shop::Shipped);
    let second = Metadata::caused_by(&first);
    assert_eq!(second.causation_event(), Some(first.id));
    assert_eq!(second.correlation_id(), Some(first.id.to_string().as_str()));
    let third = Metadata::caused_by(&first.into_builder().metadata(second.clone()).build().unwrap());
    assert_eq!(third.correlation_id(), second.correlation_id());
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Every {
    Unit,
    Newtype(String),
    Option(Option<u8>),
    Tuple(u8, String),
    Struct {
        a: u8,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        b: Option<u8>,
    },
    #[serde(rename = "re-named", alias = "older")]
    Renamed(Vec<u8>),
}

fn read<D: serde::de::DeserializeOwned>(event_type: &str, data: &str) -> Result<D, String> {
    let record = Record {
        id: Uuid::nil(),
        stream_id: Uuid::nil(),
        stream_name: None,
        stream_version: 1,
        global_sequence: 1,
        event_type: event_type.to_owned(),
        schema_version: 1,
        data: data.to_owned(),
        metadata: "{}".to_owned(),
        created_at: DateTime::<Utc>::UNIX_EPOCH,
    };
    let types = event_types::<D>().map_err(|e| e.to_string())?;
    match decode(record, &types, &Upcasters::new()) {
        Ok(Ok(event)) => Ok(event.data),
        Ok(Err(_)) => Err("unknown".to_owned()),
        Err(error) => Err(std::error::Error::source(&error).unwrap().to_string()),
    }
}

#[test]
fn every_kind_of_variant_is_stored_as_its_name_and_its_content_alone() {
    for (event, event_type, data) in [
        (Every::Unit, "Unit", "null"),
        (Every::Newtype("x".into()), "Newtype", r#""x""#),
        (Every::Option(None), "Option", "null"),
        (Every::Tuple(1, "x".into()), "Tuple", r#"[1,"x"]"#),
        (Every::Struct { a: 1, b: None }, "Struct", r#"{"a":1}"#),
        (Every::Renamed(vec![1]), "re-named", "[1]"),
    ] {
        let encoded = encode(&event).unwrap();
        assert_eq!((encoded.event_type, encoded.data.as_str()), (event_type, data));
        assert_eq!(read::<Every>(event_type, data).unwrap(), event);
    }
    assert_eq!(read::<Every>("older", "[2]").unwrap(), Every::Renamed(vec![2]));
}

#[test]
fn content_that_does_not_fit_is_an_error_and_a_type_that_is_not_known_is_none_of_ours() {
    for (event_type, data) in
        [("Unit", "{}"), ("Newtype", "1"), ("Tuple", "[1]"), ("Struct", "{}"), ("Newtype", r#""x" y"#), ("Struct", "")]
    {
        let error = read::<Every>(event_type, data).unwrap_err();
        assert_ne!(error, "unknown", "{event_type} {data}");
    }
    assert_eq!(read::<Every>("Elsewhere", "1").unwrap_err(), "unknown");
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum CatchAll {
    Known(u8),
    Nothing,
    #[serde(other)]
    Other,
}

#[test]
fn an_enum_with_other_takes_everything_and_still_looks_closely_at_what_it_knows() {
    assert_eq!(event_types::<CatchAll>().unwrap(), EventTypes::All);
    assert_eq!(read::<CatchAll>("Whatever", r#"{"deep":[1]}"#).unwrap(), CatchAll::Other);
    assert_eq!(read::<CatchAll>("Known", "3").unwrap(), CatchAll::Known(3));
    assert!(read::<CatchAll>("Known", "{}").is_err());
    assert!(read::<CatchAll>("Nothing", "{}").is_err());
}

#[test]
fn the_names_of_an_enum_are_those_of_serde() {
    let names = ["Unit", "Newtype", "Option", "Tuple", "Struct", "older", "re-named"];
    let EventTypes::Only(mut found) = event_types::<Every>().unwrap() else { panic!("not everything") };
    found.sort();
    let mut names = names.map(str::to_owned);
    names.sort();
    assert_eq!(found, names);
}

#[derive(Serialize, Deserialize)]
struct Wrapped(Shop);

#[derive(Serialize, Deserialize)]
struct Struct {
    a: u8,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type")]
enum Internal {
    A { a: u8 },
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "t", content = "c")]
enum Adjacent {
    A(u8),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    A(u8),
}

#[test]
fn what_is_not_an_externally_tagged_enum_is_told_so_on_both_ways() {
    assert_eq!(encode(&Wrapped(Shop::Shipped)).unwrap().event_type, "Shipped");
    assert!(event_types::<Wrapped>().is_ok());
    let refused = [
        encode(&Struct { a: 1 }),
        encode(&Internal::A { a: 1 }),
        encode(&Adjacent::A(1)),
        encode(&Untagged::A(1)),
        encode("text"),
        encode(&Some(Shop::Shipped)),
        encode(&serde_json::json!({"Shipped": null})),
    ];
    assert!(refused.iter().all(|refused| matches!(refused, Err(Invalid::NotAnEvent(_)))), "{refused:?}");
    let nameless = [
        event_types::<Struct>(),
        event_types::<Internal>(),
        event_types::<Adjacent>(),
        event_types::<Untagged>(),
        event_types::<String>(),
        event_types::<serde_json::Value>(),
    ];
    assert!(nameless.iter().all(|refused| matches!(refused, Err(Invalid::NotAnEvent(_)))), "{nameless:?}");
}

#[derive(Serialize)]
enum Measured {
    At(f64),
    Deep { values: Vec<Option<(f32, &'static str)>> },
    Keyed(std::collections::HashMap<Vec<u8>, u8>),
}

#[test]
fn what_json_would_change_without_a_word_is_refused() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(matches!(encode(&Measured::At(bad)), Err(Invalid::NotFinite(_))));
    }
    let deep = Measured::Deep { values: vec![None, Some((1.0, "fine")), Some((f32::NAN, "not"))] };
    assert!(matches!(encode(&deep), Err(Invalid::NotFinite(_))));
    let nul = Measured::Deep { values: vec![Some((1.0, "a\0b"))] };
    assert!(matches!(encode(&nul), Err(Invalid::NulCharacter(_))));
    let lookalike = Measured::Deep { values: vec![Some((1.0, "a\\u0000b"))] };
    assert!(encode(&lookalike).is_ok());
    let keyed = Measured::Keyed([(vec![1], 1)].into());
    assert!(matches!(encode(&keyed), Err(Invalid::NotJson(_))));
}

#[derive(Debug, Serialize, Deserialize)]
enum Nested {
    List(Box<serde_json::value::RawValue>),
}

#[test]
fn what_could_be_stored_but_not_be_read_back_is_refused() {
    let nested = |depth: usize| serde_json::from_str(&format!("{}{}", "[".repeat(depth), "]".repeat(depth))).unwrap();
    let encoded = encode(&Nested::List(nested(127))).unwrap();
    assert!(read::<Nested>("List", &encoded.data).is_ok());
    assert!(matches!(encode(&Nested::List(nested(128))), Err(Invalid::NotJson(_))));
    let half = serde_json::from_str(r#""\ud800""#).unwrap();
    assert!(matches!(encode(&Nested::List(half)), Err(Invalid::NotJson(_))));
    let pair = serde_json::from_str(r#""\ud83d\ude00""#).unwrap();
    assert!(encode(&Nested::List(pair)).is_ok());
}

#[test]
fn upcasters_that_contradict_each_other_are_refused() {
    let one = || Upcasters::new().upcast(("A", 1), ("A", 2), Ok).unwrap();
    assert!(one().upcast(("A", 1), ("B", 1), Ok).is_err(), "two ways from one place");
    assert!(one().upcast(("A", 2), ("A", 1), Ok).is_err(), "a circle");
    assert!(Upcasters::new().upcast(("A", 1), ("A", 1), Ok).is_err(), "a short circle");
    assert!(one().upcast(("A", 2), ("B", 1), Ok).is_ok());
}

#[test]
fn old_names_lead_to_new_ones_over_any_number_of_steps() {
    let upcasters = Upcasters::new().upcast(("A", 1), ("B", 1), Ok).unwrap();
    let upcasters = upcasters.upcast(("B", 1), ("C", 3), Ok).unwrap();
    assert_eq!(upcasters.current_version("C"), 3);
    assert_eq!(upcasters.current_version("Z"), 1);
    let EventTypes::Only(mut stored) = upcasters.stored_types(&EventTypes::only(["C", "D"])) else { panic!() };
    stored.sort();
    assert_eq!(stored, ["A", "B", "C", "D"]);
}

/// Remembers which events it was handed.
#[derive(Default)]
struct Seen(std::sync::Mutex<Vec<Option<u64>>>);

impl Projection<Shop> for Seen {
    const STATE: StateIs = StateIs::InMemory;

    fn subscriber_id(&self) -> &str {
        "projection:seen"
    }

    async fn apply(&self, event: &Event<Shop>) -> Result<(), BoxError> {
        self.0.lock().unwrap().push(event.global_sequence);
        if event.data == Shop::Shipped { Ok(()) } else { Err("not shipped".into()) }
    }
}

#[tokio::test]
async fn a_projection_is_an_observer_with_the_same_name_that_can_be_used_as_dyn() {
    let seen = Seen::default();
    let observer: &dyn EventObserver<Shop> = &seen;
    assert_eq!(observer.subscriber_id(), "projection:seen");
    observer.on_event(&stored(Shop::Shipped)).await.unwrap();
    assert_eq!(observer.on_event(&stored(Shop::Placed { cents: 1 })).await.unwrap_err().to_string(), "not shipped");
    assert_eq!(*seen.0.lock().unwrap(), [Some(100), Some(100)]);
}

#[test]
fn named_streams_keep_their_ids_for_ever() {
    assert_eq!(stream_id("order", "17").id().to_string(), "d0ba75bd-cc7d-5f4c-a65d-96957c13fdaa");
}
