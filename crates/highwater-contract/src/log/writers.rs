//! Many writers at once, and readers beside them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use highwater::backend::{Log, ReadLimit, Record};
use highwater::{Append, Appended, EventTypes, ExpectedVersion, Filter};
use tokio::task::JoinSet;
use tokio::time::sleep;
use uuid::Uuid;

use crate::support::{
    Ledger, Patience, Reader, assert_holds, everything, head, new_stream, seed, soak, store, store_in_the_end, stream,
    within,
};
use crate::{Harness, Settings};

pub(crate) async fn opposite_orders_of_the_same_streams_all_come_through<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let streams = [new_stream(), new_stream(), new_stream()];
    let mut tasks = JoinSet::new();
    for task in 0..8_usize {
        let log = log.clone();
        tasks.spawn(async move {
            let mut done = Vec::new();
            for round in 0..soak(6) as usize {
                let (first, second) = (streams[task % 2], streams[1 - task % 2]);
                let third = (round % 3 == 0).then_some(streams[2]);
                let mut append = Append::to(first).event(Ledger::Closed).and_to(second).event(Ledger::opened());
                for stream_id in third.into_iter().chain([first]) {
                    append = append.and_to(stream_id).event(Ledger::deposited(round as i64));
                }
                let answer = store(&log, &append).await;
                done.push((append, answer));
            }
            done
        });
    }
    let done: Vec<(Append, Appended)> = within("all of them", tasks.join_all()).await.into_iter().flatten().collect();
    assert_holds(&everything(&log).await, done.iter().map(|(append, done)| (append, done)));
    for stream_id in streams {
        stream(&log, stream_id).await;
    }
}

pub(crate) async fn many_writers_share_streams_without_a_hole<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let shared = new_stream();
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let log = log.clone();
        tasks.spawn(async move {
            let (own, mut done) = (new_stream(), Vec::new());
            for round in 0..soak(10) {
                let append = Append::to(shared).events([Ledger::opened(), Ledger::Closed]);
                let append = if round % 2 == 0 { append.and_to(own).event(Ledger::Closed) } else { append };
                let answer = store(&log, &append).await;
                let versions: Vec<u64> = answer.positions.iter().map(|position| position.stream_version).collect();
                assert_eq!(versions[0] + 1, versions[1], "nobody comes between the events of one append");
                done.push((append, answer));
            }
            done
        });
    }
    let done: Vec<(Append, Appended)> = within("all of them", tasks.join_all()).await.into_iter().flatten().collect();
    assert_eq!(stream(&log, shared).await.len() as u32, 8 * soak(10) * 2);
    assert_holds(&everything(&log).await, done.iter().map(|(append, done)| (append, done)));
}

pub(crate) async fn readers_see_every_event_of_many_writers_once_and_in_order<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let streams: Arc<Vec<Uuid>> = Arc::new((0..6).map(|_| new_stream()).collect());
    let over = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    for (types, events) in [
        (EventTypes::All, 1_000),
        (EventTypes::All, 3),
        (EventTypes::only(["Closed", "Opened"]), 2),
        (EventTypes::only(["Nobody"]), 10),
    ] {
        let (log, over) = (log.clone(), Arc::clone(&over));
        readers.spawn(async move { follow(&log, types, ReadLimit::events(events), &over).await });
    }
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let random = fastrand::Rng::with_seed(seed() + writer);
        writers.spawn(write(Arc::clone(&harness), log.clone(), Arc::clone(&streams), random));
    }
    let done: Vec<(Append, Appended)> = within("the writers", writers.join_all()).await.into_iter().flatten().collect();
    over.store(true, Ordering::SeqCst);
    let all = everything(&log).await;
    assert_holds(&all, done.iter().map(|(append, done)| (append, done)));
    for reader in within("the readers", readers.join_all()).await {
        let wanted: Vec<&Record> = all.iter().filter(|record| reader.filter.accepts(record)).collect();
        assert_eq!(reader.seen.iter().collect::<Vec<_>>(), wanted, "a reader of {:?}", reader.filter);
    }
    for stream_id in streams.iter() {
        stream(&log, *stream_id).await;
    }
}

/// Appends at once and in transactions that stay open for a moment, some of which are rolled back.
async fn write<H: Harness>(
    harness: Arc<H>,
    log: H::Store,
    streams: Arc<Vec<Uuid>>,
    mut random: fastrand::Rng,
) -> Vec<(Append, Appended)> {
    let mut done = Vec::new();
    for _ in 0..soak(12) {
        let append = some_append(&streams, &mut random);
        let pause = Duration::from_micros(random.u64(..3_000));
        match random.u8(..10) {
            0..=4 => {
                let answer = store_in_the_end(&log, &append).await;
                done.push((append, answer));
            }
            5..=8 => {
                // Another writer may hold one of the streams for too long: then this one is not stored.
                let Ok(open) = harness.begin(&log, append.clone()).await else { continue };
                sleep(pause).await;
                let answer = open.commit().await.expect("an open append can be committed");
                done.push((append, answer));
            }
            _ => {
                let Ok(open) = harness.begin(&log, append.clone()).await else { continue };
                sleep(pause).await;
                open.rollback().await.expect("an open append can be rolled back");
            }
        }
    }
    done
}

fn some_append(streams: &[Uuid], random: &mut fastrand::Rng) -> Append {
    let mut append = Append::to(streams[random.usize(..streams.len())]).expecting(ExpectedVersion::Any);
    for nth in 0..random.usize(1..=3) {
        if nth > 0 && random.bool() {
            append = append.and_to(streams[random.usize(..streams.len())]);
        }
        append = append.event(match random.u8(..4) {
            0 => Ledger::Closed,
            1 => Ledger::opened(),
            2 => Ledger::deposited(nth as i64),
            _ => Ledger::Noted("x".repeat(random.usize(..50))),
        });
    }
    append
}

/// Reads along until everything is over, and checks that no stream has a hole at any time.
async fn follow<L: Log>(log: &L, types: EventTypes, limit: ReadLimit, over: &AtomicBool) -> Reader {
    let mut reader = Reader::new(types, limit);
    let mut versions: HashMap<Uuid, u64> = HashMap::new();
    let mut checked = 0;
    let mut patience = Patience::new();
    loop {
        let was_over = over.load(Ordering::SeqCst);
        let moved = reader.step(log).await;
        if reader.filter == Filter::ALL {
            for record in &reader.seen[checked..] {
                let version = versions.entry(record.stream_id).or_default();
                *version += 1;
                assert_eq!(record.stream_version, *version, "nothing of stream {} was skipped", record.stream_id);
            }
            checked = reader.seen.len();
        }
        if was_over && reader.position >= head(log).await {
            return reader;
        }
        if moved {
            patience = Patience::new();
        } else {
            patience.wait().await;
        }
    }
}
