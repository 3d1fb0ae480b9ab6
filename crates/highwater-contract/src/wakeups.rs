//! The contract of wake-ups: hints after the commit.

use std::sync::Arc;

use highwater::backend::{Log, Wakeup, Wakeups};
use highwater::{Append, ExpectedVersion};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::{Ledger, QUIET, deposits, head, new_stream, refused, soak, store, within};
use crate::{Harness, Settings};

/// Waits for a hint that reaches `global_sequence`, and checks that none promises what is not there.
async fn woken_to<L: Log>(log: &L, wakeup: &mut Wakeup, global_sequence: u64) {
    loop {
        let hint = within("a wake-up", wakeup.next()).await.expect("the store is still there");
        assert!(hint <= head(log).await, "a hint at {hint} speaks of what is not committed");
        if hint >= global_sequence {
            return;
        }
    }
}

/// Checks that no hint comes.
async fn not_woken(wakeup: &mut Wakeup) {
    if let Ok(hint) = timeout(QUIET, wakeup.next()).await {
        panic!("nothing was committed, yet there is a hint at {hint:?}");
    }
}

pub(crate) async fn an_append_wakes_everybody_who_waits<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let mut waiters = [log.wakeups(), log.wakeups(), log.clone().wakeups()];
    for count in 1..=3 {
        let done = store(&log, &deposits(new_stream(), count)).await;
        for waiter in &mut waiters {
            woken_to(&log, waiter, done.global_sequence).await;
        }
    }
}

pub(crate) async fn an_append_through_the_typed_store_wakes_as_well<H: Harness>(harness: Arc<H>) {
    use highwater::{Event, EventStore};
    let log = harness.fresh(Settings::default()).await;
    let mut waiter = log.wakeups();
    let event = Event::builder().stream_id(new_stream()).data(Ledger::Closed).build().expect("an event");
    let stored = log.store_event(event).await.expect("an event is stored");
    woken_to(&log, &mut waiter, stored.global_sequence.expect("a stored event has its number")).await;
}

pub(crate) async fn what_is_not_committed_wakes_nobody<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let mut waiter = log.wakeups();
    let open = harness.begin(&log, deposits(new_stream(), 2)).await.expect("an append can be begun");
    not_woken(&mut waiter).await;
    open.rollback().await.expect("an open append can be rolled back");
    not_woken(&mut waiter).await;
    let open = harness.begin(&log, deposits(new_stream(), 2)).await.expect("an append can be begun");
    not_woken(&mut waiter).await;
    // Whether this one is announced is up to who made the transaction; what comes after it is announced in any case.
    open.commit().await.expect("an open append can be committed");
    let done = store(&log, &deposits(new_stream(), 1)).await;
    woken_to(&log, &mut waiter, done.global_sequence).await;
}

pub(crate) async fn a_refused_append_wakes_nobody<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let mut waiter = log.wakeups();
    refused(&log, &deposits(new_stream(), 1).expecting(ExpectedVersion::StreamExists)).await;
    refused(&log, &Append::to(new_stream())).await;
    refused(&log, &Append::to(new_stream()).event(Ledger::Noted("\0".into()))).await;
    not_woken(&mut waiter).await;
    let done = store(&log, &deposits(new_stream(), 1)).await;
    woken_to(&log, &mut waiter, done.global_sequence).await;
}

pub(crate) async fn many_appends_come_as_few_hints<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let mut waiter = log.wakeups();
    let stream_id = new_stream();
    let appends = soak(50);
    let mut last = 0;
    for _ in 0..appends {
        last = store(&log, &deposits(stream_id, 1)).await.global_sequence;
    }
    // Nobody listened meanwhile. What has piled up comes in a few hints, not in one for each append.
    let mut hints = 0;
    let mut highest = 0;
    while highest < last {
        highest = within("a wake-up", waiter.next()).await.expect("the store is still there").max(highest);
        hints += 1;
    }
    assert!(hints <= appends / 2, "{hints} hints had been kept for {appends} appends");
}

pub(crate) async fn a_wait_that_is_given_up_loses_no_hint<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let mut waiter = log.wakeups();
    not_woken(&mut waiter).await;
    let done = store(&log, &deposits(new_stream(), 1)).await;
    woken_to(&log, &mut waiter, done.global_sequence).await;
}

pub(crate) async fn an_announcement_wakes_everybody_who_waits<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let open = harness.begin(&log, deposits(new_stream(), 2)).await.expect("an append can be begun");
    let mut waiters = [log.wakeups(), log.wakeups()];
    let done = open.commit().await.expect("an open append can be committed");
    log.announce(done.global_sequence);
    for waiter in &mut waiters {
        woken_to(&log, waiter, done.global_sequence).await;
    }
    // An old announcement may come late. The number known never goes back.
    let mut waiter = log.wakeups();
    let later = store(&log, &deposits(new_stream(), 1)).await;
    log.announce(1);
    woken_to(&log, &mut waiter, later.global_sequence).await;
}

pub(crate) async fn a_hint_never_runs_ahead_of_the_log<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let mut waiter = log.wakeups();
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let log = log.clone();
            tokio::spawn(async move {
                let stream_id = new_stream();
                for _ in 0..soak(10) {
                    store(&log, &deposits(stream_id, 2)).await;
                }
            })
        })
        .collect();
    while !writers.iter().all(JoinHandle::is_finished) {
        if let Ok(hint) = timeout(QUIET, waiter.next()).await {
            let (hint, head) = (hint.expect("the store is still there"), head(&log).await);
            assert!(hint <= head, "a hint at {hint} speaks of what is not committed");
        }
    }
    for writer in writers {
        writer.await.expect("a writer comes through");
    }
    let done = store(&log, &deposits(new_stream(), 1)).await;
    woken_to(&log, &mut waiter, done.global_sequence).await;
}
