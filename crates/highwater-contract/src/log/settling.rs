//! Nobody can undercut the order: a late commit is never skipped, and what is open is not seen.

use std::sync::Arc;
use std::time::Duration;

use highwater::backend::{Log, ReadLimit, Record};
use highwater::{Event, EventStore, EventTypes};
use tokio::time::sleep;
use uuid::Uuid;

use crate::support::{
    Ledger, QUIET, Reader, assert_holds, deposits, eventually, everything, head, new_stream, soak, store, stream,
    within,
};
use crate::{Harness, OpenAppend, Settings};

/// Longer than a commit usually takes, and shorter than any server lets a transaction idle.
const SLOW: Duration = Duration::from_secs(1);

async fn begin<H: Harness>(harness: &H, log: &H::Store, stream_id: Uuid) -> Box<dyn OpenAppend> {
    harness.begin(log, deposits(stream_id, 2)).await.expect("an append can be begun")
}

/// Reads as far as is settled now.
async fn read_on<L: Log>(reader: &mut Reader, log: &L) {
    while reader.step(log).await {}
}

pub(crate) async fn what_is_open_is_not_seen<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    let before = store(&log, &deposits(new_stream(), 1)).await;
    let append = deposits(stream_id, 2);
    let open = harness.begin(&log, append.clone()).await.expect("an append can be begun");
    let mut reader = Reader::of_everything();
    read_on(&mut reader, &log).await;
    assert!(reader.seen.iter().all(|record| record.stream_id != stream_id), "not with everything");
    assert!(reader.position <= before.global_sequence, "nothing beyond what is committed is reported as complete");
    assert_eq!(stream(&log, stream_id).await, [], "not in its stream");
    assert_eq!(head(&log).await, before.global_sequence, "not in the head");
    open.rollback().await.expect("an open append can be rolled back");
    assert_eq!(stream(&log, stream_id).await, [], "what was rolled back never appears");
    assert_eq!(everything(&log).await.len(), 1);
    // Its ids are free again, and its versions are not used up.
    let done = store(&log, &append).await;
    assert_eq!((done.repeated, done.stream_version), (false, 2));
}

pub(crate) async fn a_late_commit_is_not_skipped<H: Harness>(harness: Arc<H>) {
    late_commits(&*harness, EventTypes::All, ReadLimit::default()).await;
    late_commits(&*harness, EventTypes::All, ReadLimit::events(1)).await;
}

pub(crate) async fn a_late_commit_is_not_skipped_by_a_filter<H: Harness>(harness: Arc<H>) {
    late_commits(&*harness, EventTypes::only(["Deposited"]), ReadLimit::events(2)).await;
    late_commits(&*harness, EventTypes::only(["Nobody"]), ReadLimit::default()).await;
}

async fn late_commits<H: Harness>(harness: &H, types: EventTypes, limit: ReadLimit) {
    let log = harness.fresh(Settings::default()).await;
    let mut reader = Reader::new(types.clone(), limit);
    for round in 0..soak(3) {
        // Begun one after the other, ended in another order, with a rollback among them and appends in between.
        let mut open = Vec::new();
        for _ in 0..4 {
            open.push(begin(harness, &log, new_stream()).await);
            store(&log, &deposits(new_stream(), 1)).await;
            read_on(&mut reader, &log).await;
        }
        let first = open.remove(0);
        let rolled_back = open.remove(round as usize % open.len());
        for late in open.into_iter().rev() {
            late.commit().await.expect("an open append can be committed");
            read_on(&mut reader, &log).await;
        }
        rolled_back.rollback().await.expect("an open append can be rolled back");
        store(&log, &deposits(new_stream(), 1)).await;
        read_on(&mut reader, &log).await;
        first.commit().await.expect("an open append can be committed");
    }
    reader.catch_up(&log).await;
    let wanted: Vec<Record> =
        everything(&log).await.into_iter().filter(|record| types.contains(&record.event_type)).collect();
    assert_eq!(reader.seen, wanted, "who read while appends were open has read everything");
}

