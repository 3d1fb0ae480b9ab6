//! Several instances, one of which processes for each subscriber.

use std::collections::BTreeSet;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use highwater::backend::{
    Checkpoints, Diagnose, Instance, LeaderHold, Leadership, LeadershipSettings, Severity, Transactional,
};
use highwater::operations::{Cause, DeadLetterQuery};
use highwater::{
    Bus, Claim, Coordinator, CoordinatorConfig, EventBus, EventStore, GlobalSequence, InstanceMode, Problem,
    ProjectorCoordinator, ReliableDeliveryConfig, Subscription, SubscriptionState,
};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::players::{Act, Counter, Gate, Observer, batched, config, end, fill, in_state};
use crate::checkpoints::{position, stored};
use crate::dead_letters::found;
use crate::support::{QUIET, eventually, new_stream, within};
use crate::{Call, Flaky, Harness, Settings, Verdict};

/// The same delivery, by one of several.
pub(super) fn coordinated() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig {
        instance_mode: InstanceMode::Coordinated,
        coordination: CoordinatorConfig { standby_interval: Duration::from_millis(10), ..CoordinatorConfig::default() },
        ..config()
    }
}

/// The same, where everything stays with who has it.
pub(super) fn settled() -> ReliableDeliveryConfig {
    let coordinated = coordinated();
    let coordination = CoordinatorConfig { spread: false, ..coordinated.coordination };
    ReliableDeliveryConfig { coordination, ..coordinated }
}

/// An instance with a handle of its own to the log.
pub(super) async fn instance<H: Harness>(
    harness: &H,
    store: &H::Store,
    config: ReliableDeliveryConfig,
) -> EventBus<H::Store> {
    EventBus::with_config(harness.reopen(store, Settings::default()).await, config)
}

/// An instance whose connection to the others is in our hands: closed behind its back, it is as good as dead to them.
async fn mortal<H: Harness>(harness: &H, store: &H::Store) -> (EventBus<H::Store>, Arc<Coordinator>) {
    let store = harness.reopen(store, Settings::default()).await;
    let coordinator = Arc::new(Coordinator::with_config(&store, &settled().coordination));
    (EventBus::with_coordinator(store, config(), coordinator.clone()), coordinator)
}

pub(super) fn leads(state: &SubscriptionState) -> bool {
    state.term().is_some()
}

fn is_paused(state: &SubscriptionState) -> bool {
    matches!(state, SubscriptionState::Paused)
}

/// What a bus leads, by name.
pub(super) fn led(bus: &Bus) -> BTreeSet<String> {
    let subscriptions = bus.subscriptions().into_iter();
    subscriptions.filter(|it| leads(&it.state())).map(|it| it.subscriber_id().to_owned()).collect()
}

/// Handles everything, but for one event in front of which it waits.
fn gated(id: &str, at: u64, gate: &Gate) -> Arc<Observer> {
    let waits = gate.clone();
    Observer::new(id)
        .delivery(batched(10))
        .plays(move |event, _| if event.global_sequence == Some(at) { Act::Wait(waits.clone()) } else { Act::Take })
        .shared()
}

/// Subscribes an observer that another instance processes for, and waits until it stands by.
pub(super) async fn stand_by<B: Transactional>(bus: &EventBus<B>, observer: &Arc<Observer>) -> Subscription {
    let subscription =
        bus.subscribe(Arc::clone(observer)).await.expect("whichever instance leads, it can be subscribed");
    in_state(&subscription, "it stands by", SubscriptionState::is_standby).await;
    subscription
}

