//! One writer at a time: who waits for whom, and what is left when a writer stops waiting.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use highwater::backend::{Backend, CheckpointWrite, Checkpoints, Log, Opening, Requests};
use highwater::{Append, Claim, Error, ExpectedVersion};
use highwater_sqlite::{SqliteConfig, SqliteEventStore};
use sqlx::Connection;
use uuid::Uuid;

use crate::support::{Folder, assert_in_order, connection, everything, execute, note, one, say, sequences, soak};
use crate::worker::{Job, Orders, Task, report};

/// A worker that holds the database's lock until it is told to release it.
pub async fn hold(database: &Path, mut orders: Orders) {
    let mut connection = connection(database).await;
    execute(&mut connection, "BEGIN IMMEDIATE").await;
    report("held");
    while orders.recv().await.is_some() {}
    execute(&mut connection, "COMMIT").await;
    connection.close().await.unwrap();
}

/// A checkpoint of a subscriber that was just taken over.
async fn checkpoint(store: &SqliteEventStore, global_sequence: u64) -> CheckpointWrite {
    let claim = Claim::of("projection:one");
    let fence = store.take_over(&claim).await.unwrap().checkpoint.fence();
    CheckpointWrite { fence, global_sequence, event_id: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_waits_for_another_process_that_has_the_lock_and_nobody_is_told_that_it_is_busy() {
    let folder = Folder::new();
    let store = folder.store().await;
    let write = checkpoint(&store, 0).await;
    let worker = Job::on(&folder, Task::Hold).start();
    worker.says("held", 1).await;
    let (appending, pausing, storing, working) = (store.clone(), store.clone(), store.clone(), store.clone());
    let mut all = tokio::spawn(async move {
        let append = one();
        let writes = [write];
        let (appended, paused, stored, worked) = tokio::join!(
            appending.append(&append),
            pausing.set_paused("projection:one", true),
            storing.store_checkpoints(&writes),
            tokio::spawn(async move { working.begin().await?.commit().await }),
        );
        appended?;
        paused?;
        assert_eq!(stored?, [None]);
        worked.unwrap().map(drop)
    });
    let waited = tokio::time::timeout(Duration::from_secs(2), &mut all).await;
    assert!(waited.is_err(), "a writer did not wait: {waited:?}");
    worker.end().await;
    all.await.unwrap().unwrap();
    assert_eq!(sequences(&store).await, [1]);
    assert_eq!(store.paused(&["projection:one".to_owned()]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_append_waits_for_its_time_and_not_for_that_of_each_who_has_the_lock() {
    let folder = Folder::new();
    let with = |millis| SqliteConfig { append_timeout: Duration::from_millis(millis), ..SqliteConfig::default() };
    let (first, second) = (folder.store_with(with(2_000)).await, folder.store_with(with(2_500)).await);
    let worker = Job::on(&folder, Task::Hold).start();
    worker.says("held", 1).await;
    // It is before the other in this process, and waits in vain for the worker.
    let before = tokio::spawn(async move { first.begin().await.map(drop) });
    tokio::task::yield_now().await;
    let started = Instant::now();
    let error = second.append(&one()).await.unwrap_err();
    let waited = started.elapsed();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(waited < Duration::from_millis(3_500), "{waited:?}");
    before.await.unwrap().unwrap_err();
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whose_transaction_of_delivery_is_waited_for_is_said() {
    let folder = Folder::new();
    let config = SqliteConfig { append_timeout: Duration::from_millis(200), ..SqliteConfig::default() };
    let store = folder.store_with(config).await;
    let fence = checkpoint(&store, 0).await.fence;
    let handler = tokio::spawn({
        let store = store.clone();
        async move { Backend::begin(&store, &fence, Opening::Handler, None).await.unwrap() }
    });
    let begun = handler.await.unwrap();
    let error = store.append(&one()).await.unwrap_err();
    assert!(format!("{error:?}").contains("a transaction of delivery for projection:one"), "{error:?}");
    store.rollback(begun.tx, false).await;
    store.append(&one()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_want_to_wait_longer_is_told_so_and_nothing_is_stored() {
    let folder = Folder::new();
    let config = SqliteConfig { append_timeout: Duration::from_millis(200), ..SqliteConfig::default() };
    let store = folder.store_with(config).await;
    let worker = Job::on(&folder, Task::Hold).start();
    worker.says("held", 1).await;
    let append = one();
    let error = store.append(&append).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("another process"), "{error}");
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", worker.pid())).unwrap();
    let who = format!("process {} ({})", worker.pid(), comm.trim_end());
    assert!(format!("{error:?}").contains(&who), "{error:?}");
    let error = store.begin().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(format!("{error:?}").contains(&who), "{error:?}");
    worker.end().await;
    assert!(sequences(&store).await.is_empty());
    assert!(!store.append(&append).await.unwrap().repeated, "it was not stored before");

    // Within this process it is said who it is.
    let work = tokio::spawn({
        let store = store.clone();
        async move { store.begin().await.unwrap() }
    });
    let work = work.await.unwrap();
    let error = store.append(&one()).await.unwrap_err();
    let mut sources = std::iter::successors(std::error::Error::source(&error), |error| error.source());
    assert!(sources.any(|source| source.to_string().contains("a unit of work")), "{error:?}");
    work.rollback().await.unwrap();
    assert_eq!(sequences(&store).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_read_keeps_nobody_from_writing() {
    let folder = Folder::new();
    let store = folder.store().await;
    say(&store, "before").await;
    let mut reading = store.pool().begin().await.unwrap();
    let count = "SELECT count(*) FROM events";
    let before: i64 = sqlx::query_scalar(count).fetch_one(&mut *reading).await.unwrap();
    for n in 0..100 {
        say(&store, &n.to_string()).await;
    }
    let after: i64 = sqlx::query_scalar(count).fetch_one(&mut *reading).await.unwrap();
    assert_eq!((before, after), (1, 1), "it sees what it saw");
    reading.commit().await.unwrap();
    assert_eq!(sequences(&store).await.len(), 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_application_s_own_writes_stand_beside_ours() {
    let folder = Folder::new();
    let store = folder.store().await;
    sqlx::query("CREATE TABLE own (n INTEGER PRIMARY KEY) STRICT").execute(store.pool()).await.unwrap();
    let tasks = (0..4_i64).map(|task| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..25 {
                let mut tx = store.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
                sqlx::query("INSERT INTO own VALUES ($1)").bind(task * 25 + n).execute(&mut *tx).await.unwrap();
                tx.commit().await.unwrap();
                store.append(&one()).await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let own: i64 = sqlx::query_scalar("SELECT count(*) FROM own").fetch_one(store.pool()).await.unwrap();
    assert_eq!(own, 100);
    let events = everything(&store).await;
    assert_in_order(&events);
    assert_eq!(events.len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_all_who_want_a_version_one_gets_it() {
    const RACERS: usize = 50;
    let folder = Folder::new();
    let store = folder.store().await;
    let stream = Uuid::now_v7();
    let race = |version: u64| {
        let expected = if version == 0 { ExpectedVersion::NoStream } else { ExpectedVersion::Exact(version) };
        let (store, append) = (store.clone(), Append::to(stream).expecting(expected).event(note("won")));
        tokio::spawn(async move {
            match store.append(&append).await {
                Ok(_) => true,
                Err(Error::Conflict { .. }) => false,
                Err(error) => panic!("{error:?}"),
            }
        })
    };
    for version in 0..20 {
        let racers: Vec<_> = (0..RACERS).map(|_| race(version)).collect();
        let mut winners = 0;
        for racer in racers {
            winners += usize::from(racer.await.unwrap());
        }
        assert_eq!(winners, 1, "version {version}");
    }
    // A thousand at once, for versions of which some come too early and most too late.
    let racers: Vec<_> = (0..1_000).map(|n| race(20 + n % 40)).collect();
    let mut winners = 0;
    for racer in racers {
        winners += usize::from(racer.await.unwrap());
    }
    let events = everything(&store).await;
    assert_in_order(&events);
    assert_eq!(events.len(), 20 + winners);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_whose_caller_goes_away_is_whole_or_not_there() {
    let folder = Folder::new();
    let store = folder.store().await;
    let shared = Uuid::now_v7();
    let callers = (0..soak(300)).map(|n| {
        let store = store.clone();
        let append =
            Append::to(shared).events((0..3).map(|n| note(n.to_string()))).and_to(Uuid::now_v7()).event(note("x"));
        tokio::spawn(async move {
            let patience = Duration::from_micros(fastrand::u64(..4_000));
            let answer = tokio::time::timeout(patience, store.append(&append)).await;
            (n, append, answer.ok().map(|answer| answer.unwrap().global_sequence))
        })
    });
    let mut answers = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        answers.push(caller.await.unwrap());
    }
    // Behind everything that is still under way.
    say(&store, "the end").await;
    let events = everything(&store).await;
    assert_in_order(&events);
    for (n, append, answer) in answers {
        let stored = append.event_ids().filter(|id| events.iter().any(|event| event.id == *id)).count();
        assert!(stored == 0 || stored == 4, "{stored} events of append {n} are there");
        assert!(answer.is_none() || stored == 4, "append {n} was acknowledged");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_whose_caller_goes_away_leave_the_way_free() {
    let folder = Folder::new();
    let store = folder.store().await;
    let write = checkpoint(&store, 1).await;
    let mut stored = 0;
    for n in 1..=soak(100) as u64 {
        let writes = [CheckpointWrite { global_sequence: n, ..write.clone() }];
        let patience = Duration::from_micros(fastrand::u64(..1_500));
        if let Ok(answers) = tokio::time::timeout(patience, store.store_checkpoints(&writes)).await {
            assert_eq!(answers.unwrap(), [None]);
            stored = n;
        }
        let found = store.checkpoint("projection:one").await.unwrap().unwrap().global_sequence;
        assert!((stored..=n).contains(&found), "{found} is stored, and {stored} was acknowledged");
    }
    say(&store, "afterwards").await;
    let last = CheckpointWrite { global_sequence: 1_000_000, ..write };
    assert_eq!(store.store_checkpoints(&[last]).await.unwrap(), [None]);
}

#[tokio::test]
async fn a_number_never_comes_back() {
    let folder = Folder::new();
    let store = folder.store().await;
    for n in 0..3 {
        say(&store, &n.to_string()).await;
    }
    sqlx::query("DELETE FROM events WHERE global_sequence = 3").execute(store.pool()).await.unwrap();
    assert_eq!(say(&store, "after").await, 4);
    sqlx::query("DELETE FROM events").execute(store.pool()).await.unwrap();
    drop(store);
    assert_eq!(say(&folder.store().await, "after all").await, 5);
}

/// Whatever the number of statements that an append is made of: ids that are taken are found out by the last one.
#[tokio::test]
async fn an_append_of_any_length_whose_last_id_is_taken_leaves_nothing() {
    let folder = Folder::new();
    let store = Arc::new(folder.store().await);
    let taken = one();
    store.append(&taken).await.unwrap();
    let id = taken.event_ids().next().unwrap();
    for length in [2, 3, 5, 7, 100, 128, 129, 300] {
        let append = Append::to(Uuid::now_v7()).events((1..length).map(|n| note(n.to_string())));
        let append = append.event_with_id(id, note("another"));
        let error = store.append(&append).await.unwrap_err();
        assert!(matches!(error, Error::PartlyStored { .. } | Error::IdTaken { .. }), "{length} events: {error:?}");
        assert_eq!(sequences(&*store).await, [1], "{length} events");

        let mut work = store.begin().await.unwrap();
        let error = store.append_on(work.tx(), &append).await.map(drop).unwrap_err();
        assert!(matches!(error, Error::PartlyStored { .. } | Error::IdTaken { .. }), "{length} events: {error:?}");
        work.commit().await.unwrap();
        assert_eq!(sequences(&*store).await, [1], "{length} events, on a transaction that continues");
    }
}
