//! Failures: retried, then put aside; other subscribers are not affected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chrono::Utc;
use highwater::backend::{Closing, DeadLetterQuery, DeadLetterState, DeadLetters, NewRecord};
use highwater::{Append, Event, FailurePolicy, GlobalSequence, ReliableDeliveryConfig, SubscriberOptions};
use uuid::Uuid;

use super::players::{Act, Counter, Gate, Observer, batched, bus, config, end, fill};
use crate::checkpoints::position;
use crate::dead_letters::{found, places};
use crate::support::{Ledger, eventually, everything, new_stream, store as append, within};
use crate::{Call, Flaky, Harness, Settings, Verdict};

pub(crate) async fn a_failure_that_passes_leaves_no_dead_letter<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 5).await;
    let bad = events[2];
    let bus = bus(&store);
    let observer = Observer::new("projection:orders")
        .delivery(batched(10))
        .plays(move |event, attempt| match event.global_sequence {
            Some(at) if at == bad && attempt <= 2 => Act::fail("not yet"),
            _ => Act::Take,
        })
        .shared();
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    bus.wait_for("projection:orders", GlobalSequence(events[4])).await.expect("it gets there");
    let tries = [events[0], events[1], bad, bad, bad, events[3], events[4]];
    assert_eq!(observer.calls(), tries, "tried until it went in, and nothing overtook it");
    assert_eq!(found(&store, &DeadLetterQuery::default()).await, []);
    end(bus).await;
}

pub(crate) async fn an_event_that_keeps_failing_becomes_a_dead_letter<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 5).await;
    let bad = events[2];
    let bus = bus(&store);
    let observer = Observer::new("projection:orders")
        .delivery(batched(10))
        .plays(move |event, attempt| match event.global_sequence {
            Some(at) if at == bad => Act::Fail(format!("refused for the {attempt}. time")),
            _ => Act::Take,
        })
        .shared();
    let fine = Observer::new("projection:fine").shared();
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    bus.subscribe(Arc::clone(&fine)).await.expect("it can be subscribed");
    for name in [observer.id(), fine.id()] {
        bus.wait_for(name, GlobalSequence(events[4])).await.expect("it continues");
    }
    assert_eq!(observer.taken(), [events[0], events[1], events[3], events[4]]);
    assert_eq!(observer.calls().iter().filter(|at| **at == bad).count(), 3, "two retries are three attempts");
    assert_eq!(fine.calls(), events);
    let dead_letters = found(&store, &DeadLetterQuery::default()).await;
    let [dead_letter] = dead_letters.as_slice() else { panic!("one dead letter, not {dead_letters:?}") };
    let record =
        everything(&store).await.into_iter().find(|record| record.global_sequence == bad).expect("it is there");
    assert_eq!(dead_letter.subscriber_id, "projection:orders");
    assert_eq!(
        (dead_letter.event_id, dead_letter.global_sequence, dead_letter.stream_id),
        (record.id, bad, record.stream_id)
    );
    assert_eq!(dead_letter.event_type, "Deposited");
    assert_eq!(dead_letter.error_message.as_deref(), Some("refused for the 3. time"));
    assert_eq!((dead_letter.retry_count, dead_letter.state, dead_letter.parks), (2, DeadLetterState::Dead, false));
    assert_eq!(bus.dead_letters().show(dead_letter.id).await.expect("it can be shown").record, Some(record));
    end(bus).await;
}

/// Delivers to a subscriber that cannot handle the second of three events, and gives what the dead letter says.
async fn dead_letter_of<H: Harness>(
    harness: &Arc<H>,
    delivery: ReliableDeliveryConfig,
    act: fn() -> Act,
) -> (Option<String>, u32) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 3).await;
    let bad = events[1];
    let script =
        move |event: &highwater::Event<_>, _| if event.global_sequence == Some(bad) { act() } else { Act::Take };
    let bus = bus(&store);
    let observer = Observer::new("projection:each").delivery(delivery.clone()).plays(script).shared();
    let count = Counter::new("projection:count", harness, &store).delivery(delivery).plays(script).shared();
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    for name in [observer.id(), count.id()] {
        bus.wait_for(name, GlobalSequence(events[2])).await.expect("it continues");
    }
    assert_eq!(observer.taken(), [events[0], events[2]]);
    count.assert_counts(&[events[0], events[2]]).await;
    let dead_letters = found(&store, &DeadLetterQuery::default()).await;
    let [first, second] = dead_letters.as_slice() else { panic!("one dead letter each, not {dead_letters:?}") };
    assert_eq!((first.global_sequence, second.global_sequence), (bad, bad));
    let (first, second) = ((&first.error_message, first.retry_count), (&second.error_message, second.retry_count));
    assert_eq!(first, second, "both kinds of subscribers fail alike");
    end(bus).await;
    (first.0.clone(), first.1)
}

