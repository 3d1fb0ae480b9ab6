//! What is said about progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use highwater::backend::{DeadLetterQuery, Log};
use highwater::{
    BusError, Error, EventBus, EventStore, FailurePolicy, GlobalSequence, Problem, ReliableDeliveryConfig, Subscription,
};

use super::players::{Act, Gate, Observer, batched, bus, config, end, fill, in_state, is_halted};
use crate::checkpoints::position;
use crate::dead_letters::found;
use crate::support::{QUIET, deposits, eventually, new_stream, within};
use crate::{Call, Flaky, Harness, OpenAppend, Settings, Verdict};

pub(crate) async fn a_waiting_caller_is_told_when_it_is_there<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let here = bus(&store);
    let elsewhere = bus(&harness.reopen(&store, Settings::default()).await);
    let observer = Observer::new("projection:each").delivery(batched(100)).shared();
    here.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    for bus in [&here, &elsewhere, &here, &elsewhere] {
        let events = fill(&store, new_stream(), 3).await;
        let waited =
            within("waiting", bus.wait_for("projection:each", GlobalSequence(events[1]))).await.expect("it gets there");
        assert!(waited.checkpoint >= events[1] && waited.dead_letter.is_none(), "{waited:?}");
        assert!(observer.taken().contains(&events[1]), "what was waited for has been handled");
        assert!(position(&store, "projection:each").await >= Some(events[1]), "and stored");
    }
    end(here).await;
}

pub(crate) async fn a_caller_that_waits_in_vain_is_told_how_far_it_is<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 3).await;
    let here = bus(&store);
    let elsewhere = bus(&harness.reopen(&store, Settings::default()).await);
    // However long it would wait: a name that no instance has started is known to be wrong.
    for timeout in [QUIET, Duration::from_secs(60 * 60)] {
        let missing = elsewhere.wait_for_within("projection:each", GlobalSequence(1), timeout);
        let missing = within("being told that there is no such name", missing).await;
        assert!(matches!(&missing, Err(Error::Bus(BusError::UnknownSubscriber(_)))), "{missing:?}");
    }
    let gate = Gate::shut();
    let (waits, at) = (gate.clone(), events[1]);
    let observer = Observer::new("projection:each")
        .plays(move |event, _| if event.global_sequence == Some(at) { Act::Wait(waits.clone()) } else { Act::Take })
        .shared();
    here.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    here.wait_for("projection:each", GlobalSequence(events[0])).await.expect("it gets there");
    for bus in [&here, &elsewhere] {
        match bus.wait_for_within("projection:each", GlobalSequence(events[2]), QUIET).await {
            Err(Error::Bus(BusError::NotReached { subscriber_id, wanted, reached, waited })) => {
                assert_eq!((subscriber_id.as_str(), wanted), ("projection:each", events[2]));
                assert_eq!((reached, waited), (Some(events[0]), QUIET));
            }
            other => panic!("it is not there: {other:?}"),
        }
    }
    gate.open();
    elsewhere.wait_for("projection:each", GlobalSequence(events[2])).await.expect("now it gets there");
    end(here).await;
}

pub(crate) async fn a_waiting_caller_is_told_of_a_dead_letter<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 3).await;
    let (bad, fixed) = (events[1], Arc::new(AtomicBool::new(false)));
    let bus = bus(&store);
    let observer = {
        let fixed = Arc::clone(&fixed);
        Observer::new("projection:each")
            .plays(move |event, _| match event.global_sequence {
                Some(at) if at == bad && !fixed.load(Ordering::SeqCst) => Act::GiveUp("broken"),
                _ => Act::Take,
            })
            .shared()
    };
    let subscription = bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    bus.wait_for("projection:each", GlobalSequence(events[2])).await.expect("it gets there");
    let caught_up = within("catching up", subscription.caught_up()).await.expect("it gets there");
    match caught_up.without_dead_letters() {
        Err(Error::Bus(BusError::DeadLetters { global_sequence, reason, .. })) => {
            assert!(global_sequence == bad && reason.contains("broken"), "{global_sequence}: {reason}");
        }
        other => panic!("it could not handle everything: {other:?}"),
    }
    for (at, is_dead) in [(0, false), (1, true), (2, false)] {
        let waited = bus.wait_for("projection:each", GlobalSequence(events[at])).await.expect("it gets there");
        assert_eq!(waited.dead_letter.map(|dead_letter| dead_letter.global_sequence), is_dead.then_some(bad));
    }
    fixed.store(true, Ordering::SeqCst);
    let dead_letter = found(&store, &DeadLetterQuery::default()).await[0].id;
    let filed = bus.dead_letters().replay(dead_letter).await.expect("it can be asked for");
    within("a replay", filed.done()).await.expect("it is done");
    let waited = bus.wait_for("projection:each", GlobalSequence(bad)).await.expect("it gets there");
    assert_eq!(waited.dead_letter, None, "it went in after all");
    let caught_up = within("catching up", subscription.caught_up()).await.expect("it gets there");
    assert_eq!(caught_up.dead_letter, None, "it went in after all");
    end(bus).await;
}

