//! What an append does: all of it, in its order, without holes.

use std::sync::Arc;

use highwater::{Append, Appended, Event, EventStore, ExpectedVersion};
use uuid::Uuid;

use crate::support::{Ledger, assert_holds, deposits, everything, new_stream, refused, soak, store, stream};
use crate::{Harness, Settings};

pub(crate) async fn an_append_returns_the_place_of_each_event<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let first = deposits(stream_id, 3);
    let first_done = store(&log, &first).await;
    assert!(!first_done.repeated, "an append that is new is not repeated");
    assert!(first_done.positions[0].global_sequence > 0, "0 means before everything");
    let second = deposits(stream_id, 2);
    let second_done = store(&log, &second).await;
    let versions: Vec<u64> = second_done.positions.iter().map(|position| position.stream_version).collect();
    assert_eq!(versions, [4, 5]);
    assert_eq!(second_done.stream_version, 5);
    assert!(second_done.positions[0].global_sequence > first_done.global_sequence, "the order only ever grows");
    assert_holds(&everything(&log).await, [(&first, &first_done), (&second, &second_done)]);
}

pub(crate) async fn an_append_to_several_streams_is_stored_whole<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let streams: Vec<Uuid> = (0..5).map(|_| new_stream()).collect();
    let append = streams.iter().enumerate().fold(Append::to(streams[0]), |append, (cents, stream_id)| {
        append.and_to(*stream_id).event(Ledger::deposited(cents as i64)).event(Ledger::Closed)
    });
    let done = store(&log, &append).await;
    assert_holds(&everything(&log).await, [(&append, &done)]);
    for stream_id in streams {
        assert_eq!(stream(&log, stream_id).await.len(), 2, "each stream got its events");
    }
}

pub(crate) async fn a_large_append_is_stored_whole<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let streams: Vec<Uuid> = (0..20).map(|_| new_stream()).collect();
    let append = (0..soak(500).min(10_000) as usize).fold(Append::to(streams[0]), |append, nth| {
        append.and_to(streams[nth * 7 % streams.len()]).event(Ledger::deposited(nth as i64))
    });
    let done = store(&log, &append).await;
    assert_holds(&everything(&log).await, [(&append, &done)]);
}

pub(crate) async fn the_events_of_an_append_are_numbered_in_its_order<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b, c) = (new_stream(), new_stream(), new_stream());
    store(&log, &deposits(b, 2)).await;
    // To and fro between the streams, some of which exist and some do not.
    let order = [b, a, b, c, a, a, c, b, c, a];
    let append = order.iter().enumerate().fold(Append::to(b), |append, (cents, stream_id)| {
        append.and_to(*stream_id).event(Ledger::deposited(cents as i64))
    });
    let done = store(&log, &append).await;
    let versions: Vec<u64> = done.positions.iter().map(|position| position.stream_version).collect();
    assert_eq!(versions, [3, 1, 4, 1, 2, 3, 2, 5, 3, 4], "each stream counts for itself");
    let ids: Vec<Uuid> = everything(&log).await.into_iter().skip(2).map(|record| record.id).collect();
    assert_eq!(ids, append.event_ids().collect::<Vec<_>>(), "the log has the order of the append");
}

pub(crate) async fn versions_have_no_holes<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let mut done: Vec<(Append, Appended)> = Vec::new();
    for round in 1..=6_usize {
        // What is refused, rolled back or repeated uses no version up.
        refused(&log, &deposits(stream_id, round).expecting(ExpectedVersion::Exact(1_000))).await;
        refused(&log, &deposits(stream_id, round).event(Ledger::Noted("\0".into()))).await;
        let open = harness.begin(&log, deposits(stream_id, round)).await.expect("an append can be begun");
        open.rollback().await.expect("an open append can be rolled back");
        if let Some((append, first)) = done.last() {
            assert_eq!(store(&log, append).await.positions, first.positions);
        }
        let append = deposits(stream_id, round);
        let answer = store(&log, &append).await;
        done.push((append, answer));
    }
    let versions: Vec<u64> = stream(&log, stream_id).await.iter().map(|record| record.stream_version).collect();
    assert_eq!(versions, (1..=21).collect::<Vec<_>>());
    assert_holds(&everything(&log).await, done.iter().map(|(append, done)| (append, done)));
}

pub(crate) async fn version_order_and_sequence_order_agree<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let streams: Vec<Uuid> = (0..4).map(|_| new_stream()).collect();
    let mut random = fastrand::Rng::with_seed(crate::support::seed());
    for _ in 0..soak(30) {
        let to = |append: Append, cents| {
            append.and_to(streams[random.usize(..streams.len())]).event(Ledger::deposited(cents))
        };
        store(&log, &(0..5).fold(Append::to(streams[0]).event(Ledger::Closed), to)).await;
    }
    let all = everything(&log).await;
    for stream_id in streams {
        let of_log: Vec<_> = all.iter().filter(|record| record.stream_id == stream_id).cloned().collect();
        assert_eq!(stream(&log, stream_id).await, of_log, "a stream is what the log holds of it, in the same order");
    }
}

pub(crate) async fn stored_events_come_back_with_their_numbers<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b) = (new_stream(), new_stream());
    let event = |stream_id, data| Event::builder().stream_id(stream_id).data(data).build().expect("an event");
    let one = log.store_event(event(a, Ledger::opened())).await.expect("an event is stored");
    assert_eq!((one.stream_version, one.schema_version), (1, 1));
    let many = vec![event(b, Ledger::Closed), event(a, Ledger::deposited(1)), event(b, Ledger::Noted("x".into()))];
    let many = log.store_events(many).await.expect("events are stored");
    let versions: Vec<u64> = many.iter().map(|event| event.stream_version).collect();
    assert_eq!(versions, [1, 2, 2]);
    let stored: Vec<Event<Ledger>> = [one].into_iter().chain(many).collect();
    let read: Vec<Event<Ledger>> = log.read_all_events_since(0).collect().await.expect("events are read");
    assert_eq!(read, stored, "what is returned is what is stored");
}
