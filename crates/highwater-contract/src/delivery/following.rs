//! Every event, in order, from the start on.

use std::sync::{Arc, Mutex};

use highwater::backend::Log;
use highwater::{
    Append, BoxError, Event, EventObserver, EventTypes, GlobalSequence, ReliableDeliveryConfig, StartAt, StreamId,
    SubscriberOptions, observer_fn, stream_id,
};

use super::players::{Counter, Observer, batched, bus, config, end, fill, one};
use crate::checkpoints::position;
use crate::support::{Ledger, deposits, eventually, everything, new_stream, soak, store as append, within};
use crate::{Call, Flaky, Harness, Settings, Verdict};

pub(crate) async fn a_late_subscriber_gets_everything<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let mut events = fill(&store, new_stream(), 30).await;
    events.extend(fill(&store, new_stream(), 20).await);
    let bus = bus(&store);
    let observer = Observer::new("projection:late").shared();
    let subscription = bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    within("catching up", subscription.caught_up()).await.expect("it gets there");
    assert_eq!(observer.calls(), events, "what was there before");
    for _ in 0..5 {
        events.extend(fill(&store, new_stream(), 3).await);
        observer.has_taken(events.len()).await;
    }
    assert_eq!(observer.calls(), events, "and what comes after, once each and in order");
    end(bus).await;
    assert_eq!(position(&store, "projection:late").await, events.last().copied());
}

pub(crate) async fn what_arrives_while_catching_up_comes_once_and_in_order<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let stream_id = new_stream();
                for _ in 0..soak(25) {
                    append(&store, &deposits(stream_id, 2)).await;
                }
            })
        })
        .collect();
    let small = |config| ReliableDeliveryConfig { catch_up_batch_size: 7, tail_events_max: 10, ..config };
    let bus = bus(&store);
    let each = Observer::new("projection:each").delivery(small(config())).shared();
    let batch = Observer::new("projection:batch").delivery(small(batched(10))).shared();
    let count = Counter::new("projection:count", &harness, &store).delivery(small(batched(10))).shared();
    bus.subscribe(Arc::clone(&each)).await.expect("it can be subscribed");
    bus.subscribe(Arc::clone(&batch)).await.expect("it can be subscribed");
    bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    for writer in writers {
        writer.await.expect("a writer comes through");
    }
    let events: Vec<u64> = everything(&store).await.iter().map(|record| record.global_sequence).collect();
    let last = *events.last().expect("there are events");
    for name in [each.id(), batch.id(), count.id()] {
        bus.wait_for(name, GlobalSequence(last)).await.expect("it gets there");
    }
    assert_eq!(each.calls(), events);
    assert_eq!(batch.calls(), events);
    assert_eq!(count.calls(), events);
    count.assert_counts(&events).await;
    end(bus).await;
}

pub(crate) async fn progress_is_stored_batch_by_batch<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 250).await;
    let observer = Observer::new("projection:batches").delivery(batched(100)).shared();
    // Every checkpoint on its way, and what had been handled by then.
    let writes = Arc::new(Mutex::new(Vec::new()));
    let watched = {
        let (observer, writes) = (Arc::clone(&observer), Arc::clone(&writes));
        Flaky::new(store.clone(), move |call| {
            if let Call::StoreCheckpoints([write]) = call {
                let mut writes = writes.lock().expect("nobody panics with it");
                writes.push((write.global_sequence, observer.taken().len()));
            }
            Verdict::Through
        })
    };
    let bus = bus(&watched);
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    bus.wait_for("projection:batches", GlobalSequence(events[249])).await.expect("it gets there");
    end(bus).await;
    let writes = writes.lock().expect("nobody panics with it").clone();
    assert!(writes.len() >= 3, "250 events in batches of 100 are three writes at least: {writes:?}");
    assert!(writes.len() <= 25, "and far fewer than events: {writes:?}");
    let mut before = 0;
    for (to, taken) in writes {
        let covered = events.iter().filter(|at| **at <= to).count();
        assert!(covered <= taken, "a checkpoint at {to} when {taken} events had been handled");
        assert!(covered - before <= 100, "{} events between two checkpoints", covered - before);
        before = covered;
    }
    assert_eq!(before, 250);
}