pub(crate) async fn caught_up_means_that_everything_is_handled<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 20).await;
    let bus = bus(&store);
    let observer = Observer::new("projection:each").delivery(batched(7)).shared();
    let subscription = bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    within("catching up", subscription.caught_up()).await.expect("it gets there");
    assert_eq!(observer.taken(), events);
    let progress = subscription.progress().await.expect("it can be asked");
    assert_eq!((progress.position, progress.lag_events), (events[19], 0));
    assert_eq!(progress.frontier, events[19]);

    let strict =
        Observer::new("projection:strict").on_failure(FailurePolicy::Halt).plays(|_, _| Act::GiveUp("broken")).shared();
    let halting = bus.subscribe(Arc::clone(&strict)).await.expect("it can be subscribed");
    match within("catching up", halting.caught_up()).await {
        Err(Error::Bus(BusError::NotRunning { subscriber_id, reason })) => {
            assert_eq!(subscriber_id, "projection:strict");
            assert!(reason.contains("broken"), "{reason}");
        }
        other => panic!("it will not get there: {other:?}"),
    }
    let kept = subscription.clone();
    within("unsubscribing", subscription.unsubscribe()).await.expect("it stops in time");
    fill(&store, new_stream(), 1).await;
    let stopped = within("catching up", kept.caught_up()).await;
    assert!(matches!(stopped, Err(Error::Bus(BusError::NotRunning { .. }))), "{stopped:?}");
    end(bus).await;
}

/// A subscriber that has handled ten events, an append that is open, and ten events that were committed after it began.
async fn beside_an_open_append<H: Harness>(
    harness: &H,
    store: &H::Store,
    bus: &EventBus<H::Store>,
) -> (Subscription, Box<dyn OpenAppend>, [u64; 2]) {
    let first = fill(store, new_stream(), 10).await;
    let observer = Observer::new("projection:each").shared();
    let subscription = bus.subscribe(observer).await.expect("it can be subscribed");
    bus.wait_for("projection:each", GlobalSequence(first[9])).await.expect("it gets there");
    let open = harness.begin(store, deposits(new_stream(), 1)).await.expect("an append can be begun");
    let later = fill(store, new_stream(), 10).await;
    (subscription, open, [first[9], later[9]])
}

pub(crate) async fn lag_counts_against_what_is_committed<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let bus = bus(&store);
    let (subscription, open, [handled, committed]) = beside_an_open_append(&*harness, &store, &bus).await;
    let frontier = within("the frontier", store.frontier()).await.expect("the store answers");
    let progress = within("progress", subscription.progress()).await.expect("it can be asked");
    assert_eq!((progress.head, progress.lag_events), (committed, committed - progress.position));
    if frontier < committed {
        assert!(progress.lag_events > 0 && progress.is_held_back(), "{progress:?}");
        let early = tokio::time::timeout(QUIET, subscription.caught_up()).await;
        assert!(early.is_err(), "not everything that is committed has been handled: {early:?}");
        let overview = within("an overview", store.overview()).await.expect("the store answers");
        let seen = &overview.subscribers[0];
        assert_eq!((seen.checkpoint, seen.lag_events, seen.state()), (handled, committed - handled, "held back"));
        assert_eq!(seen.still_since, None, "it could not have moved");
    }
    open.rollback().await.expect("an open append can be rolled back");
    within("catching up", subscription.caught_up()).await.expect("it gets there");
    let progress = within("progress", subscription.progress()).await.expect("it can be asked");
    assert_eq!((progress.position, progress.lag_events, progress.is_held_back()), (committed, 0, false));
    end(bus).await;
}

pub(crate) async fn health_names_who_holds_readers_back_at_once<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let bus = bus(&store);
    let (subscription, open, [_, committed]) = beside_an_open_append(&*harness, &store, &bus).await;
    let named = |health: &highwater::Health| {
        health
            .problems
            .iter()
            .any(|problem| matches!(problem, Problem::WritersOpen { writers, .. } if writers.len() == 1))
    };
    if within("the frontier", store.frontier()).await.expect("the store answers") < committed {
        let health = within("health", bus.health()).await;
        assert!(named(&health), "the first caller is told who it is: {health:?}");
        assert!(health.is_ready(), "nobody has been behind for long: {health:?}");
    }
    open.commit().await.expect("an open append can be committed");
    within("catching up", subscription.caught_up()).await.expect("it gets there");
    let health = within("health", bus.health()).await;
    assert!(problems(&health).is_empty(), "nobody is named who has ended: {health:?}");
    end(bus).await;
}

