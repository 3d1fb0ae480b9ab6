//! Subscribers seen from another process: from what is stored, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use highwater::backend::{Backend, LeaderHold, Log, Report, explain_with_patience};
use highwater::operations::{Cause, SubscriberOverview};
use highwater::{
    BusError, Error, EventBus, EventStore, FailurePolicy, GlobalSequence, ReliableDeliveryConfig, SubscriptionState,
};
use tokio::time::sleep;

use super::instances::{instance, settled};
use super::players::{Act, Gate, Observer, bus, config, end, fill, in_state};
use crate::checkpoints::{position, stored};
use crate::support::{QUIET, deposits, eventually, new_stream, within};
use crate::{Call, Flaky, Harness, Settings, Verdict};

/// What is reported of a subscriber.
async fn report(store: &dyn Backend, subscriber_id: &str) -> Option<Report> {
    let reports = within("reading reports", store.reports()).await.expect("reports can be read");
    reports.into_iter().find(|report| report.subscriber_id == subscriber_id)
}

/// Waits until something is reported.
async fn reported(store: &dyn Backend, subscriber_id: &str, what: &str, wanted: impl Fn(&Report) -> bool) -> Report {
    eventually(what, async || report(store, subscriber_id).await.is_some_and(|report| wanted(&report))).await;
    report(store, subscriber_id).await.expect("it was there")
}

/// One subscriber as it is seen.
async fn seen(store: &dyn Backend, subscriber_id: &str) -> SubscriberOverview {
    let overview = within("an overview", store.overview()).await.expect("the store answers");
    let names: Vec<&str> = overview.subscribers.iter().map(|it| it.subscriber_id.as_str()).collect();
    assert!(names.is_sorted(), "by name: {names:?}");
    let found = overview.subscribers.iter().find(|it| it.subscriber_id == subscriber_id);
    found.unwrap_or_else(|| panic!("{subscriber_id} is not among {names:?}")).clone()
}

/// Waits until a subscriber is seen in a state.
async fn is(store: &dyn Backend, subscriber_id: &str, state: &str) -> SubscriberOverview {
    let what = format!("{subscriber_id} is {state}");
    eventually(&what, async || seen(store, subscriber_id).await.state() == state).await;
    seen(store, subscriber_id).await
}

async fn causes(store: &dyn Backend, subscriber_id: &str) -> Vec<Cause> {
    let explained = within("an explanation", store.explain(subscriber_id)).await.expect("the store answers");
    assert!(!explained.causes.is_empty(), "there is always a reason");
    explained.causes
}

/// Fails at one event until it is fixed, and halts in front of it in the end.
fn faltering(id: &str, at: u64, fixed: &Arc<AtomicBool>, delay: Duration) -> Arc<Observer> {
    let fixed = Arc::clone(fixed);
    let (initial_retry_delay, max_retry_delay) = (delay, delay);
    Observer::new(id)
        .on_failure(FailurePolicy::Halt)
        .delivery(ReliableDeliveryConfig { max_retries: 1, initial_retry_delay, max_retry_delay, ..config() })
        .plays(move |event, _| match event.global_sequence {
            Some(here) if here == at && !fixed.load(Ordering::SeqCst) => Act::fail("no room"),
            _ => Act::Take,
        })
        .shared()
}

