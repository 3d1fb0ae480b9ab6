//! Who may lock, in a folder that every user can write to.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use highwater::backend::{Leadership, Transfer};
use highwater::{Claim, Coordinator, Error, ProjectorCoordinator};
use highwater_sqlite::SqliteEventStore;

use super::COUNTED;
use crate::support::{Folder, coordinated, say};
use crate::worker::{Job, Task};

/// Accounts that own nothing here.
const STRANGER: u32 = 65_534;
const COLLEAGUES: [u32; 2] = [61_001, 61_002];
const TEAM: u32 = 61_000;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// As `/tmp` is, with a database of ours in it.
async fn shared() -> (Folder, SqliteEventStore) {
    let folder = Folder::new();
    set_mode(folder.path(), 0o1777);
    let store = folder.store().await;
    (folder, store)
}

fn locks(folder: &Folder) -> PathBuf {
    folder.path().join("events.db-locks")
}

async fn try_to_lead(store: &SqliteEventStore) -> Result<bool, Error> {
    let coordinator = Coordinator::with_config(store, &coordinated(1).coordination);
    let led = coordinator.try_acquire(&Claim::of(COUNTED)).await.map(|guard| guard.is_some());
    coordinator.close().await;
    led
}

/// Why nobody may lead here.
async fn refusal(store: &SqliteEventStore) -> String {
    match try_to_lead(store).await {
        Err(Error::Denied { source, .. }) => source.to_string(),
        other => panic!("it is refused: {other:?}"),
    }
}

/// The one file in the folder of locks whose name begins so.
fn file(folder: &Folder, prefix: &str) -> PathBuf {
    let names = fs::read_dir(locks(folder)).unwrap().map(|entry| entry.unwrap().path());
    names.into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix)).unwrap()
}

