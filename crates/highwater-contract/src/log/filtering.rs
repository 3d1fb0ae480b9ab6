//! The filter comes before the limit.

use std::sync::Arc;

use highwater::backend::{ReadLimit, Record};
use highwater::{Append, EventStore, EventTypes};

use crate::support::{Ledger, Reader, deposits, everything, head, new_stream, soak, store};
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
        // One page is what it takes. A backend may give up a search and go on, but not event by event.
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
}
