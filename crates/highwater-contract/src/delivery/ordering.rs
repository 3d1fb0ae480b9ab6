//! Order inside a stream, kept through failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use highwater::backend::{Closing, DeadLetterQuery, DeadLetterState, Transactional};
use highwater::{FailurePolicy, GlobalSequence, ReliableDeliveryConfig, SubscriptionState};

use super::players::{Act, Observer, batched, bus, config, end, fill, in_state, is_halted};
use crate::checkpoints::position;
use crate::dead_letters::{found, places};
use crate::support::{new_stream, within};
use crate::{Call, Flaky, Harness, Settings, Verdict};

pub(crate) async fn a_halted_subscriber_stops_in_front_of_the_event<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 6).await;
    let bad = events[3];
    let fixed = Arc::new(AtomicBool::new(false));
    let bus = bus(&store);
    let observer = {
        let fixed = Arc::clone(&fixed);
        Observer::new("projection:strict")
            .on_failure(FailurePolicy::Halt)
            .delivery(batched(10))
            .plays(move |event, _| match event.global_sequence {
                Some(at) if at == bad && !fixed.load(Ordering::SeqCst) => Act::fail("broken"),
                _ => Act::Take,
            })
            .shared()
    };
    let subscription = bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    in_state(&subscription, "it halts", is_halted).await;
    let SubscriptionState::Halted { reason } = subscription.state() else { panic!("{:?}", subscription.state()) };
    assert!(reason.contains("broken") && reason.contains(&bad.to_string()), "{reason}");
    bus.wait_for("projection:strict", GlobalSequence(events[2])).await.expect("what was handled is stored");
    assert_eq!(position(&store, "projection:strict").await, Some(events[2]), "it does not pass the event");
    assert_eq!(observer.taken(), events[..3]);
    assert_eq!(found(&store, &DeadLetterQuery::default()).await, []);

    subscription.resume().await.expect("it can be resumed");
    observer.is_called(3 + 3 + 3).await;
    in_state(&subscription, "it halts again", is_halted).await;
    assert_eq!(observer.taken(), events[..3]);

    fixed.store(true, Ordering::SeqCst);
    subscription.resume().await.expect("it can be resumed");
    bus.wait_for("projection:strict", GlobalSequence(events[5])).await.expect("it gets there");
    assert_eq!(observer.taken(), events, "every event, in order");
    end(bus).await;
}

/// A subscriber that cannot handle one event, until that is fixed by setting it to 0.
fn stubborn(delivery: ReliableDeliveryConfig) -> (Arc<Observer>, Arc<AtomicU64>) {
    let bad = Arc::new(AtomicU64::new(0));
    let at = Arc::clone(&bad);
    let observer = Observer::new("projection:parking")
        .on_failure(FailurePolicy::ParkStream)
        .delivery(delivery)
        .plays(move |event, _| match event.global_sequence {
            Some(number) if number == at.load(Ordering::SeqCst) => Act::GiveUp("stuck"),
            _ => Act::Take,
        })
        .shared();
    (observer, bad)
}

pub(crate) async fn a_parked_stream_keeps_its_order<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (parked, free) = (new_stream(), new_stream());
    let bus = bus(&store);
    let (observer, bad) = stubborn(batched(10));
    let first = fill(&store, parked, 4).await;
    bad.store(first[1], Ordering::SeqCst);
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    let others = fill(&store, free, 3).await;
    let later = fill(&store, parked, 2).await;
    bus.wait_for("projection:parking", GlobalSequence(later[1])).await.expect("it continues");
    assert_eq!(observer.taken(), [vec![first[0]], others.clone()].concat(), "other streams continue");
    let waiting = [first[1], first[2], first[3], later[0], later[1]];
    let dead_letters = found(&store, &DeadLetterQuery::of("projection:parking")).await;
    assert_eq!(places(&dead_letters), waiting, "everything behind it in its stream waits");
    assert!(dead_letters.iter().all(|dead_letter| dead_letter.parks && dead_letter.stream_id == parked));
    let states: Vec<DeadLetterState> = dead_letters.iter().map(|dead_letter| dead_letter.state).collect();
    assert_eq!((states[0], &states[1..]), (DeadLetterState::Dead, &[DeadLetterState::Parked; 4][..]));
    assert_eq!(observer.calls().iter().filter(|at| waiting[1..].contains(at)).count(), 0, "unhandled");

    bad.store(0, Ordering::SeqCst);
    let filed = bus.dead_letters().replay_stream("projection:parking", parked).await.expect("it can be asked for");
    let outcome = within("a replay", filed.done()).await.expect("it is done");
    assert_eq!((outcome.done, outcome.failed), (5, 0));
    let last = fill(&store, parked, 2).await;
    bus.wait_for("projection:parking", GlobalSequence(last[1])).await.expect("the stream continues");
    assert_eq!(
        observer.taken(),
        [vec![first[0]], others, waiting.to_vec(), last].concat(),
        "in the order of the stream"
    );
    assert_eq!(found(&store, &DeadLetterQuery::of("projection:parking")).await, []);
    end(bus).await;
}