/// Puts something else in the place of a subscriber's lock file.
async fn in_the_place_of_a_lock(folder: &Folder, store: &SqliteEventStore, put: impl FnOnce(&Path)) {
    assert!(try_to_lead(store).await.unwrap());
    let path = file(folder, "leader-");
    fs::remove_file(&path).unwrap();
    put(&path);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_locks_can_be_used_by_nobody_else_whatever_the_umask() {
    let (folder, store) = shared().await;
    // What it is before the first lock does not matter: an earlier version made folders that every user could look into.
    fs::create_dir(locks(&folder)).unwrap();
    fs::write(locks(&folder).join("instance-0"), "").unwrap();
    set_mode(&locks(&folder), 0o777);
    set_mode(&locks(&folder).join("instance-0"), 0o666);
    let job = Job::on(&folder, Task::TryToLead);
    let mut careless = Command::new("sh");
    careless.args(["-c", "umask 0; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    let worker = job.start_as(&mut careless);
    worker.says("leads", 1).await;
    worker.end().await;
    drop(store.fill("somewhere").await);
    assert_eq!(mode(&locks(&folder)), 0o700);
    for name in ["instance-0", "leader-", "filling"] {
        assert_eq!(mode(&file(&folder, name)), 0o600, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_the_place_of_the_folder_is_not_followed() {
    let (folder, store) = shared().await;
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, locks(&folder)).unwrap();
    let said = refusal(&store).await;
    assert!(said.contains("events.db-locks") && said.contains("not followed") && said.contains("remove it"), "{said}");
    assert!(store.fill("somewhere").await.is_err());
    assert!(store.leaders().await.is_err(), "nor is it looked into");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "nothing was written there");
    say(&store, "appending needs no locks on files").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_the_place_of_a_lock_is_not_followed_and_what_it_leads_to_stays_as_it_was() {
    for hard in [false, true] {
        let (folder, store) = shared().await;
        let precious = folder.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        in_the_place_of_a_lock(&folder, &store, |lock| {
            if hard { fs::hard_link(&precious, lock).unwrap() } else { symlink(&precious, lock).unwrap() }
        })
        .await;
        let said = refusal(&store).await;
        assert!(said.contains("leader-") && said.contains("remove it"), "{said}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        assert_eq!(mode(&precious) & 0o044, 0o044, "nor were its rights changed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_in_the_place_of_a_lock_makes_nobody_wait() {
    let (folder, store) = shared().await;
    in_the_place_of_a_lock(&folder, &store, |lock| {
        assert!(Command::new("mkfifo").arg(lock).status().unwrap().success());
    })
    .await;
    let said = refusal(&store).await;
    assert!(said.contains("leader-") && said.contains("remove it"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_another_user_has_put_there_is_refused_and_named() {
    let (folder, _store) = shared().await;
    let job = Job::on(&folder, Task::TryToLead);
    let worker = if is_root() {
        let mut stranger = Command::new("setpriv");
        let account = STRANGER.to_string();
        stranger.args(["--reuid", &account, "--regid", &account, "--clear-groups", "mkdir", "-m", "777"]);
        assert!(stranger.arg(locks(&folder)).status().unwrap().success(), "in a folder like /tmp every user may");
        job.start()
    } else {
        // Without a second account: what belongs to the system, in the place of the folder.
        fs::create_dir(locks(&folder)).unwrap();
        job.start_after(&format!("mount --bind /usr '{}'", locks(&folder).display()))
    };
    let said = worker.says("refused", 1).await.remove(0);
    assert!(said.contains("events.db-locks belongs to the user with id"), "{said}");
    assert!(said.contains("remove it"), "{said}");
    worker.end().await;
    if is_root() {
        assert_eq!(fs::metadata(locks(&folder)).unwrap().uid(), STRANGER, "it was left as it was");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_a_group_writes_has_locks_that_the_group_can_use_and_nobody_else() {
    let (folder, store) = shared().await;
    set_mode(&folder.database(), 0o660);
    if !is_root() {
        // With one account only the rights can be seen; who may do what with them is decided in `rights.rs`, and tested there.
        assert!(try_to_lead(&store).await.unwrap());
        assert_eq!((mode(&locks(&folder)), mode(&file(&folder, "leader-"))), (0o770, 0o660));
        return;
    }
    drop(store);
    // A group's folder, in which nobody else can make anything.
    let chown = |path: &Path, user| std::os::unix::fs::chown(path, Some(user), Some(TEAM)).unwrap();
    set_mode(folder.path(), 0o2770);
    chown(folder.path(), COLLEAGUES[0]);
    for suffix in ["", "-wal", "-shm"] {
        let path = folder.path().join(format!("events.db{suffix}"));
        if path.exists() {
            chown(&path, COLLEAGUES[0]);
            set_mode(&path, 0o660);
        }
    }
    // The test's own program may lie where these accounts cannot look.
    let program = folder.path().join("worker");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    set_mode(&program, 0o755);
    for account in COLLEAGUES.iter().rev() {
        let mut colleague = Command::new("setpriv");
        let (account, team) = (account.to_string(), TEAM.to_string());
        colleague.args(["--reuid", &account, "--regid", &team, "--clear-groups"]).arg(&program);
        let worker = Job::on(&folder, Task::TryToLead).start_as(&mut colleague);
        worker.says("leads", 1).await;
        worker.end().await;
    }
    assert_eq!(mode(&locks(&folder)) & 0o777, 0o770);
    let lock = fs::metadata(file(&folder, "leader-")).unwrap();
    assert_eq!((lock.mode() & 0o777, lock.uid(), lock.gid()), (0o660, COLLEAGUES[1], TEAM));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_root_locks_belongs_to_the_owner_of_the_database() {
    let (folder, store) = shared().await;
    if is_root() {
        for suffix in ["", "-wal", "-shm"] {
            let path = folder.path().join(format!("events.db{suffix}"));
            match std::os::unix::fs::chown(path, Some(COLLEAGUES[0]), Some(TEAM)) {
                // Those beside the database are there while it is in use.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && !suffix.is_empty() => {}
                done => done.unwrap(),
            }
        }
    }
    // Without root the owner is this one, and all of it is theirs as well.
    let owner = fs::metadata(folder.database()).unwrap().uid();
    assert!(try_to_lead(&store).await.unwrap());
    for path in [locks(&folder), file(&folder, "leader-"), file(&folder, "instance-0")] {
        assert_eq!(fs::metadata(&path).unwrap().uid(), owner, "{}", path.display());
    }
}
