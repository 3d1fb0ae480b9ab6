//! The contract of a store that can be filled, and what is done with it: copying, exporting, importing.

mod abandoning;
mod files;
mod samples;

use highwater::transfer::TransferError;
use std::sync::Arc;

use highwater::backend::{
    Backend, Batch, Checkpoints, DeadLetterDetail, DeadLetterQuery, DeadLetterState, DeadLetters, Diagnose, Filling,
    Log, Record, Request, RequestKind, Requests, Severity, Transfer,
};
use highwater::{Claim, Error, EventStore, transfer};
use uuid::Uuid;

use crate::checkpoints::{position, stored, take_over};
use crate::dead_letters::found;
use crate::support::{Reader, deposits, everything, head, new_stream, store as append, stream, within};
use crate::{Harness, Settings};
pub(crate) use abandoning::{a_view_of_what_was_abandoned_is_folded_anew, positions_in_what_was_abandoned_are_void};
pub(crate) use files::{a_bad_import_leaves_nothing_behind, an_export_is_imported_as_the_same_bytes};
use samples::{Sample, live_through};

/// Begins to fill a store, which nothing speaks against.
async fn fill(store: &dyn Backend, source: &str) -> Box<dyn Filling> {
    within("beginning to fill", store.fill(source)).await.expect("an empty store can be filled")
}

/// Fills in all of it.
async fn put(filling: &mut dyn Filling, sample: &Sample) {
    let (first, second) = sample.records.split_at(sample.records.len() / 2);
    for records in [first, second] {
        within("filling in", filling.put(Batch::Records(records))).await.expect("records can be filled in");
    }
    put_delivery(filling, sample).await;
}

async fn put_delivery(filling: &mut dyn Filling, sample: &Sample) {
    within("filling in", filling.put(Batch::Checkpoints(&sample.checkpoints)))
        .await
        .expect("checkpoints can be filled in");
    within("filling in", filling.put(Batch::DeadLetters(&sample.dead_letters)))
        .await
        .expect("dead letters can be filled in");
    within("filling in", filling.put(Batch::Requests(&sample.requests))).await.expect("requests can be filled in");
}

async fn finish(filling: Box<dyn Filling>) {
    within("finishing", filling.finish()).await.expect("a filling can be finished");
}

fn being_filled<T: std::fmt::Debug>(what: &str, result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::BeingFilled { .. })), "{what} while the store is being filled: {result:?}");
}

/// Checks that a store holds a sample and nothing else.
async fn assert_holds(store: &dyn Backend, sample: &Sample) {
    assert_eq!(everything(store).await, sample.records, "the records as they were");
    let subscribers: Vec<String> = sample.checkpoints.iter().map(|wanted| wanted.subscriber_id.clone()).collect();
    let paused = within("pauses", store.paused(&subscribers)).await.expect("pauses can be read");
    for wanted in &sample.checkpoints {
        let found = stored(store, &wanted.subscriber_id).await.expect("there is a checkpoint");
        assert_eq!((found.global_sequence, found.event_id), (wanted.global_sequence, wanted.event_id));
        assert_eq!(found.updated_at, wanted.updated_at);
        assert_eq!(paused.contains(&wanted.subscriber_id), wanted.paused, "the pause of {}", wanted.subscriber_id);
    }
    let count = within("checkpoints", store.checkpoints()).await.expect("checkpoints can be read").len();
    assert_eq!(count, sample.checkpoints.len());
    let query = DeadLetterQuery { states: DeadLetterState::ALL.to_vec(), ..DeadLetterQuery::default() };
    let mut dead_letters = Vec::new();
    for dead_letter in self::found(store, &query).await {
        let detail = within("a dead letter", store.dead_letter(dead_letter.id))
            .await
            .expect("it can be read")
            .expect("it is there");
        let record = sample.records.iter().find(|record| record.id == dead_letter.event_id);
        assert_eq!(detail.record.as_ref(), record, "the dead letter shows its event");
        dead_letters.push(DeadLetterDetail { record: None, ..detail });
    }
    assert_eq!(dead_letters, sample.dead_letters, "the dead letters as they were");
    let requests = within("requests", store.all_open_requests(None, 100)).await.expect("requests can be read");
    assert_eq!(requests, sample.requests, "the requests as they were");
    let events = within("a count", store.count_events(u64::MAX)).await.expect("events can be counted");
    assert_eq!(events, sample.records.len() as u64);
}