pub(crate) async fn a_head_that_fails_again_keeps_the_rest_waiting<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (parked, other) = (new_stream(), new_stream());
    let events = fill(&store, parked, 4).await;
    let bus = bus(&store);
    let (observer, bad) = stubborn(config());
    bad.store(events[0], Ordering::SeqCst);
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    bus.wait_for("projection:parking", GlobalSequence(events[3])).await.expect("it continues");
    let replay_all = async || {
        let filed = bus.dead_letters().by("anna").replay_all("projection:parking").await.expect("it can be asked for");
        within("a replay", filed.done()).await.expect("it is done")
    };
    let outcome = replay_all().await;
    assert_eq!((outcome.done, outcome.failed), (0, 1), "those behind it are not even tried");
    assert_eq!(outcome.error.as_deref(), Some("stuck"));
    let dead_letters = found(&store, &DeadLetterQuery::of("projection:parking")).await;
    assert_eq!(places(&dead_letters), events);
    assert_eq!(dead_letters.iter().map(|dead_letter| dead_letter.retry_count).collect::<Vec<_>>(), [1, 0, 0, 0]);
    // Now the head goes in, and the third of the stream does not.
    bad.store(events[2], Ordering::SeqCst);
    let outcome = replay_all().await;
    assert_eq!((outcome.done, outcome.failed), (2, 1));
    assert_eq!(places(&found(&store, &DeadLetterQuery::of("projection:parking")).await), events[2..]);
    let more = fill(&store, parked, 1).await;
    let free = fill(&store, other, 1).await;
    bus.wait_for("projection:parking", GlobalSequence(free[0])).await.expect("it continues");
    assert_eq!(observer.taken(), [events[0], events[1], free[0]], "the stream stays parked");
    let dead_letter =
        bus.dead_letters().list(&DeadLetterQuery::of("projection:parking")).await.expect("they can be listed");
    // One that waits behind another cannot be taken out of turn.
    let filed = bus.dead_letters().replay(dead_letter[1].id).await.expect("it can be asked for");
    assert!(within("a replay", filed.done()).await.is_err(), "it waits behind an earlier one");
    bad.store(0, Ordering::SeqCst);
    let filed = bus.dead_letters().replay(dead_letter[0].id).await.expect("it can be asked for");
    let outcome = within("a replay", filed.done()).await.expect("it is done");
    assert_eq!(outcome.done, 3, "the head takes those behind it along");
    assert_eq!(observer.taken(), [events[0], events[1], free[0], events[2], events[3], more[0]]);
    end(bus).await;
}

/// Loses the answer to the first commit of a kind, though that is done.
fn forgetful<B: Transactional>(store: &B, kind: fn(&Closing<'_>) -> bool) -> Flaky<B> {
    let lost = AtomicBool::new(false);
    Flaky::new(store.clone(), move |call| match call {
        Call::Commit(_, closing) if kind(&closing) && !lost.swap(true, Ordering::SeqCst) => Verdict::Lose,
        _ => Verdict::Through,
    })
}

pub(crate) async fn a_dead_letter_whose_answer_is_lost_parks_its_stream_all_the_same<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (parked, other) = (new_stream(), new_stream());
    let events = fill(&store, parked, 3).await;
    let bus = bus(&forgetful(&store, |closing| matches!(closing, Closing::Bury { .. })));
    let (observer, bad) = stubborn(config());
    bad.store(events[0], Ordering::SeqCst);
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    let free = fill(&store, other, 1).await;
    bus.wait_for("projection:parking", GlobalSequence(free[0])).await.expect("it continues");
    assert_eq!(observer.taken(), free);
    assert_eq!(observer.calls(), [events[0], free[0]], "what has its dead letter is not handed over again");
    assert_eq!(places(&found(&store, &DeadLetterQuery::of("projection:parking")).await), events);
    end(bus).await;
}

