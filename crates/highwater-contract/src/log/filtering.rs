//! The filter comes before the limit.

use std::sync::Arc;

use highwater::backend::{Direction, Log, ReadLimit, Record, StreamRead};
use highwater::{Append, EventStore, EventTypes, GlobalSequence};
use uuid::Uuid;

use crate::support::{Ledger, Reader, deposits, everything, head, new_stream, soak, store, stream, stream_in_pages};
use crate::{Harness, Settings};

pub(crate) async fn a_rare_type_is_found_behind_many_others<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let many = soak(300).min(5_000) as usize;
    store(&log, &deposits(stream_id, many)).await;
    store(&log, &Append::to(stream_id).event(Ledger::Closed)).await;
    store(&log, &deposits(stream_id, 20)).await;
    for limit in [ReadLimit::events(1), ReadLimit::events(5), ReadLimit { events: 1_000, bytes: 1 }] {
        let mut reader = Reader::new(EventTypes::only(["Closed"]), limit);
        let mut pages = 0;
        while reader.seen.is_empty() {
            assert!(reader.step(&log).await, "a position moves on until the type is found");
            pages += 1;
        }
        assert_eq!(reader.seen[0].stream_version, many as u64 + 1);
        // One page is what it takes. A backend may give up a search and continue, but not event by event.
        assert!(pages <= many / 10, "{pages} pages of {limit:?} to find one event");
    }
}

pub(crate) async fn the_position_moves_on_past_what_is_not_wanted<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    store(&log, &deposits(stream_id, 10).event(Ledger::Closed)).await;
    store(&log, &deposits(stream_id, 10)).await;
    for types in [EventTypes::only(["Closed"]), EventTypes::only(["Nobody"]), EventTypes::Only(Vec::new())] {
        let mut reader = Reader::new(types.clone(), ReadLimit::events(3));
        reader.catch_up(&log).await;
        assert_eq!(reader.position, head(&log).await, "to the end, though nothing there is wanted");
        assert_eq!(reader.seen.len(), usize::from(types.contains("Closed")));
        // And further, when there is more that is not wanted.
        let more = store(&log, &deposits(stream_id, 5)).await;
        reader.catch_up(&log).await;
        assert_eq!(reader.position, more.global_sequence);
    }
}

pub(crate) async fn filtered_pages_hold_each_wanted_event_once<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let streams = [new_stream(), new_stream(), new_stream()];
    for round in 0..30_usize {
        let append = Append::to(streams[round % 3]).event(match round * 7 % 5 {
            0 => Ledger::Closed,
            1 => Ledger::opened(),
            _ => Ledger::Noted("x".repeat(round)),
        });
        store(&log, &append).await;
    }
    let all = everything(&log).await;
    let many: Vec<String> = (0..500).map(|nth| format!("Other{nth}")).chain(["Opened".to_owned()]).collect();
    for types in [
        EventTypes::only(["Closed"]),
        EventTypes::only(["Opened", "Closed"]),
        EventTypes::only(["Noted"]),
        EventTypes::only(["Closed", "Nobody", "Closed"]),
        EventTypes::Only(many),
    ] {
        let wanted: Vec<Record> = all.iter().filter(|record| types.contains(&record.event_type)).cloned().collect();
        let by_bytes = ReadLimit { events: 1_000, bytes: 200 };
        for limit in [1, 2, 3, 7, 1_000].map(ReadLimit::events).into_iter().chain([by_bytes]) {
            let mut reader = Reader::new(types.clone(), limit);
            reader.catch_up(&log).await;
            assert_eq!(reader.seen, wanted, "in pages of {limit:?}");
        }
    }
}

