//! A user moves or removes the file of a database that is in use.

use std::fs;

use highwater::backend::{Diagnose, Log, Requests, Severity};
use highwater::{BoxError, Error, Event, Problem, observer_fn};
use highwater_sqlite::{SqliteEventBus, SqliteEventStore};

use crate::support::{Folder, Note, eventually, one, say, sequences};

/// Why nothing is written any more.
async fn refusal(store: &SqliteEventStore) -> String {
    let mut said = Vec::new();
    let refused = [
        store.append(&one()).await.map(drop),
        store.begin().await.map(drop),
        store.set_paused("projection:one", true).await.map(drop),
    ];
    for refused in refused {
        let Err(Error::Unfit { reason }) = refused else { panic!("it must be refused: {refused:?}") };
        said.push(reason);
    }
    said.dedup();
    assert_eq!(said.len(), 1, "for one reason: {said:?}");
    said.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_to_a_file_that_no_other_process_would_find() {
    for how in ["removed", "renamed", "replaced"] {
        let folder = Folder::new();
        let store = folder.store().await;
        say(&store, "before").await;
        // What SQLite still has in memory is brought into the file, so that a copy has it.
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(store.pool()).await.unwrap();
        let mut open = store.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
        let (database, elsewhere) = (folder.database(), folder.path().join("elsewhere.db"));
        match how {
            "removed" => fs::remove_file(database).unwrap(),
            "renamed" => fs::rename(database, elsewhere).unwrap(),
            _ => {
                fs::copy(&database, &elsewhere).unwrap();
                fs::rename(elsewhere, database).unwrap();
            }
        }
        let appended = store.append_on(&mut open, &one()).await.map(drop);
        assert!(matches!(appended, Err(Error::Unfit { .. })), "{how}: {appended:?}");
        let said = refusal(&store).await;
        for word in ["events.db is not the file", "removed, renamed or replaced", "put it back", "start them again"] {
            assert!(said.contains(word), "{how}: {word:?} is missing in: {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_moved_is_a_problem_until_it_is_back() {
    let folder = Folder::new();
    let store = folder.store().await;
    let bus = SqliteEventBus::new(store.clone());
    let all = observer_fn("projection:all", |_: Event<Note>| async { Ok::<_, BoxError>(()) });
    bus.subscribe(all).await.unwrap().caught_up().await.unwrap();
    let elsewhere = folder.path().join("elsewhere.db");
    fs::rename(folder.database(), &elsewhere).unwrap();
    let health = bus.health().await;
    let named = |problem: &Problem| matches!(problem, Problem::Unreachable { error } if error.contains("renamed"));
    assert!(health.problems.iter().any(named) && !health.is_ready(), "{health:?}");
    let findings = store.diagnose().await.unwrap();
    let found = findings.iter().find(|finding| finding.found.contains("renamed")).expect("it is found");
    assert_eq!(found.severity, Severity::Bad, "{found}");
    fs::rename(&elsewhere, folder.database()).unwrap();
    say(&store, "back").await;
    eventually("all is well", async || bus.health().await.is_ready()).await;
    bus.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_opened_after_a_replacement_has_the_new_file() {
    let folder = Folder::new();
    let old = folder.store().await;
    say(&old, "before").await;
    for name in ["events.db", "events.db-wal", "events.db-shm"] {
        fs::rename(folder.path().join(name), folder.path().join(format!("old-{name}"))).unwrap();
    }
    let new = folder.store().await;
    say(&new, "after").await;
    assert_eq!(sequences(&new).await, [1]);
    refusal(&old).await;
}
