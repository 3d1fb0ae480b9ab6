//! Leases: what applications acquire by hand is no subscriber.

use std::sync::Arc;

use highwater::backend::{Backend, LeaderHold};
use highwater::operations::{Cause, LeaseOverview, Overview};
use highwater::transfer::copy;
use highwater::{
    BusError, Claim, Coordinator, Error, EventStore, GlobalSequence, LeadershipGuard, ProjectorCoordinator,
};

use super::instances::{instance, settled};
use super::players::{Observer, end, fill};
use crate::checkpoints::{put, stored, to};
use crate::support::{eventually, new_stream, within};
use crate::{Harness, Settings};

const NAME: &str = "timer:night";

/// Acquires a lease, as an application does for its own work.
async fn acquire(store: &dyn Backend) -> (Coordinator, LeadershipGuard) {
    let coordinator = Coordinator::new(store);
    let claim = Claim::of(NAME);
    let guard = within("a lease", coordinator.acquire(&claim)).await.expect("it is free");
    (coordinator, guard)
}

async fn overview(store: &dyn Backend) -> Overview {
    within("an overview", store.overview()).await.expect("the store answers")
}

async fn lease(store: &dyn Backend) -> LeaseOverview {
    let found = overview(store).await.leases;
    assert_eq!(found.iter().map(|lease| lease.name.as_str()).collect::<Vec<_>>(), [NAME]);
    found.into_iter().next().expect("there is one")
}

/// What is found to be said about the lease.
async fn findings(store: &dyn Backend) -> Vec<String> {
    let findings = within("findings", store.diagnose()).await.expect("a store that works can say how it is");
    findings.iter().map(ToString::to_string).filter(|finding| finding.contains(NAME)).collect()
}

pub(crate) async fn a_lease_is_shown_as_one_and_not_as_a_subscriber<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let bus = instance(&*harness, &store, settled()).await;
    bus.subscribe(Observer::new("projection:each").shared()).await.expect("it can be subscribed");
    let elsewhere = harness.reopen(&store, Settings::default()).await;
    // Before there is any event a subscriber is at 0 as well.
    eventually("it leads", async || overview(&elsewhere).await.subscribers.iter().any(|it| it.is_led())).await;
    let (coordinator, guard) = acquire(&store).await;
    let events = fill(&store, new_stream(), 3).await;
    bus.wait_for("projection:each", GlobalSequence(events[2])).await.expect("it gets there");

    let subscribers = overview(&elsewhere).await.subscribers;
    assert_eq!(subscribers.iter().map(|it| it.subscriber_id.as_str()).collect::<Vec<_>>(), ["projection:each"]);
    let held = lease(&elsewhere).await;
    let holder = held.holder.as_ref().expect("an instance holds it");
    assert_eq!((holder.hold, holder.instance.pid), (LeaderHold::Held, std::process::id()));
    assert_eq!((held.is_held(), held.term), (true, guard.term()));
    let why = within("an explanation", elsewhere.explain(NAME)).await.expect("the store answers");
    assert!(
        matches!(&why.causes[..], [Cause::Lease { holder: Some(holder), .. }] if holder.hold == LeaderHold::Held),
        "{why}"
    );
    assert_eq!((why.subscriber.lease, why.subscriber.state(), why.subscriber.lag_events), (true, "held", 0));
    assert_eq!(findings(&elsewhere).await, Vec::<String>::new());

    guard.release().await;
    assert!(!lease(&elsewhere).await.is_held(), "it is free again");
    let why = within("an explanation", elsewhere.explain(NAME)).await.expect("the store answers");
    assert!(matches!(&why.causes[..], [Cause::Lease { .. }]) && why.subscriber.state() == "free", "{why}");
    assert_eq!(findings(&elsewhere).await, Vec::<String>::new(), "it is not behind");
    within("closing", coordinator.close()).await;
    let moved = within("a move", elsewhere.repair().force().reset(NAME)).await.map(drop);
    let rebuilt = within("a rebuild", elsewhere.repair().force().rebuild(NAME)).await.map(drop);
    for refused in [moved, rebuilt] {
        assert!(matches!(refused, Err(Error::Bus(BusError::UnknownSubscriber(_)))), "it has no position: {refused:?}");
    }
    within("a removal", elsewhere.repair().remove(NAME)).await.expect("no instance holds it");
    assert_eq!(overview(&elsewhere).await.leases, []);
    end(bus).await;
}

pub(crate) async fn a_lease_that_stores_a_position_is_a_subscriber<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 3).await;
    let (coordinator, guard) = acquire(&store).await;
    let taken = guard.taken();
    let fence = taken.checkpoint.fence();
    assert_eq!(put(&store, to(&fence, events[0])).await, None, "it may write");
    let seen = overview(&store).await;
    assert_eq!(seen.leases, []);
    let seen: Vec<_> = seen.subscribers.iter().map(|it| (it.subscriber_id.as_str(), it.checkpoint)).collect();
    assert_eq!(seen, [(NAME, events[0])], "it has a place in the log, and can be behind");
    guard.release().await;
    within("closing", coordinator.close()).await;
}

pub(crate) async fn leases_are_no_part_of_a_copy<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    fill(&store, new_stream(), 3).await;
    let (coordinator, guard) = acquire(&store).await;
    let target = harness.fresh(Settings::default()).await;
    within("a copy", copy(&store, "the first", &target, |_| ())).await.expect("it can be copied");
    assert_eq!(stored(&target, NAME).await, None, "there it would be a subscriber that never runs");
    guard.release().await;
    within("closing", coordinator.close()).await;
}
