//! Appends in the application's own transaction.

use std::time::Duration;

use highwater::backend::Log;
use highwater::{Append, BoxError, Error, Event, ExpectedVersion, GlobalSequence, ReliableDeliveryConfig, observer_fn};
use highwater_sqlite::{SqliteConfig, SqliteEventBus, SqliteEventStore, UnitOfWork};
use uuid::Uuid;

use crate::support::{Folder, Note, connection, note, one, quick, say, sequences};

/// With tables to write to.
async fn prepared(folder: &Folder) -> SqliteEventStore {
    // Nobody looks by itself what others write.
    let config = SqliteConfig { watch_interval: Duration::from_secs(86_400), ..SqliteConfig::default() };
    let store = folder.store_with(config).await;
    for table in [
        "CREATE TABLE marks (n INTEGER PRIMARY KEY) STRICT",
        "CREATE TABLE owed (n INTEGER REFERENCES marks (n) DEFERRABLE INITIALLY DEFERRED) STRICT",
    ] {
        sqlx::query(table).execute(store.pool()).await.unwrap();
    }
    store
}

async fn mark(work: &mut UnitOfWork, n: i64) {
    sqlx::query("INSERT INTO marks VALUES ($1)").bind(n).execute(&mut **work.tx()).await.unwrap();
}

async fn marks(store: &SqliteEventStore) -> Vec<i64> {
    sqlx::query_scalar("SELECT n FROM marks ORDER BY n").fetch_all(store.pool()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_beside_one_s_own_transaction_is_told_that_it_would_wait_for_itself() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let misuse = async |store: SqliteEventStore| {
        let mut work = store.begin().await.unwrap();
        mark(&mut work, 1).await;
        let error = store.append(&one()).await.unwrap_err();
        assert!(matches!(error, Error::HoldsTransaction), "{error:?}");
        let error = store.begin().await.unwrap_err();
        assert!(matches!(error, Error::HoldsTransaction), "{error:?}");
        work.rollback().await.unwrap();
    };
    // What a test or `main` does itself is no task.
    misuse(store.clone()).await;
    let moved = store.clone();
    tokio::spawn(async move { misuse(moved).await }).await.unwrap();
    assert!(sequences(&store).await.is_empty() && marks(&store).await.is_empty());
    say(&store, "afterwards").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_committed_together_wakes_those_that_wait() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let config = ReliableDeliveryConfig { poll_interval: Duration::from_secs(60), ..quick() };
    let bus = SqliteEventBus::with_config(store.clone(), config);
    let all = observer_fn("projection:all", |_: Event<Note>| async { Ok::<_, BoxError>(()) });
    bus.subscribe(all).await.unwrap().caught_up().await.unwrap();

    let mut work = store.begin().await.unwrap();
    mark(&mut work, 1).await;
    work.append(one());
    let done = work.commit().await.unwrap();
    bus.wait_for("projection:all", GlobalSequence(done[0].global_sequence)).await.unwrap();

    // On a transaction of the application's own, as soon as it says so.
    let mut tx = store.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
    let (appended, announcement) = store.append_on(&mut tx, &one()).await.unwrap();
    tx.commit().await.unwrap();
    announcement.send();
    bus.wait_for("projection:all", GlobalSequence(appended.global_sequence)).await.unwrap();
    assert_eq!(marks(&store).await, [1]);
    bus.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_conflict_takes_everything_back() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let stream = Uuid::now_v7();
    store.append(&Append::to(stream).event(note("first"))).await.unwrap();
    let mut work = store.begin().await.unwrap();
    mark(&mut work, 1).await;
    work.append(one());
    work.append(Append::to(stream).expecting(ExpectedVersion::NoStream).event(note("too late")));
    let error = work.commit().await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error:?}");
    assert!(marks(&store).await.is_empty());
    assert_eq!(sequences(&store).await, [1]);
}

/// More often than there are connections: none of them may be of no more use afterwards.
#[tokio::test]
async fn a_transaction_that_was_ended_inside_stores_nothing_and_harms_nobody() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let mut work = store.begin().await.unwrap();
    mark(&mut work, 1).await;
    work.commit().await.unwrap();
    for round in 0..12 {
        let mut work = store.begin().await.unwrap();
        mark(&mut work, 100 + round).await;
        let ending = match round % 2 {
            0 => sqlx::query("ROLLBACK").execute(&mut **work.tx()).await,
            _ => sqlx::query("INSERT OR ROLLBACK INTO marks VALUES (1)").execute(&mut **work.tx()).await,
        };
        assert_eq!(ending.is_ok(), round % 2 == 0);
        work.append(one());
        // Some are committed, some given up, some forgotten.
        match round % 3 {
            0 => {
                let error = work.commit().await.unwrap_err();
                assert!(matches!(error, Error::Aborted { .. }), "{error:?}");
            }
            1 => {
                let error = store.append_on(work.tx(), &one()).await.map(drop).unwrap_err();
                assert!(matches!(error, Error::Aborted { .. }), "{error:?}");
                assert!(work.rollback().await.is_err(), "there is nothing to roll back");
            }
            _ => drop(work),
        }
    }
    assert!(sequences(&store).await.is_empty());
    assert_eq!(marks(&store).await, [1]);
    let mut work = store.begin().await.unwrap();
    mark(&mut work, 2).await;
    work.append(one());
    work.commit().await.unwrap();
    assert_eq!(marks(&store).await, [1, 2]);
}

#[tokio::test]
async fn a_deferred_constraint_that_does_not_hold_stores_nothing() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    for _ in 0..6 {
        let mut work = store.begin().await.unwrap();
        sqlx::query("INSERT INTO owed VALUES (7)").execute(&mut **work.tx()).await.unwrap();
        work.append(one());
        let error = work.commit().await.unwrap_err();
        assert!(matches!(error, Error::Aborted { .. }), "{error:?}");
    }
    assert!(sequences(&store).await.is_empty());
    say(&store, "afterwards").await;
}

#[tokio::test]
async fn an_append_on_what_is_no_transaction_is_refused() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let mut plain = connection(&folder.database()).await;
    let error = store.append_on(&mut plain, &one()).await.map(drop).unwrap_err();
    assert!(matches!(error, Error::Aborted { .. }), "{error:?}");
    assert!(sequences(&store).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_that_are_dropped_anywhere_leave_the_way_free() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let tasks = (0..100_i64).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let working = async {
                let mut work = store.begin().await.unwrap();
                mark(&mut work, n).await;
                work.append(one());
                work.commit().await.unwrap();
            };
            tokio::time::timeout(Duration::from_micros(fastrand::u64(..20_000)), working).await.is_ok()
        })
    });
    let mut done = 0;
    for task in tasks.collect::<Vec<_>>() {
        done += usize::from(task.await.unwrap());
    }
    let mut work = store.begin().await.unwrap();
    mark(&mut work, 1_000).await;
    work.append(one());
    work.commit().await.unwrap();
    let (events, marks) = (sequences(&store).await.len(), marks(&store).await.len());
    assert_eq!(events, marks, "both or neither");
    assert!(events > done, "a caller that was told so has it");
}
