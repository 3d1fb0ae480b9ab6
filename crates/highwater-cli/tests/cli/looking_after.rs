//! `init --check` and `doctor`.

use crate::support::{Kind, Place, Postgres, execute, on_each_backend};

on_each_backend! {
    async fn doctor_finds_nothing_bad_in_a_new_store<K>(place: Place<K>) {
        place.run(&["init"]).await.fine();
        place.run(&["append", "order/17", "Placed"]).await.fine();
        let found = place.run(&["doctor"]).await;
        assert_eq!((found.code, &*found.err), (0, ""), "{}", found.out);
        assert!(found.out.contains("good     layout: "), "{}", found.out);
        for line in place.run(&["doctor", "--json"]).await.fine().lines() {
            let finding: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_ne!(finding["severity"], "bad", "{line}");
            assert_eq!(finding["severity"] == "good", finding["advice"].is_null(), "what is not good says what to do: {line}");
        }
    }
}

#[tokio::test]
async fn doctor_says_what_is_wrong_and_fails() {
    let place = Postgres::place();
    let missing = place.run(&["doctor"]).await;
    assert_eq!(missing.code, 1, "{missing:?}");
    place.run(&["init"]).await.fine();
    execute(&place.url, &format!("ALTER SEQUENCE \"{}\".events_global_sequence_seq CACHE 100", place.schema)).await;
    let found = place.run(&["doctor"]).await;
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.out.contains("bad      layout: ") && found.out.contains("CACHE 1"), "{}", found.out);
    assert!(found.err.starts_with("highwater: 1 problem to deal with"), "{}", found.err);
    let silent = place.run(&["doctor", "--json"]).await;
    assert_eq!((silent.code, &*silent.err), (1, ""), "{silent:?}");
}

#[tokio::test]
async fn init_says_what_it_would_do_and_what_it_did_on_postgresql() {
    let place = Postgres::place();
    let mut talk = place.talk();
    talk.run(&["init", "--check"]).await;
    talk.run(&["init", "--check", "--json"]).await;
    talk.run(&["init"]).await;
    talk.run(&["init"]).await;
    talk.run(&["init", "--check", "--json"]).await;
    talk.is("init_postgres");
}
