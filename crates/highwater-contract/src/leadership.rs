//! The contract of leadership: who of several instances leads, and what becomes of that when they go.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use highwater::backend::{
    Backend, Checkpoints, Instance, Leader, LeaderHold, Leadership, LeadershipSettings, LockHolder, Refused, lock,
};
use highwater::{
    Claim, Coordinator, CoordinatorConfig, Error, Invalid, LeadershipGuard, LocalCoordinator, ProjectorCoordinator,
};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};

use crate::checkpoints::{position, put, to};
use crate::support::{QUIET, eventually, soak, within};
use crate::{Harness, Settings};

/// Where most of this is about.
const NAME: &str = "report:nightly";

/// Leadership without long waits.
fn config() -> CoordinatorConfig {
    CoordinatorConfig { standby_interval: Duration::from_millis(10), ..CoordinatorConfig::default() }
}

fn coordinator(store: &dyn Backend) -> Arc<Coordinator> {
    Arc::new(Coordinator::with_config(store, &config()))
}

/// Several instances, each with a handle of its own to the same log.
async fn instances<H: Harness, const N: usize>(harness: &H, store: &H::Store) -> [Arc<Coordinator>; N] {
    let mut instances = Vec::new();
    for _ in 0..N {
        instances.push(coordinator(&harness.reopen(store, Settings::default()).await));
    }
    instances.try_into().unwrap_or_else(|_| panic!("as many as were made"))
}

/// Leads, as soon as nobody else does.
async fn lead(coordinator: &Coordinator, name: &str) -> LeadershipGuard {
    let claim = Claim::of(name);
    within(&format!("leading {name:?}"), coordinator.acquire(&claim)).await.expect("one can lead")
}

/// Leads, unless another instance does.
async fn attempt(coordinator: &Coordinator, name: &str) -> Option<LeadershipGuard> {
    let claim = Claim::of(name);
    within(&format!("trying for {name:?}"), coordinator.try_acquire(&claim)).await.expect("one can try")
}

/// Checks that this one cannot lead.
async fn assert_led(coordinator: &Coordinator, name: &str) {
    assert!(attempt(coordinator, name).await.is_none(), "another instance leads {name:?}");
}

/// Waits for leadership beside what else happens.
fn waiting(coordinator: &Arc<Coordinator>, name: &str) -> tokio::task::JoinHandle<LeadershipGuard> {
    let (coordinator, name) = (Arc::clone(coordinator), name.to_owned());
    tokio::spawn(async move { lead(&coordinator, &name).await })
}

/// What is told of a subscriber's leader.
async fn leader(store: &dyn Backend, name: &str) -> Option<Leader> {
    let leaders = within("the leaders", store.leaders()).await.expect("it can be asked who leads");
    assert!(
        leaders.is_sorted_by(|a, b| a.subscriber_id < b.subscriber_id),
        "one line each, by subscriber: {leaders:?}"
    );
    leaders.into_iter().find(|leader| leader.subscriber_id == name)
}

async fn close(coordinators: impl IntoIterator<Item = Arc<Coordinator>>) {
    for coordinator in coordinators {
        within("closing", coordinator.close()).await;
    }
}

pub(crate) async fn of_fifty_who_wait_one_leads_at_a_time<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let instances: [_; 4] = instances(&*harness, &store).await;
    let (leading, terms) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let mut racers = JoinSet::new();
    for racer in 0..50 {
        let instance = Arc::clone(&instances[racer % instances.len()]);
        let (leading, terms) = (Arc::clone(&leading), Arc::clone(&terms));
        racers.spawn(async move {
            let guard = lead(&instance, NAME).await;
            assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "another instance leads at the same time");
            assert!(guard.is_held(), "who leads holds it");
            lock(&terms).push(guard.term());
            yield_now().await;
            leading.fetch_sub(1, Ordering::SeqCst);
            // Either way will do.
            if racer % 2 == 0 { drop(guard) } else { guard.release().await }
        });
    }
    while let Some(ended) = within("a racer", racers.join_next()).await {
        ended.expect("every racer gets its turn");
    }
    let terms = std::mem::take(&mut *lock(&terms));
    assert_eq!(terms.len(), 50);
    assert!(terms.is_sorted_by(|before, after| before < after), "each term is higher than the one before: {terms:?}");
    close(instances).await;
}