pub(crate) async fn filtered_reading_resumes_anywhere<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    store(&log, &deposits(stream_id, 3).event(Ledger::Closed).event(Ledger::opened()).event(Ledger::Closed)).await;
    let all = everything(&log).await;
    let types = EventTypes::only(["Closed"]);
    for after in [0].into_iter().chain(all.iter().map(|record| record.global_sequence)) {
        let beyond = |record: &&Record| record.global_sequence > after && types.contains(&record.event_type);
        let wanted: Vec<Record> = all.iter().filter(beyond).cloned().collect();
        let mut reader = Reader::new(types.clone(), ReadLimit::events(1)).starting_after(after);
        reader.catch_up(&log).await;
        assert_eq!(reader.seen, wanted, "after {after}");
    }
}

pub(crate) async fn types_are_matched_whole_and_to_the_letter<H: Harness>(harness: Arc<H>) {
    #[derive(serde::Serialize)]
    enum Similar {
        Closed,
        #[serde(rename = "closed")]
        Lower,
        #[serde(rename = "Closed ")]
        Spaced,
        #[serde(rename = "Closed2")]
        Longer,
        #[serde(rename = "Close")]
        Shorter,
        #[serde(rename = "C_osed")]
        Wildcard,
        #[serde(rename = "%")]
        Percent,
    }
    use Similar::{Closed, Longer, Lower, Percent, Shorter, Spaced, Wildcard};
    let log = harness.fresh(Settings::default()).await;
    store(&log, &Append::to(new_stream()).events([Lower, Spaced, Longer, Closed, Shorter, Wildcard, Percent])).await;
    for name in ["Closed", "closed", "Closed ", "C_osed", "%"] {
        let mut reader = Reader::new(EventTypes::only([name]), ReadLimit::default());
        reader.catch_up(&log).await;
        let found: Vec<&str> = reader.seen.iter().map(|record| record.event_type.as_str()).collect();
        assert_eq!(found, [name]);
    }
}

pub(crate) async fn typed_reading_finds_rare_types<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    // Further apart than a page of a typed read is long.
    for _ in 0..2 {
        store(&log, &deposits(stream_id, 550)).await;
        store(&log, &Append::to(stream_id).event(Ledger::Closed)).await;
    }
    let types = EventTypes::only(["Closed"]);
    let found = log.read_all_events_of::<Ledger>(0, types).collect().await.expect("some types are read");
    let versions: Vec<u64> = found.iter().map(|event| event.stream_version).collect();
    assert_eq!(versions, [551, 1_102]);
    let types = EventTypes::only(["Closed", "Opened"]);
    let found = log.read_events_of::<Ledger>(stream_id, types).collect().await.expect("some types are read");
    let versions: Vec<u64> = found.iter().map(|event| event.stream_version).collect();
    assert_eq!(versions, [551, 1_102], "in their stream");
}

/// Two streams, appended to by turns, with events of several types and sizes.
async fn mixed<L: Log>(log: &L) -> [Uuid; 2] {
    let streams = [new_stream(), new_stream()];
    for round in 0..24_usize {
        let event = match round * 7 % 5 {
            0 => Ledger::Closed,
            1 => Ledger::opened(),
            _ => Ledger::Noted("x".repeat(round)),
        };
        store(log, &Append::to(streams[round % 2]).event(event).and_to(streams[round / 2 % 2]).event(Ledger::Closed))
            .await;
    }
    streams
}

/// What a read of a whole stream should give.
fn chosen(whole: &[Record], read: &StreamRead) -> Vec<Record> {
    let fits = |record: &&Record| record.global_sequence > read.after && read.types.contains(&record.event_type);
    let mut chosen: Vec<Record> = whole.iter().filter(fits).cloned().collect();
    if read.direction == Direction::Backwards {
        chosen.reverse();
    }
    chosen
}

