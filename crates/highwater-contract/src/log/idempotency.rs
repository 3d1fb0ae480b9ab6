//! Appending twice is appending once.

use std::sync::Arc;

use highwater::ExpectedVersion::{Exact, NoStream, StreamExists};
use highwater::backend::Log;
use highwater::{Append, Error, Metadata};
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::support::{Ledger, assert_holds, deposits, everything, new_stream, refused, soak, store, stream, within};
use crate::{Harness, Settings};

pub(crate) async fn an_append_sent_again_returns_its_first_places<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let append = deposits(new_stream(), 3);
    let first = store(&log, &append).await;
    for _ in 0..3 {
        let again = store(&log, &append).await;
        assert!(again.repeated, "the store says that it knew this append");
        assert_eq!(again.positions, first.positions);
    }
    assert_holds(&everything(&log).await, [(&append, &first)]);
}

pub(crate) async fn an_append_sent_again_after_others_is_still_known<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let append = deposits(stream_id, 2);
    let first = store(&log, &append).await;
    for _ in 0..10 {
        store(&log, &deposits(stream_id, 3)).await;
        store(&log, &deposits(new_stream(), 1)).await;
    }
    let before = everything(&log).await;
    let again = store(&log, &append).await;
    assert_eq!((again.positions, again.repeated), (first.positions, true));
    assert_eq!(everything(&log).await, before, "a repetition stores nothing");
}

pub(crate) async fn ids_are_checked_before_versions<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b) = (new_stream(), new_stream());
    let begun = deposits(a, 2).expecting(NoStream);
    let gone_on = deposits(a, 1).expecting(Exact(2)).and_to(b).expecting(Exact(0)).event(Ledger::Closed);
    let sent = [(store(&log, &begun).await, begun), (store(&log, &gone_on).await, gone_on)];
    store(&log, &deposits(a, 1)).await;
    // Neither expectation holds any more, and neither is asked for.
    for (first, append) in &sent {
        assert_eq!(store(&log, append).await.positions, first.positions);
    }
    // Nor are others, when the ids are known.
    let same_ids = |append: &Append| {
        let ids: Vec<Uuid> = append.event_ids().collect();
        let events = ids
            .iter()
            .zip(1..)
            .fold(Append::to(a), |append, (id, cents)| append.event_with_id(*id, Ledger::deposited(cents)));
        (events.clone().expecting(Exact(99)), events.expecting(NoStream))
    };
    let (exact, no_stream) = same_ids(&sent[0].1);
    assert_eq!(store(&log, &exact).await.positions, sent[0].0.positions);
    assert_eq!(store(&log, &no_stream).await.positions, sent[0].0.positions);
}

pub(crate) async fn an_append_to_several_streams_is_repeated_as_a_whole<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b) = (new_stream(), new_stream());
    let append = Append::to(b)
        .expecting(NoStream)
        .event(Ledger::opened())
        .and_to(a)
        .expecting(NoStream)
        .event(Ledger::opened())
        .and_to(b)
        .event(Ledger::Closed);
    let first = store(&log, &append).await;
    let again = store(&log, &append).await;
    assert_eq!((again.positions, again.repeated), (first.positions.clone(), true));
    assert_holds(&everything(&log).await, [(&append, &first)]);
}

pub(crate) async fn a_mixture_of_known_and_new_ids_is_refused<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b) = (new_stream(), new_stream());
    let known: Vec<Uuid> = (0..2).map(|_| Uuid::now_v7()).collect();
    let stored = known.iter().fold(Append::to(a), |append, id| append.event_with_id(*id, Ledger::Closed));
    store(&log, &stored).await;
    let mixtures = [
        // The new one last, first, in another stream, and under an expectation that does not hold.
        stored.clone().event(Ledger::Closed),
        Append::to(a)
            .event(Ledger::Closed)
            .event_with_id(known[0], Ledger::Closed)
            .event_with_id(known[1], Ledger::Closed),
        stored.clone().and_to(b).event(Ledger::Closed),
        stored.clone().event(Ledger::Closed).expecting(Exact(99)),
    ];
    for append in &mixtures {
        let error = refused(&log, append).await;
        assert!(matches!(error, Error::PartlyStored { stored: 2, total: 3 }), "2 of 3 are known: {error:?}");
    }
    let error = refused(&log, &Append::to(a).event_with_id(known[1], Ledger::Closed).event(Ledger::Closed)).await;
    assert!(matches!(error, Error::PartlyStored { stored: 1, total: 2 }), "1 of 2 is known: {error:?}");
    // However many new ones go before it: a backend may need several statements for them.
    for new in [2, 6, 90] {
        let append =
            (0..new).fold(Append::to(b).event(Ledger::Closed).and_to(a), |append, _| append.event(Ledger::Closed));
        let error = refused(&log, &append.event_with_id(known[0], Ledger::Closed)).await;
        assert!(matches!(error, Error::PartlyStored { stored: 1, .. }), "1 of {new} and two is known: {error:?}");
    }
    assert_eq!(stream(&log, b).await, []);
    assert_eq!(stream(&log, a).await.len(), 2);
}

