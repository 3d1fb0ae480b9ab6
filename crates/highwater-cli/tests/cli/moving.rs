//! `export`, `import` and `copy`.

use highwater::backend::Transfer as _;
use highwater::{EventBus, FailurePolicy, GlobalSequence};

use throwaway_postgres::send_signal;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{
    Fixed, Kind, PATIENCE, Place, Postgres, Ran, Sqlite, coordinated, eventually, on_each_backend, open_writer, picky,
    say,
};

/// A store with events, a checkpoint, a pause, a dead letter and an open request; nobody runs any more.
async fn filled<K: Kind>(place: &Place<K>) -> K::Store {
    let store = place.store().await;
    let bus = EventBus::with_config(store.clone(), coordinated());
    let subscription = picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
    for text in ["one", "bad", "three"] {
        say(&store, "a", text).await;
    }
    subscription.caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
    place.run(&["dead-letters", "replay", "--all", "--yes", "--wait", "0"]).await;
    place.run(&["pause", "projection:picky"]).await.fine();
    store
}

async fn exported<K: Kind>(place: &Place<K>) -> String {
    place.run(&["export"]).await.fine()
}

on_each_backend! {
    async fn an_export_is_imported_as_the_same_store<K>(place: Place<K>) {
        filled(&place).await;
        let other = K::place();
        let mut talk = place.talk();
        talk.run(&["export", "shop.ndjson"]).await;
        talk.run(&["export", "shop.ndjson"]).await;
        talk.run(&["export", "not/there"]).await;
        let text = std::fs::read_to_string(place.folder.join("shop.ndjson")).unwrap();
        assert_eq!(exported(&place).await, text, "the same to a file and to stdout");

        talk.run(&["import", "shop.ndjson"]).await;
        talk.run(&["import", "missing.ndjson"]).await;
        talk.is("export");
        let imported = other.feed(&["import"], &text).await.fine();
        let said = "imported 3 events, 1 checkpoint, 1 dead letter and 1 open request\nread models are no part of it: ";
        assert!(imported.starts_with(said), "{imported}");
        assert_eq!(exported(&other).await, text);
        assert_eq!(place.run(&["events", "--json"]).await.fine(), other.run(&["events", "--json"]).await.fine());
        let next = other.run(&["append", "order/17", "Placed", "--json"]).await.fine();
        assert!(next.contains("\"global_sequence\":4"), "numbers continue: {next}");
    }
}

on_each_backend! {
    async fn a_damaged_export_is_refused_and_nothing_stays_behind<K>(place: Place<K>) {
        filled(&place).await;
        let text = exported(&place).await;
        let other = K::place();
        let mut talk = other.talk();
        let lines: Vec<&str> = text.lines().collect();
        let cut = lines[..3].join("\n");
        let twice = [&lines[..2], &lines[1..]].concat().join("\n");
        for damaged in ["", "{}", &text.replace("three", "3"), &cut, &twice] {
            talk.feed(&["import"], damaged).await;
        }
        talk.run(&["events"]).await;
        talk.run(&["import", "--abandon"]).await;
        talk.is("import_damaged");
        other.feed(&["import", "--json"], &text).await.fine();
    }
}