pub(crate) async fn a_stream_is_filtered_before_it_is_limited<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    for stream_id in mixed(&log).await {
        let whole = stream(&log, stream_id).await;
        let many: Vec<String> = (0..500).map(|nth| format!("Other{nth}")).chain(["Opened".to_owned()]).collect();
        for types in [
            EventTypes::only(["Opened"]),
            EventTypes::only(["Opened", "Noted", "Opened"]),
            EventTypes::only(["closed", "Close", "%", "Noted "]),
            EventTypes::Only(many),
            EventTypes::Only(Vec::new()),
        ] {
            let by_bytes = ReadLimit { events: 1_000, bytes: 200 };
            for limit in [1, 2, 3, 7, 1_000].map(ReadLimit::events).into_iter().chain([by_bytes]) {
                for read in [StreamRead::forwards(1), StreamRead::backwards(u64::MAX)] {
                    let read = StreamRead { types: types.clone(), limit, ..read };
                    let wanted = chosen(&whole, &read);
                    assert_eq!(stream_in_pages(&log, stream_id, read.clone()).await, wanted, "{read:?}");
                }
            }
            let from = StreamRead { types: types.clone(), ..StreamRead::forwards(9) };
            let wanted = chosen(&whole[8..], &from);
            assert_eq!(stream_in_pages(&log, stream_id, from).await, wanted, "from a version on");
        }
    }
}

pub(crate) async fn a_stream_is_read_from_any_place_in_the_log<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let streams = mixed(&log).await;
    let places = everything(&log).await.into_iter().map(|record| record.global_sequence);
    let places: Vec<u64> = [0].into_iter().chain(places).chain([i64::MAX as u64, u64::MAX]).collect();
    for stream_id in streams {
        let whole = stream(&log, stream_id).await;
        for &after in &places {
            for types in [EventTypes::All, EventTypes::only(["Opened"])] {
                for read in [StreamRead::forwards(1), StreamRead::backwards(u64::MAX)] {
                    let read = StreamRead { after, types: types.clone(), limit: ReadLimit::events(5), ..read };
                    let wanted = chosen(&whole, &read);
                    assert_eq!(stream_in_pages(&log, stream_id, read.clone()).await, wanted, "{read:?}");
                }
            }
            let read = StreamRead { after, ..StreamRead::forwards(1) };
            let since = log.read_events_since::<Ledger>(stream_id, GlobalSequence(after)).collect().await;
            let ids: Vec<Uuid> = since.expect("a stream is read").iter().map(|event| event.id).collect();
            assert_eq!(ids, chosen(&whole, &read).iter().map(|record| record.id).collect::<Vec<_>>(), "after {after}");
        }
    }
}

pub(crate) async fn the_end_of_what_was_asked_for_is_said_where_it_is<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    // The wanted ones lie in the middle.
    let append = deposits(stream_id, 5).events([Ledger::Closed, Ledger::Closed, Ledger::opened(), Ledger::Closed]);
    store(&log, &append).await;
    store(&log, &deposits(stream_id, 5)).await;
    let types = EventTypes::only(["Closed"]);
    for (events, end) in [(1, false), (2, false), (3, true), (4, true)] {
        for read in [StreamRead::forwards(1), StreamRead::backwards(u64::MAX)] {
            let read = StreamRead { limit: ReadLimit::events(events), types: types.clone(), ..read };
            let page = log.read_stream(stream_id, read.clone()).await.expect("a stream can be read");
            assert_eq!((page.records.len(), page.end), (events.min(3), end), "{read:?}");
        }
    }
    let last = stream(&log, stream_id).await[8].global_sequence;
    for read in [
        StreamRead { types: EventTypes::only(["Nobody"]), ..StreamRead::forwards(1) },
        StreamRead { types: types.clone(), ..StreamRead::forwards(10) },
        StreamRead { types: types.clone(), ..StreamRead::backwards(5) },
        StreamRead { types: types.clone(), after: last, ..StreamRead::forwards(1) },
        StreamRead { after: last, ..StreamRead::backwards(9) },
    ] {
        let page = log.read_stream(stream_id, read.clone()).await.expect("a stream can be read");
        assert_eq!((page.records.len(), page.end), (0, true), "{read:?}");
    }
}