pub(crate) async fn a_store_is_filled_with_everything_as_it_is<H: Harness>(harness: Arc<H>) {
    let (store, sample) = (harness.fresh(Settings::default()).await, Sample::new());
    let mut filling = fill(&store, "a sample").await;
    assert_eq!(filling.filled_to(), 0);
    put(&mut *filling, &sample).await;
    assert_eq!(filling.filled_to(), sample.head());
    finish(filling).await;
    assert_eq!(store.filling().await.expect("it can be asked"), None);
    assert_holds(&store, &sample).await;
    assert_holds(&harness.reopen(&store, Settings::default()).await, &sample).await;
    let open = within("requests", store.open_requests(&["projection:orders".to_owned()])).await;
    assert_eq!(open.expect("requests can be read").len(), 4, "the leader is given them");
    // An empty source has an empty copy.
    let empty = harness.fresh(Settings::default()).await;
    finish(fill(&empty, "nothing").await).await;
    assert_eq!(everything(&empty).await, []);
    append(&empty, &deposits(new_stream(), 1)).await;
}

pub(crate) async fn what_is_filled_continues_where_it_was<H: Harness>(harness: Arc<H>) {
    let (store, sample) = (harness.fresh(Settings::default()).await, Sample::new());
    let mut filling = fill(&store, "a sample").await;
    put(&mut *filling, &sample).await;
    finish(filling).await;
    let known = sample.records.last().expect("there are some");
    let done = append(&store, &deposits(known.stream_id, 2)).await;
    assert_eq!(done.positions[0].stream_version, known.stream_version + 1, "versions continue");
    assert!(done.positions[0].global_sequence > sample.head(), "so do numbers: {done:?}");
    assert_eq!(stream(&store, known.stream_id).await.len() as u64, known.stream_version + 2);
    let mut reader = Reader::of_everything();
    reader.catch_up(&store).await;
    assert_eq!(reader.seen.len(), sample.records.len() + 2);
    let before = stored(&store, "projection:orders").await.expect("it has a checkpoint");
    let (_, taken) = take_over(&store, "projection:orders", 0).await;
    assert!(!taken.fresh && taken.checkpoint.term.number > before.term.number, "a new leader resumes: {taken:?}");
    assert_eq!(taken.checkpoint.global_sequence, before.global_sequence);
    let (_, fresh) = take_over(&store, "projection:new", 0).await;
    assert!(fresh.fresh && fresh.checkpoint.term.number > taken.checkpoint.term.number);
}

pub(crate) async fn only_an_empty_store_is_filled<H: Harness>(harness: Arc<H>) {
    let request = |kind| Request {
        id: Uuid::now_v7(),
        subscriber_id: "projection:orders".to_owned(),
        kind,
        requested_by: "anna".to_owned(),
        requested_at: chrono::Utc::now(),
        outcome: None,
    };
    for what in ["events", "checkpoints", "requests"] {
        let store = harness.fresh(Settings::default()).await;
        match what {
            "events" => drop(append(&store, &deposits(new_stream(), 3)).await),
            "checkpoints" => drop(take_over(&store, "projection:orders", 7).await),
            _ => store.file_request(&request(RequestKind::ReplayAll)).await.expect("a request can be filed"),
        }
        let before = everything(&store).await;
        let refused = within("filling", store.fill("a sample")).await.err();
        assert!(
            matches!(refused, Some(Error::Transfer(TransferError::NotEmpty { .. }))),
            "it holds {what}: {refused:?}"
        );
        assert_eq!(store.filling().await.expect("it can be asked"), None, "nothing was begun");
        assert_eq!(everything(&store).await, before);
        append(&store, &deposits(new_stream(), 1)).await;
        take_over(&store, "projection:other", 0).await;
    }
}

