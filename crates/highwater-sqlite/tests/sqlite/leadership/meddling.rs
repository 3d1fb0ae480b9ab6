//! A user cleans up what belongs to the living.

use highwater::backend::{Checkpoints, Log, Opening, Transfer};
use highwater::{Claim, Coordinator, Error, ProjectorCoordinator};

use super::{COUNTED, EFFECTS, caught_up, leader, leads, prepared, start};
use crate::support::{Folder, coordinated, eventually, one, say};

fn locks(folder: &Folder) -> std::path::PathBuf {
    folder.path().join("events.db-locks")
}

/// Away at once, though a process may be about to put something into it.
fn remove_locks(folder: &Folder) {
    std::fs::rename(locks(folder), folder.path().join("removed")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_lock_is_removed_gives_up_and_another_instance_leads() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let coordinator = Coordinator::with_config(&store, &coordinated(1).coordination);
    let claim = Claim::of(COUNTED);
    let guard = coordinator.acquire(&claim).await.unwrap();
    remove_locks(&folder);
    assert!(!guard.is_held(), "it knows at once if it looks");
    guard.lost().await;

    // Another process has found a new file of that name.
    let worker = start(&folder, "next");
    let term = leads(&store, COUNTED, &worker).await;
    assert!(term > guard.term());
    // What the old one still believes cannot reach the database.
    let fence = guard.taken().checkpoint.fence();
    let begun = highwater::backend::Backend::begin(&store, &fence, Opening::Handler, None).await;
    assert!(matches!(begun, Err(Error::Fenced { .. })), "{:?}", begun.map(|_| ()));
    drop(guard);
    assert_eq!(leader(&store, COUNTED).await.map(|leader| leader.term), Some(term), "giving up took nothing away");
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_find_a_leader_again_after_the_folder_was_removed() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let workers = ["a", "b"].map(|name| start(&folder, name));
    caught_up(&store).await;
    let terms = [leader(&store, COUNTED).await, leader(&store, EFFECTS).await].map(|leader| leader.unwrap().term);
    remove_locks(&folder);
    eventually("both are led again", async || {
        let now = [leader(&store, COUNTED).await, leader(&store, EFFECTS).await];
        now.iter().zip(terms).all(|(leader, before)| leader.as_ref().is_some_and(|leader| leader.term > before))
    })
    .await;
    caught_up(&store).await;
    let counted: i64 = sqlx::query_scalar("SELECT count(*) FROM counted").fetch_one(store.pool()).await.unwrap();
    assert_eq!(counted as u64, store.head().await.unwrap(), "every event once");
    eventually("both instances are known again", async || {
        let there = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM event_bus_instances").fetch_one(store.pool());
        there.await.unwrap() == 2
    })
    .await;
    drop(workers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_removed_from_the_middle_hides_nobody_else() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let first = start(&folder, "first");
    leads(&store, COUNTED, &first).await;
    // The first place is free again, and the leader has the second.
    let second = start(&folder, "second");
    eventually("there are two", async || locks(&folder).join("instance-1").exists()).await;
    first.kill("");
    leads(&store, COUNTED, &second).await;
    std::fs::remove_file(locks(&folder).join("instance-0")).unwrap();
    assert_eq!(leader(&store, COUNTED).await.map(|leader| leader.instance.pid), Some(second.pid()));
    caught_up(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_died_are_forgotten_by_those_who_live() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let dead = start(&folder, "dead");
    leads(&store, COUNTED, &dead).await;
    eventually("it is known", async || {
        let there = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM event_bus_instances").fetch_one(store.pool());
        there.await.unwrap() == 1
    })
    .await;
    dead.kill("");
    // As if it had been there for a while: what is new is left alone.
    sqlx::query("UPDATE event_bus_instances SET since = 0").execute(store.pool()).await.unwrap();
    let alive = start(&folder, "alive");
    leads(&store, COUNTED, &alive).await;
    eventually("the dead one is forgotten", async || {
        let there = sqlx::query_scalar::<_, i64>("SELECT pid FROM event_bus_instances").fetch_all(store.pool());
        there.await.unwrap() == [i64::from(alive.pid())]
    })
    .await;
}

#[tokio::test]
async fn what_nobody_may_lock_is_an_error_and_not_leadership() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    std::fs::write(locks(&folder), "in the way").unwrap();
    let refused = Coordinator::with_config(&store, &coordinated(1).coordination).try_acquire(&Claim::of(COUNTED)).await;
    assert!(matches!(refused, Err(Error::Denied { .. })), "{:?}", refused.map(|_| ()));
    assert!(store.fill("somewhere").await.is_err());
    assert!(store.checkpoint(COUNTED).await.unwrap().is_none(), "and nothing is stored");
    say(&store, "appending needs no locks on files").await;
    store.append(&one()).await.unwrap();
}