pub(crate) async fn one_instance_processes_and_the_others_stand_by<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (first, coordinator) = mortal(&*harness, &store).await;
    let second = instance(&*harness, &store, settled()).await;
    let (one, other) = (Observer::new("projection:each").shared(), Observer::new("projection:each").shared());
    let leading = first.subscribe(Arc::clone(&one)).await.expect("it can be subscribed");
    in_state(&leading, "it leads", leads).await;
    let standing_by = stand_by(&second, &other).await;
    let names_the_leader = |state: &SubscriptionState| {
        matches!(state, SubscriptionState::Standby { leader: Some(leader) }
            if leader.instance == *coordinator.instance() && Some(leader.term) == leading.state().term()
                && leader.hold == LeaderHold::Held && leader.subscriber_id == "projection:each")
    };
    in_state(&standing_by, "it names the leader", names_the_leader).await;
    let events = [fill(&store, new_stream(), 5).await, fill(second.store(), new_stream(), 5).await].concat();
    second.wait_for("projection:each", GlobalSequence(events[9])).await.expect("it gets there");
    sleep(QUIET).await;
    assert_eq!((one.calls(), other.calls()), (events, vec![]), "one processes, and no other");
    assert!(standing_by.state().is_standby() && leads(&leading.state()));
    let term = leading.state().term();
    within("a rebuild", leading.rebuild()).await.expect("it begins anew");
    assert!(leading.state().term() > term, "with another term");
    in_state(&standing_by, "it names the term", names_the_leader).await;
    end(second).await;
    assert!(leads(&leading.state()), "the end of who stands by concerns nobody");
    end(first).await;
}

/// While an event is in hand the leader ends, in an orderly way.
async fn hands_over<H: Harness, E>(
    harness: Arc<H>,
    ends: impl FnOnce(EventBus<H::Store>, Subscription) -> JoinHandle<Result<(), E>>,
) where
    E: std::fmt::Debug,
{
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 50).await;
    let (first, second) = (instance(&*harness, &store, settled()).await, instance(&*harness, &store, settled()).await);
    let gate = Gate::shut();
    let (one, other) = (gated("projection:each", events[24], &gate), gated("projection:each", events[24], &gate));
    let leading = first.subscribe(Arc::clone(&one)).await.expect("it can be subscribed");
    one.is_called(25).await;
    let standing_by = stand_by(&second, &other).await;
    let mut ending = ends(first.clone(), leading);
    assert!(timeout(QUIET, &mut ending).await.is_err(), "an event is in hand");
    assert!(
        standing_by.state().is_standby() && other.calls().is_empty(),
        "until that is done, no other instance resumes"
    );
    gate.open();
    within("an orderly end", ending).await.expect("it comes through").expect("it stops in time");
    let more = fill(&store, new_stream(), 5).await;
    second.wait_for("projection:each", GlobalSequence(more[4])).await.expect("the other takes over");
    assert!(leads(&standing_by.state()) && other.calls().first() > one.calls().last());
    assert_eq!([one.calls(), other.calls()].concat(), [events, more].concat(), "nothing twice, nothing left out");
    end(first).await;
    end(second).await;
}

pub(crate) async fn after_a_shutdown_another_instance_takes_over<H: Harness>(harness: Arc<H>) {
    hands_over(harness, |bus, _| tokio::spawn(async move { bus.shutdown().await })).await;
}

pub(crate) async fn after_an_unsubscription_another_instance_takes_over<H: Harness>(harness: Arc<H>) {
    hands_over(harness, |_, subscription| tokio::spawn(subscription.unsubscribe())).await;
}

pub(crate) async fn different_instances_lead_different_subscribers<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (first, second) = (instance(&*harness, &store, settled()).await, instance(&*harness, &store, settled()).await);
    let names = ["projection:a", "projection:b"];
    let [one, other] = names.map(|name| Observer::new(name).shared());
    let [idle_one, idle_other] = names.map(|name| Observer::new(name).shared());
    let leading_one = first.subscribe(Arc::clone(&one)).await.expect("it can be subscribed");
    let leading_other = second.subscribe(Arc::clone(&other)).await.expect("it can be subscribed");
    in_state(&leading_one, "the first leads one", leads).await;
    in_state(&leading_other, "the second leads the other", leads).await;
    stand_by(&first, &idle_other).await;
    stand_by(&second, &idle_one).await;
    assert_eq!((led(&first), led(&second)), ([names[0].to_owned()].into(), [names[1].to_owned()].into()));
    let events = fill(&store, new_stream(), 5).await;
    for name in names {
        first.wait_for(name, GlobalSequence(events[4])).await.expect("it gets there");
    }
    assert_eq!((one.calls(), other.calls()), (events.clone(), events));
    assert_eq!((idle_one.calls(), idle_other.calls()), (vec![], vec![]));
    end(first).await;
    end(second).await;
}

