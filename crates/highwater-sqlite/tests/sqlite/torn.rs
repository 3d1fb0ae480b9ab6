//! What a loss of power leaves: a write-ahead log that ends anywhere.

use std::path::Path;

use highwater::Append;
use highwater::backend::Log;
use highwater_sqlite::SqliteEventStore;
use uuid::Uuid;

use crate::support::{Folder, assert_in_order, everything, note, one};
use crate::worker::{Job, Orders, Task, report};

/// Bytes of a frame of the log: a header and a page.
const FRAME: usize = 24 + 4_096;

/// A worker that appends once for every line it is told: one event, several, or several streams.
pub async fn step(store: SqliteEventStore, mut orders: Orders) {
    let shared = Uuid::now_v7();
    let mut n = 0;
    while orders.recv().await.is_some() {
        n += 1;
        let append = match n % 3 {
            0 => one(),
            1 => Append::to(shared).events((0..7).map(|n| note(format!("{n} {}", "long ".repeat(300))))),
            _ => Append::to(shared).event(note("a")).and_to(Uuid::now_v7()).event(note("b")).event(note("c")),
        };
        store.append(&append).await.unwrap();
        report(format!("ack {}", ids(append.event_ids())));
    }
}

pub fn ids(ids: impl Iterator<Item = Uuid>) -> String {
    ids.map(|id| id.to_string()).collect::<Vec<_>>().join(" ")
}

/// What a log holds that ends with these bytes.
async fn opened(database: &[u8], log: &[u8]) -> Vec<Uuid> {
    let folder = Folder::new();
    std::fs::write(folder.database(), database).unwrap();
    std::fs::write(beside(&folder.database()), log).unwrap();
    let store = SqliteEventStore::open(&folder.url()).await.unwrap();
    let events = everything(&store).await;
    assert_in_order(&events);
    let next = store.append(&one()).await.unwrap().global_sequence;
    assert_eq!(next, events.last().map_or(0, |last| last.global_sequence.unwrap()) + 1, "it resumes from there");
    events.into_iter().map(|event| event.id).collect()
}

fn beside(database: &Path) -> std::path::PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_torn_anywhere_holds_every_acknowledged_append_whole() {
    // Never opened with SQLite here, so its files may be read like any other.
    let folder = Folder::new();
    Job::on(&folder, Task::Initialize).start().end().await;
    let mut worker = Job::on(&folder, Task::Step).start();
    let (mut sizes, mut before) = (Vec::new(), None);
    for n in 1..=21 {
        worker.tell("append");
        worker.says("ack", n).await;
        before.get_or_insert_with(|| std::fs::read(folder.database()).unwrap());
        sizes.push(std::fs::metadata(beside(&folder.database())).unwrap().len() as usize);
    }
    let appends: Vec<Vec<Uuid>> =
        worker.said("ack").iter().map(|line| line.split_whitespace().map(|id| id.parse().unwrap()).collect()).collect();
    let log = std::fs::read(beside(&folder.database())).unwrap();
    let database = std::fs::read(folder.database()).unwrap();
    assert!(before.as_ref() == Some(&database), "everything is in the log yet");
    assert!(sizes.is_sorted_by(|a, b| a < b), "every append was written before it was acknowledged: {sizes:?}");
    worker.kill("");

    let garbage: Vec<u8> = (0..FRAME + 100).map(|_| fastrand::u8(..)).collect();
    for (acknowledged, size) in sizes.iter().copied().enumerate() {
        let mut tails: Vec<Vec<u8>> = vec![Vec::new(), garbage[..100].to_vec(), garbage.clone()];
        // As much of what came next as is not all of it.
        let rest = &log[size..sizes.get(acknowledged + 1).copied().unwrap_or(size)];
        for part in [7, FRAME / 2, FRAME, FRAME + 30] {
            if part < rest.len() {
                tails.push(rest[..part].to_vec());
                tails.push([&rest[..part], &garbage[..]].concat());
            }
        }
        for tail in tails {
            let found = opened(&database, &[&log[..size], &tail].concat()).await;
            let whole: Vec<Uuid> = appends[..=acknowledged].concat();
            assert_eq!(found[1..], whole, "{} bytes after append {acknowledged}", tail.len());
        }
    }
}
