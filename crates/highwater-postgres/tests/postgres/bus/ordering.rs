//! Commits out of order, while subscribers are live.

use std::time::Duration;

use highwater::backend::Log;
use highwater::{Append, EventStore, GlobalSequence};
use uuid::Uuid;

use super::{Recorder, batched, bus, quick};
use crate::support::{Db, Note, note};

#[tokio::test(flavor = "multi_thread")]
async fn what_commits_late_is_seen_in_its_place_and_nothing_is_skipped() {
    let db = Db::new();
    let bus = bus(&db, batched(20)).await;
    let recorder = Recorder::new("projection:late");
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    subscription.caught_up().await.unwrap();
    let store = db.store().await;
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in 0..25 {
                    let mut tx = loop {
                        // More writers than the pool has connections: a writer that gets none retries.
                        if let Ok(tx) = store.pool().begin().await {
                            break tx;
                        }
                    };
                    let append = Append::to(Uuid::now_v7()).event(note(format!("{writer}/{n}")));
                    let (_, announcement) = store.append_on(&mut tx, &append).await.unwrap();
                    tokio::time::sleep(Duration::from_micros(fastrand::u64(0..20_000))).await;
                    if fastrand::u8(..7) == 0 {
                        tx.rollback().await.unwrap();
                    } else {
                        tx.commit().await.unwrap();
                        announcement.send();
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    subscription.caught_up().await.unwrap();
    let all = store.read_all_events_since::<Note>(0).collect().await.unwrap();
    let all: Vec<u64> = all.into_iter().map(|event| event.global_sequence.unwrap()).collect();
    assert_eq!(recorder.sequences(), all, "every event that was committed, once, in order");
}

#[tokio::test]
async fn a_subscriber_waits_for_an_open_transaction_and_continues_when_it_ends() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    let recorder = Recorder::new("projection:waits");
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    super::say(bus.store(), "first").await;
    subscription.caught_up().await.unwrap();
    for committed in [true, false] {
        let seen = recorder.texts().len();
        let mut tx = bus.store().pool().begin().await.unwrap();
        let append = Append::to(Uuid::now_v7()).event(note("open"));
        let (_, _unsent) = bus.store().append_on(&mut tx, &append).await.unwrap();
        let beyond = super::say(bus.store(), "beyond").await;
        let waited = bus.wait_for_within("projection:waits", GlobalSequence(beyond), Duration::from_millis(100)).await;
        assert!(waited.unwrap_err().to_string().contains("it is at"), "the error says how far it is");
        assert_eq!(recorder.texts().len(), seen);
        assert_eq!(bus.store().open_writers().await.unwrap().len(), 1, "and who is waited for can be seen");
        if committed {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
        bus.wait_for("projection:waits", GlobalSequence(beyond)).await.unwrap();
        assert_eq!(recorder.texts().len(), seen + if committed { 2 } else { 1 });
    }
}

#[tokio::test]
async fn health_names_the_open_transaction_that_everybody_waits_for() {
    let db = Db::new();
    let config = highwater::ReliableDeliveryConfig { healthy_lag_max: Duration::from_millis(50), ..quick() };
    let bus = bus(&db, config).await;
    let subscription = bus.subscribe(Recorder::new("projection:waits")).await.unwrap();
    super::say(bus.store(), "first").await;
    subscription.caught_up().await.unwrap();
    assert!(bus.health().await.is_ready());
    let mut tx = bus.store().pool().begin().await.unwrap();
    let append = Append::to(Uuid::now_v7()).event(note("open"));
    let (_, _unsent) = bus.store().append_on(&mut tx, &append).await.unwrap();
    let beyond = super::say(bus.store(), "beyond").await;
    crate::support::eventually("it is named", async || {
        let health = bus.health().await;
        let named = |problem: &highwater::Problem| matches!(problem, highwater::Problem::WritersOpen { writers, .. } if writers.len() == 1);
        health.problems.iter().any(named) && !health.is_ready()
    })
    .await;
    let progress = subscription.progress().await.unwrap();
    assert!(progress.frontier >= progress.position);
    tx.rollback().await.unwrap();
    bus.wait_for("projection:waits", GlobalSequence(beyond)).await.unwrap();
    crate::support::eventually("all is well", async || bus.health().await.is_ready()).await;
}
