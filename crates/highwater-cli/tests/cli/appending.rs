//! `init` and `append`.

use chrono::Utc;
use highwater::backend::{Log as _, NewRecord};
use highwater::{Append, StreamId, stream_id};
use uuid::Uuid;

use crate::support::{Kind, Place, on_each_backend};

on_each_backend! {
    async fn events_are_appended_one_by_one<K>(place: Place<K>) {
        let mut talk = place.talk();
        let id = "0198b0a4-7f5e-7c3c-9d2e-3f1f6a0c1b2d";
        place.run(&["init"]).await.fine();
        talk.run(&["append", "order/17", "Placed", r#"{"cents":1299}"#]).await;
        talk.run(&["append", "order/17", "Shipped", "--expect", "1", "--metadata", r#"{"actor":"anna"}"#]).await;
        talk.run(&["append", "order/18", "Placed", "5", "--id", id, "--json"]).await;
        talk.run(&["append", "order/18", "Placed", "5", "--id", id]).await;
        talk.run(&["append", "order/18", "Placed", "6", "--id", id]).await;
        talk.run(&["append", "order/17", "Shipped", "--expect", "1"]).await;
        talk.run(&["append", "order/17", "Placed", "--expect", "none"]).await;
        talk.run(&["append", "order/19", "Placed", "--expect", "exists"]).await;
        talk.run(&["read", "order/17"]).await;
        talk.run(&["read", "order/18", "--json"]).await;
        talk.is("append");
    }
}

on_each_backend! {
    async fn bad_input_stores_nothing_and_says_what_is_wrong<K>(place: Place<K>) {
        place.run(&["init"]).await.fine();
        let mut talk = place.talk();
        for arguments in [
            ["append", "order", "Placed", "1"],
            ["append", "order/17", "", "1"],
            ["append", "order/17", "Placed", "{oops"],
            ["append", "order/17", "Placed", r#""\u0000""#],
        ] {
            talk.run(&arguments).await;
        }
        talk.run(&["append", "order/17", "Placed", "1", "--metadata", "[]"]).await;
        talk.run(&["append", "order/17", "Placed", "1", "--id", "7"]).await;
        talk.run(&["append", "order/17", "Placed", "1", "--expect", "-1"]).await;
        talk.run(&["append", "order/17"]).await;
        talk.run(&["append", "--stdin", "order/17"]).await;
        talk.run(&["events"]).await;
        talk.is("append_bad");
    }
}

on_each_backend! {
    async fn lines_are_stored_in_their_order<K>(place: Place<K>) {
        place.run(&["init"]).await.fine();
        let count = 2_500;
        let lines: Vec<String> = (1..=count)
            .map(|n| format!(r#"{{"stream":"order/{}","type":"Placed","data":{{"n":{n}}}}}"#, n % 7))
            .collect();
        let stored = place.feed(&["append", "--stdin"], &lines.join("\n")).await.fine();
        assert!(stored.starts_with("2,500 events were stored, the last at "), "{stored}");
        let events = place.run(&["events", "--json"]).await.fine();
        let numbers: Vec<u64> = events
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["data"]["n"].as_u64().unwrap())
            .collect();
        assert_eq!(numbers, (1..=count).collect::<Vec<_>>());

        // What was printed can be stored again: it is known already.
        let again = place.feed(&["append", "--stdin", "--json"], &events).await.fine();
        let again: serde_json::Value = serde_json::from_str(&again).unwrap();
        assert_eq!((&again["stored"], &again["repeated"]), (&0.into(), &count.into()));
    }
}

on_each_backend! {
    async fn a_name_means_the_stream_that_is_called_so<K>(place: Place<K>) {
        // The application has drawn its id.
        let drawn = StreamId::of_kind("order", Uuid::now_v7());
        let store = place.store().await;
        store.append(&Append::to(drawn).raw("Placed", "{}")).await.unwrap();
        let line = |stream: &str| format!(r#"{{"stream":"{stream}","type":"Shipped"}}"#);
        let name = drawn.to_string();
        place.run(&["append", &name, "Packed"]).await.fine();
        place.feed(&["append", "--stdin"], &[line(&name), line("order/new"), line(&name)].join("\n")).await.fine();
        let streams = store.streams("order/", None, 10).await.unwrap();
        let versions: Vec<_> = streams.iter().map(|stream| (stream.name.as_str(), stream.version)).collect();
        assert_eq!(versions, [(name.as_str(), 4), ("order/new", 1)], "no second stream of that name");

        // A name that two streams have is refused, with the line.
        let twin = StreamId::with_name(Uuid::now_v7(), drawn.name().unwrap().as_ref());
        store.append(&Append::to(twin).raw("Placed", "{}")).await.unwrap();
        let refused = place.feed(&["append", "--stdin"], &[line("order/new"), line(&name)].join("\n")).await;
        assert_ne!(refused.code, 0);
        assert!(refused.err.contains("line 2: several streams are called order/"), "{}", refused.err);
    }
}

on_each_backend! {
    async fn a_type_in_streams_of_another_kind_is_noted<K>(place: Place<K>) {
        place.run(&["init"]).await.fine();
        for stream in ["bike/7", "bike/8"] {
            let quiet = place.run(&["append", stream, "Registered"]).await;
            assert_eq!((quiet.code, quiet.err.as_str()), (0, ""), "one kind is as it should be");
        }
        let noted = place.run(&["append", "customer/1", "Registered"]).await;
        assert_eq!(noted.code, 0, "it is stored all the same");
        assert!(noted.err.contains("note: Registered is now in streams of the kind customer, and was in those of bike"), "{}", noted.err);
        let line = |stream: &str| format!(r#"{{"stream":"{stream}","type":"Registered"}}"#);
        let lines = [line("bike/7"), line("shop/1"), line("shop/2")].join("\n");
        let noted = place.feed(&["append", "--stdin"], &lines).await;
        assert_eq!((noted.code, noted.err.lines().count()), (0, 1), "once for a kind: {}", noted.err);
        assert!(noted.err.contains("line 2: note: Registered is now in streams of the kind shop"), "{}", noted.err);
    }
}

on_each_backend! {
    async fn a_bad_line_is_named_with_what_was_stored_before_it<K>(place: Place<K>) {
        place.run(&["init"]).await.fine();
        let mut talk = place.talk();
        let good = r#"{"stream":"order/17","type":"Placed","data":1}"#;
        let claim = |version: u64| format!(r#"{{"stream":"order/17","type":"Shipped","expected":{version}}}"#);
        talk.feed(&["append", "--stdin"], &format!("{good}\n\n{}\n{}\n{good}\n", claim(1), claim(1))).await;
        talk.feed(&["append", "--stdin"], &format!("{good}\n{good}\nnonsense\n{good}\n")).await;
        talk.feed(&["append", "--stdin"], r#"{"stream":"order/17","type":"Placed","date":1}"#).await;
        talk.feed(&["append", "--stdin"], &format!("{}\n", "x".repeat(8 << 20 | 1))).await;
        talk.feed(&["append", "--stdin"], "").await;
        talk.run(&["events"]).await;
        talk.is("append_bad_lines");
    }
}

on_each_backend! {
    async fn events_are_stored_with_the_newest_schema_version<K>(place: Place<K>) {
        let store = place.store().await;
        let placed = |data: &str| NewRecord {
            id: Uuid::now_v7(),
            stream_id: stream_id("order", "17").id(),
            stream_name: stream_id("order", "17").name().unwrap(),
            event_type: "Placed".to_owned(),
            schema_version: 2,
            data: data.to_owned(),
            metadata: "{}".to_owned(),
            created_at: Utc::now(),
        };
        store.append(&Append::to(stream_id("order", "17")).record(placed(r#"{"cents":1}"#))).await.unwrap();
        let mut talk = place.talk();
        talk.run(&["append", "order/17", "Placed", r#"{"cents":2}"#]).await;
        talk.run(&["append", "order/17", "Shipped"]).await;
        let lines = [
            r#"{"stream":"order/17","type":"Placed","data":{"cents":3}}"#,
            r#"{"stream":"order/17","type":"Placed","data":{"cents":4},"schema_version":3}"#,
            r#"{"stream":"order/18","type":"Placed","data":{"cents":5}}"#,
            r#"{"stream":"order/18","type":"Placed","data":6,"schema_version":1}"#,
            r#"{"stream":"order/18","type":"Placed","data":7,"schema_version":1}"#,
            r#"{"stream":"order/18","type":"Shipped"}"#,
        ];
        talk.feed(&["append", "--stdin"], &lines.join("\n")).await;
        let id = "0198b0a4-7f5e-7c3c-9d2e-3f1f6a0c1b2d";
        // The second one stores nothing, so there is nothing to warn of.
        for _ in 0..2 {
            talk.run(&["append", "order/19", "Placed", "8", "--schema-version", "2", "--id", id]).await;
        }
        talk.is("append_schema_versions");
        let events = place.run(&["events", "--json"]).await.fine();
        let versions: Vec<(String, u64)> = events
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|event| (event["type"].as_str().unwrap().to_owned(), event["schema_version"].as_u64().unwrap()))
            .collect();
        let expected = [
            ("Placed", 2),
            ("Placed", 2),
            ("Shipped", 1),
            ("Placed", 2),
            ("Placed", 3),
            ("Placed", 3),
            ("Placed", 1),
            ("Placed", 1),
            ("Shipped", 1),
            ("Placed", 2),
        ];
        assert_eq!(versions, expected.map(|(event_type, version)| (event_type.to_owned(), version)));
    }
}