pub(crate) async fn a_leader_says_how_it_is<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let elsewhere = harness.reopen(&store, Settings::default()).await;
    let bus = bus(&store);
    let events = fill(&store, new_stream(), 3).await;
    let fixed = Arc::new(AtomicBool::new(false));
    let observer = faltering("projection:each", events[1], &fixed, Duration::from_secs(2));
    let subscription = bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    let is_retrying = |report: &Report| matches!(report.state, SubscriptionState::Retrying { global_sequence, failures: 1, .. } if global_sequence == events[1]);
    let found = reported(&elsewhere, "projection:each", "it is said that it retries", is_retrying).await;
    assert_eq!((found.last_error.as_deref(), found.position), (Some("no room"), events[0]));
    assert_eq!(Some(found.term), stored(&store, "projection:each").await.map(|it| it.term.number));
    let is_halted =
        |report: &Report| matches!(&report.state, SubscriptionState::Halted { reason } if reason.contains("no room"));
    reported(&elsewhere, "projection:each", "it is said that it is halted", is_halted).await;
    fixed.store(true, Ordering::SeqCst);
    within("resuming", subscription.resume()).await.expect("it can be resumed");
    let is_live = |report: &Report| report.state.is_live() && report.position == events[2];
    reported(&elsewhere, "projection:each", "it is said that it is live", is_live).await;
    within("pausing", subscription.pause()).await.expect("it can be paused");
    let is_paused = |report: &Report| report.state == SubscriptionState::Paused;
    reported(&elsewhere, "projection:each", "it is said that it is paused", is_paused).await;
    within("resuming", subscription.resume()).await.expect("it can be resumed");
    in_state(&subscription, "it continues", SubscriptionState::is_live).await;
    within("unsubscribing", subscription.unsubscribe()).await.expect("it stops in time");
    let last = report(&elsewhere, "projection:each").await.expect("it said something");
    assert_eq!((last.state, last.position), (SubscriptionState::Stopped, events[2]), "these are its last words");

    let again = bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    let continues = |report: &Report| report.state.is_live() && report.term > last.term;
    reported(&elsewhere, "projection:each", "it is said that it continues", continues).await;
    assert!(again.state().is_live());
    end(bus).await;
    let last = report(&elsewhere, "projection:each").await.expect("it said something");
    assert_eq!(last.state, SubscriptionState::Stopped, "and so after a shutdown");
}

pub(crate) async fn who_stands_by_says_nothing<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 3).await;
    let (first, second) = (instance(&*harness, &store, settled()).await, instance(&*harness, &store, settled()).await);
    first.subscribe(Observer::new("projection:each").shared()).await.expect("it can be subscribed");
    let is_live = |report: &Report| report.state.is_live();
    let leads = reported(&store, "projection:each", "the leader says how it is", is_live).await;
    let standing_by = second.subscribe(Observer::new("projection:each").shared()).await.expect("it can be subscribed");
    in_state(&standing_by, "it stands by", SubscriptionState::is_standby).await;
    sleep(4 * QUIET).await;
    let found = report(&store, "projection:each").await.expect("the leader has said something");
    assert_eq!(found.state, SubscriptionState::Live { term: leads.term });
    end(first).await;
    let next = |report: &Report| report.state.is_live() && report.term > leads.term;
    let found = reported(&store, "projection:each", "the next leader says how it is", next).await;
    assert_eq!(found.position, events[2]);
    end(second).await;
}

pub(crate) async fn who_has_nothing_to_do_says_nothing<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let said = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&said);
    let flaky = Flaky::new(store.clone(), move |call| {
        if let Call::Report(_) = call {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        Verdict::Through
    });
    let bus = EventBus::with_config(flaky, config());
    let ids = ["projection:one", "projection:two"];
    for id in ids {
        bus.subscribe(Observer::new(id).shared()).await.expect("it can be subscribed");
    }
    for id in ids {
        let is_live = |report: &Report| report.state.is_live();
        reported(&store, id, "it is said that it is live", is_live).await;
    }
    let before = said.load(Ordering::SeqCst);
    sleep(10 * QUIET).await;
    assert_eq!(said.load(Ordering::SeqCst), before, "nothing has changed, so nothing is said");
    end(bus).await;
    assert_eq!(said.load(Ordering::SeqCst), before + 1, "what two have to say at once is said together");
}

pub(crate) async fn what_cannot_be_said_hinders_nobody<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let heard = Arc::new(AtomicBool::new(false));
    let hears = Arc::clone(&heard);
    let flaky = Flaky::new(store.clone(), move |call| match call {
        Call::Report(_) if !hears.load(Ordering::SeqCst) => Verdict::Fail,
        _ => Verdict::Through,
    });
    let bus = EventBus::with_config(flaky, config());
    let observer = Observer::new("projection:each").shared();
    let subscription = bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    let events = fill(&store, new_stream(), 5).await;
    bus.wait_for("projection:each", GlobalSequence(events[4])).await.expect("it gets there");
    sleep(4 * QUIET).await;
    assert_eq!(report(&store, "projection:each").await, None);
    assert!(subscription.state().is_live() && bus.health().await.is_ready(), "nothing is wrong with it");
    heard.store(true, Ordering::SeqCst);
    let found = reported(&store, "projection:each", "it is retried", |_| true).await;
    assert_eq!((found.state.is_live(), found.position), (true, events[4]));
    heard.store(false, Ordering::SeqCst);
    end(bus).await;
    assert_eq!(observer.taken(), events);
}