pub(crate) async fn of_fifty_who_try_at_once_one_leads<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let instances: [_; 4] = instances(&*harness, &store).await;
    for _ in 0..soak(3) {
        let mut racers = JoinSet::new();
        for racer in 0..50 {
            let instance = Arc::clone(&instances[racer % instances.len()]);
            racers.spawn(async move { attempt(&instance, NAME).await });
        }
        let mut guards = Vec::new();
        while let Some(ended) = within("a racer", racers.join_next()).await {
            guards.extend(ended.expect("every racer gets an answer"));
        }
        assert_eq!(guards.len(), 1, "one leads, and nobody else: {guards:?}");
        for guard in guards {
            guard.release().await;
        }
    }
    close(instances).await;
}

pub(crate) async fn names_are_led_independently<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let [one, other] = instances(&*harness, &store).await;
    let names = ["report:a", "report:A", "report:a ", "report:ab", "rapport:ä", "saga:a"];
    let mut guards = Vec::new();
    for (turn, name) in names.into_iter().enumerate() {
        let instance = if turn % 2 == 0 { &one } else { &other };
        let guard = attempt(instance, name).await;
        guards.push(guard.unwrap_or_else(|| panic!("nobody leads {name:?}")));
    }
    for name in names {
        assert_led(&one, name).await;
        assert_led(&other, name).await;
    }
    guards.pop().expect("there are six").release().await;
    assert!(guards.iter().all(LeadershipGuard::is_held), "the end of one is not the end of another: {guards:?}");
    assert_led(&other, names[0]).await;
    assert!(attempt(&one, names[5]).await.is_some(), "that one is free");
    close([one, other]).await;
}

pub(crate) async fn who_leads_cannot_lead_twice<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let [one, other] = instances(&*harness, &store).await;
    let guard = lead(&one, NAME).await;
    assert_led(&one, NAME).await;
    let claim = Claim::of(NAME);
    assert!(timeout(QUIET, one.acquire(&claim)).await.is_err(), "who asks again waits like all others");
    assert!(guard.is_held(), "asking again changes nothing");
    assert_led(&other, NAME).await;
    let again = waiting(&one, NAME);
    guard.release().await;
    let again = within("the second claim", again).await.expect("it comes through");
    assert!(again.is_held());
    assert_led(&one, NAME).await;
    assert_led(&other, NAME).await;
    close([one, other]).await;
}

pub(crate) async fn who_waits_leads_as_soon_as_it_is_free<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let [one, other] = instances(&*harness, &store).await;
    for _ in 0..3 {
        let guard = lead(&one, NAME).await;
        let mut next = waiting(&other, NAME);
        assert!(timeout(QUIET, &mut next).await.is_err(), "an instance leads");
        assert!(guard.is_held(), "who waits takes nothing away");
        let term = guard.term();
        guard.release().await;
        let next = within("who waits", next).await.expect("it comes through");
        assert!(next.is_held() && next.term() > term);
        next.release().await;
    }
    close([one, other]).await;
}

pub(crate) async fn an_instance_that_goes_lets_others_lead<H: Harness>(harness: Arc<H>) {
    async fn turns_back(coordinator: &Coordinator) -> Result<(), Error> {
        let _guard = lead(coordinator, NAME).await;
        coordinator.acquire(&Claim::of("")).await?;
        panic!("a name is a name");
    }

    let store = harness.fresh(Settings::default()).await;
    let [one, other] = instances(&*harness, &store).await;
    for _ in 0..3 {
        drop(lead(&one, NAME).await);
        drop(lead(&other, NAME).await);
    }
    let panicking = Arc::clone(&one);
    let panicked = tokio::spawn(async move {
        let _guard = lead(&panicking, NAME).await;
        panic!("on purpose");
    });
    assert!(within("a panic", panicked).await.is_err_and(|error| error.is_panic()));
    drop(lead(&other, NAME).await);
    assert!(turns_back(&one).await.is_err());
    drop(lead(&other, NAME).await);
    let aborted = waiting(&one, NAME);
    aborted.abort();
    let _cancelled = aborted.await;
    drop(lead(&other, NAME).await);
    close([one, other]).await;
}

