//! SQLite's locks are this process's, not a handle's: closing any other handle to the file drops them all. So nothing here
//! ever opens one, and that is seen from outside.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use highwater::backend::{Checkpoints, DeadLetters, Diagnose, Leadership, Log, Requests, Transfer, Wakeups};
use highwater::operations::DeadLetterQuery;
use highwater::transfer::copy;
use highwater::{Claim, Coordinator, MemoryEventStore, ProjectorCoordinator};
use highwater_sqlite::{SqliteConfig, SqliteEventStore};

use crate::support::{Folder, coordinated, say, sequences};

/// A byte of a file that this process has locked: the file's inode, which byte, and whether others are kept from reading.
type Locked = BTreeSet<(u64, u64, bool)>;

/// The POSIX locks of this process on the database and on what SQLite shares beside it.
fn locked(folder: &Folder) -> Locked {
    let inode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().ino();
    let inodes = [inode("events.db"), inode("events.db-shm")];
    let own = std::process::id().to_string();
    let mut locked = Locked::new();
    for line in std::fs::read_to_string("/proc/locks").unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // "1: POSIX ADVISORY READ 4711 08:01:1234 128 128"; "1: -> …" waits for it.
        let ["POSIX", _, kind, pid, file, first, last] = words[1..] else { continue };
        let inode: u64 = file.rsplit(':').next().unwrap().parse().unwrap();
        if pid == own && inodes.contains(&inode) {
            let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
            locked.extend((first..=last).map(|byte| (inode, byte, kind == "WRITE")));
        }
    }
    locked
}

/// Everything that only looks.
async fn only_read(folder: &Folder, store: &SqliteEventStore) {
    let again = SqliteEventStore::open(&folder.url()).await.unwrap();
    again.initialize().await.unwrap();
    assert!(again.planned().await.unwrap().is_empty());
    again.diagnose().await.unwrap();
    again.leaders().await.unwrap();
    again.head().await.unwrap();
    again.checkpoints().await.unwrap();
    again.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    again.filling().await.unwrap();
    let config = SqliteConfig { create: false, ..SqliteConfig::default() };
    SqliteEventStore::open_with(store.path().to_str().unwrap(), config).await.unwrap();
    drop(again.wakeups());
    store.backup(folder.path().join(format!("copy-{}.db", fastrand::u64(..)))).await.unwrap();
    store.backup(store.path()).await.unwrap_err();
    copy(store, "the store", &MemoryEventStore::new(), |_| {}).await.unwrap();
    drop(again);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_called_drops_the_locks_of_a_reader() {
    let folder = Folder::new();
    let store = folder.store().await;
    say(&store, "before").await;
    let mut reading = store.pool().begin().await.unwrap();
    let _: i64 = sqlx::query_scalar("SELECT count(*) FROM events").fetch_one(&mut *reading).await.unwrap();
    let before = locked(&folder);
    assert!(!before.is_empty(), "a connection holds locks");
    only_read(&folder, &store).await;
    let coordinator = Coordinator::with_config(&store, &coordinated(1).coordination);
    coordinator.try_acquire(&Claim::of("projection:one")).await.unwrap().unwrap().release().await;
    coordinator.close().await;
    store.set_paused("projection:one", true).await.unwrap();
    say(&store, "meanwhile").await;
    let after = locked(&folder);
    assert!(before.is_subset(&after), "lost: {:?}", before.difference(&after).collect::<Vec<_>>());
    reading.rollback().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_called_drops_the_locks_of_a_writer() {
    let folder = Folder::new();
    let store = folder.store().await;
    say(&store, "before").await;
    let mut work = store.begin().await.unwrap();
    sqlx::query("CREATE TABLE own (n INTEGER)").execute(&mut **work.tx()).await.unwrap();
    let before = locked(&folder);
    assert!(before.iter().any(|(_, _, writes)| *writes), "a writer keeps others out");
    only_read(&folder, &store).await;
    let after = locked(&folder);
    assert!(before.is_subset(&after), "lost: {:?}", before.difference(&after).collect::<Vec<_>>());
    work.append(crate::support::one());
    work.commit().await.unwrap();
    assert_eq!(sequences(&store).await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ordinary_handle_would_be_noticed() {
    let folder = Folder::new();
    let store = folder.store().await;
    let work = store.begin().await.unwrap();
    let before = locked(&folder);
    let shared: PathBuf = folder.path().join("events.db-shm");
    drop(std::fs::File::open(shared).unwrap());
    assert!(!before.is_subset(&locked(&folder)), "this is what must not happen");
    work.rollback().await.unwrap();
}
