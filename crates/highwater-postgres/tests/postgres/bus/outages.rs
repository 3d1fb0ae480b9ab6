//! A server that is stopped, crashes, and comes back under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use highwater::backend::Log;
use highwater::{EventStore, FailurePolicy, GlobalSequence, SubscriberOptions};
use highwater_contract::delivered;
use highwater_postgres::{PgEventBus, PgEventStore};
use throwaway_postgres::ThrowawayPostgres;

use super::handlers::{Counting, nothing};
use super::recoveries::kill_a_backend;
use super::{Recorder, batched, quick};
use crate::support::{Db, Note, one, soak};

#[derive(Clone, Copy)]
enum Outage {
    Restart,
    Crash,
    /// One process of the server is killed, and the server recovers by itself.
    Recovery,
}

async fn everything(store: &PgEventStore) -> Vec<u64> {
    loop {
        if let Ok(events) = store.read_all_events_since::<Note>(0).collect().await {
            return events.into_iter().map(|event| event.global_sequence.unwrap()).collect();
        }
    }
}

/// Writers that never give up.
fn writers(store: &PgEventStore, stop: &Arc<AtomicBool>) -> Vec<tokio::task::JoinHandle<()>> {
    let write = |_| {
        let (store, stop) = (store.clone(), stop.clone());
        tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let append = one();
                while store.append(&append).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
    };
    (0..4).map(write).collect()
}

async fn survive(outage: Outage) {
    let mut server = ThrowawayPostgres::builder().durable().start().unwrap();
    let db = Db::on(server.url());
    let store = db.store().await;
    let bus = PgEventBus::with_config(db.store().await, quick());
    let each = Recorder::with("projection:each", delivered(SubscriberOptions::new(), &batched(50)));
    let parking = Recorder::with("projection:parking", SubscriberOptions::new().on_failure(FailurePolicy::ParkStream));
    let within = Counting::new(&db, "projection:within", batched(50), nothing()).await;
    let subscriptions = [
        bus.subscribe(each.clone()).await.unwrap(),
        bus.subscribe(parking.clone()).await.unwrap(),
        bus.subscribe(within).await.unwrap(),
    ];
    let stop = Arc::new(AtomicBool::new(false));
    let writers = writers(&store, &stop);
    for _ in 0..soak(2) {
        let before = each.sequences().len();
        super::eventually("events are delivered", async || each.sequences().len() > before + 50).await;
        match outage {
            Outage::Restart => server.restart().unwrap(),
            Outage::Crash => {
                server.crash().unwrap();
                server.start_again().unwrap();
            }
            Outage::Recovery => kill_a_backend(&server, &db).await,
        }
        let back = Instant::now();
        let done = store_until_it_works(&store).await;
        for subscription in &subscriptions {
            bus.wait_for_within(subscription.subscriber_id(), GlobalSequence(done), Duration::from_secs(20))
                .await
                .unwrap();
        }
        assert!(back.elapsed() < Duration::from_secs(5), "they continued only after {:?}", back.elapsed());
    }
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    for subscription in &subscriptions {
        subscription.caught_up().await.unwrap();
        // It has to look once more to know that there is nothing left.
        super::eventually("it is live", async || subscription.state().is_live()).await;
    }
    let all = everything(&store).await;
    let mut connection = db.connection().await;
    let counted: Vec<i64> =
        sqlx::query_scalar("SELECT at FROM counted ORDER BY n").fetch_all(&mut connection).await.unwrap();
    assert_eq!(counted.iter().map(|at| *at as u64).collect::<Vec<_>>(), all, "exactly once, in order");
    for recorder in [each, parking] {
        assert_eq!(first_deliveries(&recorder.sequences()), all, "at least once, in order");
    }
    let dead_letters = bus.dead_letters().count(&highwater::operations::DeadLetterQuery::default()).await.unwrap();
    assert_eq!(dead_letters, 0, "an outage is nobody's fault");
    bus.shutdown().await.unwrap();
}

async fn store_until_it_works(store: &PgEventStore) -> u64 {
    let append = one();
    loop {
        if let Ok(done) = store.append(&append).await {
            return done.global_sequence;
        }
    }
}

/// Each number when it was first seen.
fn first_deliveries(sequences: &[u64]) -> Vec<u64> {
    let mut firsts: Vec<u64> = Vec::new();
    for sequence in sequences {
        if firsts.last().is_none_or(|last| last < sequence) {
            firsts.push(*sequence);
        }
    }
    firsts
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_continue_by_themselves_after_the_server_was_restarted_under_load() {
    survive(Outage::Restart).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_continue_by_themselves_after_a_backend_was_killed_under_load() {
    survive(Outage::Recovery).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_continue_by_themselves_after_the_server_crashed_under_load() {
    survive(Outage::Crash).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_buried_survives_a_crash_of_the_server_though_the_database_says_not_to_wait_for_the_disk() {
    let mut server = ThrowawayPostgres::builder()
        .durable()
        .setting("synchronous_commit", "off")
        .setting("wal_writer_delay", "10s")
        .start()
        .unwrap();
    let db = Db::on(server.url());
    let bus =
        PgEventBus::with_config(db.store().await, highwater::ReliableDeliveryConfig { max_retries: 0, ..quick() });
    let recorder = Recorder::new("projection:buried");
    recorder.fail("bad", u32::MAX);
    let subscription = bus.subscribe(recorder).await.unwrap();
    let at = super::say(bus.store(), "bad").await;
    bus.wait_for("projection:buried", GlobalSequence(at)).await.unwrap();
    server.crash().unwrap();
    server.start_again().unwrap();
    let store = PgEventStore::connect_with(&db.url, db.config()).await.unwrap();
    let stored = highwater::backend::Checkpoints::checkpoint(&store, "projection:buried").await.unwrap().unwrap();
    let dead_letters =
        highwater::backend::DeadLetters::count_dead_letters(&store, &highwater::operations::DeadLetterQuery::default())
            .await
            .unwrap();
    assert_eq!((stored.global_sequence, dead_letters), (at, 1));
    assert_eq!(store.head().await.unwrap(), at);
    drop(subscription);
    bus.shutdown().await.unwrap();
}