pub(crate) async fn an_id_of_another_event_is_refused<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b) = (new_stream(), new_stream());
    store(&log, &deposits(a, 1)).await;
    let id = Uuid::now_v7();
    store(&log, &Append::to(a).event_with_id(id, Ledger::deposited(7))).await;
    let others = [
        ("stream", Append::to(b).event_with_id(id, Ledger::deposited(7))),
        ("event type", Append::to(a).event_with_id(id, Ledger::Closed)),
        ("payload", Append::to(a).event_with_id(id, Ledger::deposited(8))),
        // Expectations come second, whether they hold or not.
        ("payload", Append::to(a).expecting(Exact(2)).event_with_id(id, Ledger::deposited(8))),
        ("payload", Append::to(a).expecting(NoStream).event_with_id(id, Ledger::deposited(8))),
    ];
    for (difference, append) in &others {
        match refused(&log, append).await {
            Error::IdTaken { event_id, stream_id, stream_version, differs_in, .. } => {
                assert_eq!((event_id, stream_id, stream_version, differs_in), (id, a, 2, *difference));
            }
            other => panic!("an id with another {difference} is taken, not {other:?}"),
        }
    }
    assert_eq!(stream(&log, b).await, []);
}

pub(crate) async fn metadata_and_time_may_differ_the_second_time<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (stream_id, id) = (new_stream(), Uuid::now_v7());
    let attempt =
        |actor| Append::to(stream_id).event_with_id(id, Ledger::Closed).metadata(&Metadata::new().with_actor(actor));
    let first = store(&log, &attempt("anna")).await;
    let before = everything(&log).await;
    let again = store(&log, &attempt("ben")).await;
    assert_eq!((again.positions, again.repeated), (first.positions, true));
    assert_eq!(everything(&log).await, before, "what was stored first stays");
}

pub(crate) async fn a_payload_written_in_another_order_is_the_same_payload<H: Harness>(harness: Arc<H>) {
    #[derive(serde::Serialize)]
    enum Raw {
        Noted(Box<RawValue>),
    }
    let log = harness.fresh(Settings::default()).await;
    let (stream_id, id) = (new_stream(), Uuid::now_v7());
    let noted = |json: &str| Raw::Noted(RawValue::from_string(json.to_owned()).expect("this is JSON"));
    let first = store(&log, &Append::to(stream_id).event_with_id(id, noted(r#"{"a":1,"b":[2]}"#))).await;
    let before = everything(&log).await;
    let again = store(&log, &Append::to(stream_id).event_with_id(id, noted(r#"{ "b": [2], "a": 1 }"#))).await;
    assert_eq!((again.positions, again.repeated), (first.positions, true));
    assert_eq!(everything(&log).await, before, "what was stored first stays");
}

pub(crate) async fn what_was_refused_may_be_sent_again<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b) = (new_stream(), new_stream());
    let append = deposits(a, 1).and_to(b).expecting(StreamExists).event(Ledger::Closed);
    refused(&log, &append).await;
    store(&log, &deposits(b, 1)).await;
    let done = store(&log, &append).await;
    assert!(!done.repeated, "the ids of a refused append are not taken");
    assert_eq!(stream(&log, b).await.len(), 2);
}

pub(crate) async fn the_same_append_sent_many_times_at_once_is_stored_once<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let shared = new_stream();
    let mut stored = Vec::new();
    for _ in 0..soak(8) {
        // In a new stream and at the end of one that exists; in the latter others are at work as well.
        let append = deposits(new_stream(), 2).expecting(NoStream).and_to(shared).event(Ledger::Closed);
        let mut callers = JoinSet::new();
        for _ in 0..8 {
            let (log, append) = (log.clone(), append.clone());
            callers.spawn(async move { within("an append", log.append(&append)).await });
        }
        let other = deposits(shared, 1);
        let other_done = store(&log, &other).await;
        let answers: Vec<_> =
            callers.join_all().await.into_iter().map(|answer| answer.expect("each of them succeeds")).collect();
        assert!(answers.iter().all(|answer| answer.positions == answers[0].positions), "one place: {answers:?}");
        assert_eq!(
            answers.iter().filter(|answer| !answer.repeated).count(),
            1,
            "one was first, and the rest repeated it"
        );
        stored.push((append, answers[0].clone()));
        stored.push((other, other_done));
    }
    assert_holds(&everything(&log).await, stored.iter().map(|(append, done)| (append, done)));
}
