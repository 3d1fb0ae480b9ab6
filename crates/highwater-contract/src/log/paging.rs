//! Reading in pages: each event once, whatever the size of the pages.

use std::sync::Arc;

use highwater::backend::{Log, ReadLimit, Record, StreamRead};
use highwater::{Append, Event, EventStore, EventTypes};
use uuid::Uuid;

use crate::support::{Ledger, Reader, deposits, everything, new_stream, soak, store, stream, stream_in_pages};
use crate::{Harness, Settings};

/// Limits that cut a log in odd places.
fn odd_limits() -> impl Iterator<Item = ReadLimit> {
    let by_events = [1, 2, 3, 7, 10, 1_000].map(ReadLimit::events);
    let by_bytes = [1, 100, 150, 151, 500, 4_096].map(|bytes| ReadLimit { events: 1_000, bytes });
    let both = [ReadLimit { events: 3, bytes: 400 }, ReadLimit { events: 0, bytes: 0 }];
    by_events.into_iter().chain(by_bytes).chain(both)
}

/// Events of many sizes in two streams.
async fn stored<L: Log>(log: &L) -> [Uuid; 2] {
    let streams = [new_stream(), new_stream()];
    for round in 0..12 {
        let note = Ledger::Noted("x".repeat(round * 37 % 200));
        store(log, &Append::to(streams[round % 2]).event(note).event(Ledger::deposited(1))).await;
    }
    streams
}

pub(crate) async fn reading_resumes_after_a_position<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    stored(&log).await;
    let all = everything(&log).await;
    for (nth, record) in (1..).zip(&all) {
        let mut reader = Reader::of_everything().starting_after(record.global_sequence);
        reader.catch_up(&log).await;
        assert_eq!(reader.seen, all[nth..], "everything beyond the position, and not the event at it");
        let rest = log.read_all_events_since::<Ledger>(record.global_sequence).collect().await;
        let rest: Vec<Uuid> = rest.expect("everything is read").iter().map(|event| event.id).collect();
        assert_eq!(rest, all[nth..].iter().map(|record| record.id).collect::<Vec<_>>());
    }
}

pub(crate) async fn pages_of_any_size_hold_each_event_once<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    stored(&log).await;
    let all = everything(&log).await;
    assert_eq!(all.len(), 24);
    for limit in odd_limits() {
        let mut reader = Reader::new(EventTypes::All, limit);
        reader.catch_up(&log).await;
        assert_eq!(reader.seen, all, "in pages of {limit:?}");
    }
}

pub(crate) async fn a_stream_in_pages_of_any_size_is_the_same<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    for stream_id in stored(&log).await {
        let whole = stream(&log, stream_id).await;
        assert_eq!(whole.len(), 12);
        for limit in odd_limits() {
            for from in [1, 2, 5, 12] {
                let at = from as usize;
                let read = StreamRead { limit, ..StreamRead::forwards(from) };
                assert_eq!(stream_in_pages(&log, stream_id, read).await, whole[at - 1..], "from {from}, {limit:?}");
                let read = StreamRead { limit, ..StreamRead::backwards(from) };
                let back: Vec<Record> = whole[..at].iter().rev().cloned().collect();
                assert_eq!(stream_in_pages(&log, stream_id, read).await, back, "back from {from}, {limit:?}");
            }
        }
    }
}

pub(crate) async fn a_page_holds_one_record_however_small_its_limit<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    store(&log, &Append::to(stream_id).events(["x".repeat(5_000), "y".repeat(5_000)].map(Ledger::Noted))).await;
    let whole = stream(&log, stream_id).await;
    for limit in [ReadLimit { events: 0, bytes: 0 }, ReadLimit { events: 10, bytes: 1 }, ReadLimit::events(1)] {
        let mut reader = Reader::new(EventTypes::All, limit);
        assert!(reader.step(&log).await);
        assert_eq!(reader.seen, whole[..1], "the first alone, with {limit:?}");
        for (read, wanted) in [(StreamRead::forwards(1), &whole[..1]), (StreamRead::backwards(u64::MAX), &whole[1..])] {
            let page = log.read_stream(stream_id, StreamRead { limit, ..read }).await.expect("a stream can be read");
            assert_eq!(page.records, wanted, "the first alone, with {limit:?}");
            assert!(!page.end, "there is one more");
        }
    }
}

pub(crate) async fn the_end_of_a_stream_is_said_where_it_is<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    store(&log, &deposits(stream_id, 4)).await;
    for (events, end) in [(3, false), (4, true), (5, true)] {
        for read in [StreamRead::forwards(1), StreamRead::backwards(4), StreamRead::backwards(u64::MAX)] {
            let limit = ReadLimit::events(events);
            let direction = read.direction;
            let page = log.read_stream(stream_id, StreamRead { limit, ..read }).await.expect("a stream can be read");
            assert_eq!(page.end, end, "after {events} of 4, {direction:?}");
        }
    }
    for read in [StreamRead::forwards(5), StreamRead::backwards(0)] {
        let page = log.read_stream(stream_id, read).await.expect("a stream can be read");
        assert!(page.end, "beyond the end is the end");
    }
}

pub(crate) async fn typed_reading_goes_over_many_pages<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (stream_id, other) = (new_stream(), new_stream());
    // More than the first page of a typed read, and more than the second.
    let count = 1_200 + 2_000 * i64::from(soak(1) > 1);
    for chunk in (1..=count).collect::<Vec<_>>().chunks(200) {
        let append = Append::to(stream_id).events(chunk.iter().copied().map(Ledger::deposited));
        store(&log, &append.and_to(other).event(Ledger::Closed)).await;
    }
    let cents = |events: Vec<Event<Ledger>>| -> Vec<i64> {
        let cents = |event: Event<Ledger>| match event.data {
            Ledger::Deposited { cents } => Some(cents),
            _ => None,
        };
        events.into_iter().filter_map(cents).collect()
    };
    let wanted: Vec<i64> = (1..=count).collect();
    let read = log.read_events(stream_id).collect().await.expect("a stream is read");
    assert_eq!(cents(read), wanted, "forwards");
    let read = log.read_all_events_since(0).collect().await.expect("everything is read");
    assert_eq!(cents(read), wanted, "with everything");
    let mut read = cents(log.read_events_backwards(stream_id).collect().await.expect("a stream is read"));
    read.reverse();
    assert_eq!(read, wanted, "backwards");
}
