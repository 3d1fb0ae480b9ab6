//! Two buses, one subscriber.

use std::sync::Arc;

use highwater::{GlobalSequence, SubscriptionState};

use super::players::{Counter, Observer, bus, end, fill, in_state, is_halted};
use crate::checkpoints::{position, stored};
use crate::support::{eventually, new_stream, within};
use crate::{Harness, Settings};

pub(crate) async fn of_two_buses_the_newer_wins<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let before = fill(&store, new_stream(), 5).await;
    let (old_bus, new_bus) = (bus(&store), bus(&harness.reopen(&store, Settings::default()).await));
    let (old, new) = (Observer::new("projection:each").shared(), Observer::new("projection:each").shared());
    let old_one = old_bus.subscribe(Arc::clone(&old)).await.expect("it can be subscribed");
    old_bus.wait_for("projection:each", GlobalSequence(before[4])).await.expect("it gets there");
    let new_one = new_bus.subscribe(Arc::clone(&new)).await.expect("another bus can subscribe it as well");
    within("catching up", new_one.caught_up()).await.expect("it gets there");
    let term = stored(&store, "projection:each").await.expect("it has one").term;
    let after = fill(&store, new_stream(), 5).await;
    new_bus.wait_for("projection:each", GlobalSequence(after[4])).await.expect("it gets there");
    in_state(&old_one, "the older halts", is_halted).await;
    let SubscriptionState::Halted { reason } = old_one.state() else { panic!("{:?}", old_one.state()) };
    assert!(reason.contains("fenced"), "{reason}");
    let last_error = old_one.progress().await.expect("the store answers").last_error;
    assert!(last_error.is_some_and(|error| error.contains("fenced")), "an operator reads it where all errors are");
    assert_eq!(new.calls(), after, "the newer resumes where the older was");
    let late = old.calls().len();
    assert!(late <= before.len() + 1, "the older is stopped by its first checkpoint");
    let more = fill(&store, new_stream(), 3).await;
    new_bus.wait_for("projection:each", GlobalSequence(more[2])).await.expect("it gets there");
    assert_eq!(old.calls().len(), late, "who is halted handles nothing");
    assert_eq!(stored(&store, "projection:each").await.expect("it has one").term, term, "and writes nothing");

    // To resume the older is to say that it shall continue.
    old_one.resume().await.expect("it can be resumed");
    let taken_over = async || stored(&store, "projection:each").await.expect("it has one").term.number > term.number;
    eventually("it has taken over", taken_over).await;
    let last = fill(&store, new_stream(), 3).await;
    in_state(&new_one, "now the other halts", is_halted).await;
    old_bus.wait_for("projection:each", GlobalSequence(last[2])).await.expect("it gets there");
    assert_eq!(old.calls()[late..], last);
    assert_eq!(position(&store, "projection:each").await, Some(last[2]));
    end(old_bus).await;
    end(new_bus).await;
}

pub(crate) async fn of_two_counters_only_one_counts<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let mut events = fill(&store, new_stream(), 20).await;
    let (old_bus, new_bus) = (bus(&store), bus(&harness.reopen(&store, Settings::default()).await));
    let old = Counter::new("projection:count", &harness, &store).shared();
    let new = Counter::new("projection:count", &harness, &store).shared();
    let old_one = old_bus.subscribe(Arc::clone(&old)).await.expect("it can be subscribed");
    old.has_taken(3).await;
    let new_one = new_bus.subscribe(Arc::clone(&new)).await.expect("another bus can subscribe it as well");
    // Not only that the events are counted: by then it has taken over.
    within("catching up", new_one.caught_up()).await.expect("it gets there");
    events.extend(fill(&store, new_stream(), 20).await);
    new_bus.wait_for("projection:count", GlobalSequence(events[39])).await.expect("it gets there");
    in_state(&old_one, "the older halts", is_halted).await;
    new.assert_counts(&events).await;
    end(old_bus).await;
    end(new_bus).await;
}
