//! Several instances, and which of them leads for which subscribers.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use highwater::backend::Log;
use highwater::{
    CoordinatorConfig, EventBus, FailurePolicy, GlobalSequence, ReliableDeliveryConfig, SubscriberOptions,
    SubscriptionState,
};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::instances::{coordinated, instance, leads, led, settled, stand_by};
use super::players::{Act, Counter, Observer, batched, end, fill, in_state, is_halted};
use crate::support::{eventually, new_stream, within};
use crate::{Harness, Settings};

/// Events that come all the time.
struct Traffic {
    stop: Arc<AtomicBool>,
    events: JoinHandle<Vec<u64>>,
}

impl Traffic {
    fn on<L: Log + Clone + 'static>(log: &L) -> Self {
        let (stop, log) = (Arc::new(AtomicBool::new(false)), log.clone());
        let stopped = Arc::clone(&stop);
        let events = tokio::spawn(async move {
            let (stream, mut events) = (new_stream(), Vec::new());
            while !stopped.load(Ordering::SeqCst) {
                events.extend(fill(&log, stream, 2).await);
                sleep(Duration::from_millis(20)).await;
            }
            events
        });
        Self { stop, events }
    }

    async fn end(self) -> Vec<u64> {
        self.stop.store(true, Ordering::SeqCst);
        within("the last events", self.events).await.expect("they can be stored")
    }
}

pub(crate) async fn the_work_is_spread<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let traffic = Traffic::on(&store);
    let name = |number: usize| format!("projection:{number:02}");
    let counters: Vec<_> = (0..6).map(|number| Counter::new(&name(number), &harness, &store).shared()).collect();
    // Of observers, too, nothing comes twice: what moves is stored first.
    let observers: Vec<_> = (6..12).map(|number| Observer::new(&name(number)).delivery(batched(10)).shared()).collect();
    let mut buses = Vec::new();
    for _ in 0..3 {
        let bus = instance(&*harness, &store, coordinated()).await;
        for counter in &counters {
            bus.subscribe(Arc::clone(counter)).await.expect("it can be subscribed");
        }
        for observer in &observers {
            bus.subscribe(Arc::clone(observer)).await.expect("it can be subscribed");
        }
        if buses.is_empty() {
            eventually("the first leads everything", || ready(led(&bus).len() == 12)).await;
        }
        buses.push(bus);
    }
    let shares = |wanted: &[usize]| ready(buses.iter().map(|bus| led(bus).len()).eq(wanted.iter().copied()));
    eventually("each leads four", || shares(&[4, 4, 4])).await;
    end(buses[0].clone()).await;
    eventually("the other two lead six each", || shares(&[0, 6, 6])).await;
    let events = traffic.end().await;
    for number in 0..12 {
        let last = *events.last().expect("there are some");
        buses[2].wait_for(&name(number), GlobalSequence(last)).await.expect("it gets there");
    }
    for counter in &counters {
        counter.assert_counts(&events).await;
    }
    for observer in &observers {
        assert_eq!(observer.calls(), events, "{}: nothing twice, nothing left out", observer.id());
    }
    for bus in buses {
        end(bus).await;
    }
}

pub(crate) async fn without_spread_everything_stays_where_it_is<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let staying = ["still:a", "still:b", "still:c", "still:d"];
    let moving = ["moving:a", "moving:b", "moving:c", "moving:d"];
    let mut pairs = Vec::new();
    for (config, names) in [(settled(), staying), (coordinated(), moving)] {
        let pair = [instance(&*harness, &store, config.clone()).await, instance(&*harness, &store, config).await];
        for bus in &pair {
            for name in names {
                let subscription = bus.subscribe(Observer::new(name)).await.expect("it can be subscribed");
                let placed = |state: &SubscriptionState| leads(state) || state.is_standby();
                in_state(&subscription, "it leads or stands by", placed).await;
            }
        }
        pairs.push(pair);
    }
    let terms = |bus: &EventBus<H::Store>| bus.subscriptions().iter().map(|it| it.state().term()).collect::<Vec<_>>();
    let before = terms(&pairs[0][0]);
    assert!(before.iter().all(Option::is_some), "the first leads everything: {before:?}");
    // Where work is spread, it is by now.
    eventually("each leads two", || ready(pairs[1].iter().all(|bus| led(bus).len() == 2))).await;
    assert_eq!(terms(&pairs[0][0]), before, "nothing has moved");
    assert_eq!(terms(&pairs[0][1]), [None; 4]);
    for bus in pairs.into_iter().flatten() {
        end(bus).await;
    }
}

