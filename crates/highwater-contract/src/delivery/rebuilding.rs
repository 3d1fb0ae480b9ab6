//! Starting again from the beginning.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use highwater::backend::{Closing, DeadLetterQuery, DeadLetterState, Transactional};
use highwater::{BusError, Error, GlobalSequence, StartAt, SubscriberOptions};

use super::players::{Act, Counter, Observer, batched, bus, end, fill};
use crate::checkpoints::{position, stored};
use crate::dead_letters::{found, places};
use crate::support::{eventually, new_stream, within};
use crate::{Call, Flaky, Harness, Settings, Verdict};

pub(crate) async fn a_rebuild_counts_everything_anew<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 25).await;
    let bus = bus(&store);
    let count = Counter::new("projection:count", &harness, &store).delivery(batched(10)).shared();
    let subscription = bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    bus.wait_for("projection:count", GlobalSequence(events[24])).await.expect("it gets there");
    let term = stored(&store, "projection:count").await.expect("it has one").term;
    for turn in 1..=2 {
        within("a rebuild", subscription.rebuild()).await.expect("it can be rebuilt");
        assert_eq!(count.resets(), turn);
        bus.wait_for("projection:count", GlobalSequence(events[24])).await.expect("it gets there again");
        assert_eq!(count.calls().len(), events.len() * (turn + 1), "every event anew");
        count.assert_counts(&events).await;
    }
    let renewed = stored(&store, "projection:count").await.expect("it has one").term;
    assert!(renewed.number > term.number, "a rebuild raises the term");
    let more = fill(&store, new_stream(), 2).await;
    bus.wait_for("projection:count", GlobalSequence(more[1])).await.expect("it continues");
    count.assert_counts(&[events, more].concat()).await;
    end(bus).await;
}

pub(crate) async fn a_rebuild_archives_the_dead_letters<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 5).await;
    let (bad, fixed) = (events[1], Arc::new(AtomicBool::new(false)));
    let bus = bus(&store);
    let script = {
        let fixed = Arc::clone(&fixed);
        move |event: &highwater::Event<_>, _| match event.global_sequence {
            Some(at) if at == bad && !fixed.load(Ordering::SeqCst) => Act::GiveUp("broken"),
            _ => Act::Take,
        }
    };
    let after = SubscriberOptions::new().start(StartAt::After(events[0]));
    let observer = Observer::new("projection:each").with(after).plays(script).shared();
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    bus.wait_for("projection:each", GlobalSequence(events[4])).await.expect("it gets there");
    let dead_letter = found(&store, &DeadLetterQuery::default()).await[0].id;
    fixed.store(true, Ordering::SeqCst);
    // From another process.
    let elsewhere = super::players::bus(&harness.reopen(&store, Settings::default()).await);
    let filed = elsewhere.dead_letters().by("anna").rebuild("projection:each").await.expect("it can be asked for");
    within("a rebuild", filed.done()).await.expect("it is done over there");
    assert_eq!(observer.resets(), 1);
    elsewhere.wait_for("projection:each", GlobalSequence(events[4])).await.expect("it gets there again");
    assert_eq!(observer.taken()[3..], events[1..], "from where it once started");
    assert_eq!(found(&store, &DeadLetterQuery::default()).await, []);
    let shown = elsewhere.dead_letters().show(dead_letter).await.expect("it is kept").dead_letter;
    assert_eq!((shown.state, shown.resolved_by.as_deref()), (DeadLetterState::Archived, Some("anna")));
    end(bus).await;
}

pub(crate) async fn what_cannot_be_reset_stays_as_it_is<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 4).await;
    let bad = events[1];
    let bus = bus(&store);
    let script = move |event: &highwater::Event<_>, _| {
        if event.global_sequence == Some(bad) { Act::GiveUp("x") } else { Act::Take }
    };
    let count = Counter::new("projection:count", &harness, &store).plays(script).without_reset().shared();
    let each = Observer::new("projection:each").plays(script).without_reset().shared();
    bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    bus.subscribe(Arc::clone(&each)).await.expect("it can be subscribed");
    for name in [count.id(), each.id()] {
        bus.wait_for(name, GlobalSequence(events[3])).await.expect("it gets there");
        let before = stored(&store, name).await;
        let subscription = bus.subscription(name).expect("it is subscribed");
        match within("a rebuild", subscription.rebuild()).await {
            Err(Error::Bus(BusError::RequestFailed { reason, .. })) => {
                assert!(reason.contains("cannot be emptied"), "{reason}")
            }
            other => panic!("it cannot be reset: {other:?}"),
        }
        let after = stored(&store, name).await;
        let essence =
            |found: Option<highwater::backend::Checkpoint>| found.map(|it| (it.global_sequence, it.event_id, it.term));
        assert_eq!(essence(after), essence(before), "nothing has changed");
        assert_eq!(places(&found(&store, &DeadLetterQuery::of(name)).await), [bad]);
    }
    count.assert_counts(&[events[0], events[2], events[3]]).await;
    let more = fill(&store, new_stream(), 1).await;
    for name in [count.id(), each.id()] {
        bus.wait_for(name, GlobalSequence(more[0])).await.expect("it continues");
    }
    end(bus).await;
}

/// A store whose first reset fails, and which loses the answer to the second.
pub(super) fn rough_on_resets<B: Transactional>(store: &B) -> Flaky<B> {
    let resets = AtomicU32::new(0);
    Flaky::new(store.clone(), move |call| match call {
        Call::Commit(_, Closing::Reset { .. }) => match resets.fetch_add(1, Ordering::SeqCst) {
            0 => Verdict::Fail,
            1 => Verdict::Lose,
            _ => Verdict::Through,
        },
        _ => Verdict::Through,
    })
}

pub(crate) async fn a_rebuild_whose_answer_is_lost_is_done_all_the_same<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 12).await;
    let rough = rough_on_resets(&store);
    let bus = bus(&rough);
    let count = Counter::new("projection:count", &harness, &store).delivery(batched(5)).shared();
    let subscription = bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    bus.wait_for("projection:count", GlobalSequence(events[11])).await.expect("it gets there");
    within("a rebuild", subscription.rebuild()).await.expect("it is done in the end");
    eventually("it gets there again", async || position(&store, "projection:count").await == Some(events[11])).await;
    count.assert_counts(&events).await;
    let more = fill(&store, new_stream(), 1).await;
    bus.wait_for("projection:count", GlobalSequence(more[0])).await.expect("it continues: nobody else has taken over");
    end(bus).await;
}
