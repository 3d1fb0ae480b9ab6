//! A disk that is full.

use std::path::Path;

use highwater::backend::Log;
use highwater::{Append, Error, EventStore};
use highwater_sqlite::SqliteEventStore;
use uuid::Uuid;

use crate::support::{Folder, Note, assert_in_order, note};
use crate::worker::{Job, Task, report};

fn large() -> Append {
    Append::to(Uuid::now_v7()).events((0..3).map(|n| note(format!("{n} {}", "long ".repeat(1_000)))))
}

/// A worker whose disk is small. Everything it finds out it finds out itself: nobody else sees its disk.
pub async fn fill(database: &str) {
    let folder = Path::new(database).parent().unwrap();
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![0; 1 << 20]).unwrap();
    let store = SqliteEventStore::open(database).await.unwrap();
    store.initialize().await.unwrap();
    let mut acknowledged = 0;
    let error = loop {
        match store.append(&large()).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    report(format!("full after {acknowledged}: {error:?}"));
    assert_holds(&store, acknowledged).await;

    // A copy has no room either, and leaves nothing.
    let copy = folder.join("copy.db");
    let error = store.backup(&copy).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(!copy.exists(), "nothing is left of it");

    // A unit of work goes the same way.
    let mut work = store.begin().await.unwrap();
    work.append(large());
    let error = work.commit().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert_holds(&store, acknowledged).await;

    // With room again everything continues, however often that happens.
    std::fs::remove_file(&ballast).unwrap();
    for _ in 0..10 {
        store.append(&large()).await.unwrap();
        let mut work = store.begin().await.unwrap();
        work.append(large());
        work.commit().await.unwrap();
    }
    assert_holds(&store, acknowledged + 20).await;
    report("works again");
}

async fn assert_holds(store: &SqliteEventStore, appends: usize) {
    let events = store.read_all_events_since::<Note>(0).collect().await.unwrap();
    assert_in_order(&events);
    assert_eq!(events.len(), 3 * appends, "what was acknowledged, whole, and nothing else");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_an_error_that_leaves_nothing_half_and_passes() {
    let folder = Folder::new();
    let mounting = format!("mount -t tmpfs -o size=3M tmpfs '{}'", folder.path().display());
    let worker = Job::on(&folder, Task::Fill).start_after(&mounting);
    worker.says("works again", 1).await;
    eprintln!("{:?}", worker.end().await.said("full"));
}