pub(crate) async fn an_overview_shows_every_subscriber<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let empty = within("an overview", store.overview()).await.expect("the store answers");
    assert_eq!((empty.frontier, empty.head, empty.subscribers.len()), (0, 0, 0));
    let events = fill(&store, new_stream(), 6).await;
    let elsewhere = harness.reopen(&store, Settings::default()).await;
    let bus = instance(&*harness, &store, settled()).await;
    let (gate, at) = (Gate::shut(), events[2]);
    let waits = gate.clone();
    let slow = Observer::new("projection:slow")
        .plays(move |event, _| if event.global_sequence == Some(at) { Act::Wait(waits.clone()) } else { Act::Take })
        .shared();
    let bad = Observer::new("projection:bad")
        .on_failure(FailurePolicy::ParkStream)
        .plays(move |event, _| if event.global_sequence == Some(at) { Act::GiveUp("no room") } else { Act::Take })
        .shared();
    let subscription = bus.subscribe(Arc::clone(&slow)).await.expect("it can be subscribed");
    bus.subscribe(bad).await.expect("it can be subscribed");
    bus.wait_for("projection:bad", GlobalSequence(events[5])).await.expect("it continues");
    slow.is_called(3).await;
    eventually("the slow one's checkpoint is stored", async || {
        position(&store, "projection:slow").await == Some(events[1])
    })
    .await;

    let overview = within("an overview", elsewhere.overview()).await.expect("the store answers");
    assert_eq!((overview.frontier, overview.head), (events[5], events[5]));
    assert_eq!(overview.open_writers, [], "nobody is waited for");
    let failed = |report: &Report| report.last_error.is_some();
    reported(&elsewhere, "projection:bad", "its error is told", failed).await;
    let bad = is(&elsewhere, "projection:bad", "live").await;
    assert_eq!((bad.checkpoint, bad.lag_events, bad.lag), (events[5], 0, Duration::ZERO));
    assert_eq!((bad.dead_letters, bad.parked_streams, bad.time_left), (4, 1, Some(Duration::ZERO)));
    assert_eq!(bad.last_error.as_deref(), Some("no room"));
    let behind = is(&elsewhere, "projection:slow", "catching up").await;
    assert_eq!((behind.checkpoint, behind.lag_events), (events[1], events[5] - events[1]));
    assert_eq!((behind.dead_letters, behind.parked_streams, behind.paused), (0, 0, false));
    assert!(behind.lag > Duration::ZERO && behind.lag < Duration::from_secs(300), "{:?}", behind.lag);
    let leader = behind.leader.as_ref().expect("an instance leads");
    assert_eq!((leader.hold, leader.instance.pid, leader.term), (LeaderHold::Held, std::process::id(), behind.term));
    assert_eq!(stored(&store, "projection:slow").await.map(|it| it.updated_at), Some(behind.checkpoint_at));

    bus.pause("projection:bad").await.expect("it can be paused");
    assert!(is(&elsewhere, "projection:bad", "paused").await.paused);
    gate.open();
    within("catching up", subscription.caught_up()).await.expect("it gets there");
    end(bus).await;
    let stopped = seen(&elsewhere, "projection:slow").await;
    assert_eq!((stopped.state(), stopped.is_led(), stopped.rate), ("stopped", false, 0.0));
    assert_eq!(stopped.leader.map(|leader| leader.hold), Some(LeaderHold::Gone));
}