pub(crate) async fn a_panic_is_a_failure<H: Harness>(harness: Arc<H>) {
    let (error, retries) = dead_letter_of(&harness, config(), || Act::Panic("out of cheese")).await;
    assert!(error.as_ref().is_some_and(|error| error.contains("out of cheese")), "{error:?}");
    assert_eq!(retries, 2);
}

pub(crate) async fn a_handler_that_takes_too_long_is_a_failure<H: Harness>(harness: Arc<H>) {
    let impatient =
        ReliableDeliveryConfig { handler_timeout: Some(Duration::from_millis(300)), max_retries: 1, ..config() };
    let (error, retries) = dead_letter_of(&harness, impatient, || Act::Hang).await;
    assert!(error.as_ref().is_some_and(|error| error.contains("300ms")), "{error:?}");
    assert_eq!(retries, 1);
}

pub(crate) async fn a_permanent_error_is_not_retried<H: Harness>(harness: Arc<H>) {
    let patient = ReliableDeliveryConfig { max_retries: 100, ..config() };
    let dead_letter = dead_letter_of(&harness, patient, || Act::GiveUp("no such account")).await;
    assert_eq!(dead_letter, (Some("no such account".to_owned()), 0));
}

pub(crate) async fn any_error_can_be_kept<H: Harness>(harness: Arc<H>) {
    let terrible = || Act::Fail(format!("a NUL \0, a crab 🦀 and {}", "much more ".repeat(20_000)));
    let (error, _) = dead_letter_of(&harness, config(), terrible).await;
    let error = error.expect("there is one");
    assert!(error.starts_with("a NUL ") && error.contains("🦀") && error.len() < 20_000, "{} bytes", error.len());
}

pub(crate) async fn an_event_that_cannot_be_decoded_becomes_a_dead_letter<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let first = fill(&store, stream_id, 2).await;
    let odd = NewRecord {
        id: Uuid::now_v7(),
        stream_id,
        stream_name: None,
        event_type: "Deposited".to_owned(),
        schema_version: 1,
        data: r#"{ "cents" : "a  lot" }"#.to_owned(),
        metadata: "{}".to_owned(),
        created_at: Utc::now(),
    };
    let bad = append(&store, &Append::to(stream_id).record(odd.clone())).await.global_sequence;
    let last = fill(&store, stream_id, 2).await;
    let bus = bus(&store);
    let each = Observer::new("projection:each").shared();
    let count = Counter::new("projection:count", &harness, &store).delivery(batched(10)).shared();
    bus.subscribe(Arc::clone(&each)).await.expect("it can be subscribed");
    bus.subscribe(Arc::clone(&count)).await.expect("it can be subscribed");
    for name in [each.id(), count.id()] {
        bus.wait_for(name, GlobalSequence(last[1])).await.expect("it continues");
        let dead_letters = found(&store, &DeadLetterQuery::of(name)).await;
        assert_eq!(places(&dead_letters), [bad], "neither skipped nor looped on");
        assert_eq!(dead_letters[0].retry_count, 0, "a retry is no use");
        let shown = bus.dead_letters().show(dead_letters[0].id).await.expect("it can be shown");
        assert_eq!(shown.record.expect("it is in the log").data, odd.data, "with its raw payload");
    }
    assert_eq!(each.taken(), [first.clone(), last.clone()].concat());
    count.assert_counts(&[first, last].concat()).await;
    end(bus).await;
}