on_each_backend! {
    async fn a_store_is_copied_into_an_empty_one<K>(place: Place<K>) {
        let store = filled(&place).await;
        let other = K::place();
        let schemas = ["--schema", &place.schema, "--to-schema", &other.schema];
        let copy = |place: &Place<K>, more: &[&str]| {
            let arguments = [&["copy"], more, &schemas[..]].concat();
            place.command(&arguments).spawn().unwrap()
        };
        let copied = Ran::of(copy(&place, &[&place.url, &other.url])).await.fine();
        assert!(copied.starts_with("copied 3 events, 1 checkpoint, 1 dead letter and 1 open request to "), "{copied}");
        assert!(copied.contains("; both are the same\nread models are no part of it: rebuild"), "{copied}");
        assert_eq!(exported(&other).await, exported(&place).await);

        let again = Ran::of(copy(&place, &[&place.url, &other.url])).await.failed(1);
        assert!(again.contains("not empty"), "{again}");
        let same = place.run(&["copy", &place.url, &place.url]).await.failed(2);
        assert!(same.contains("into itself"), "{same}");
        drop(store);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_goes_from_sqlite_to_postgresql_and_back_and_is_the_same() {
    let (first, between, last) = (Sqlite::place(), Postgres::place(), Sqlite::place());
    filled(&first).await;
    let to_schema = ["--to-schema", &between.schema];
    first.run(&[&["copy", &first.url, &between.url][..], &to_schema].concat()).await.fine();
    between.run(&["copy", &between.url, &last.url, "--json"]).await.fine();
    let text = exported(&first).await;
    assert_eq!(exported(&between).await, text);
    assert_eq!(exported(&last).await, text);

    // It is as much alive as the first: what waits is done there, and numbers continue.
    last.run(&["resume", "projection:picky"]).await.fine();
    let (store, fixed) = (last.store().await, Fixed::default());
    fixed.now();
    let bus = EventBus::with_config(store.clone(), coordinated());
    picky(&bus, FailurePolicy::DeadLetter, &fixed).await;
    let at = say(&store, "a", "four").await;
    assert_eq!(at, 4);
    bus.wait_for("projection:picky", GlobalSequence(at)).await.unwrap();
    eventually("the dead letter is replayed", async || {
        last.run(&["dead-letters", "list"]).await.fine() == "no dead letters\n"
    })
    .await;
    bus.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_copy_that_cannot_be_is_refused_without_passwords() {
    let place = Sqlite::place();
    for (from, to) in [
        ("sqlite:missing.db", "sqlite:copy.db"),
        ("mysql://app:s3cret@db/shop", "sqlite:copy.db"),
        ("postgres://app:s3cret@127.0.0.1:1/shop", "sqlite:copy.db"),
    ] {
        let ran = place.run(&["copy", from, to]).await;
        assert!(!format!("{ran:?}").contains("s3cret"), "{ran:?}");
        ran.failed(3);
    }
    assert!(!place.folder.join("copy.db").exists(), "nothing is made for nothing");
    assert_eq!(place.run(&["copy", "sqlite:one.db"]).await.code, 2, "a copy needs a place to go");
}

on_each_backend! {
    async fn a_copy_that_was_killed_is_resumed_or_given_up<K>(place: Place<K>) {
        place.run(&["init"]).await.fine();
        let lines = "{\"stream\":\"note/a\",\"type\":\"Struck\"}\n".repeat(20_000);
        place.feed(&["append", "--stdin"], &lines).await.fine();
        let other = K::place();
        let arguments = killed(&place, &other).await;
        let refused = other.run(&["append", "order/17", "Placed"]).await.failed(1);
        assert!(refused.contains("being filled"), "nobody else can write: {refused}");
        let half = other.run(&["export"]).await.failed(1);
        assert!(half.contains("only half a copy"), "half of it is not exported: {half}");
        let status = other.run(&["status"]).await.fine();
        assert!(status.contains("only half a copy: it is being filled from "), "{status}");
        let resumed = place.run(&borrowed(&arguments)).await.fine();
        assert!(resumed.starts_with("resumed after "), "{resumed}");
        assert_eq!(exported(&other).await, exported(&place).await);

        let other = K::place();
        killed(&place, &other).await;
        assert_eq!(other.run(&["copy", "--abandon", &other.url]).await.fine(), "it is empty and open again\n");
        assert_eq!(other.run(&["copy", "--abandon", &other.url]).await.fine(), "nothing was being filled in\n");
        other.run(&["append", "order/17", "Placed"]).await.fine();
    }
}

/// Copies, and kills that as soon as something has arrived. Says how it is begun.
async fn killed<K: Kind>(from: &Place<K>, to: &Place<K>) -> Vec<String> {
    let arguments = ["copy", &from.url, &to.url, "--schema", &from.schema, "--to-schema", &to.schema];
    let target = to.store().await;
    let mut child = from.command(&arguments).spawn().unwrap();
    eventually("something is copied", async || {
        target.filling().await.unwrap().is_some_and(|filling| filling.filled_to > 0)
    })
    .await;
    child.kill().await.unwrap();
    assert!(target.filling().await.unwrap().is_some(), "it was not finished");
    arguments.map(str::to_owned).to_vec()
}

fn borrowed(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

on_each_backend! {
    async fn what_is_exported_to_stdout_is_an_export_and_nothing_else<K>(place: Place<K>) {
        filled(&place).await;
        let text = place.run(&["export", "-"]).await.fine();
        assert_eq!(text, exported(&place).await);
        let other = K::place();
        other.feed(&["import", "-"], &text).await.fine();
        assert_eq!(exported(&other).await, text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_writer_says_so_and_an_interrupted_export_leaves_nothing() {
    let place = Postgres::place();
    let store = place.store().await;
    let mut holder = open_writer(&place).await;
    say(&store, "a", "beside").await;
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut child = place.command(&["export", "shop.ndjson"]).spawn().unwrap();
        let said = first_note(&mut child).await;
        assert!(said.contains("waiting for what is still being written: process "), "{said}");
        send_signal(child.id().unwrap(), signal).unwrap();
        assert_eq!(Ran::of(child).await.code, code);
        let left: Vec<_> = std::fs::read_dir(&place.folder).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
    let mut copy = place.command(&["copy", &place.url, "sqlite:copy.db"]).spawn().unwrap();
    let said = first_note(&mut copy).await;
    assert!(said.contains("application nightly-import, open for"), "{said}");
    sqlx::raw_sql("COMMIT").execute(&mut holder).await.unwrap();
    assert_eq!(Ran::of(copy).await.code, 0);
}

async fn first_note(child: &mut tokio::process::Child) -> String {
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
    tokio::time::timeout(PATIENCE, notes.next_line()).await.expect("it says so in time").unwrap().unwrap()
}

#[tokio::test]
async fn a_file_by_another_name_is_the_same_store() {
    let place = Sqlite::place();
    place.run(&["init"]).await.fine();
    std::os::unix::fs::symlink(place.folder.join("shop.db"), place.folder.join("other.db")).unwrap();
    for to in ["sqlite:./shop.db", "sqlite:other.db"] {
        let same = place.run(&["copy", "sqlite:shop.db", to]).await.failed(2);
        assert!(same.contains("into itself"), "{same}");
    }
}

#[tokio::test]
async fn a_copy_beside_the_same_copy_is_told_to_wait() {
    let (place, other) = (Sqlite::place(), Sqlite::place());
    let store = place.store().await;
    say(&store, "a", "one").await;
    let first = place.run(&["events", "--json"]).await.fine();
    let first: serde_json::Value = serde_json::from_str(&first).unwrap();
    let source = format!("{} (first event {})", place.url, first["id"].as_str().unwrap());
    let target = other.store().await;
    let filling = target.fill(&source).await.unwrap();
    let refused = place.run(&["copy", &place.url, &other.url]).await.failed(1);
    assert!(refused.starts_with("another process copies ") && refused.contains("wait for that one"), "{refused}");
    filling.abandon().await.unwrap();
    place.run(&["copy", &place.url, &other.url]).await.fine();
}

#[tokio::test]
async fn a_damaged_store_is_not_copied_by_retrying() {
    use std::os::unix::fs::FileExt as _;
    let place = Sqlite::place();
    let lines = format!("{{\"stream\":\"note/a\",\"type\":\"T\",\"data\":\"{}\"}}\n", "x".repeat(500)).repeat(10_000);
    place.feed(&["append", "--stdin"], &lines).await;
    // One file without a log beside it, in which the table comes first.
    place.run(&["backup", "whole.db"]).await.fine();
    let file = std::fs::File::options().write(true).open(place.folder.join("whole.db")).unwrap();
    let size = file.metadata().unwrap().len();
    file.write_all_at(&[0xff; 8_192], size / 2 / 4_096 * 4_096).unwrap();
    let refused = place.run(&["copy", "sqlite:whole.db", "sqlite:copy.db"]).await.failed(3);
    assert!(refused.contains("damaged") && refused.contains("when that is fixed"), "{refused}");
}
