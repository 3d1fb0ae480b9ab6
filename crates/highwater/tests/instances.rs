//! What the engine does when leadership comes and goes, with a coordinator that does as it is told.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "tests fail by panicking, and nobody calls them")]

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use highwater::backend::{BoxFuture, Checkpoints, HeldLock, Instance, Leader, Leadership, LeadershipSettings};
use highwater::prelude::*;
use highwater::{
    Claim, Coordinator, CoordinatorConfig, GlobalSequence, InstanceMode, Invalid, LeadershipGuard, MemoryTx,
    ProjectorCoordinator, SubscriptionState, TransactionalProjection,
};
use support::{Listener, Note, eventually, quick, say, within};
use tokio::sync::watch;
use tracing::Level;
use uuid::Uuid;

/// Grants leadership while it is open, and takes it away when it is told to.
struct Fragile {
    store: MemoryEventStore,
    open: watch::Sender<bool>,
    granted: AtomicUsize,
    /// Of the guard that was given last.
    lost: Mutex<watch::Sender<bool>>,
    /// Whether a guard that is lost says so by itself.
    silent: AtomicBool,
    gone: Arc<AtomicBool>,
}

struct Hold(watch::Receiver<bool>, Arc<AtomicBool>);

impl HeldLock for Hold {
    fn session(&self) -> Option<Uuid> {
        None
    }

    fn is_held(&self) -> bool {
        !*self.0.borrow() && !self.1.load(Ordering::SeqCst)
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.0.clone()
    }