pub(crate) async fn subscribers_go_at_their_own_pace<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let first = fill(&store, new_stream(), 10).await;
    let bus = bus(&store);
    let (early, late) = (Observer::new("projection:early").shared(), Observer::new("projection:late").shared());
    let subscription = bus.subscribe(Arc::clone(&early)).await.expect("it can be subscribed");
    bus.wait_for("projection:early", GlobalSequence(first[9])).await.expect("it gets there");
    assert_eq!(position(&store, "projection:late").await, None);
    within("unsubscribing", subscription.unsubscribe()).await.expect("it stops in time");
    let second = fill(&store, new_stream(), 5).await;
    bus.subscribe(Arc::clone(&late)).await.expect("it can be subscribed");
    bus.wait_for("projection:late", GlobalSequence(second[4])).await.expect("it gets there");
    assert_eq!(position(&store, "projection:early").await, Some(first[9]), "nobody moves another's checkpoint");
    assert_eq!(late.calls(), [first, second].concat());
    end(bus).await;
}

pub(crate) async fn a_subscriber_gets_the_types_it_wants_and_moves_on<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    fill(&store, stream_id, 20).await;
    let first = one(&store, stream_id, Ledger::Noted("first".into())).await;
    let last = *fill(&store, stream_id, 20).await.last().expect("twenty");
    let only = SubscriberOptions::new().event_types(EventTypes::only(["Noted"]));
    let small = ReliableDeliveryConfig { catch_up_batch_size: 3, ..config() };
    let bus = bus(&store);
    let each = Observer::new("projection:notes").with(only.clone()).delivery(small).shared();
    let count = Counter::new("projection:noted", &harness, &store).with(only).shared();
    bus.subscribe(Arc::clone(&each)).await.expect("it can be subscribed");
    bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    for name in [each.id(), count.id()] {
        bus.wait_for(name, GlobalSequence(last)).await.expect("the checkpoint moves past what is not wanted");
    }
    assert_eq!(each.calls(), [first]);
    // The same while it follows.
    let last = *fill(&store, stream_id, 5).await.last().expect("five");
    let second = one(&store, stream_id, Ledger::Noted("second".into())).await;
    let end_of_log = *fill(&store, stream_id, 5).await.last().expect("five");
    for name in [each.id(), count.id()] {
        bus.wait_for(name, GlobalSequence(last)).await.expect("the checkpoint moves past what is not wanted");
        bus.wait_for(name, GlobalSequence(end_of_log)).await.expect("the checkpoint moves past what is not wanted");
    }
    assert_eq!(each.calls(), [first, second]);
    count.assert_counts(&[first, second]).await;
    end(bus).await;
}

pub(crate) async fn a_subscriber_gets_the_kinds_it_wants_and_moves_on<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let note = async |stream: StreamId| append(&store, &Append::to(stream).event(Ledger::Noted("x".into()))).await;
    let (bike, customer) = (stream_id("bike", "1"), stream_id("customer", "1"));
    let mut wanted = vec![note(bike).await.global_sequence];
    note(customer).await;
    let bikes = SubscriberOptions::new().of_kinds(["bike"]);
    let bus = bus(&store);
    let each = Observer::new("projection:bikes").with(bikes.clone()).shared();
    let count = Counter::new("projection:bike-count", &harness, &store).with(bikes).shared();
    bus.subscribe(Arc::clone(&each)).await.expect("it can be subscribed");
    bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    for _ in 0..3 {
        // By its id alone: it is a bike all the same.
        wanted.push(note(bike.id().into()).await.global_sequence);
        note(new_stream().into()).await;
        let last = note(customer).await.global_sequence;
        for name in [each.id(), count.id()] {
            bus.wait_for(name, GlobalSequence(last)).await.expect("the checkpoint moves past what is not wanted");
        }
        assert_eq!(each.calls(), wanted);
    }
    count.assert_counts(&wanted).await;
    end(bus).await;
}

