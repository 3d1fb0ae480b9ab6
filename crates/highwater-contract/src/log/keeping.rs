//! What is acknowledged stays.

use std::sync::Arc;

use highwater::{Append, EventStore};

use crate::support::{Ledger, Reader, deposits, everything, head, new_stream, soak, store, stream};
use crate::{Harness, Settings};

pub(crate) async fn an_acknowledged_append_is_there_at_once<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let other = harness.reopen(&log, Settings::default()).await;
    let stream_id = new_stream();
    for version in 1..=u64::from(soak(10)) {
        let (writer, reader) = if version % 2 == 0 { (&log, &other) } else { (&other, &log) };
        let done = store(writer, &deposits(stream_id, 1)).await;
        for handle in [writer, reader] {
            assert_eq!(head(handle).await, done.global_sequence, "the head has moved");
            let last = handle.read_last_event::<Ledger>(stream_id).await.expect("a stream is read");
            assert_eq!(last.map(|event| event.stream_version), Some(version), "the event is there");
            let all = handle.read_all_events_since::<Ledger>(0).collect().await.expect("everything is read");
            assert_eq!(all.len() as u64, version, "everything is there");
        }
    }
}

pub(crate) async fn a_log_that_is_opened_again_holds_everything<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    for count in 1..=5 {
        store(&log, &deposits(stream_id, count).and_to(new_stream()).event(Ledger::opened())).await;
    }
    let open = harness.begin(&log, deposits(new_stream(), 2)).await.expect("an append can be begun");
    open.commit().await.expect("an open append can be committed");
    let before = everything(&log).await;
    assert_eq!(before.len(), 22);
    let of_stream = stream(&log, stream_id).await;
    let head_before = head(&log).await;
    let again = harness.reopen(&log, Settings::default()).await;
    drop(log);
    assert_eq!(everything(&again).await, before);
    assert_eq!(stream(&again, stream_id).await, of_stream);
    assert_eq!(head(&again).await, head_before);
}

pub(crate) async fn a_log_that_is_opened_again_continues<H: Harness>(harness: Arc<H>) {
    let mut log = harness.fresh(Settings::default()).await;
    let (stream_id, first) = (new_stream(), deposits(new_stream(), 2));
    let first_done = store(&log, &first).await;
    let mut last = first_done.global_sequence;
    for version in 1..=4 {
        log = harness.reopen(&log, Settings::default()).await;
        let done = store(&log, &deposits(stream_id, 1)).await;
        assert_eq!(done.stream_version, version, "versions continue");
        assert!(done.global_sequence > last, "the order continues");
        last = done.global_sequence;
        let again = store(&log, &first).await;
        assert_eq!((again.positions, again.repeated), (first_done.positions.clone(), true), "ids stay known");
    }
}

pub(crate) async fn the_head_is_the_last_committed_event<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    assert_eq!(head(&log).await, 0);
    let done = store(&log, &deposits(new_stream(), 3)).await;
    assert_eq!(head(&log).await, done.global_sequence);
    let open = harness.begin(&log, deposits(new_stream(), 1)).await.expect("an append can be begun");
    assert_eq!(head(&log).await, done.global_sequence, "what is open does not count");
    open.rollback().await.expect("an open append can be rolled back");
    assert_eq!(head(&log).await, done.global_sequence, "what was rolled back does not count");
    let open = harness.begin(&log, Append::to(new_stream()).event(Ledger::Closed)).await;
    let done = open.expect("an append can be begun").commit().await.expect("an open append can be committed");
    assert_eq!(head(&log).await, done.global_sequence, "what was committed counts");
    let mut reader = Reader::of_everything();
    reader.catch_up(&log).await;
    assert_eq!(reader.position, done.global_sequence, "readers get to the head, and not beyond it");
}
