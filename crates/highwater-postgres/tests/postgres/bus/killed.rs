//! A process that is killed in the middle of a transactional catch-up, again and again.

use std::process::{Command, Stdio};
use std::time::Duration;

use highwater_postgres::PgEventBus;

use super::handlers::{Counting, counted, nothing};
use super::{batched, quick, say_many};
use crate::support::{Db, eventually};

/// Names the schema for the process that is going to be killed.
const VICTIM: &str = "HIGHWATER_TEST_VICTIM_SCHEMA";
const EVENTS: usize = 3_000;

/// By itself: a transactional catch-up that nobody kills. With a schema in the environment: the one that is killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_transactional_catch_up_counts_every_event_once() {
    let (db, victim) = match std::env::var(VICTIM) {
        Ok(schema) => (std::mem::ManuallyDrop::new(Db { url: crate::support::url(), schema }), true),
        Err(_) => (std::mem::ManuallyDrop::new(Db::new()), false),
    };
    let bus = PgEventBus::with_config(db.store().await, quick());
    if !victim {
        say_many(bus.store(), EVENTS).await;
    }
    let counting = Counting::new(&db, "projection:counted", batched(20), nothing()).await;
    bus.subscribe(counting).await.unwrap().caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
    assert_eq!(counted(&db).await, (1..=EVENTS as i64).collect::<Vec<_>>());
    if !victim {
        drop(std::mem::ManuallyDrop::into_inner(db));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_again_and_again_counts_every_event_once() {
    let kills = if std::env::var("HIGHWATER_SOAK").is_ok() { 20 } else { 3 };
    let db = Db::new();
    let store = db.store().await;
    say_many(&store, EVENTS).await;
    // Before the first process, so that there is a table to look into.
    Counting::new(&db, "projection:counted", batched(20), nothing()).await;
    let victim = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "bus::killed::a_transactional_catch_up_counts_every_event_once", "--nocapture"])
            .env(VICTIM, &db.schema)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut killed = 0;
    for kill in 0..kills {
        let mut process = victim();
        let enough = EVENTS * (kill + 1) / (kills + 2);
        let far_enough = async || counted(&db).await.len() >= enough;
        eventually("it has got some way", far_enough).await;
        process.kill().unwrap();
        // By the signal, not by its own end: it was killed in the middle.
        killed += usize::from(process.wait().unwrap().code().is_none());
    }
    assert_eq!(killed, kills);
    let mut last = victim();
    eventually("the last one gets to the end", async || counted(&db).await.len() >= EVENTS).await;
    tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            if let Some(status) = last.try_wait().unwrap() {
                return assert!(status.success());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!(counted(&db).await, (1..=EVENTS as i64).collect::<Vec<_>>(), "the read model is the log");
}