pub(crate) async fn it_is_explained_why_a_subscriber_is_where_it_is<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let unknown = within("an explanation", store.explain("projection:unknown")).await;
    assert!(matches!(unknown, Err(Error::Bus(BusError::UnknownSubscriber(_)))), "{unknown:?}");
    let events = fill(&store, new_stream(), 4).await;
    let elsewhere = harness.reopen(&store, Settings::default()).await;
    let fixed = Arc::new(AtomicBool::new(false));
    let observer = faltering("projection:each", events[1], &fixed, Duration::from_secs(2));
    let single = bus(&store);
    let subscription = single.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    observer.is_called(2).await;
    eventually("it is said that it retries", async || {
        let first = causes(&elsewhere, "projection:each").await.swap_remove(0);
        matches!(&first, Cause::Retrying { global_sequence, failures: 1, error, .. }
            if *global_sequence == events[1] && error.as_deref() == Some("no room"))
    })
    .await;
    eventually("it is said that it is halted", async || {
        matches!(&causes(&elsewhere, "projection:each").await[0], Cause::Halted { reason } if reason.contains("no room"))
    })
    .await;
    fixed.store(true, Ordering::SeqCst);
    within("resuming", subscription.resume()).await.expect("it can be resumed");
    single.wait_for("projection:each", GlobalSequence(events[3])).await.expect("it gets there");
    eventually("it is said that it is there", async || {
        let causes = causes(&elsewhere, "projection:each").await;
        let there = matches!(causes[0], Cause::CaughtUp { checkpoint, .. } if checkpoint == events[3]);
        there && matches!(&causes[..], [_, Cause::Uncoordinated { .. }])
    })
    .await;
    within("pausing", subscription.pause()).await.expect("it can be paused");
    assert_eq!(causes(&elsewhere, "projection:each").await[0], Cause::Paused);
    within("resuming", subscription.resume()).await.expect("it can be resumed");
    end(single).await;
    let more = fill(&store, new_stream(), 2).await;
    assert!(matches!(&causes(&elsewhere, "projection:each").await[..], [Cause::Stopped { .. }]));

    // An instance takes over and is never heard of again.
    let leading = instance(&*harness, &store, settled()).await;
    let gate = Gate::shut();
    let waits = gate.clone();
    let stuck = Observer::new("projection:each").plays(move |_, _| Act::Wait(waits.clone())).shared();
    let subscription = leading.subscribe(Arc::clone(&stuck)).await.expect("it can be subscribed");
    stuck.is_called(1).await;
    let has_moved = causes(&elsewhere, "projection:each").await;
    assert!(matches!(has_moved[..], [Cause::CatchingUp { lag_events: 1.., .. }]), "{has_moved:?}");
    eventually("it is said that it does not move", async || {
        let patience = Duration::from_millis(1);
        let explained =
            explain_with_patience(&elsewhere, "projection:each", patience).await.expect("the store answers");
        matches!(&explained.causes[0], Cause::NotMoving { leader: Some(leader), .. } if leader.hold == LeaderHold::Held)
    })
    .await;
    gate.open();
    leading.wait_for("projection:each", GlobalSequence(more[1])).await.expect("it continues");
    within("catching up", subscription.caught_up()).await.expect("it gets there");
    end(leading).await;
}

pub(crate) async fn the_writer_that_is_waited_for_is_named_from_outside<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let first = fill(&store, new_stream(), 2).await;
    let bus = bus(&store);
    bus.subscribe(Observer::new("projection:each").shared()).await.expect("it can be subscribed");
    bus.wait_for("projection:each", GlobalSequence(first[1])).await.expect("it gets there");
    let open = harness.begin(&store, deposits(new_stream(), 1)).await.expect("it can be begun");
    let later = fill(&store, new_stream(), 1).await;
    let overview = within("an overview", store.overview()).await.expect("the store answers");
    assert_eq!(overview.head, later[0]);
    if overview.frontier < overview.head {
        // Where writers are waited for, it is said for whom.
        let writers = within("open writers", store.open_writers()).await.expect("the store answers");
        assert_eq!(overview.open_writers.len(), writers.len());
        assert!(!writers.is_empty(), "a writer is waited for");
        let causes = causes(&store, "projection:each").await;
        assert!(
            matches!(&causes[0], Cause::WaitingForWriters { head, writers, .. } if *head == later[0] && writers.len() == 1),
            "{causes:?}"
        );
    }
    let last = open.commit().await.expect("it is committed").global_sequence.max(later[0]);
    bus.wait_for("projection:each", GlobalSequence(last)).await.expect("it continues");
    eventually("nobody is waited for", async || {
        matches!(causes(&store, "projection:each").await[0], Cause::CaughtUp { checkpoint, .. } if checkpoint >= last)
    })
    .await;
    end(bus).await;
}