pub(crate) async fn a_subscriber_may_start_at_the_end<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let before = fill(&store, new_stream(), 10).await;
    let at_the_end = || SubscriberOptions::new().start(StartAt::End);
    let first = bus(&store);
    let observer = Observer::new("projection:news").with(at_the_end()).shared();
    let subscription = first.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    within("catching up", subscription.caught_up()).await.expect("it gets there");
    assert_eq!(position(&store, "projection:news").await, Some(before[9]), "the start is stored");
    let news = fill(&store, new_stream(), 3).await;
    first.wait_for("projection:news", GlobalSequence(news[2])).await.expect("it gets there");
    end(first).await;
    let missed = fill(&store, new_stream(), 2).await;
    // The end counts once: a subscriber that comes back resumes from its checkpoint.
    let second = bus(&store);
    second.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    second.wait_for("projection:news", GlobalSequence(missed[1])).await.expect("it gets there");
    assert_eq!(observer.calls(), [news, missed].concat());
    end(second).await;
}

pub(crate) async fn a_subscriber_may_start_after_a_position<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 10).await;
    let after = SubscriberOptions::new().start(StartAt::After(events[3]));
    let bus = bus(&store);
    let observer = Observer::new("projection:after").with(after.clone()).shared();
    let count = Counter::new("projection:counted", &harness, &store).with(after).shared();
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    for name in [observer.id(), count.id()] {
        bus.wait_for(name, GlobalSequence(events[9])).await.expect("it gets there");
    }
    assert_eq!(observer.calls(), events[4..]);
    count.assert_counts(&events[4..]).await;
    end(bus).await;
}

pub(crate) async fn large_events_arrive_within_small_limits<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let large = |at: u8| Ledger::Noted(char::from(b'a' + at).to_string().repeat((1 << 20) - 200));
    let tiny = ReliableDeliveryConfig { catch_up_batch_bytes_max: 1_000, tail_bytes_max: 1_000, ..config() };
    let bus = highwater::EventBus::with_config(store.clone(), tiny);
    let mut events = Vec::new();
    for at in 0..3 {
        events.push(one(&store, new_stream(), large(at)).await);
        events.extend(fill(&store, new_stream(), 2).await);
    }
    let (each, other) = (Observer::new("projection:each").shared(), Observer::new("projection:other").shared());
    bus.subscribe(Arc::clone(&each)).await.expect("it can be subscribed");
    bus.subscribe(Arc::clone(&other)).await.expect("it can be subscribed");
    for at in 3..6 {
        events.push(one(&store, new_stream(), large(at)).await);
        events.extend(fill(&store, new_stream(), 2).await);
    }
    let last = *events.last().expect("there are events");
    for observer in [&each, &other] {
        bus.wait_for(observer.id(), GlobalSequence(last)).await.expect("it gets there");
        assert_eq!(observer.calls(), events);
    }
    end(bus).await;
}

pub(crate) async fn what_others_append_is_noticed<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let other = harness.reopen(&store, Settings::default()).await;
    let bus = bus(&store);
    let observer = Observer::new("projection:orders").shared();
    let subscription = bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    within("catching up", subscription.caught_up()).await.expect("it gets there");
    let mut events = Vec::new();
    for _ in 0..3 {
        events.extend(fill(&other, new_stream(), 2).await);
        observer.has_taken(events.len()).await;
    }
    assert_eq!(observer.calls(), events);
    end(bus).await;
}

