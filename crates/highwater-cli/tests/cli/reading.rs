//! `read`, `events` and `tail`.

use throwaway_postgres::{ThrowawayPostgres, send_signal};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{Kind, PATIENCE, Place, Postgres, Ran, on_each_backend, open_writer, say};

async fn filled<K: Kind>(place: &Place<K>) {
    place.run(&["init"]).await.fine();
    let lines: String = (1..=5)
        .map(|n| {
            let kind = if n % 2 == 0 { "Shipped" } else { "Placed" };
            format!("{{\"stream\":\"order/{}\",\"type\":\"{kind}\",\"data\":{n},\"metadata\":{{\"n\":{n}}}}}\n", n % 2)
        })
        .collect();
    place.feed(&["append", "--stdin"], &lines).await.fine();
}

on_each_backend! {
    async fn events_are_shown_by_stream_and_in_order<K>(place: Place<K>) {
        filled(&place).await;
        let mut talk = place.talk();
        talk.run(&["read", "order/1"]).await;
        talk.run(&["read", "order/1", "--backwards", "--limit", "2"]).await;
        talk.run(&["read", "order/1", "--from", "2", "--json"]).await;
        talk.run(&["read", "order/1", "--from", "9"]).await;
        talk.run(&["read", "order/1", "--type", "Shipped"]).await;
        talk.run(&["read", "order/1", "--type", "Lost", "--type", "Placed", "--backwards"]).await;
        talk.run(&["read", "order/1", "--since", "3"]).await;
        talk.run(&["read", "order/2"]).await;
        talk.run(&["events"]).await;
        talk.run(&["events", "--since", "3"]).await;
        talk.run(&["events", "--type", "Shipped", "--limit", "1"]).await;
        talk.run(&["events", "--type", "Nothing"]).await;
        talk.run(&["tail", "-n", "2"]).await;
        talk.run(&["tail", "-n", "1", "--type", "Shipped"]).await;
        talk.run(&["tail", "-n", "0"]).await;
        talk.is("read");
    }
}

on_each_backend! {
    async fn streams_are_listed_by_kind_and_found_by_name<K>(place: Place<K>) {
        filled(&place).await;
        // Of the application's own choice, and not as the library would have it.
        let own = "0198b0a4-7f5e-7c3c-9d2e-3f1f6a0c1b2d";
        let named = format!("{{\"stream\":\"{own}\",\"stream_name\":\"bike/red\",\"type\":\"Added\"}}\n");
        place.feed(&["append", "--stdin"], &named).await.fine();
        let mut talk = place.talk();
        talk.run(&["streams"]).await;
        talk.run(&["streams", "order/", "--limit", "1"]).await;
        talk.run(&["streams", "bike/", "--json"]).await;
        talk.run(&["streams", "nothing/"]).await;
        talk.run(&["events", "--kind", "bike"]).await;
        talk.run(&["events", "--kind", "bike", "--kind", "order", "--type", "Shipped"]).await;
        talk.run(&["events", "--kind", "bike/", "--limit", "1"]).await;
        talk.run(&["events", "--kind", "nothing"]).await;
        talk.run(&["tail", "-n", "1", "--kind", "order"]).await;
        talk.run(&["append", "bike/red", "Rented"]).await;
        talk.run(&["read", "bike/red"]).await;
        talk.run(&["append", own, "Returned"]).await;
        talk.run(&["read", own]).await;
        talk.run(&["append", "bike/red", "Lost", "--expect", "7"]).await;
        let twin = named.replace(own, "0198b0a4-7f5e-7c3c-9d2e-000000000000");
        place.feed(&["append", "--stdin"], &twin).await.fine();
        talk.run(&["read", "bike/red"]).await;
        talk.run(&["append", &format!("order/{}", "x".repeat(200)), "Placed"]).await;
        talk.is("streams");
    }
}

on_each_backend! {
    async fn what_is_stored_cannot_steer_the_terminal_and_stays_on_its_line<K>(place: Place<K>) {
        place.run(&["init"]).await.fine();
        place.run(&["append", "a/b", "\u{1b}[2J", "{\n\"text\":\"\u{202e}gnorts\"\n}"]).await.fine();
        let mut talk = place.talk();
        talk.run(&["events"]).await;
        talk.run(&["events", "--json"]).await;
        talk.is("read_hostile");
    }
}

on_each_backend! {
    async fn tail_follows_until_ctrl_c_and_ends_quietly<K>(place: Place<K>) {
        let store = place.store().await;
        say(&store, "a", "before").await;
        let mut child = place.command(&["tail", "-f", "--json"]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut texts = Vec::new();
        for text in ["before", "first", "second"] {
            if text != "before" {
                say(&store, "a", text).await;
            }
            let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("it is shown in time").unwrap();
            texts.push(serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap()["data"]["text"].clone());
        }
        assert_eq!(texts, ["before", "first", "second"]);
        send_signal(child.id().unwrap(), "INT").unwrap();
        assert_eq!(lines.next_line().await.unwrap(), None, "nothing is printed twice");
        let ran = Ran::of(child).await;
        assert_eq!((ran.code, &*ran.err), (-2, ""), "ended by the signal, without a word");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tail_continues_after_the_server_was_restarted() {
    let mut server = ThrowawayPostgres::start().unwrap();
    let place = Place::<Postgres>::at(server.url());
    let store = place.store().await;
    say(&store, "a", "before").await;
    let mut child = place.command(&["tail", "-f", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("it is shown in time").unwrap();
        serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap()["data"]["text"].clone()
    };
    assert_eq!(next().await, "before");
    server.restart().unwrap();
    let store = place.store().await;
    say(&store, "a", "after").await;
    assert_eq!(next().await, "after", "once, and nothing before it again");
    send_signal(child.id().unwrap(), "INT").unwrap();
    let ran = Ran::of(child).await;
    assert!(ran.err.lines().all(|line| line.starts_with("highwater: ")), "{ran:?}");
    assert!(ran.err.lines().count() <= 2, "it is said once that the server is gone, and once that it is back: {ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_follows_sees_what_commits_after_it_has_begun() {
    let place = Postgres::place();
    let store = place.store().await;
    say(&store, "a", "before").await;
    let mut holder = open_writer(&place).await;
    for n in 0..20 {
        say(&store, "a", &format!("beside {n}")).await;
    }
    let mut child = place.command(&["tail", "-f", "-n", "3", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("it is shown in time").unwrap();
        serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap()["global_sequence"].as_u64().unwrap()
    };
    assert_eq!(next().await, 1, "the last that is certain");
    sqlx::raw_sql("COMMIT").execute(&mut holder).await.unwrap();
    for at in 2..=22 {
        assert_eq!(next().await, at, "nothing is passed over");
    }
    send_signal(child.id().unwrap(), "INT").unwrap();
    Ran::of(child).await;
}
