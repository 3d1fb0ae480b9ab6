//! `init` and `append`.

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