pub(crate) async fn what_is_committed_late_is_not_left_out<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let bus = bus(&store);
    let each = Observer::new("projection:each").shared();
    let only = SubscriberOptions::new().event_types(EventTypes::only(["Deposited"]));
    let count = Counter::new("projection:count", &harness, &store).with(only).delivery(batched(10)).shared();
    let subscription = bus.subscribe(Arc::clone(&each)).await.expect("it can be subscribed");
    within("catching up", subscription.caught_up()).await.expect("it gets there");
    let late = harness.begin(&store, deposits(new_stream(), 2)).await.expect("an append can be begun");
    let gone = harness.begin(&store, deposits(new_stream(), 2)).await.expect("an append can be begun");
    let early = fill(&store, new_stream(), 3).await;
    bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    let after = fill(&store, new_stream(), 3).await;
    gone.rollback().await.expect("an open append can be rolled back");
    let done = late.commit().await.expect("an open append can be committed");
    let mut events: Vec<u64> = done.positions.iter().map(|place| place.global_sequence).collect();
    events.extend(early.into_iter().chain(after));
    events.sort_unstable();
    let last = *events.last().expect("there are events");
    for name in [each.id(), count.id()] {
        bus.wait_for(name, GlobalSequence(last)).await.expect("it gets there");
    }
    assert_eq!(each.calls(), events);
    assert_eq!(count.calls(), events);
    count.assert_counts(&events).await;
    end(bus).await;
}

pub(crate) async fn an_observer_may_append_while_it_handles<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let bus = bus(&store);
    let notes = new_stream();
    let appending = store.clone();
    let saga = observer_fn("saga:notes", move |event: Event<Ledger>| {
        let store = appending.clone();
        async move {
            if let Ledger::Deposited { cents } = event.data {
                store.append(&Append::to(notes).event(Ledger::Noted(cents.to_string()))).await?;
            }
            Ok(())
        }
    });
    let only = SubscriberOptions::new().event_types(EventTypes::only(["Noted"]));
    let observer = Observer::new("projection:notes").with(only).shared();
    bus.subscribe(saga).await.expect("it can be subscribed");
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    fill(&store, new_stream(), 10).await;
    observer.has_taken(10).await;
    let written = everything(&store).await;
    let noted: Vec<u64> =
        written.iter().filter(|record| record.event_type == "Noted").map(|record| record.global_sequence).collect();
    assert_eq!(observer.calls(), noted);
    assert_eq!(noted.len(), 10);
    end(bus).await;
}

pub(crate) async fn functions_and_shared_observers_can_be_subscribed<H: Harness>(harness: Arc<H>) {
    struct Plain(Arc<Mutex<Vec<u64>>>);
    impl EventObserver<Ledger> for Plain {
        fn subscriber_id(&self) -> &str {
            "projection:plain"
        }
        fn on_event<'a>(&'a self, event: &'a Event<Ledger>) -> highwater::backend::BoxFuture<'a, Result<(), BoxError>> {
            Box::pin(async move {
                self.0.lock().expect("nobody panics with it").extend(event.global_sequence);
                Ok(())
            })
        }
    }
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 5).await;
    let bus = bus(&store);
    let seen: [Arc<Mutex<Vec<u64>>>; 3] = Default::default();
    let note = Arc::clone(&seen[0]);
    let function = observer_fn("projection:function", move |event: Event<Ledger>| {
        let note = Arc::clone(&note);
        async move {
            note.lock().expect("nobody panics with it").extend(event.global_sequence);
            Ok(())
        }
    });
    bus.subscribe(function).await.expect("a function can be subscribed");
    bus.subscribe(Plain(Arc::clone(&seen[1]))).await.expect("an observer can be subscribed");
    let shared: Arc<dyn EventObserver<Ledger>> = Arc::new(Plain(Arc::clone(&seen[2])));
    let subscription = bus.subscription("projection:plain").expect("it is subscribed");
    let heard = |at: usize| seen[at].lock().expect("nobody panics with it").clone();
    eventually("both hear", || std::future::ready(heard(0) == events && heard(1) == events)).await;
    within("unsubscribing", subscription.unsubscribe()).await.expect("it stops in time");
    bus.subscribe(shared).await.expect("a shared observer without its type can be subscribed");
    let more = fill(&store, new_stream(), 1).await;
    eventually("it resumes where the other stopped", || std::future::ready(heard(2) == more)).await;
    assert_eq!(heard(1), events);
    end(bus).await;
}
