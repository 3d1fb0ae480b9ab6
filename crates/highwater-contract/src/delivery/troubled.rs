//! Everything at once, over a backend that fails, loses answers and comes back.

use highwater::backend::{DeadLetterQuery, Transactional};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use highwater::{FailurePolicy, GlobalSequence, ReliableDeliveryConfig};

use super::players::{Act, Counter, Observer, batched, bus, config, end};
use crate::dead_letters::found;
use crate::support::{deposits, everything, new_stream, seed, seeded, soak, store as append, within};
use crate::{Flaky, Harness, Settings, Verdict};

/// How many calls go wrong before the weather clears up.
const FAULTS: u32 = 100;
const BATCH: usize = 10;

/// Every fifth call goes wrong, one way or the other, until so many have.
fn flaky<B: Transactional>(store: &B, seed: u64, faults: Arc<AtomicU32>) -> Flaky<B> {
    let random = Mutex::new(fastrand::Rng::with_seed(seed));
    Flaky::new(store.clone(), move |_| {
        let mut random = random.lock().expect("nobody panics with it");
        if random.u8(..5) > 0 || faults.load(Ordering::SeqCst) == 0 {
            return Verdict::Through;
        }
        faults.fetch_sub(1, Ordering::SeqCst);
        if random.bool() { Verdict::Fail } else { Verdict::Lose }
    })
}

pub(crate) async fn nothing_is_lost_or_counted_twice_in_bad_weather<H: Harness>(harness: Arc<H>) {
    for seed in (seed()..).take(soak(1) as usize) {
        seeded(seed, bad_weather(Arc::clone(&harness), seed)).await;
    }
}

async fn bad_weather<H: Harness>(harness: Arc<H>, seed: u64) {
    let store = harness.fresh(Settings::default()).await;
    let faults = Arc::new(AtomicU32::new(FAULTS));
    let rough = bus(&flaky(&store, seed, Arc::clone(&faults)));
    let small = |config| ReliableDeliveryConfig { catch_up_batch_size: 8, tail_events_max: 16, ..config };
    let each = Observer::new("projection:each").delivery(small(batched(BATCH))).shared();
    let count = Counter::new("projection:count", &harness, &store).delivery(small(batched(BATCH))).shared();
    // One event in eight does not go in before the weather clears up; which, follows from the seed.
    let fixed = Arc::new(AtomicBool::new(false));
    let parking = {
        let fixed = Arc::clone(&fixed);
        Observer::new("projection:parking")
            .on_failure(FailurePolicy::ParkStream)
            .delivery(small(config()))
            .plays(move |event, _| {
                let at = event.global_sequence.unwrap_or(0);
                let bad = fastrand::Rng::with_seed(seed ^ at.wrapping_mul(0x9E37_79B9)).u8(..8) == 0;
                if bad && !fixed.load(Ordering::SeqCst) { Act::fail("not in this weather") } else { Act::Take }
            })
            .shared()
    };
    // To subscribe may fail as well: the caller retries.
    macro_rules! subscribe {
        ($who:expr) => {
            within("subscribing", async {
                while rough.subscribe(Arc::clone($who)).await.is_err() {
                    tokio::task::yield_now().await;
                }
            })
            .await
        };
    }
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let stream_id = new_stream();
                for _ in 0..20 {
                    append(&store, &deposits(stream_id, 2)).await;
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    subscribe!(&each);
    subscribe!(&count);
    subscribe!(&parking);
    for writer in writers {
        writer.await.expect("a writer comes through");
    }
    let log = everything(&store).await;
    let events: Vec<u64> = log.iter().map(|record| record.global_sequence).collect();
    let last = *events.last().expect("there are events");
    let calm = bus(&store);
    for name in [each.id(), count.id(), parking.id()] {
        calm.wait_for(name, GlobalSequence(last)).await.expect("it gets there in the end");
    }

    count.assert_counts(&events).await;
    // Nobody has died, so nothing comes twice.
    assert_eq!(each.calls(), events, "each event once and in order");

    // Whatever is parked can be handed over again, in the order of its stream.
    fixed.store(true, Ordering::SeqCst);
    faults.store(0, Ordering::SeqCst);
    let filed = calm.dead_letters().by("anna").replay_all("projection:parking").await.expect("it can be asked for");
    let outcome = within("a replay", filed.done()).await.expect("it is done");
    assert_eq!((outcome.failed, outcome.error), (0, None));
    assert_eq!(found(&store, &DeadLetterQuery::default()).await, []);
    let streams: HashMap<u64, uuid::Uuid> =
        log.iter().map(|record| (record.global_sequence, record.stream_id)).collect();
    let mut seen = HashSet::new();
    let mut order: BTreeMap<uuid::Uuid, Vec<u64>> = BTreeMap::new();
    for at in parking.taken() {
        if seen.insert(at) {
            order.entry(streams[&at]).or_default().push(at);
        }
    }
    assert_eq!(seen.len(), events.len(), "every event was handled some time");
    assert!(order.values().all(|events| events.is_sorted()), "in the order of its stream: {order:?}");
    let again = parking.taken().len() - events.len();
    assert!(again <= FAULTS as usize, "{again} events were handled twice");
    end(rough).await;
}