    fn release(self: Box<Self>, _: Option<Uuid>) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl Fragile {
    fn new(store: &MemoryEventStore) -> Arc<Self> {
        Arc::new(Self {
            store: store.clone(),
            open: watch::Sender::new(true),
            granted: AtomicUsize::new(0),
            lost: Mutex::default(),
            silent: AtomicBool::new(false),
            gone: Arc::default(),
        })
    }

    fn take_away(&self) {
        self.open.send_replace(false);
        self.gone.store(true, Ordering::SeqCst);
        if !self.silent.load(Ordering::SeqCst) {
            self.lost.lock().unwrap().send_replace(true);
        }
    }

    fn give_back(&self) {
        self.gone.store(false, Ordering::SeqCst);
        self.open.send_replace(true);
    }

    async fn grant(&self, claim: &Claim) -> Result<LeadershipGuard, Error> {
        let taken = self.store.take_over(claim).await?;
        self.granted.fetch_add(1, Ordering::SeqCst);
        let lost = watch::Sender::new(false);
        let hold = Hold(lost.subscribe(), self.gone.clone());
        *self.lost.lock().unwrap() = lost;
        Ok(LeadershipGuard::new(taken, Box::new(hold)))
    }
}

impl ProjectorCoordinator for Fragile {
    fn ready(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<LeadershipGuard>, Error>> {
        Box::pin(async move {
            let open = *self.open.borrow();
            if open { self.grant(claim).await.map(Some) } else { Ok(None) }
        })
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<LeadershipGuard, Error>> {
        Box::pin(async move {
            self.open.subscribe().wait_for(|open| *open).await.unwrap();
            self.grant(claim).await
        })
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    fn leader(&self, _: &str) -> Option<Leader> {
        None
    }

    fn unled_for(&self, _: &str) -> Option<Duration> {
        None
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn batched() -> ReliableDeliveryConfig {
    let checkpoint_mode = CheckpointMode::Batched { size: 1_000, interval: Duration::from_secs(60) };
    ReliableDeliveryConfig { checkpoint_mode, ..quick() }
}

/// With all events in memory already, so that nothing but leadership stops it; `silent`: and nothing says that it is gone.
async fn starts_nothing_more(silent: bool) {
    let store = MemoryEventStore::new();
    for n in 0..100 {
        say(&store, &n.to_string()).await;
    }
    let coordinator = Fragile::new(&store);
    coordinator.silent.store(silent, Ordering::SeqCst);
    let bus = EventBus::with_coordinator(store.clone(), batched(), coordinator.clone());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (see, takes) = (seen.clone(), coordinator.clone());
    let observer = observer_fn("projection:x", move |event: Event<Note>| {
        let (seen, takes) = (see.clone(), takes.clone());
        async move {
            let at = event.global_sequence.unwrap();
            let count = {
                let mut seen = seen.lock().unwrap();
                seen.push(at);
                seen.len()
            };
            if count == 10 {
                takes.take_away();
            }
            Ok(())
        }
    });
    let subscription = bus.subscribe(observer).await.unwrap();
    eventually("it stands by", async || subscription.state().is_standby()).await;
    assert_eq!(seen.lock().unwrap().len(), 10, "what was in hand is the last");
    coordinator.give_back();
    within("it continues", subscription.caught_up()).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen[10..], (1..=100).collect::<Vec<_>>(), "from the checkpoint, which had not moved");
    assert_eq!(subscription.state().term(), Some(2));
}

#[tokio::test]
async fn who_has_lost_leadership_starts_no_other_event() {
    starts_nothing_more(false).await;
}

#[tokio::test]
async fn who_cannot_be_sure_of_leadership_any_more_starts_no_other_event() {
    starts_nothing_more(true).await;
}

struct Hangs(AtomicUsize);

impl TransactionalProjection<Note, MemoryTx> for Arc<Hangs> {
    fn subscriber_id(&self) -> &str {
        "projection:hangs"
    }

    async fn apply(&self, tx: &mut MemoryTx, _: &Event<Note>) -> Result<(), BoxError> {
        let count = tx.get("count").and_then(|count| count.as_u64()).unwrap_or(0);
        tx.put("count", count + 1);
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_handler_that_hangs_is_given_up_with_leadership() {
    let store = MemoryEventStore::new();
    say(&store, "x").await;
    let coordinator = Fragile::new(&store);
    let bus = EventBus::with_coordinator(store.clone(), quick(), coordinator.clone());
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let each = bus
        .subscribe(observer_fn("projection:each", move |_: Event<Note>| {
            let first = count.fetch_add(1, Ordering::SeqCst) == 0;
            async move { if first { std::future::pending().await } else { Ok(()) } }
        }))
        .await
        .unwrap();
    eventually("it hangs", async || calls.load(Ordering::SeqCst) == 1).await;
    coordinator.take_away();
    eventually("it stands by", async || each.state().is_standby()).await;
    each.unsubscribe().await.unwrap();
    coordinator.give_back();

    let hangs = Arc::new(Hangs(AtomicUsize::new(0)));
    let within_tx = bus.subscribe(hangs.clone()).await.unwrap();
    eventually("it hangs", async || hangs.0.load(Ordering::SeqCst) == 1).await;
    coordinator.take_away();
    eventually("it stands by", async || within_tx.state().is_standby()).await;
    coordinator.give_back();
    within("it continues", within_tx.caught_up()).await.unwrap();
    assert_eq!(store.document("count"), Some(1.into()), "what it had begun is taken back");
}

#[tokio::test]
async fn who_is_fenced_though_it_leads_says_so_once_and_leads_again() {
    let listener = Listener::default();
    let _listening = tracing::subscriber::set_default(listener.clone());
    let store = MemoryEventStore::new();
    let config = ReliableDeliveryConfig { instance_mode: InstanceMode::Coordinated, ..quick() };
    let bus = MemoryEventBus::with_config(store.clone(), config);
    let subscription = bus.subscribe(observer_fn("projection:x", |_: Event<Note>| async { Ok(()) })).await.unwrap();
    eventually("it is live", async || subscription.state().is_live()).await;
    let term = store.take_over(&Claim::of("projection:x")).await.unwrap().checkpoint.term.number;
    let at = say(&store, "x").await;
    bus.wait_for("projection:x", GlobalSequence(at)).await.unwrap();
    assert!(subscription.state().term().is_some_and(|now| now > term), "{:?}", subscription.state());
    assert_eq!(listener.count(Level::WARN, "fenced"), 1, "{listener:?}");
    assert_eq!(listener.count(Level::ERROR, ""), 0, "{listener:?}");
}

#[tokio::test(start_paused = true)]
async fn two_that_fence_each_other_do_not_do_so_at_full_speed() {
    let store = MemoryEventStore::new();
    // Each has its own coordinator that always grants: as if they held their locks in different databases.
    let coordinators = [Fragile::new(&store), Fragile::new(&store)];
    let mut buses = Vec::new();
    for coordinator in &coordinators {
        let bus = EventBus::with_coordinator(store.clone(), quick(), coordinator.clone());
        bus.subscribe(observer_fn("projection:x", |_: Event<Note>| async { Ok(()) })).await.unwrap();
        buses.push(bus);
    }
    for n in 0..200 {
        say(&store, &n.to_string()).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let granted: usize = coordinators.iter().map(|coordinator| coordinator.granted.load(Ordering::SeqCst)).sum();
    assert!(granted < 100, "{granted} times in twenty seconds");
}

#[tokio::test]
async fn leadership_that_comes_and_goes_is_logged() {
    let listener = Listener::default();
    let _listening = tracing::subscriber::set_default(listener.clone());
    let store = MemoryEventStore::new();
    let coordinator = Fragile::new(&store);
    let bus = EventBus::with_coordinator(store.clone(), quick(), coordinator.clone());
    let subscription = bus.subscribe(observer_fn("projection:x", |_: Event<Note>| async { Ok(()) })).await.unwrap();
    eventually("it is live", async || subscription.state().is_live()).await;
    assert_eq!(listener.count(Level::INFO, "leading"), 1, "{listener:?}");
    coordinator.take_away();
    eventually("it stands by", async || subscription.state().is_standby()).await;
    assert_eq!(listener.count(Level::WARN, "leadership lost"), 1, "{listener:?}");
    coordinator.give_back();
    eventually("it is live", async || subscription.state().is_live()).await;
    // One that never led has only to wait.
    coordinator.open.send_replace(false);
    let other = bus.subscribe(observer_fn("projection:y", |_: Event<Note>| async { Ok(()) })).await.unwrap();
    eventually("it stands by", async || other.state().is_standby()).await;
    assert_eq!(listener.count(Level::INFO, "standing by"), 1, "{listener:?}");
    bus.shutdown().await.unwrap();
    assert_eq!(subscription.state(), SubscriptionState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_voluntary_hand_over_is_one_line_on_each_side() {
    let listener = Listener::default();
    let _listening = tracing::subscriber::set_default(listener.clone());
    let store = MemoryEventStore::new();
    let config = ReliableDeliveryConfig { instance_mode: InstanceMode::Coordinated, ..quick() };
    let bus = || MemoryEventBus::with_config(store.clone(), config.clone());
    let (one, other) = (bus(), bus());
    for bus in [&one, &other] {
        for id in ["projection:x", "projection:y"] {
            bus.subscribe(observer_fn(id, |_: Event<Note>| async { Ok(()) })).await.unwrap();
        }
        eventually("the first leads", async || leading(&one) == 2).await;
    }
    eventually("the second stands by", async || listener.count(Level::INFO, "standing by") == 2).await;
    let infos = |part: &str| listener.count(Level::INFO, part);
    let (all, led) = (infos(""), infos("leading"));
    // What the second lacks is spread to it.
    within_virtual_minutes("each leads one", async || leading(&one) == 1 && leading(&other) == 1).await;
    assert_eq!((infos("released for another instance"), infos("leading")), (1, led + 1), "{listener:?}");
    assert_eq!(infos(""), all + 2, "and nothing else: {listener:?}");

    // An instance that stops hands over what is left.
    one.shutdown().await.unwrap();
    within_virtual_minutes("the other leads both", async || leading(&other) == 2).await;
    assert_eq!((infos("stopped"), infos("leading")), (2, led + 2), "{listener:?}");
    assert_eq!(infos(""), all + 5, "and nothing else: {listener:?}");
    assert_eq!((listener.count(Level::WARN, ""), listener.count(Level::ERROR, "")), (0, 0), "{listener:?}");
    other.shutdown().await.unwrap();
}

/// Time passes by itself when nothing else is to be done.
async fn within_virtual_minutes(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), waiting).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

#[test]
fn the_defaults_are_those_that_are_documented() {
    let config = ReliableDeliveryConfig::default();
    let coordination = &config.coordination;
    assert_eq!((config.instance_mode, coordination.spread), (InstanceMode::SingleInstance, true));
    assert_eq!(
        (coordination.takeover_bound, coordination.standby_interval),
        (Duration::from_secs(5), Duration::from_millis(100))
    );
    assert_ne!(InstanceMode::default(), InstanceMode::Coordinated);
    for wrong in [
        CoordinatorConfig { takeover_bound: Duration::from_millis(10), ..CoordinatorConfig::default() },
        CoordinatorConfig { standby_interval: Duration::from_secs(6), ..CoordinatorConfig::default() },
        CoordinatorConfig { standby_interval: Duration::ZERO, ..CoordinatorConfig::default() },
        CoordinatorConfig { instance_label: Some(String::new()), ..CoordinatorConfig::default() },
        // It would be taken for a checkpoint that was moved by hand.
        CoordinatorConfig { instance_label: Some("repair".to_owned()), ..CoordinatorConfig::default() },
    ] {
        assert!(wrong.validate().is_err(), "{wrong:?}");
        assert!(ReliableDeliveryConfig { coordination: wrong, ..quick() }.validate().is_err());
    }
}

#[tokio::test]
async fn a_bus_with_a_coordinator_refuses_what_that_decides() {
    let store = MemoryEventStore::new();
    let coordination = CoordinatorConfig { spread: false, ..CoordinatorConfig::default() };
    for config in [
        ReliableDeliveryConfig { instance_mode: InstanceMode::Coordinated, ..quick() },
        ReliableDeliveryConfig { coordination, ..quick() },
    ] {
        let bus = EventBus::with_coordinator(store.clone(), config, Fragile::new(&store));
        let refused = bus.subscribe(observer_fn("projection:x", |_: Event<Note>| async { Ok(()) })).await;
        assert!(matches!(refused.map(drop), Err(Error::Invalid(Invalid::Setting { .. }))));
    }
}

#[tokio::test]
async fn a_standby_that_is_paused_or_stopped_does_not_wait_for_leadership() {
    let store = MemoryEventStore::new();
    let config = ReliableDeliveryConfig { instance_mode: InstanceMode::Coordinated, ..quick() };
    let (one, other) = (
        MemoryEventBus::with_config(store.clone(), config.clone()),
        MemoryEventBus::with_config(store.clone(), config),
    );
    let observer = || observer_fn("projection:x", |_: Event<Note>| async { Ok(()) });
    let at = say(&store, "x").await;
    let leads = one.subscribe(observer()).await.unwrap();
    eventually("it is live", async || leads.state().is_live()).await;
    let stands_by = other.subscribe(observer()).await.unwrap();
    eventually("it stands by", async || stands_by.state().is_standby()).await;
    within("pausing", stands_by.pause()).await.unwrap();
    eventually("the leader is paused as well", async || leads.state() == SubscriptionState::Paused).await;
    let (here, there) = (leads.progress().await.unwrap(), stands_by.progress().await.unwrap());
    assert_eq!((here.checkpoint, here.lag_events), (at, 0));
    assert_eq!((there.checkpoint, there.lag_events), (at, 0), "who does not lead asks the store");
    within("resuming", stands_by.resume()).await.unwrap();
    eventually("it leads on", async || leads.state().is_live()).await;
    eventually("it stands by", async || stands_by.state().is_standby()).await;
    within("unsubscribing", stands_by.unsubscribe()).await.unwrap();
    within("shutting down", other.shutdown()).await.unwrap();
    assert!(leads.state().is_live());
}

#[tokio::test(start_paused = true)]
async fn what_is_busy_with_one_event_does_not_keep_the_others_from_being_spread() {
    let store = MemoryEventStore::new();
    say(&store, "x").await;
    let config = ReliableDeliveryConfig { instance_mode: InstanceMode::Coordinated, ..quick() };
    let (one, other) = (
        MemoryEventBus::with_config(store.clone(), config.clone()),
        MemoryEventBus::with_config(store.clone(), config),
    );
    // The first eight by name are in a handler that takes very long; more than are asked for at once.
    for bus in [&one, &other] {
        for n in 10..24 {
            let observer = observer_fn(format!("projection:{n}"), move |_: Event<Note>| async move {
                if n < 18 {
                    tokio::time::sleep(Duration::from_secs(600)).await;
                }
                Ok(())
            });
            bus.subscribe(observer).await.unwrap();
        }
        eventually("the first leads everything at first", async || leading(&one) > 0).await;
    }
    let level = async {
        while leading(&other) < 6 {
            tokio::time::sleep(Duration::from_millis(100)).await
        }
    };
    tokio::time::timeout(Duration::from_secs(15), level).await.expect("what can go goes");
}

#[tokio::test(start_paused = true)]
async fn a_few_move_at_a_time() {
    let store = MemoryEventStore::new();
    let config = ReliableDeliveryConfig { instance_mode: InstanceMode::Coordinated, ..quick() };
    let (one, other) = (
        MemoryEventBus::with_config(store.clone(), config.clone()),
        MemoryEventBus::with_config(store.clone(), config),
    );
    for bus in [&one, &other] {
        for n in 0..60 {
            let observer = observer_fn(format!("projection:{n}"), |_: Event<Note>| async { Ok(()) });
            bus.subscribe(observer).await.unwrap();
        }
        eventually("the first leads everything", async || leading(&one) == 60).await;
    }
    let mut before = 0;
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = leading(&other);
        assert!(now <= before + 12, "{before} and then {now}: two looks at most");
        before = now;
    }
    assert_eq!((leading(&one), leading(&other)), (30, 30));
}

#[tokio::test]
async fn what_is_released_for_one_is_left_to_that_one() {
    let store = MemoryEventStore::new();
    let settings = LeadershipSettings::from(&CoordinatorConfig::default());
    let candidate = || store.candidate(&Instance::here(None), &settings);
    let (one, other, third) = (candidate(), candidate(), candidate());
    for _ in 0..10 {
        let held = one.hold("x").await.unwrap();
        let to = third.view(&[]).await.unwrap().own;
        // One that means it for no instance in particular waits first in line.
        let (mut first, mut second) = (std::pin::pin!(other.hold("x")), std::pin::pin!(third.hold("x")));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        held.release(to).await;
        let got = within("one of them gets it", async {
            tokio::select! { biased; _ = &mut first => false, _ = &mut second => true }
        });
        assert!(got.await, "it was meant for the other");
    }
}

fn leading(bus: &MemoryEventBus) -> usize {
    bus.subscriptions().iter().filter(|subscription| subscription.state().term().is_some()).count()
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_by_a_coordinator_as_well() {
    let config = CoordinatorConfig { takeover_bound: Duration::ZERO, ..CoordinatorConfig::default() };
    let coordinator = Coordinator::with_config(&MemoryEventStore::new(), &config);
    assert!(matches!(coordinator.acquire(&Claim::of("x")).await, Err(Error::Invalid(_))));
    assert!(matches!(coordinator.ready().await, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn a_label_that_cannot_be_is_refused() {
    let bus = MemoryEventBus::with_config(MemoryEventStore::new(), quick());
    for label in ["", "a\0b", &"x".repeat(256)] {
        let options = SubscriberOptions::new().prefers(label);
        let observer = observer_fn("projection:x", |_: Event<Note>| async { Ok(()) }).with_options(options);
        assert!(matches!(bus.subscribe(observer).await.map(drop), Err(Error::Invalid(_))), "{label:?}");
    }
}

#[tokio::test]
async fn a_coordinator_that_is_closed_leads_no_more() {
    let store = MemoryEventStore::new();
    let coordinator = Coordinator::new(&store);
    let guard = coordinator.acquire(&Claim::of("x")).await.unwrap();
    coordinator.close().await;
    within("it is lost", guard.lost()).await;
    assert!(!guard.is_held());
    assert!(matches!(coordinator.try_acquire(&Claim::of("x")).await, Err(Error::ShutDown)));
}