pub(crate) async fn a_standby_says_how_far_the_leader_is<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 30).await;
    let (first, second) = (instance(&*harness, &store, settled()).await, instance(&*harness, &store, settled()).await);
    let gate = Gate::shut();
    let patient = ReliableDeliveryConfig { healthy_lag_max: Duration::from_millis(1), ..settled() };
    let one = gated("projection:each", events[20], &gate);
    let other = Observer::new("projection:each").delivery(patient).shared();
    first.subscribe(Arc::clone(&one)).await.expect("it can be subscribed");
    one.is_called(21).await;
    let standing_by = stand_by(&second, &other).await;
    let stored_by_the_leader = position(&store, "projection:each").await.expect("it has one");
    let progress = standing_by.progress().await.expect("it can be asked");
    assert!(progress.state.is_standby(), "{progress:?}");
    assert!(progress.checkpoint >= stored_by_the_leader && progress.checkpoint < events[20], "{progress:?}");
    assert_eq!((progress.position, progress.frontier), (progress.checkpoint, events[29]));
    let mut caught_up = {
        let standing_by = standing_by.clone();
        tokio::spawn(async move { standing_by.caught_up().await })
    };
    assert!(timeout(QUIET, &mut caught_up).await.is_err(), "the leader is not there");
    assert!(
        second.wait_for_within("projection:each", GlobalSequence(events[29]), QUIET).await.is_err(),
        "the leader is not there"
    );
    let reported = async || {
        let health = second.health().await;
        assert!(health.is_ready(), "it is the leader that has to catch up: {health:?}");
        health.problems.into_iter().find(|problem| matches!(problem, Problem::LeaderBehind { .. }))
    };
    eventually("it says that the leader is behind", async || reported().await.is_some()).await;
    gate.open();
    within("catching up", caught_up).await.expect("it comes through").expect("the leader gets there");
    assert_eq!(one.taken(), events, "by then everything is handled");
    second.wait_for("projection:each", GlobalSequence(events[29])).await.expect("it gets there");
    let progress = standing_by.progress().await.expect("it can be asked");
    assert_eq!((progress.checkpoint, progress.lag_events), (events[29], 0), "{progress:?}");
    assert_eq!(reported().await, None, "it is behind no more");
    assert_eq!(other.calls(), [0; 0]);
    end(first).await;
    end(second).await;
}

