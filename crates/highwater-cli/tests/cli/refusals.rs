//! What cannot be reached, opened or used.

use crate::support::{Kind, Place, Postgres, execute, on_each_backend};

const COMMANDS: [&[&str]; 6] = [
    &["events"],
    &["read", "order/17"],
    &["tail"],
    &["status"],
    &["why", "projection:picky"],
    &["dead-letters", "list"],
];

on_each_backend! {
    async fn without_a_store_every_command_says_what_makes_one<K>(place: Place<K>) {
        for command in COMMANDS {
            let refused = place.run(command).await.failed(3);
            assert!(refused.contains("highwater init"), "{command:?}: {refused}");
        }
    }
}

on_each_backend! {
    async fn unknown_subscribers_are_not_found<K>(place: Place<K>) {
        place.run(&["init"]).await.fine();
        let mut talk = place.talk();
        for command in ["why", "pause", "resume"] {
            talk.run(&[command, "projection:nobody"]).await;
        }
        talk.run(&["rebuild", "projection:nobody", "--yes"]).await;
        talk.run(&["dead-letters", "list", "--subscriber", "projection:nobody"]).await;
        talk.run(&["dead-letters", "replay", "--subscriber", "projection:nobody", "--yes"]).await;
        talk.run(&["dead-letters", "show", "0198b0a4-7f5e-7c3c-9d2e-3f1f6a0c1b2d"]).await;
        talk.run(&["dead-letters", "replay", "0198b0a4-7f5e-7c3c-9d2e-3f1f6a0c1b2d"]).await;
        talk.run(&["dead-letters", "discard", "0198b0a4-7f5e-7c3c-9d2e-3f1f6a0c1b2d", "--reason", "x"]).await;
        talk.run(&["dead-letters", "discard", "--all", "--reason", "x", "--yes"]).await;
        talk.is("unknown");
    }
}

#[tokio::test]
async fn a_url_that_cannot_be_used_is_refused_without_its_password() {
    let place = Postgres::place();
    for url in [
        "mysql://app:s3cret@db/shop",
        "highwater.db",
        "",
        "postgres://app:s3cret@:no-port/shop",
        "postgres://app:s3cret@127.0.0.1:1/shop",
        "postgres://app@127.0.0.1:1/shop?password=s3cret",
    ] {
        let ran = place.run(&["events", "--database", url]).await;
        assert!(!format!("{ran:?}").contains("s3cret"), "{ran:?}");
        ran.failed(3);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_as_what_it_is() {
    let place = Postgres::place();
    let refused = place.run(&["events", "--database", "postgres://app@127.0.0.1:1/shop"]).await.failed(3);
    for part in ["Connection refused", "postgres://app@127.0.0.1:1/shop", "see that the server runs there"] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[tokio::test]
async fn a_role_without_rights_is_told_what_it_lacks() {
    let place = Postgres::place();
    place.run(&["init"]).await.fine();
    let role = &place.schema;
    execute(&place.url, &format!("CREATE ROLE \"{role}\" LOGIN")).await;
    let url = place.url.replacen("highwater@", &format!("{role}@"), 1);
    assert_ne!(url, place.url, "the server's URL names the user highwater");
    for command in [&["events"][..], &["append", "order/17", "Placed"], &["init"]] {
        let ran = place.command(command).env("HIGHWATER_DATABASE_URL", &url).spawn().unwrap();
        let refused = crate::support::Ran::of(ran).await.failed(3);
        assert!(refused.contains("not permitted") && refused.contains("grant"), "{command:?}: {refused}");
    }
    execute(&place.url, &format!("DROP ROLE \"{role}\"")).await;
}

#[tokio::test]
async fn a_schema_that_cannot_be_one_is_refused() {
    let place = Postgres::place();
    let refused = place.run(&["events", "--schema", ""]).await.failed(2);
    assert!(refused.contains("schema"), "{refused}");
}

#[tokio::test]
async fn what_is_missing_is_named_with_what_to_do() {
    let place = Postgres::place();
    let (server, _) = place.url.rsplit_once('/').unwrap();
    for (url, parts) in [
        (format!("{server}/no_such_database"), ["no_such_database", "create it first"]),
        ("sqlite:/nonexistent/x.db".to_owned(), ["/nonexistent/x.db", "make the folder first"]),
    ] {
        for command in [&["events"][..], &["init"], &["append", "order/17", "Placed"]] {
            let refused = place.run(&[command, &["--database", &url]].concat()).await.failed(3);
            assert!(parts.iter().all(|part| refused.contains(part)), "{command:?}: {refused}");
            assert!(!refused.contains("highwater init"), "that would not help: {refused}");
        }
    }
}

on_each_backend! {
    async fn a_doctor_names_commands_and_not_functions<K>(place: Place<K>) {
        let store = K::open(&place).await;
        let ran = place.run(&["doctor"]).await;
        assert!(ran.out.contains("run `highwater init`") && !ran.out.contains("initialize()"), "{ran:?}");
        drop(store);
    }
}

#[tokio::test]
async fn arguments_that_cannot_be_used_are_refused_in_one_sentence_without_passwords() {
    let place = Postgres::place();
    for arguments in [
        &["init", "postgres://app:s3cretpw@db/shop"][..],
        &["append", "postgres://app:s3cretpw@db/shop", "X"],
        &["read", "postgres://db/shop?password=s3cretpw"],
        &["rebuild", "x", "--wait", "18446744073709551615"],
        &["pause", "x", "--wait", "86401"],
        &["why", "x", "--patience", "18446744073709551615"],
        &["top", "--interval", "NaN"],
    ] {
        let ran = place.run(arguments).await;
        assert!(!format!("{ran:?}").contains("s3cretpw"), "{ran:?}");
        let said = ran.failed(2);
        assert!(said.ends_with("--help`"), "{said}");
    }
}
