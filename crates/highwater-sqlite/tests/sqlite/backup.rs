//! Copies that are made while others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater::backend::{Checkpoints, Log};
use highwater::{BoxError, Error, Event, observer_fn};
use highwater_sqlite::{SqliteEventBus, SqliteEventStore};

use crate::support::{Folder, Note, assert_in_order, eventually, everything, one, quick, say, sequences};
use crate::worker::{Job, Task};

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_made_while_others_append_is_a_database_of_its_own() {
    let folder = Folder::new();
    let store = folder.store().await;
    let bus = SqliteEventBus::with_config(store.clone(), quick());
    let all = observer_fn("projection:all", |_: Event<Note>| async { Ok::<_, BoxError>(()) });
    bus.subscribe(all).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let (store, stop) = (store.clone(), stop.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    store.append(&one()).await.unwrap();
                }
            })
        })
        .collect();
    for n in 0..3 {
        let before = store.head().await.unwrap();
        eventually("there is more", async || store.head().await.unwrap() > before + 50).await;
        let (at_least, path) = (store.head().await.unwrap(), folder.path().join(format!("copy {n}.db")));
        store.backup(&path).await.unwrap();
        let copy = SqliteEventStore::open(path.to_str().unwrap()).await.unwrap();
        let events = everything(&copy).await;
        assert_in_order(&events);
        let head = copy.head().await.unwrap();
        assert!(head >= at_least, "it has what was there when it was begun");
        assert_eq!(events.len() as u64, head, "without a hole");
        assert!(events == everything(&store).await[..events.len()], "it is the beginning of the log");
        let checkpoint = copy.checkpoint("projection:all").await.unwrap().unwrap();
        assert!(checkpoint.global_sequence <= head, "of one moment");
        assert_eq!(say(&copy, "it continues").await, head + 1);
    }
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    bus.shutdown().await.unwrap();
    assert_in_order(&everything(&store).await);
}

#[tokio::test]
async fn a_copy_over_something_else_is_refused() {
    let folder = Folder::new();
    let store = folder.store().await;
    say(&store, "one").await;
    for (name, content) in [("letter.txt", "do not lose this"), ("empty", "")] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let error = store.backup(&path).await.unwrap_err();
        assert!(matches!(&error, Error::Unfit { reason } if reason.contains("there already")), "{error:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    }
    let error = store.backup(store.path()).await.unwrap_err();
    assert!(matches!(error, Error::Unfit { .. }), "{error:?}");
    let error = store.backup(folder.path().join("nowhere/copy.db")).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(!folder.path().join("nowhere").exists());
    assert_eq!(sequences(&store).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_copies_to_one_name_one_is_made() {
    let folder = Folder::new();
    let store = folder.store().await;
    for _ in 0..50 {
        store.append(&one()).await.unwrap();
    }
    let path = folder.path().join("copy.db");
    let (one, other) = tokio::join!(store.backup(&path), store.backup(&path));
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    let copy = SqliteEventStore::open(path.to_str().unwrap()).await.unwrap();
    assert_eq!(sequences(&copy).await, sequences(&store).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_nobody_waits_for_leaves_nothing() {
    let folder = Folder::new();
    let store = folder.store().await;
    for _ in 0..20 {
        store.append(&one()).await.unwrap();
    }
    let path = folder.path().join("copy.db");
    for _ in 0..20 {
        let patience = std::time::Duration::from_micros(fastrand::u64(..3_000));
        if let Ok(done) = tokio::time::timeout(patience, store.backup(&path)).await {
            done.unwrap();
            std::fs::remove_file(&path).unwrap();
        }
        assert!(!path.exists(), "half a copy is left");
    }
    eventually("nothing is left", async || names(&folder, "copy").is_empty()).await;
}

#[tokio::test]
async fn what_an_older_database_of_that_name_has_left_behind_does_not_get_into_a_copy() {
    let folder = Folder::new();
    let store = folder.store().await;
    say(&store, "ours").await;
    // A write-ahead log without its database.
    let left = folder.path().join("copy.db-wal");
    std::fs::write(&left, "somebody's").unwrap();
    let error = store.backup(folder.path().join("copy.db")).await.unwrap_err();
    assert!(matches!(&error, Error::Unfit { reason } if reason.contains("copy.db-wal")), "{error:?}");
    assert_eq!(names(&folder, "copy"), ["copy.db-wal"]);
    std::fs::remove_file(left).unwrap();
    store.backup(folder.path().join("copy.db")).await.unwrap();
    let copy = SqliteEventStore::open(folder.path().join("copy.db").to_str().unwrap()).await.unwrap();
    assert_eq!(sequences(&copy).await, [1]);
}

#[tokio::test]
async fn names_that_the_database_uses_itself_are_refused() {
    let folder = Folder::new();
    let store = folder.store().await;
    std::fs::create_dir_all(folder.path().join("events.db-locks")).unwrap();
    for name in ["events.db-journal", "events.db-wal", "events.db-locks", "events.db-locks/copy.db"] {
        let error = store.backup(folder.path().join(name)).await.unwrap_err();
        assert!(matches!(error, Error::Unfit { .. }), "{name}: {error:?}");
    }
    assert!(!folder.path().join("events.db-journal").exists());
}

/// A worker that backs up in the current folder, by a name that is a URI to SQLite.
pub async fn back_up(database: &str) {
    let store = SqliteEventStore::open(database).await.unwrap();
    store.backup("file:copy.db?mode=memory").await.unwrap();
    crate::worker::report("backed up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_never_taken_for_a_uri() {
    let folder = Folder::new();
    say(&folder.store().await, "one").await;
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let worker = Job::on(&folder, Task::BackUp).start_as(command.current_dir(folder.path()));
    worker.says("backed up", 1).await;
    worker.end().await;
    assert_eq!(names(&folder, "copy"), Vec::<String>::new());
    let copy = SqliteEventStore::open(folder.path().join("file:copy.db?mode=memory").to_str().unwrap()).await.unwrap();
    assert_eq!(sequences(&copy).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_has_its_name_only_when_it_is_whole() {
    let folder = Folder::new();
    let store = folder.store().await;
    let text = "so that it takes a while ".repeat(2_000);
    for _ in 0..200 {
        say(&store, &text).await;
    }
    let path = folder.path().join("copy.db");
    let mut backup = Box::pin(store.backup(&path));
    // Whatever is seen under that name has everything.
    let done = loop {
        match tokio::time::timeout(std::time::Duration::from_micros(200), &mut backup).await {
            Ok(done) => break done,
            Err(_) => assert!(!path.exists(), "it is not finished"),
        }
    };
    done.unwrap();
    drop(backup);
    assert_eq!(names(&folder, "copy"), ["copy.db"], "nothing else is left");
    let mode = |path: &std::path::Path| std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path).unwrap());
    assert_eq!(mode(&path), mode(store.path()));
}

/// The files of a folder that begin so.
fn names(folder: &Folder, begin: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.to_str().unwrap().to_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(begin)).collect();
    names.sort();
    names
}