pub(crate) async fn what_is_asked_of_a_standby_is_done_by_the_leader<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (first, second) = (instance(&*harness, &store, settled()).await, instance(&*harness, &store, settled()).await);
    let bad = fill(&store, new_stream(), 1).await[0];
    let fixed = Arc::new(AtomicBool::new(false));
    let broken = Arc::clone(&fixed);
    let one = Observer::new("projection:each")
        .plays(move |event, _| match event.global_sequence {
            Some(at) if at == bad && !broken.load(Ordering::SeqCst) => Act::GiveUp("broken"),
            _ => Act::Take,
        })
        .shared();
    let other = Observer::new("projection:each").shared();
    let leading = first.subscribe(Arc::clone(&one)).await.expect("it can be subscribed");
    first.wait_for("projection:each", GlobalSequence(bad)).await.expect("it continues");
    let term = leading.state().term();
    let standing_by = stand_by(&second, &other).await;

    within("pausing", standing_by.pause()).await.expect("it can be paused");
    in_state(&leading, "the leader pauses", is_paused).await;
    let events = fill(&store, new_stream(), 3).await;
    sleep(QUIET).await;
    assert_eq!((one.calls(), other.calls()), (vec![bad], vec![]), "nothing is delivered while it is paused");
    within("resuming", standing_by.resume()).await.expect("it can be resumed");
    second.wait_for("projection:each", GlobalSequence(events[2])).await.expect("the leader continues");
    in_state(&standing_by, "it stands by again", SubscriptionState::is_standby).await;
    assert_eq!(leading.state().term(), term, "a pause changes no leader");

    fixed.store(true, Ordering::SeqCst);
    let dead_letters = found(&store, &DeadLetterQuery::of("projection:each")).await;
    let filed = second.dead_letters().by("anna").replay(dead_letters[0].id).await.expect("it can be asked for");
    assert_eq!(within("a replay", filed.done()).await.expect("the leader does it").done, 1);
    assert_eq!(one.taken(), [events, vec![bad]].concat());
    assert_eq!(other.calls(), [0; 0]);
    end(first).await;
    end(second).await;
}

pub(crate) async fn a_pause_outlasts_the_leader<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (first, second) = (instance(&*harness, &store, settled()).await, instance(&*harness, &store, settled()).await);
    let (one, other) = (Observer::new("projection:each").shared(), Observer::new("projection:each").shared());
    let leading = first.subscribe(Arc::clone(&one)).await.expect("it can be subscribed");
    let before = fill(&store, new_stream(), 3).await;
    first.wait_for("projection:each", GlobalSequence(before[2])).await.expect("it gets there");
    let standing_by = stand_by(&second, &other).await;
    within("pausing", leading.pause()).await.expect("it can be paused");
    in_state(&standing_by, "who stands by pauses as well", is_paused).await;
    let after = fill(&store, new_stream(), 3).await;
    end(first).await;
    sleep(QUIET).await;
    assert!(is_paused(&standing_by.state()) && other.calls().is_empty(), "the end of a leader ends no pause");
    within("resuming", standing_by.resume()).await.expect("it can be resumed");
    second.wait_for("projection:each", GlobalSequence(after[2])).await.expect("the other takes over");
    assert_eq!((one.calls(), other.calls()), (before, after));
    end(second).await;
}

pub(crate) async fn a_takeover_whose_answer_is_lost_is_made_again<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let mut events = fill(&store, new_stream(), 20).await;
    let rough = || {
        let calls = AtomicUsize::new(0);
        Flaky::new(store.clone(), move |call| match call {
            Call::TakeOver => {
                [Verdict::Lose, Verdict::Fail, Verdict::Through][calls.fetch_add(1, Ordering::SeqCst) % 3]
            }
            _ => Verdict::Through,
        })
    };
    let (first, second) = (EventBus::with_config(rough(), settled()), EventBus::with_config(rough(), settled()));
    let count = Counter::new("projection:count", &harness, &store).delivery(batched(5)).shared();
    first.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    first.wait_for("projection:count", GlobalSequence(events[19])).await.expect("it leads in the end");
    let next = second.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    in_state(&next, "it stands by", SubscriptionState::is_standby).await;
    events.extend(fill(&store, new_stream(), 20).await);
    end(first).await;
    in_state(&next, "the other leads in the end", leads).await;
    events.extend(fill(&store, new_stream(), 20).await);
    second.wait_for("projection:count", GlobalSequence(events[59])).await.expect("it gets there");
    count.assert_counts(&events).await;
    end(second).await;
}

