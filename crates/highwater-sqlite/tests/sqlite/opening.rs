//! Opening a database: by any name, by many at once, and as it was left.

use std::path::PathBuf;
use std::process::Command;

use highwater::backend::{Log, Wakeups};
use highwater::{BoxError, Claim, Coordinator, Event, ProjectorCoordinator, observer_fn};
use highwater_sqlite::{SqliteConfig, SqliteEventBus, SqliteEventStore};
use sqlx::Connection;

use crate::support::{Folder, Note, connection, coordinated, eventually, everything, execute, one, say, sequences};
use crate::worker::{Job, Task, report};

/// A worker that opens a database and says how that went. With a subscriber's lock, if it gets that.
pub async fn open(database: &str) {
    match SqliteEventStore::open(database).await {
        Err(error) => report(format!("refused {error:?}")),
        Ok(store) => {
            let coordinator = Coordinator::with_config(&store, &coordinated(1).coordination);
            let guard = coordinator.try_acquire(&Claim::of("projection:one")).await.unwrap();
            report(format!("opened {} {}", store.path().display(), if guard.is_some() { "leads" } else { "waits" }));
        }
    }
}

/// A worker that lays a database out, together with others.
pub async fn initialize(database: &str) {
    let store = SqliteEventStore::open(database).await.unwrap();
    store.initialize().await.unwrap();
    store.append(&one()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn twelve_processes_and_twelve_tasks_lay_out_one_file_at_once() {
    let folder = Folder::new();
    let workers: Vec<_> = (0..12).map(|_| Job::on(&folder, Task::Initialize).start()).collect();
    let tasks: Vec<_> = (0..12)
        .map(|_| {
            let url = folder.url();
            tokio::spawn(async move { initialize(&url).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for worker in workers {
        worker.end().await;
    }
    let store = folder.store().await;
    assert_eq!(sequences(&store).await, (1..=24).collect::<Vec<u64>>());
    let migrations: Vec<i64> = sqlx::query_scalar("SELECT version FROM highwater_migrations ORDER BY version")
        .fetch_all(store.pool())
        .await
        .unwrap();
    assert_eq!(migrations, [1, 2, 3, 4, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_file_is_one_database_by_whatever_name() {
    let folder = Folder::new();
    let store = folder.store().await;
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(folder.database(), &link).unwrap();
    std::os::unix::fs::symlink(folder.path(), folder.path().join("there")).unwrap();
    let claim = Claim::of("projection:one");
    let coordinator = Coordinator::with_config(&store, &coordinated(1).coordination);
    let guard = coordinator.try_acquire(&claim).await.unwrap().expect("nobody leads");
    for name in [link, folder.path().join("there/events.db"), folder.path().join("./there/./events.db")] {
        let same = SqliteEventStore::open(name.to_str().unwrap()).await.unwrap();
        assert_eq!(same.path(), store.path());
        let other = Coordinator::with_config(&same, &coordinated(1).coordination);
        assert!(other.try_acquire(&claim).await.unwrap().is_none(), "{} leads as well", name.display());
        let worker = Job::at(&name, Task::Open).start();
        assert!(worker.says("opened", 1).await[0].ends_with("waits"));
    }
    // By a relative name, in another process: this one's folder is shared by all its threads.
    let mut command = Command::new(std::env::current_exe().unwrap());
    let worker = Job::at(&PathBuf::from("events.db"), Task::Open).start_as(command.current_dir(folder.path()));
    assert_eq!(worker.says("opened", 1).await[0], format!("{} waits", store.path().display()));
    worker.end().await;
    guard.release().await;
    let worker = Job::on(&folder, Task::Open).start();
    assert!(worker.says("opened", 1).await[0].ends_with("leads"));
}

#[tokio::test]
async fn names_may_have_spaces_and_letters_of_any_script() {
    let folder = Folder::new();
    for (url, name) in [
        ("sqlite:{}/with%20a%20space.db", "with a space.db"),
        ("{}/plain %20 path.db", "plain %20 path.db"),
        ("sqlite:{}/%C3%BCber.db", "über.db"),
        ("{}/日本語 ünïcode.db", "日本語 ünïcode.db"),
        ("{}/what?#&=.db", "what?#&=.db"),
    ] {
        let url = url.replace("{}", folder.path().to_str().unwrap());
        let store = SqliteEventStore::open(&url).await.unwrap();
        store.initialize().await.unwrap();
        say(&store, name).await;
        assert_eq!(store.path(), folder.path().join(name));
        assert!(folder.path().join(name).is_file(), "{url}");
    }
}

#[tokio::test]
async fn a_copy_that_is_not_written_ahead_is_switched_back() {
    let folder = Folder::new();
    let store = folder.store().await;
    say(&store, "before").await;
    store.backup(folder.path().join("copy.db")).await.unwrap();
    let mut copy = connection(&folder.path().join("copy.db")).await;
    execute(&mut copy, "PRAGMA journal_mode = DELETE").await;
    copy.close().await.unwrap();
    let copy = SqliteEventStore::open(folder.path().join("copy.db").to_str().unwrap()).await.unwrap();
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(copy.pool()).await.unwrap();
    assert_eq!(mode, "wal");
    assert_eq!(everything(&copy).await, everything(&store).await);
}

#[tokio::test]
async fn what_was_made_before_is_opened_without_being_created() {
    let folder = Folder::new();
    say(&folder.store().await, "before").await;
    let config = SqliteConfig { create: false, ..SqliteConfig::default() };
    let again = SqliteEventStore::open_with(&folder.url(), config).await.unwrap();
    assert_eq!(sequences(&again).await, [1]);
}

/// Files of this process that lie in a folder.
fn open_files(folder: &Folder) -> Vec<PathBuf> {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| entry.ok()?.path().read_link().ok());
    files.filter(|file| file.starts_with(folder.path())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_drops_a_store_leaves_nothing_open() {
    let folder = Folder::new();
    let store = folder.store().await;
    let bus = SqliteEventBus::with_config(store.clone(), coordinated(1));
    let all = observer_fn("projection:all", |_: Event<Note>| async { Ok::<_, BoxError>(()) });
    bus.subscribe(all).await.unwrap().caught_up().await.unwrap();
    say(&store, "one").await;
    let mut work = store.begin().await.unwrap();
    work.append(one());
    work.commit().await.unwrap();
    let wakeup = store.wakeups();
    assert!(!open_files(&folder).is_empty());
    bus.shutdown().await.unwrap();
    drop((bus, store, wakeup));
    eventually("everything is closed", async || open_files(&folder).is_empty()).await;
    assert_eq!(folder.store().await.head().await.unwrap(), 2, "and everything is there");
}