pub(crate) async fn a_filling_that_was_interrupted_is_resumed<H: Harness>(harness: Arc<H>) {
    let (store, sample) = (harness.fresh(Settings::default()).await, Sample::new());
    let (first, rest) = sample.records.split_at(3);
    let mut filling = fill(&store, "a sample").await;
    assert_eq!(store.filling().await.expect("it can be asked").expect("it is being filled").filled_to, 0);
    filling.put(Batch::Records(first)).await.expect("records can be filled in");
    // What is told before the end may be told otherwise when it resumes: dead letters were purged meanwhile, for instance.
    put_delivery(&mut *filling, &Sample { dead_letters: sample.dead_letters[..2].to_vec(), ..Sample::other() }).await;
    drop(filling);
    let again = harness.reopen(&store, Settings::default()).await;
    let unfinished = within("asking", again.filling()).await.expect("it can be asked").expect("it is not finished");
    assert_eq!((unfinished.source.as_str(), unfinished.filled_to), ("a sample", first[2].global_sequence));
    assert_eq!(everything(&again).await, first, "what there is can be read");
    being_filled("filling from elsewhere", within("filling", again.fill("another")).await.map(|_| ()));
    let mut filling = within("resuming", again.fill("a sample")).await.expect("it can be resumed");
    assert_eq!(filling.filled_to(), first[2].global_sequence);
    filling.put(Batch::Records(rest)).await.expect("records can be filled in");
    put_delivery(&mut *filling, &sample).await;
    finish(filling).await;
    assert_holds(&store, &sample).await;
}

pub(crate) async fn what_breaks_the_order_is_not_filled_in<H: Harness>(harness: Arc<H>) {
    let (store, sample) = (harness.fresh(Settings::default()).await, Sample::new());
    let mut filling = fill(&store, "a sample").await;
    let (first, rest) = sample.records.split_at(3);
    filling.put(Batch::Records(first)).await.expect("records can be filled in");
    let next = |change: fn(&mut Record, &[Record])| {
        let mut records = rest.to_vec();
        change(&mut records[1], first);
        records
    };
    let bad = [
        ("a number that is taken", next(|record, first| record.global_sequence = first[0].global_sequence)),
        ("a number twice", next(|record, _| record.global_sequence -= 1)),
        ("an id that is taken", next(|record, first| record.id = first[1].id)),
        (
            "a version that is taken",
            next(|record, first| {
                (record.stream_id, record.stream_version) = (first[0].stream_id, first[0].stream_version);
            }),
        ),
        ("a hole in a stream", next(|record, _| record.stream_version += 1)),
        (
            "a new stream that begins at 2",
            next(|record, _| {
                (record.stream_id, record.stream_version) = (Uuid::now_v7(), 2);
            }),
        ),
        ("no JSON", next(|record, _| record.data = "{\"a\":".to_owned())),
        ("an escaped NUL", next(|record, _| record.data = r#"{"a":"\u0000"}"#.to_owned())),
        ("metadata that is no object", next(|record, _| record.metadata = "[]".to_owned())),
        ("no event type", next(|record, _| record.event_type.clear())),
        ("a number out of range", next(|record, _| record.global_sequence = u64::MAX)),
    ];
    for (what, records) in bad {
        let refused = within("filling in", filling.put(Batch::Records(&records))).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{what}: {refused:?}");
        assert_eq!(filling.filled_to(), first[2].global_sequence, "{what}");
        assert_eq!(everything(&store).await, first, "nothing of a batch with {what}");
    }
    filling.put(Batch::Records(rest)).await.expect("the right ones can be filled in");
    let twice = [sample.dead_letters[0].clone(), sample.dead_letters[0].clone()];
    let refused = filling.put(Batch::DeadLetters(&twice)).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "a dead letter twice: {refused:?}");
    let mut nul = sample.dead_letters[0].clone();
    nul.dead_letter.error_message = Some("a\0b".to_owned());
    let refused = filling.put(Batch::DeadLetters(&[nul])).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "a dead letter with a NUL: {refused:?}");
    put_delivery(&mut *filling, &sample).await;
    finish(filling).await;
    assert_holds(&store, &sample).await;
}