pub(crate) async fn a_slow_commit_is_not_given_up<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let mut readers =
        [EventTypes::All, EventTypes::only(["Deposited"])].map(|types| Reader::new(types, ReadLimit::default()));
    let open = begin(&*harness, &log, new_stream()).await;
    store(&log, &deposits(new_stream(), 1)).await;
    // Time is the one thing that must make no difference: readers look again and again, and go no further.
    for _ in 0..SLOW.as_millis() / QUIET.as_millis() {
        for reader in &mut readers {
            read_on(reader, &log).await;
        }
        sleep(QUIET).await;
    }
    open.commit().await.expect("an open append can be committed");
    let all = everything(&log).await;
    for mut reader in readers {
        reader.catch_up(&log).await;
        assert_eq!(reader.seen, all, "a reader of {:?}", reader.filter);
    }
}

pub(crate) async fn a_rollback_holds_nobody_back<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let mut reader = Reader::of_everything();
    for _ in 0..soak(5) {
        let open = begin(&*harness, &log, new_stream()).await;
        let done = store(&log, &deposits(new_stream(), 1)).await;
        open.rollback().await.expect("an open append can be rolled back");
        reader.catch_up(&log).await;
        assert_eq!(reader.position, done.global_sequence);
        // One that is dropped is rolled back as well.
        drop(begin(&*harness, &log, new_stream()).await);
        let done = store(&log, &deposits(new_stream(), 1)).await;
        reader.catch_up(&log).await;
        assert_eq!(reader.position, done.global_sequence);
    }
}

pub(crate) async fn a_writer_that_holds_readers_back_is_named<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let open = begin(&*harness, &log, new_stream()).await;
    let done = store(&log, &deposits(new_stream(), 1)).await;
    let mut reader = Reader::of_everything();
    read_on(&mut reader, &log).await;
    if reader.position < done.global_sequence {
        let writers = log.open_writers().await.expect("open writers can be listed");
        assert!(!writers.is_empty(), "readers wait at {}, so a writer holds them back", reader.position);
    }
    open.commit().await.expect("an open append can be committed");
    reader.catch_up(&log).await;
    eventually("nobody is named who has ended", || async {
        log.open_writers().await.expect("open writers can be listed").is_empty()
    })
    .await;
}

pub(crate) async fn typed_reading_waits_for_what_is_open<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (late, early) = (new_stream(), new_stream());
    let open = begin(&*harness, &log, late).await;
    let done = store(&log, &deposits(early, 1)).await;
    let reading = {
        let log = log.clone();
        tokio::spawn(async move { log.read_all_events_since::<Ledger>(0).collect().await })
    };
    // Writers do not wait for it.
    for _ in 0..5 {
        store(&log, &deposits(new_stream(), 1)).await;
    }
    open.commit().await.expect("an open append can be committed");
    let events: Vec<Event<Ledger>> = within("reading", reading).await.expect("no panic").expect("events are read");
    assert!(events.iter().any(|event| event.stream_id == early), "what was there when reading began is read");
    // What lies below it is settled, so it is read too.
    let below = everything(&log).await.into_iter().take_while(|record| record.global_sequence <= done.global_sequence);
    let wanted: Vec<Uuid> = below.map(|record| record.id).collect();
    let read: Vec<Uuid> = events.iter().map(|event| event.id).take(wanted.len()).collect();
    assert_eq!(read, wanted);
}

pub(crate) async fn an_open_append_is_committed_like_any_other<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b) = (new_stream(), new_stream());
    let before = deposits(a, 2);
    let before_done = store(&log, &before).await;
    let append = deposits(a, 1).and_to(b).event(Ledger::Closed).and_to(a).event(Ledger::Closed);
    let open = harness.begin(&log, append.clone()).await.expect("an append can be begun");
    let done = open.commit().await.expect("an open append can be committed");
    let versions: Vec<u64> = done.positions.iter().map(|position| position.stream_version).collect();
    assert_eq!((versions, done.repeated), (vec![3, 1, 4], false));
    assert_holds(&everything(&log).await, [(&before, &before_done), (&append, &done)]);
    let again = store(&log, &append).await;
    assert_eq!((again.positions, again.repeated), (done.positions, true), "its ids are known");
}