pub(crate) async fn a_leader_that_is_overtaken_stands_by_and_leads_again<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let bus = instance(&*harness, &store, settled()).await;
    let each = Observer::new("projection:each").shared();
    let count = Counter::new("projection:count", &harness, &store).shared();
    let each_one = bus.subscribe(Arc::clone(&each)).await.expect("it can be subscribed");
    let count_one = bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    let mut events = fill(&store, new_stream(), 5).await;
    for _ in 0..2 {
        let mut terms = Vec::new();
        for subscription in [&each_one, &count_one] {
            let name = subscription.subscriber_id();
            bus.wait_for(name, GlobalSequence(*events.last().expect("there are some"))).await.expect("it gets there");
            let taken = within("taking over", store.take_over(&Claim::of(name))).await.expect("one can take over");
            terms.push(taken.checkpoint.term.number);
        }
        events.extend(fill(&store, new_stream(), 5).await);
        for (subscription, term) in [&each_one, &count_one].into_iter().zip(terms) {
            let leads_again = |state: &SubscriptionState| state.term().is_some_and(|own| own > term);
            in_state(subscription, "it leads again, with a higher term", leads_again).await;
            let name = subscription.subscriber_id();
            bus.wait_for(name, GlobalSequence(*events.last().expect("there are some"))).await.expect("it gets there");
            let found = stored(&store, name).await.expect("it has a checkpoint");
            assert_eq!(Some(found.term.number), subscription.state().term(), "what it shows is what is stored");
        }
    }
    let mut calls = each.calls();
    assert!(
        calls.is_sorted() && calls.len() <= events.len() + 2,
        "one event comes again at most, each time: {calls:?}"
    );
    calls.dedup();
    assert_eq!(calls, events, "nothing is left out");
    count.assert_counts(&events).await;
    end(bus).await;
}

pub(crate) async fn a_leader_that_has_lost_leadership_handles_nothing_more<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 50).await;
    let (first, coordinator) = mortal(&*harness, &store).await;
    let second = instance(&*harness, &store, settled()).await;
    let gate = Gate::shut();
    let (one, other) = (gated("projection:each", events[24], &gate), Observer::new("projection:each").shared());
    let losing = first.subscribe(Arc::clone(&one)).await.expect("it can be subscribed");
    one.is_called(25).await;
    let standing_by = stand_by(&second, &other).await;
    within("closing", coordinator.close()).await;
    // The other does not wait for the event that is in hand over there.
    second.wait_for("projection:each", GlobalSequence(events[49])).await.expect("the other takes over");
    assert!(leads(&standing_by.state()));
    let after = other.calls();
    let again = after.iter().filter(|at| one.calls().contains(at)).count();
    assert_eq!(after, events[50 - after.len()..], "everything after the checkpoint, in order");
    assert!(again <= 10, "{again} events came again, a batch has 10");
    let (handed, term) = (one.calls(), standing_by.state().term());
    assert_eq!(handed, events[..25], "nothing was left out before");
    gate.open();
    in_state(&losing, "it does not lead", |state| !leads(state)).await;
    let more = fill(&store, new_stream(), 5).await;
    second.wait_for("projection:each", GlobalSequence(more[4])).await.expect("it gets there");
    sleep(QUIET).await;
    assert_eq!(one.calls(), handed, "who has lost leadership puts down what is in hand, and takes up nothing");
    assert_eq!(standing_by.state().term(), term, "nobody disturbs who leads");
    end(first).await;
    end(second).await;
}