pub(crate) async fn a_dead_letter_keeps_nobody_from_the_end_of_the_log<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let bus = bus(&store);
    let no = |_: &Event<Ledger>, _| Act::GiveUp("no");
    let mut names = Vec::new();
    for policy in [FailurePolicy::DeadLetter, FailurePolicy::ParkStream] {
        let each = Observer::new(&format!("projection:each-{policy:?}")).on_failure(policy).plays(no).shared();
        let options = SubscriberOptions::new().on_failure(policy);
        let within = Counter::new(&format!("projection:within-{policy:?}"), &harness, &store).with(options).plays(no);
        let within = within.delivery(batched(10)).shared();
        names.extend([each.id().to_owned(), within.id().to_owned()]);
        bus.subscribe(each).await.expect("it can be subscribed");
        bus.subscribe(within).await.expect("it can be subscribed");
    }
    // Both in one page: one that fails, and one of a type that no subscriber knows.
    let one = Append::to(new_stream()).event(Ledger::Deposited { cents: 1 }).and_to(new_stream()).raw("Audited", "{}");
    let done = append(&store, &one).await;
    for name in &names {
        bus.wait_for(name, GlobalSequence(done.global_sequence)).await.expect("it gets to the end");
        let dead_letters = found(&store, &DeadLetterQuery::of(name)).await;
        assert_eq!(places(&dead_letters), [done.positions[0].global_sequence], "{name}");
        assert_eq!(position(&store, name).await, Some(done.global_sequence), "{name}");
    }
    end(bus).await;
}

pub(crate) async fn the_checkpoint_stays_until_the_dead_letter_is_written<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 3).await;
    let bad = events[1];
    let refused = Arc::new(AtomicU32::new(0));
    let is_open = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let rough = {
        let (refused, is_open) = (Arc::clone(&refused), Arc::clone(&is_open));
        Flaky::new(store.clone(), move |call| match call {
            Call::Commit(_, Closing::Bury { .. }) if !is_open.load(Ordering::SeqCst) => {
                refused.fetch_add(1, Ordering::SeqCst);
                Verdict::Fail
            }
            _ => Verdict::Through,
        })
    };
    let bus = bus(&rough);
    let observer = Observer::new("projection:orders")
        .plays(move |event, _| if event.global_sequence == Some(bad) { Act::GiveUp("never") } else { Act::Take })
        .shared();
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    eventually("it retries again and again", || std::future::ready(refused.load(Ordering::SeqCst) >= 3)).await;
    assert_eq!(position(&store, "projection:orders").await, Some(events[0]), "it does not pass the event");
    assert_eq!(found(&store, &DeadLetterQuery::default()).await, []);
    assert_eq!(observer.taken(), [events[0]], "nor is anything handled behind it");
    is_open.store(true, Ordering::SeqCst);
    bus.wait_for("projection:orders", GlobalSequence(events[2])).await.expect("it continues");
    assert_eq!(places(&found(&store, &DeadLetterQuery::default()).await), [bad]);
    end(bus).await;
}

pub(crate) async fn a_subscriber_in_trouble_delays_nobody<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let bus = bus(&store);
    let gate = Gate::shut();
    let waits = gate.clone();
    let slow = Observer::new("projection:slow").plays(move |_, _| Act::Wait(waits.clone())).shared();
    let endless = ReliableDeliveryConfig { max_retries: u32::MAX, ..config() };
    let retrying = Observer::new("projection:retrying").delivery(endless).plays(|_, _| Act::fail("never")).shared();
    let halted =
        Observer::new("projection:halted").on_failure(FailurePolicy::Halt).plays(|_, _| Act::GiveUp("never")).shared();
    let fine = Observer::new("projection:fine").shared();
    for observer in [&slow, &retrying, &halted, &fine] {
        bus.subscribe(Arc::clone(observer)).await.expect("it can be subscribed");
    }
    let mut events = Vec::new();
    for _ in 0..10 {
        events.extend(fill(&store, new_stream(), 5).await);
        bus.wait_for("projection:fine", GlobalSequence(*events.last().expect("there are events")))
            .await
            .expect("it gets there");
    }
    assert_eq!(fine.calls(), events);
    assert_eq!(slow.taken(), [0; 0]);
    gate.open();
    bus.wait_for("projection:slow", GlobalSequence(*events.last().expect("there are events")))
        .await
        .expect("it gets there as well");
    assert_eq!(slow.calls(), events);
    let none = within("dead letters", store.dead_letters(&DeadLetterQuery::default()))
        .await
        .expect("dead letters can be read");
    assert_eq!(none, [], "nobody has given up");
    end(bus).await;
}