pub(crate) async fn a_release_is_done_when_it_returns<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let [one, other] = instances(&*harness, &store).await;
    for turn in 0..6 {
        let (from, to) = if turn % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let guard = lead(from, NAME).await;
        assert_led(to, NAME).await;
        within("a release", guard.release()).await;
        let next = attempt(to, NAME).await;
        within("a release", next.expect("it was given back").release()).await;
    }
    close([one, other]).await;
}

pub(crate) async fn closing_releases_everything<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let [one, other, third] = instances(&*harness, &store).await;
    let names = ["report:a", "report:b", "report:c"];
    let mut guards = Vec::new();
    for name in names {
        guards.push(lead(&one, name).await);
    }
    for guard in &guards {
        assert!(guard.is_held());
        assert!(timeout(QUIET, guard.lost()).await.is_err(), "nothing is lost");
    }
    let next = waiting(&other, names[0]);
    within("closing", one.close()).await;
    for guard in &guards {
        assert!(!guard.is_held(), "it was given back: {guard:?}");
        within("the news", guard.lost()).await;
    }
    let mut new = vec![within("who waited", next).await.expect("it comes through")];
    for name in &names[1..] {
        new.push(lead(&other, name).await);
    }
    // What is left of the old ones takes nothing away from the new ones.
    drop(guards);
    assert!(new.iter().all(LeadershipGuard::is_held), "{new:?}");
    for name in names {
        assert_led(&third, name).await;
    }
    drop(new);
    let late = within("trying", one.try_acquire(&Claim::of(NAME))).await;
    assert!(late.is_err(), "who is closed leads nothing: {late:?}");
    within("closing again", one.close()).await;
    close([other, third]).await;
}

/// Polls something so many times and then gives it up: in a row, or a moment apart.
async fn given_up<T>(polls: usize, moment: Duration, future: impl Future<Output = T>) {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if polled.is_ready() {
            return;
        }
        if moment.is_zero() { yield_now().await } else { sleep(moment).await }
    }
}

pub(crate) async fn a_claim_that_is_given_up_leaves_nothing<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let [one, other] = instances(&*harness, &store).await;
    let claim = Claim::of(NAME);
    for turn in 0..24 {
        let (polls, moment) = (turn / 2, Duration::from_millis(turn as u64 % 2));
        // Nobody leads.
        given_up(polls, moment, one.try_acquire(&claim)).await;
        given_up(polls, moment, one.acquire(&claim)).await;
        // Another instance leads, and goes before it is given up.
        let guard = lead(&other, NAME).await;
        tokio::join!(given_up(polls, moment, one.acquire(&claim)), async {
            yield_now().await;
            guard.release().await;
        });
        lead(&other, NAME).await.release().await;
        // Another instance leads, and stays.
        let guard = lead(&other, NAME).await;
        given_up(polls, moment, one.acquire(&claim)).await;
        assert!(guard.is_held(), "who gives up takes nothing along");
        guard.release().await;
        lead(&one, NAME).await.release().await;
    }
    close([one, other]).await;
}

pub(crate) async fn a_new_leader_resumes_from_what_is_stored<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let instances: [_; 3] = instances(&*harness, &store).await;
    let mut guard = lead(&instances[0], NAME).await;
    assert!(guard.taken().fresh, "nobody led before");
    for turn in 1..=6 {
        let taken = guard.taken().clone();
        assert_eq!(guard.term(), taken.checkpoint.term.number);
        // It waits already when the checkpoint is stored: what it has seen until then is out of date.
        let mut next = waiting(&instances[turn % instances.len()], NAME);
        assert!(timeout(QUIET / 5, &mut next).await.is_err(), "an instance leads");
        let fence = taken.checkpoint.fence();
        assert_eq!(put(&store, to(&fence, turn as u64 * 10)).await, None, "who leads may write");
        guard.release().await;
        let next = within("the next", next).await.expect("it comes through");
        assert_eq!(next.taken().checkpoint.global_sequence, turn as u64 * 10, "where the one before has got to");
        assert!(
            !next.taken().fresh && next.term() > taken.checkpoint.term.number,
            "{:?} after {taken:?}",
            next.taken()
        );
        let superseded = Some(Refused::Superseded { term: next.term() });
        assert_eq!(put(&store, to(&fence, turn as u64 * 10 + 5)).await, superseded, "who led writes nothing");
        assert_eq!(position(&store, NAME).await, Some(turn as u64 * 10));
        guard = next;
    }
    let elsewhere = lead(&instances[0], "report:weekly").await;
    assert!(elsewhere.term() > guard.term(), "whichever subscriber they are for");
    close(instances).await;
}