pub(crate) async fn a_filling_locks_everybody_else_out<H: Harness>(harness: Arc<H>) {
    let (store, sample) = (harness.fresh(Settings::default()).await, Sample::new());
    // Connected, and at work, before.
    let before = harness.reopen(&store, Settings::default()).await;
    assert_eq!(head(&before).await, 0);
    let mut filling = Some(fill(&store, "a sample").await);
    for state in ["begun", "full", "interrupted"] {
        match (state, &mut filling) {
            ("full", Some(filling)) => put(&mut **filling, &sample).await,
            ("interrupted", _) => filling = None,
            _ => {}
        }
        let after = harness.reopen(&store, Settings::default()).await;
        for handle in [&store, &before, &after] {
            let new = deposits(new_stream(), 2);
            being_filled("an append", within("an append", handle.append(&new)).await);
            match within("beginning", harness.begin(handle, new)).await {
                Err(Error::BeingFilled { .. }) => {}
                Ok(open) => being_filled("a unit of work", within("a commit", open.commit()).await),
                Err(other) => panic!("a unit of work while the store is being filled: {other:?}"),
            }
            being_filled("taking over", within("taking over", handle.take_over(&Claim::of("projection:orders"))).await);
            being_filled("a pause", within("a pause", handle.set_paused("projection:orders", true)).await);
            let request = sample.requests[0].clone();
            being_filled("a request", within("filing", handle.file_request(&request)).await);
            let purged = within("purging", handle.purge_dead_letters("projection:orders", chrono::Utc::now())).await;
            being_filled("purging", purged);
        }
        let records = if state == "begun" { &[][..] } else { &sample.records };
        assert_eq!(everything(&store).await, records, "{state}: nothing but what is filled in");
    }
    let mut filling = within("resuming", store.fill("a sample")).await.expect("it can be resumed");
    put_delivery(&mut *filling, &sample).await;
    finish(filling).await;
    assert_holds(&before, &sample).await;
    append(&before, &deposits(new_stream(), 1)).await;
    take_over(&before, "projection:orders", 0).await;
}

pub(crate) async fn only_one_fills_at_a_time<H: Harness>(harness: Arc<H>) {
    let (store, sample) = (harness.fresh(Settings::default()).await, Sample::new());
    let other = harness.reopen(&store, Settings::default()).await;
    let mut filling = fill(&store, "a sample").await;
    being_filled("a second one from the same source", within("filling", other.fill("a sample")).await.map(|_| ()));
    being_filled("a second one from elsewhere", within("filling", other.fill("another")).await.map(|_| ()));
    being_filled("abandoning what a process is at work on", within("abandoning", other.abandon()).await);
    put(&mut *filling, &sample).await;
    finish(filling).await;
    assert_holds(&other, &sample).await;
}

pub(crate) async fn a_filling_can_be_abandoned<H: Harness>(harness: Arc<H>) {
    let (store, sample) = (harness.fresh(Settings::default()).await, Sample::new());
    assert!(!within("abandoning", store.abandon()).await.expect("there is nothing to abandon"));
    for by_the_filler in [true, false] {
        let mut filling = fill(&store, "a sample").await;
        put(&mut *filling, &sample).await;
        if by_the_filler {
            within("abandoning", filling.abandon()).await.expect("it can be abandoned");
        } else {
            drop(filling);
            assert!(within("abandoning", store.abandon()).await.expect("it can be abandoned"));
        }
        assert_eq!(store.filling().await.expect("it can be asked"), None);
        assert_eq!((everything(&store).await, head(&store).await), (Vec::new(), 0), "nothing is left");
        assert_eq!(position(&store, "projection:orders").await, None);
        let dead_letters = DeadLetterQuery { states: DeadLetterState::ALL.to_vec(), ..DeadLetterQuery::default() };
        assert_eq!(found(&store, &dead_letters).await, []);
        assert_eq!(store.all_open_requests(None, 100).await.expect("requests can be read"), []);
    }
    // From elsewhere, and with other numbers.
    let other = Sample::other();
    let mut filling = fill(&store, "another").await;
    put(&mut *filling, &other).await;
    finish(filling).await;
    assert_holds(&store, &other).await;
    append(&store, &deposits(new_stream(), 1)).await;
}