pub(crate) async fn subscribers_go_where_they_prefer_to_be<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let coordination = CoordinatorConfig { instance_label: Some("eu".to_owned()), ..coordinated().coordination };
    let labelled = ReliableDeliveryConfig { coordination, ..coordinated() };
    let (first, second) =
        (instance(&*harness, &store, coordinated()).await, instance(&*harness, &store, labelled).await);
    let prefers = SubscriberOptions::new().prefers("eu");
    // More than its share, and those that would be the last to go: what is preferred counts for more than what is even.
    let preferring = ["projection:x", "projection:y", "projection:z"];
    for bus in [&first, &second] {
        bus.subscribe(Observer::new("projection:a")).await.expect("it can be subscribed");
        for name in preferring {
            bus.subscribe(Observer::new(name).with(prefers.clone())).await.expect("it can be subscribed");
        }
        eventually("everything has a leader", || ready(led(&first).len() + led(&second).len() == 4)).await;
    }
    let wanted = preferring.map(str::to_owned).into();
    eventually("what prefers the second is there", || ready(led(&second) == wanted && led(&first).len() == 1)).await;
    end(second).await;
    eventually("without it the first will do", || ready(led(&first).len() == 4)).await;
    end(first).await;
}

pub(crate) async fn what_is_in_trouble_is_not_moved<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 3).await;
    let (first, second) =
        (instance(&*harness, &store, coordinated()).await, instance(&*harness, &store, coordinated()).await);
    let hour = Duration::from_secs(60 * 60);
    let slow = ReliableDeliveryConfig { initial_retry_delay: hour, max_retry_delay: hour, ..coordinated() };
    let halting = Observer::new("projection:a").on_failure(FailurePolicy::Halt).plays(|_, _| Act::GiveUp("broken"));
    let retrying = Observer::new("projection:b").delivery(slow).plays(|_, _| Act::fail("not now"));
    let halted = first.subscribe(halting).await.expect("it can be subscribed");
    let retried = first.subscribe(retrying).await.expect("it can be subscribed");
    in_state(&halted, "it is halted", is_halted).await;
    let is_retrying = |state: &SubscriptionState| matches!(state, SubscriptionState::Retrying { failures: 1, .. });
    in_state(&retried, "it is retrying", is_retrying).await;
    let sound = ["projection:c", "projection:d"];
    for name in sound {
        first.subscribe(Observer::new(name)).await.expect("it can be subscribed");
        first.wait_for(name, GlobalSequence(events[2])).await.expect("it gets there");
    }
    let elsewhere = ["projection:a", "projection:b"].map(|name| Observer::new(name).shared());
    for observer in &elsewhere {
        stand_by(&second, observer).await;
    }
    for name in sound {
        second.subscribe(Observer::new(name)).await.expect("it can be subscribed");
    }
    eventually("what is sound has moved", || ready(led(&second) == sound.map(str::to_owned).into())).await;
    assert!(is_halted(&halted.state()) && is_retrying(&retried.state()), "what is in trouble stays and shows it");
    assert!(elsewhere.iter().all(|observer| observer.calls().is_empty()));
    end(first).await;
    for observer in &elsewhere {
        second.wait_for(observer.id(), GlobalSequence(events[2])).await.expect("who is left takes everything over");
        assert_eq!(observer.calls(), events);
    }
    end(second).await;
}