pub(crate) async fn it_is_told_who_leads<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    assert_eq!(leader(&store, NAME).await, None);
    let labelled = CoordinatorConfig { instance_label: Some("eu".to_owned()), ..config() };
    let one = Arc::new(Coordinator::with_config(&store, &labelled));
    let other = coordinator(&harness.reopen(&store, Settings::default()).await);
    assert_ne!(one.instance().id, other.instance().id, "each is another");
    let (first, second) = (lead(&one, NAME).await, lead(&other, "report:weekly").await);
    for store in [&store, &harness.reopen(&store, Settings::default()).await] {
        let told = leader(store, NAME).await.expect("an instance leads");
        assert_eq!((&told.instance, told.term), (one.instance(), first.term()));
        assert_eq!((told.instance.label.as_deref(), told.instance.pid), (Some("eu"), std::process::id()));
        assert!(!told.instance.host.is_empty(), "it runs somewhere");
        assert_eq!(told.hold, LeaderHold::Held);
        assert!((Utc::now() - told.since).abs() < TimeDelta::minutes(1), "since a moment ago: {}", told.since);
        let told = leader(store, "report:weekly").await.expect("an instance leads");
        assert_eq!((&told.instance, told.term, told.hold), (other.instance(), second.term(), LeaderHold::Held));
    }
    let term = first.term();
    first.release().await;
    let gone = async || leader(&store, NAME).await.is_some_and(|told| told.hold == LeaderHold::Gone);
    eventually("it is told that nobody leads", gone).await;
    let told = leader(&store, NAME).await.expect("an instance led");
    assert_eq!((&told.instance, told.term), (one.instance(), term), "who led last");
    let next = lead(&other, NAME).await;
    let told = leader(&store, NAME).await.expect("an instance leads");
    assert_eq!((&told.instance, told.term, told.hold), (other.instance(), next.term(), LeaderHold::Held));
    close([one, other]).await;
    eventually("it is told that nobody leads", gone).await;
}

pub(crate) async fn who_has_the_lock_and_no_term_does_not_lead_yet<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let one = coordinator(&store);
    drop(lead(&one, NAME).await);
    let settings = LeadershipSettings::from(&config());
    let other = harness.reopen(&store, Settings::default()).await.candidate(&Instance::here(None), &settings);
    let held = within("the lock", other.hold(NAME)).await.expect("it is free");
    let told = leader(&store, NAME).await.expect("an instance led");
    assert_eq!((&told.instance, told.hold), (one.instance(), LeaderHold::Gone), "another has the lock");
    within("giving it back", held.release(None)).await;
    within("closing", other.close()).await;
    close([one]).await;
}

pub(crate) async fn who_waits_is_told_who_leads<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let [one, other, third] = instances(&*harness, &store).await;
    let (first, waits) = (lead(&one, NAME).await, waiting(&third, NAME));
    let names = |leads: &LeadershipGuard, who: &Coordinator| {
        let wanted = (who.instance().clone(), leads.term(), LeaderHold::Held);
        let third = Arc::clone(&third);
        move || {
            let told = third.leader(NAME).map(|told| (told.instance, told.term, told.hold));
            std::future::ready(told.as_ref() == Some(&wanted))
        }
    };
    eventually("it is told who leads", names(&first, &one)).await;
    waits.abort();
    let _cancelled = waits.await;
    first.release().await;
    let next = lead(&other, NAME).await;
    let waits = waiting(&third, NAME);
    eventually("it is told who leads now", names(&next, &other)).await;
    waits.abort();
    close([one, other, third]).await;
}