pub(crate) async fn however_often_leaders_die_everything_counts_once<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let count = Counter::new("projection:count", &harness, &store).delivery(batched(7)).shared();
    let each = Observer::new("projection:each").delivery(batched(7)).shared();
    let mut living = Vec::new();
    for _ in 0..4 {
        let (bus, coordinator) = mortal(&*harness, &store).await;
        bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
        bus.subscribe(Arc::clone(&each)).await.expect("it can be subscribed");
        living.push((bus, coordinator));
    }
    let (mut events, mut dead) = (fill(&store, new_stream(), 30).await, Vec::new());
    while living.len() > 1 {
        // In the middle of something.
        let before = events.len() - 20;
        count.has_taken(before).await;
        each.has_taken(before).await;
        eventually("an instance leads", || ready(living.iter().any(|(bus, _)| !led(bus).is_empty()))).await;
        let leads_something = living.iter().position(|(bus, _)| !led(bus).is_empty());
        let (bus, coordinator) = living.swap_remove(leads_something.unwrap_or(0));
        within("closing", coordinator.close()).await;
        eventually("it leads no more", || ready(led(&bus).is_empty())).await;
        dead.push(bus);
        events.extend(fill(&store, new_stream(), 30).await);
    }
    let (last, _) = living.remove(0);
    for name in [count.id(), each.id()] {
        last.wait_for(name, GlobalSequence(events[119])).await.expect("the last one gets there");
    }
    eventually("the last one leads everything", || ready(led(&last).len() == 2)).await;
    count.assert_counts(&events).await;
    let calls: BTreeSet<u64> = each.calls().into_iter().collect();
    assert_eq!(calls.into_iter().collect::<Vec<_>>(), events, "nothing is left out");
    let again = each.calls().len() - events.len();
    assert!(again <= 3 * 7, "{again} events came again, a batch each time at most");
    for bus in dead.into_iter().chain([last]) {
        end(bus).await;
    }
}

pub(crate) async fn a_subscriber_that_nobody_leads_is_a_problem_that_names_who_has_its_lock<H: Harness>(
    harness: Arc<H>,
) {
    const ID: &str = "projection:denied";
    let store = harness.fresh(Settings::default()).await;
    let bound = Duration::from_millis(300);
    let coordination = CoordinatorConfig { takeover_bound: bound, ..settled().coordination };
    let bus = instance(&*harness, &store, ReliableDeliveryConfig { coordination, ..settled() }).await;
    let observer = Observer::new(ID).shared();
    let subscription = bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    in_state(&subscription, "it leads", leads).await;
    within("unsubscribing", subscription.unsubscribe()).await.expect("it stops");
    // An instance has the lock and does nothing with it; for as long as one that hangs may.
    let stranger = store.candidate(&Instance::here(None), &LeadershipSettings::from(&settled().coordination));
    let held = within("the lock", stranger.hold(ID)).await.expect("it is free");
    let denied = bus.subscribe(observer).await.expect("it can be subscribed");
    in_state(&denied, "it stands by", SubscriptionState::is_standby).await;
    let problem = async || {
        let problems = bus.health().await.problems.into_iter();
        problems.into_iter().find(|problem| matches!(problem, Problem::NotLed { .. }))
    };
    eventually("it is a problem", async || problem().await.is_some()).await;
    let Some(Problem::NotLed { subscriber_id, waiting, holders }) = problem().await else {
        panic!("it is one for as long as it lasts")
    };
    assert!(subscriber_id == ID && waiting > bound, "{subscriber_id} {waiting:?}");
    assert!(matches!(&holders[..], [one] if one.pid.is_some() && one.subscriber_id == ID), "{holders:?}");
    let explained = within("an explanation", store.explain(ID)).await.expect("it can be explained");
    assert!(matches!(explained.causes[0], Cause::LockHeld { .. }), "{explained}");
    let named = holders[0].to_string();
    assert!(explained.to_string().contains(&named), "{explained}");
    let denials = async || {
        let findings = within("a diagnosis", store.diagnose()).await.expect("it can be diagnosed");
        findings.into_iter().filter(|finding| finding.found.contains("cannot be led")).collect::<Vec<_>>()
    };
    let found = denials().await;
    assert!(matches!(&found[..], [one] if one.severity == Severity::Bad && one.found.contains(&named)), "{found:?}");
    // It goes, and all is well.
    within("the release", held.release(None)).await;
    in_state(&denied, "it leads", leads).await;
    assert!(problem().await.is_none() && denials().await.is_empty());
    within("closing", stranger.close()).await;
    end(bus).await;
}