/// What is wrong, but for what does not concern this.
fn problems(health: &highwater::Health) -> Vec<&Problem> {
    health.problems.iter().filter(|problem| !matches!(problem, Problem::PushDegraded { .. })).collect()
}

pub(crate) async fn health_names_what_is_wrong<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 3).await;
    let cut = Arc::new(AtomicBool::new(false));
    let wire = Arc::clone(&cut);
    let rough = Flaky::new(store.clone(), move |call| match call {
        Call::Read if wire.load(Ordering::SeqCst) => Verdict::Fail,
        _ => Verdict::Through,
    });
    let bus = bus(&rough);
    let fine = Observer::new("projection:fine").shared();
    let subscription = bus.subscribe(Arc::clone(&fine)).await.expect("it can be subscribed");
    bus.wait_for("projection:fine", GlobalSequence(events[2])).await.expect("it gets there");
    within("catching up", subscription.caught_up()).await.expect("it gets there");
    let health = within("health", bus.health()).await;
    assert!(problems(&health).is_empty() && health.is_live() && health.is_ready(), "{health:?}");
    assert_eq!(health.subscribers.len(), 1);

    within("pausing", subscription.pause()).await.expect("it can be paused");
    let health = within("health", bus.health()).await;
    assert!(matches!(problems(&health)[..], [Problem::Paused { subscriber_id }] if subscriber_id == "projection:fine"));
    assert!(health.is_ready(), "an operator asked for that");
    within("resuming", subscription.resume()).await.expect("it can be resumed");
    eventually("it continues", async || problems(&bus.health().await).is_empty()).await;

    let strict =
        Observer::new("projection:strict").on_failure(FailurePolicy::Halt).plays(|_, _| Act::GiveUp("broken")).shared();
    let halting = bus.subscribe(Arc::clone(&strict)).await.expect("it can be subscribed");
    in_state(&halting, "it halts", is_halted).await;
    let health = within("health", bus.health()).await;
    match problems(&health)[..] {
        [Problem::Halted { subscriber_id, reason }] => {
            assert_eq!(subscriber_id, "projection:strict");
            assert!(reason.contains("broken"), "{reason}");
        }
        _ => panic!("one is halted: {health:?}"),
    }
    assert!(health.is_live() && !health.is_ready());
    within("unsubscribing", halting.unsubscribe()).await.expect("it stops in time");

    cut.store(true, Ordering::SeqCst);
    let health = within("health", bus.health()).await;
    assert!(problems(&health).iter().any(|problem| matches!(problem, Problem::Unreachable { .. })), "{health:?}");
    assert!(!health.is_ready());
    cut.store(false, Ordering::SeqCst);
    eventually("it gets well", async || problems(&bus.health().await).is_empty()).await;
    end(bus).await;
}

pub(crate) async fn health_names_who_has_fallen_behind<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 3).await;
    let strict = ReliableDeliveryConfig { healthy_lag_max: Duration::from_millis(1), ..config() };
    let bus = bus(&store);
    let gate = Gate::shut();
    let (waits, at) = (gate.clone(), events[1]);
    let observer = Observer::new("projection:slow")
        .delivery(strict)
        .plays(move |event, _| if event.global_sequence == Some(at) { Act::Wait(waits.clone()) } else { Act::Take })
        .shared();
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    observer.is_called(2).await;
    eventually("it is behind", async || {
        let health = bus.health().await;
        let behind = |problem: &&Problem| matches!(problem, Problem::Behind { events: 1.., .. });
        problems(&health).iter().any(behind) && !health.is_ready()
    })
    .await;
    gate.open();
    bus.wait_for("projection:slow", GlobalSequence(events[2])).await.expect("it gets there");
    eventually("it is well", async || bus.health().await.is_ready()).await;
    end(bus).await;
}

pub(crate) async fn health_names_who_does_not_even_begin<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    fill(&store, new_stream(), 3).await;
    let hasty = Duration::from_millis(300);
    let strict = ReliableDeliveryConfig { healthy_lag_max: Duration::from_millis(1), ..config() };
    let bus =
        highwater::EventBus::with_config(store.clone(), ReliableDeliveryConfig { shutdown_timeout: hasty, ..config() });
    let observer = Observer::new("projection:stuck").delivery(strict).plays(|_, _| Act::Hang).shared();
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    observer.is_called(1).await;
    eventually("it is behind", async || !bus.health().await.is_ready()).await;
    within("a shutdown", bus.shutdown()).await.expect_err("it hangs");
}