pub(crate) async fn without_coordination_everybody_leads_and_the_last_one_writes<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (one, other) = (LocalCoordinator::new(&store), LocalCoordinator::new(&store));
    let claim = Claim::of(NAME);
    let old = within("leading", one.acquire(&claim)).await.expect("one can lead");
    let new = within("leading", other.try_acquire(&claim)).await.expect("one can try").expect("nobody is kept out");
    assert!(old.is_held() && new.is_held() && new.term() > old.term());
    let fence = |guard: &LeadershipGuard| {
        let taken = guard.taken();
        taken.checkpoint.fence()
    };
    assert_eq!(put(&store, to(&fence(&old), 5)).await, Some(Refused::Superseded { term: new.term() }));
    assert_eq!(put(&store, to(&fence(&new), 7)).await, None);
    let told = leader(&store, NAME).await.expect("an instance leads");
    assert_eq!((told.term, told.hold), (new.term(), LeaderHold::Unknown), "without a lock nobody can tell");
    assert_eq!(told.instance.pid, std::process::id());
    drop((old, new));
    assert_eq!(leader(&store, NAME).await.map(|told| told.hold), Some(LeaderHold::Unknown));
}

pub(crate) async fn names_that_cannot_be_led_are_refused<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let coordinator = coordinator(&store);
    let local = LocalCoordinator::new(&store);
    let coordinators: [&dyn ProjectorCoordinator; 2] = [&*coordinator, &local];
    for name in ["", "with a \0", &"x".repeat(256)] {
        let claim = Claim::of(name);
        for coordinator in coordinators {
            let tried = within("trying", coordinator.try_acquire(&claim)).await.map(drop);
            assert!(matches!(tried, Err(Error::Invalid(Invalid::SubscriberId(_)))), "{name:?}: {tried:?}");
            let waited = within("waiting", coordinator.acquire(&claim)).await.map(drop);
            assert!(matches!(waited, Err(Error::Invalid(Invalid::SubscriberId(_)))), "{name:?}: {waited:?}");
        }
    }
    assert_eq!(store.checkpoints().await.expect("checkpoints can be read"), [], "nothing is stored");
    assert_eq!(store.leaders().await.expect("it can be asked who leads"), []);
    // Long ones that differ only at their end can be led, by one each.
    let long = ["a", "b"].map(|end| format!("{}{end}", "ü".repeat(127)));
    let first = attempt(&coordinator, &long[0]).await.expect("a long name can be led");
    let second = attempt(&coordinator, &long[1]).await.expect("and another one");
    assert!(first.is_held() && second.is_held());
    assert_led(&coordinator, &long[0]).await;
    close([coordinator]).await;
}

/// Who has the lock of a name, as the store tells it.
async fn holders(store: &dyn Backend, names: &[&str]) -> Vec<LockHolder> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    within("the holders", store.lock_holders(&names)).await.expect("it can be asked who has a lock")
}

pub(crate) async fn it_is_told_who_has_a_lock_whether_it_leads_or_not<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    assert_eq!(holders(&store, &[NAME]).await, [], "nobody has what nobody wants");
    // Only the lock, without a term.
    let candidate = store.candidate(&Instance::here(None), &LeadershipSettings::from(&config()));
    let held = within("the lock", candidate.hold(NAME)).await.expect("it is free");
    let told = holders(&harness.reopen(&store, Settings::default()).await, &["report:weekly", NAME, NAME]).await;
    assert!(matches!(&told[..], [one] if one.subscriber_id == NAME && one.pid.is_some()), "{told:?}");
    within("the release", held.release(None)).await;
    assert_eq!(holders(&store, &[NAME]).await, []);
    within("closing", candidate.close()).await;
    let one = coordinator(&store);
    let guard = lead(&one, NAME).await;
    assert_eq!(holders(&store, &[NAME]).await.len(), 1, "who leads has it as well");
    drop(guard);
    eventually("nobody has it", async || holders(&store, &[NAME]).await.is_empty()).await;
    close([one]).await;
}
