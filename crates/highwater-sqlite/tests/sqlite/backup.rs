//! Copies that are made while others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater::{BoxError, Checkpoints, Error, Event, Log, observer_fn};
use highwater_sqlite::{SqliteEventBus, SqliteEventStore};

use crate::support::{Folder, Note, assert_in_order, eventually, everything, one, quick, say, sequences};

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_made_while_others_append_is_a_database_of_its_own() {
    let folder = Folder::new();
    let store = folder.store().await;
    let bus = SqliteEventBus::new(store.clone(), quick());
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
        assert_eq!(say(&copy, "it goes on").await, head + 1);
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