pub(crate) async fn a_copy_holds_the_same<H: Harness>(harness: Arc<H>) {
    let from = harness.fresh(Settings::default()).await;
    live_through(&*harness, &from).await;
    let to = harness.fresh(Settings::default()).await;
    let mut steps = Vec::new();
    let copied = within("copying", transfer::copy(&from, "the source", &to, |step| steps.push(step))).await;
    let copied = copied.expect("a store can be copied");
    let sample = Sample::of(&from).await;
    assert_holds(&to, &sample).await;
    assert_eq!((copied.copied_to, copied.source_head, copied.resumed_after), (sample.head(), sample.head(), 0));
    let counts = (copied.counts.events, copied.counts.checkpoints, copied.counts.dead_letters, copied.counts.requests);
    let wanted = [sample.records.len(), sample.checkpoints.len(), sample.dead_letters.len(), sample.requests.len()];
    assert_eq!([counts.0, counts.1, counts.2, counts.3], wanted.map(|count| count as u64));
    let last = steps.last().expect("it was told how far it is");
    assert_eq!((last.phase, last.done, last.total), (transfer::Phase::Verifying, counts.0, counts.0));
    let refused = within("copying", transfer::copy(&from, "the source", &to, |_| ())).await;
    assert!(
        matches!(refused, Err(Error::Transfer(TransferError::NotEmpty { .. }))),
        "a copy is not copied to again: {refused:?}"
    );
    // A partial copy is resumed, with what came meanwhile.
    let half = harness.fresh(Settings::default()).await;
    let first = sample.records.first().expect("there are some");
    let mut filling = fill(&half, &format!("the source (first event {})", first.id)).await;
    filling.put(Batch::Records(&sample.records[..4])).await.expect("records can be filled in");
    drop(filling);
    append(&from, &deposits(new_stream(), 1)).await;
    let copied = within("copying", transfer::copy(&from, "the source", &half, |_| ())).await;
    let copied = copied.expect("a copy can be resumed");
    assert_eq!(copied.resumed_after, sample.records[3].global_sequence);
    assert_holds(&half, &Sample::of(&from).await).await;
}

/// A store whose filling was interrupted half way.
async fn half<H: Harness>(harness: &H) -> (H::Store, Sample) {
    let (store, sample) = (harness.fresh(Settings::default()).await, Sample::new());
    let mut filling = fill(&store, "a sample").await;
    filling.put(Batch::Records(&sample.records[..3])).await.expect("records can be filled in");
    drop(filling);
    (store, sample)
}

pub(crate) async fn half_a_copy_is_no_source<H: Harness>(harness: Arc<H>) {
    let (store, sample) = half(&*harness).await;
    let (half, to) = (harness.reopen(&store, Settings::default()).await, harness.fresh(Settings::default()).await);
    being_filled("copying it", within("copying", transfer::copy(&half, "half", &to, |_| ())).await);
    assert_eq!(to.filling().await.expect("it can be asked"), None, "nothing was begun");
    assert_eq!(head(&to).await, 0);
    let mut file = Vec::new();
    being_filled("exporting it", within("exporting", transfer::export(&half, &mut file, |_| ())).await);
    assert!(file.is_empty(), "nothing was written");
    let mut filling = within("resuming", store.fill("a sample")).await.expect("it can be resumed");
    filling.put(Batch::Records(&sample.records[3..])).await.expect("records can be filled in");
    put_delivery(&mut *filling, &sample).await;
    finish(filling).await;
    within("copying", transfer::copy(&half, "all", &to, |_| ())).await.expect("the whole of it can be copied");
    assert_holds(&to, &sample).await;
}

pub(crate) async fn half_a_copy_says_that_it_is<H: Harness>(harness: Arc<H>) {
    let (store, sample) = half(&*harness).await;
    let half = harness.reopen(&store, Settings::default()).await;
    let overview = within("an overview", half.overview()).await.expect("the store answers");
    let unfinished = overview.filling.expect("it is not finished");
    assert_eq!((unfinished.source.as_str(), unfinished.filled_to), ("a sample", sample.records[2].global_sequence));
    let bad = async || {
        let findings = within("findings", half.diagnose()).await.expect("a store that works can say how it is");
        findings.into_iter().find(|finding| finding.severity == Severity::Bad)
    };
    let found = bad().await.expect("half a store is not well");
    assert!(found.found.contains("a sample"), "it says from what: {found}");
    assert!(within("abandoning", store.abandon()).await.expect("it can be abandoned"));
    abandoning::page_after(&half, 0).await;
    let overview = within("an overview", half.overview()).await.expect("the store answers");
    assert_eq!((overview.filling, bad().await), (None, None), "there is nothing left of it");
}
