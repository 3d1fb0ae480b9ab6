//! What an append may expect of its streams, and the conflict when that does not hold.

use std::sync::Arc;

use highwater::ExpectedVersion::{Any, Exact, NoStream, StreamExists};
use highwater::backend::Log;
use highwater::{Append, Error, Event, EventStore, ExpectedVersion};
use tokio::task::JoinSet;

use crate::support::{
    Ledger, assert_conflict, assert_holds, deposits, everything, new_stream, refused, soak, store, stream, within,
};
use crate::{Harness, Settings};

pub(crate) async fn any_expects_nothing<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    for version in 1..=12 {
        let done = store(&log, &deposits(stream_id, 1).expecting(Any)).await;
        assert_eq!(done.stream_version, version);
    }
}

pub(crate) async fn no_stream_accepts_only_a_new_stream<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    store(&log, &deposits(stream_id, 2).expecting(NoStream)).await;
    let error = refused(&log, &deposits(stream_id, 1).expecting(NoStream)).await;
    assert_conflict(&error, stream_id, NoStream, 2);
    // The same, by its number.
    let another = new_stream();
    store(&log, &deposits(another, 1).expecting(Exact(0))).await;
    let error = refused(&log, &deposits(another, 1).expecting(Exact(0))).await;
    assert_conflict(&error, another, Exact(0), 1);
}

pub(crate) async fn stream_exists_accepts_only_an_existing_stream<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let error = refused(&log, &deposits(stream_id, 1).expecting(StreamExists)).await;
    assert_conflict(&error, stream_id, StreamExists, 0);
    // Another stream is not this one.
    store(&log, &deposits(new_stream(), 1)).await;
    refused(&log, &deposits(stream_id, 1).expecting(StreamExists)).await;
    store(&log, &deposits(stream_id, 1)).await;
    let done = store(&log, &deposits(stream_id, 1).expecting(StreamExists)).await;
    assert_eq!(done.stream_version, 2);
}

pub(crate) async fn exact_accepts_only_that_version<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    store(&log, &deposits(stream_id, 3)).await;
    for wrong in [0, 1, 2, 4, 1_000] {
        let error = refused(&log, &deposits(stream_id, 1).expecting(Exact(wrong))).await;
        assert_conflict(&error, stream_id, Exact(wrong), 3);
    }
    let done = store(&log, &deposits(stream_id, 2).expecting(Exact(3))).await;
    assert_eq!(done.stream_version, 5);
    let error = refused(&log, &deposits(new_stream(), 1).expecting(Exact(3))).await;
    assert!(matches!(error, Error::Conflict { actual: 0, .. }), "a stream that does not exist is at 0: {error:?}");
}

pub(crate) async fn a_version_that_cannot_exist_is_a_conflict<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    for actual in [0, 1] {
        for huge in [u64::MAX, u64::MAX - 1, i64::MAX as u64, i64::MAX as u64 + 1, i32::MAX as u64 + 1] {
            let error = refused(&log, &deposits(stream_id, 1).expecting(Exact(huge))).await;
            assert_conflict(&error, stream_id, Exact(huge), actual);
        }
        store(&log, &deposits(stream_id, 1)).await;
    }
}

pub(crate) async fn each_stream_of_an_append_has_its_own_expectation<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (new, old, known, any) = (new_stream(), new_stream(), new_stream(), new_stream());
    store(&log, &deposits(old, 1)).await;
    store(&log, &deposits(known, 4)).await;
    let append = Append::to(any)
        .event(Ledger::Closed)
        .and_to(new)
        .expecting(NoStream)
        .event(Ledger::opened())
        .and_to(old)
        .expecting(StreamExists)
        .event(Ledger::Closed)
        .and_to(known)
        .expecting(Exact(4))
        .events([Ledger::Closed, Ledger::Closed]);
    let versions: Vec<u64> =
        store(&log, &append).await.positions.iter().map(|position| position.stream_version).collect();
    assert_eq!(versions, [1, 1, 2, 5, 6]);
}

pub(crate) async fn a_conflict_in_any_stream_stores_nothing_in_all_of_them<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let streams = [new_stream(), new_stream(), new_stream()];
    store(&log, &deposits(streams[1], 1)).await;
    for conflicting in 0..3 {
        let append = streams.iter().enumerate().fold(Append::to(streams[0]), |append, (nth, stream_id)| {
            let expected = if nth == conflicting { Exact(7) } else { Any };
            append.and_to(*stream_id).expecting(expected).events([Ledger::opened(), Ledger::Closed])
        });
        let error = refused(&log, &append).await;
        assert_conflict(&error, streams[conflicting], Exact(7), u64::from(conflicting == 1));
    }
    assert_eq!(stream(&log, streams[0]).await, []);
    assert_eq!(stream(&log, streams[1]).await.len(), 1);
    assert_eq!(stream(&log, streams[2]).await, []);
}

pub(crate) async fn events_with_versions_expect_them<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b) = (new_stream(), new_stream());
    let event = |stream_id, version| {
        Event::builder().stream_id(stream_id).stream_version(version).data(Ledger::Closed).build().expect("an event")
    };
    log.store_events(vec![event(a, 1), event(b, 1), event(a, 2)]).await.expect("both streams are new");
    log.store_event(event(a, 3)).await.expect("3 comes next");
    for (taken, actual) in [(1, 3), (3, 3), (5, 3)] {
        let error = log.store_event(event(a, taken)).await.expect_err("4 would come next");
        assert_conflict(&error, a, Exact(taken - 1), actual);
    }
    let error = log.store_events(vec![event(a, 4), event(b, 1)]).await.expect_err("1 is taken in the second stream");
    assert_conflict(&error, b, Exact(0), 1);
    assert_eq!(everything(&log).await.len(), 4);
}

pub(crate) async fn of_racers_for_one_version_exactly_one_wins<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let mut won = Vec::new();
    for version in 0..u64::from(soak(8)) {
        let expected: ExpectedVersion = if version == 0 { NoStream } else { Exact(version) };
        let mut racers = JoinSet::new();
        for _ in 0..8 {
            let log = log.clone();
            racers.spawn(async move {
                let append = deposits(stream_id, 1).expecting(expected);
                let done = within("a race", log.append(&append)).await;
                (append, done)
            });
        }
        let before = won.len();
        for (append, done) in racers.join_all().await {
            match done {
                Ok(done) => won.push((append, done)),
                Err(error) => assert_conflict(&error, stream_id, expected, version + 1),
            }
        }
        assert_eq!(won.len(), before + 1, "of the racers for version {} one wins", version + 1);
    }
    assert_holds(&everything(&log).await, won.iter().map(|(append, done)| (append, done)));
}
