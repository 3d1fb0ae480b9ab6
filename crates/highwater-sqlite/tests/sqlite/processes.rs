//! Several processes that write and read one file.

use std::time::{Duration, Instant};

use highwater::backend::Log;
use highwater::{BoxError, Event, ReliableDeliveryConfig, observer_fn};
use highwater_sqlite::{SqliteEventBus, SqliteEventStore};

use crate::support::{Folder, Note, assert_in_order, everything, one, quick, say};
use crate::worker::{Job, Orders, Task, report};

/// Nobody looks by itself in the time that a test takes.
const NEVER: Duration = Duration::from_secs(60);

/// A worker that appends so many events, from several callers.
pub async fn write(store: SqliteEventStore, count: usize) {
    const CALLERS: usize = 4;
    let callers = (0..CALLERS).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..count / CALLERS {
                store.append(&one()).await.unwrap();
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
}

/// A worker that says what it is handed.
pub async fn listen(store: SqliteEventStore, name: &str, mut orders: Orders) {
    let config = ReliableDeliveryConfig { poll_interval: NEVER, ..quick() };
    let bus = SqliteEventBus::with_config(store, config);
    let subscription = bus
        .subscribe(observer_fn(format!("projection:{name}"), |event: Event<Note>| async move {
            report(format!("seen {}", event.global_sequence.unwrap()));
            Ok::<_, BoxError>(())
        }))
        .await
        .unwrap();
    subscription.caught_up().await.unwrap();
    report("ready");
    while orders.recv().await.is_some() {}
    bus.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_write_and_two_read_and_each_sees_everything_once_and_in_order() {
    const EACH: usize = 200;
    let folder = Folder::new();
    let store = folder.store().await;
    let readers = ["a", "b"].map(|name| Job::on(&folder, Task::Listen { name: name.to_owned() }).start());
    let writers = [(), ()].map(|()| Job::on(&folder, Task::Write { count: EACH }).start());
    for writer in writers {
        writer.end().await;
    }
    let events = everything(&store).await;
    assert_in_order(&events);
    let all: Vec<String> = events.iter().map(|event| event.global_sequence.unwrap().to_string()).collect();
    assert_eq!(all.len(), 2 * EACH);
    for reader in readers {
        assert_eq!(reader.says("seen", all.len()).await, all);
        assert_eq!(reader.end().await.said("seen"), all, "and nothing comes after that");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_process_appends_is_noticed_without_being_told() {
    let folder = Folder::new();
    let store = folder.store().await;
    let reader = Job::on(&folder, Task::Listen { name: "a".to_owned() }).start();
    reader.says("ready", 1).await;
    let mut delays: Vec<Duration> = Vec::new();
    for n in 1..=20 {
        let at = say(&store, "x").await;
        let since = Instant::now();
        let seen = reader.says("seen", n).await;
        delays.push(since.elapsed());
        assert_eq!(seen.last(), Some(&at.to_string()));
    }
    delays.sort_unstable();
    // How long it takes depends on the machine, so the bound is generous: it is a matter of milliseconds.
    assert!(delays[10] < Duration::from_millis(200), "another process's append is handled after {delays:?}");
    reader.end().await;
}