pub(crate) async fn a_replay_whose_answer_is_lost_frees_its_stream_all_the_same<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let parked = new_stream();
    let events = fill(&store, parked, 1).await;
    let bus = bus(&forgetful(&store, |closing| matches!(closing, Closing::Replayed { .. })));
    let (observer, bad) = stubborn(config());
    bad.store(events[0], Ordering::SeqCst);
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    bus.wait_for("projection:parking", GlobalSequence(events[0])).await.expect("it continues");
    bad.store(0, Ordering::SeqCst);
    let filed = bus.dead_letters().replay_all("projection:parking").await.expect("it can be asked for");
    within("a replay", filed.done()).await.expect("it is done");
    let more = fill(&store, parked, 1).await;
    bus.wait_for("projection:parking", GlobalSequence(more[0])).await.expect("it continues");
    assert_eq!(observer.taken(), [events[0], more[0]], "nothing waits where nothing is in front");
    assert_eq!(found(&store, &DeadLetterQuery::of("projection:parking")).await, []);
    end(bus).await;
}

pub(crate) async fn parked_streams_stay_parked_after_a_restart<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let parked = new_stream();
    let events = fill(&store, parked, 2).await;
    let first = bus(&store);
    let (observer, bad) = stubborn(config());
    bad.store(events[0], Ordering::SeqCst);
    first.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    first.wait_for("projection:parking", GlobalSequence(events[1])).await.expect("it continues");
    end(first).await;
    let later = fill(&store, parked, 2).await;
    let second = bus(&store);
    let (observer, _) = stubborn(config());
    second.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    second.wait_for("projection:parking", GlobalSequence(later[1])).await.expect("it continues");
    assert_eq!(observer.calls(), [0; 0], "the stream is still parked");
    let filed = second.dead_letters().replay_all("projection:parking").await.expect("it can be asked for");
    assert_eq!(within("a replay", filed.done()).await.expect("it is done").done, 4);
    assert_eq!(observer.calls(), [events, later].concat());
    end(second).await;
}

pub(crate) async fn too_many_parked_events_halt_the_subscriber<H: Harness>(harness: Arc<H>) {
    for per_stream in [true, false] {
        let store = harness.fresh(Settings::default()).await;
        let streams = [new_stream(), new_stream()];
        let first = fill(&store, streams[0], 1).await;
        let mut events = first.clone();
        // Within the limit, and then one more.
        events.extend(fill(&store, streams[0], 2).await);
        events.extend(fill(&store, streams[0], 1).await);
        let limits = if per_stream {
            ReliableDeliveryConfig { parked_per_stream_max: 3, ..config() }
        } else {
            ReliableDeliveryConfig { parked_max: 3, ..config() }
        };
        let bus = bus(&store);
        let (observer, bad) = stubborn(limits);
        bad.store(first[0], Ordering::SeqCst);
        let subscription = bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
        in_state(&subscription, "it halts", is_halted).await;
        assert_eq!(position(&store, "projection:parking").await, Some(events[2]), "in front of the one too many");
        assert_eq!(places(&found(&store, &DeadLetterQuery::default()).await), events[..3]);
        bad.store(0, Ordering::SeqCst);
        let filed = bus.dead_letters().replay_all("projection:parking").await.expect("it can be asked for");
        assert_eq!(within("a replay", filed.done()).await.expect("it is done, halted or not").done, 3);
        subscription.resume().await.expect("it can be resumed");
        bus.wait_for("projection:parking", GlobalSequence(events[3])).await.expect("it continues");
        assert_eq!(observer.taken(), events);
        end(bus).await;
    }
}
