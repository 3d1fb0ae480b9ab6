//! Stores that have lived: everything that a copy has to hold.

use chrono::{DateTime, SubsecRound, Utc};
use highwater::backend::{
    Backend, Checkpoints, Closing, DeadLetter, DeadLetterAttempt, DeadLetterDetail, DeadLetterQuery, DeadLetterState,
    Fence, FilledCheckpoint, NewDeadLetter, Record, Request, RequestKind, RequestOutcome, Requests,
};
use uuid::Uuid;

use crate::checkpoints::{put, take_over, to};
use crate::dead_letters::found;
use crate::support::{deposits, everything, new_stream, store as append, within};
use crate::transactions::close;
use crate::{Harness, Settings};

/// What a store holds.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) records: Vec<Record>,
    pub(super) checkpoints: Vec<FilledCheckpoint>,
    pub(super) dead_letters: Vec<DeadLetterDetail>,
    pub(super) requests: Vec<Request>,
}

/// A time in whole microseconds.
fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 123_456_000).expect("a time of these years")
}

fn record(stream_id: Uuid, stream_version: u64, global_sequence: u64, data: &str) -> Record {
    Record {
        id: Uuid::now_v7(),
        stream_id,
        // Every other one, also a name that another writer gave.
        stream_name: stream_id.as_u128().is_multiple_of(2).then(|| "ä order without a slash".into()),
        stream_version,
        global_sequence,
        event_type: "Noted ä".to_owned(),
        schema_version: 3,
        data: data.to_owned(),
        metadata: r#"{"actor":"anna", "n":1.50}"#.to_owned(),
        created_at: at(-1_000_000_000 + global_sequence.cast_signed()),
    }
}

fn checkpoint(name: &str, global_sequence: u64, event_id: Option<Uuid>, paused: bool) -> FilledCheckpoint {
    FilledCheckpoint {
        subscriber_id: name.to_owned(),
        global_sequence,
        event_id,
        updated_at: at(1_700_000_000),
        paused,
    }
}

fn dead_letter(record: &Record, state: DeadLetterState) -> DeadLetterDetail {
    let resolved = !state.is_open();
    let dead_letter = DeadLetter {
        id: Uuid::now_v7(),
        subscriber_id: "projection:orders".to_owned(),
        event_id: record.id,
        global_sequence: record.global_sequence,
        stream_id: record.stream_id,
        stream_name: record.stream_name.clone(),
        event_type: record.event_type.clone(),
        error_message: (state != DeadLetterState::Parked).then(|| "no \"room\"\nfor 🦀".to_owned()),
        retry_count: 3,
        created_at: at(1_600_000_000),
        last_retry_at: resolved.then(|| at(1_600_000_001)),
        state,
        parks: state == DeadLetterState::Parked,
        resolved_at: resolved.then(|| at(1_600_000_002)),
        resolved_by: resolved.then(|| "anna".to_owned()),
        reason: (state == DeadLetterState::Discarded).then(|| "a test order".to_owned()),
    };
    let attempt = |second: i64, outcome: &str, detail: Option<&str>| DeadLetterAttempt {
        at: at(1_600_000_000 + second),
        by: "anna".to_owned(),
        outcome: outcome.to_owned(),
        detail: detail.map(str::to_owned),
    };
    // Out of order by time: the order in which they were made is what counts.
    let tries = [attempt(9, "failed", Some("still full")), attempt(2, state.name(), None)];
    DeadLetterDetail { dead_letter, record: None, attempts: if resolved { tries.to_vec() } else { Vec::new() } }
}

fn request(name: &str, second: i64, kind: RequestKind) -> Request {
    Request {
        id: Uuid::now_v7(),
        subscriber_id: name.to_owned(),
        kind,
        requested_by: "ben".to_owned(),
        requested_at: at(1_650_000_000 + second),
        outcome: None,
    }
}

impl Sample {
    /// With holes, large events, JSON of every look, dead letters in every state and every kind of request.
    pub(super) fn new() -> Self {
        let (one, two) = (new_stream(), new_stream());
        let large = format!("{{\"text\":\"{}\"}}", "ä\\n".repeat(10_000));
        let records = vec![
            record(one, 1, 2, "null"),
            record(two, 1, 3, "{ \"b\":1,\n\t\"a\" : [1.0, 1e3, 340282366920938463463374607431768211455] }"),
            record(one, 2, 7, r#"{"a":1,"a":2}"#),
            record(two, 2, 8, &large),
            record(one, 3, 9, " \"\\u00e4\" "),
            record(two, 3, 1_000, r#"{"text":"last"}"#),
        ];
        let dead_letters =
            records.iter().zip(DeadLetterState::ALL).map(|(record, state)| dead_letter(record, state)).collect();
        let (orders, stock) = ("projection:orders", "projection:stock");
        Self {
            checkpoints: vec![
                checkpoint(orders, 9, Some(records[4].id), false),
                checkpoint(stock, 1_000, None, true),
                checkpoint("saga:later", 5_000, None, false),
            ],
            requests: vec![
                request(orders, 1, RequestKind::Replay { dead_letter: Uuid::now_v7() }),
                request(stock, 1, RequestKind::ReplayStream { stream_id: one }),
                request(orders, 2, RequestKind::ReplayAll),
                request(
                    stock,
                    3,
                    RequestKind::Discard { dead_letter: Uuid::now_v7(), reason: "no \"need\"".to_owned() },
                ),
                request(orders, 4, RequestKind::Rebuild),
                request(orders, 5, RequestKind::Reread),
            ],
            records,
            dead_letters,
        }
    }

    /// Another one, and smaller.
    pub(super) fn other() -> Self {
        let stream_id = new_stream();
        let records = vec![record(stream_id, 1, 1, "1"), record(stream_id, 2, 5, "2")];
        let checkpoints = vec![checkpoint("projection:gone", 1, None, true)];
        Self {
            records,
            checkpoints,
            dead_letters: Vec::new(),
            requests: vec![request("projection:gone", 9, RequestKind::ReplayAll)],
        }
    }

    /// The last number.
    pub(super) fn head(&self) -> u64 {
        self.records.last().map_or(0, |last| last.global_sequence)
    }

    /// What a store holds, in whole microseconds.
    pub(super) async fn of(store: &dyn Backend) -> Self {
        let checkpoints = store.checkpoints().await.expect("checkpoints can be read");
        let names: Vec<String> = checkpoints.iter().map(|found| found.subscriber_id.clone()).collect();
        let paused = store.paused(&names).await.expect("pauses can be read");
        let checkpoint = |found: highwater::backend::Checkpoint| FilledCheckpoint {
            paused: paused.contains(&found.subscriber_id),
            updated_at: found.updated_at.trunc_subsecs(6),
            subscriber_id: found.subscriber_id,
            global_sequence: found.global_sequence,
            event_id: found.event_id,
        };
        let mut dead_letters = Vec::new();
        for dead_letter in
            found(store, &DeadLetterQuery { states: DeadLetterState::ALL.to_vec(), ..DeadLetterQuery::default() }).await
        {
            let mut detail = store.dead_letter(dead_letter.id).await.expect("it can be read").expect("it is there");
            let dead_letter = &mut detail.dead_letter;
            dead_letter.created_at = dead_letter.created_at.trunc_subsecs(6);
            dead_letter.last_retry_at = dead_letter.last_retry_at.map(|at| at.trunc_subsecs(6));
            dead_letter.resolved_at = dead_letter.resolved_at.map(|at| at.trunc_subsecs(6));
            detail.attempts.iter_mut().for_each(|attempt| attempt.at = attempt.at.trunc_subsecs(6));
            dead_letters.push(DeadLetterDetail { record: None, ..detail });
        }
        let requests = store.all_open_requests(None, usize::MAX).await.expect("requests can be read");
        let requests = requests
            .into_iter()
            .map(|request| Request { requested_at: request.requested_at.trunc_subsecs(6), ..request })
            .collect();
        let checkpoints = checkpoints.into_iter().map(checkpoint).collect();
        Self { records: everything(store).await, checkpoints, dead_letters, requests }
    }
}

/// Lets a store live through everything that leaves something behind.
pub(super) async fn live_through<H: Harness>(harness: &H, store: &H::Store) {
    let (one, two) = (new_stream(), new_stream());
    append(store, &deposits(one, 3)).await;
    // Leaves a hole where numbers are drawn before they are used.
    let open = harness.begin(store, deposits(two, 2)).await.expect("an append can be begun");
    within("a rollback", open.rollback()).await.expect("it can be taken back");
    append(store, &deposits(two, 4)).await;
    let records = everything(store).await;
    let (orders, _) = take_over(store, "projection:orders", 0).await;
    let (stock, _) = take_over(store, "projection:stock", 0).await;
    for (record, fence) in records.iter().zip([&orders, &orders, &orders, &orders, &stock]) {
        bury(store, fence, record).await;
    }
    let ids: Vec<Uuid> = found(store, &DeadLetterQuery::of("projection:orders")).await.iter().map(|it| it.id).collect();
    close(store, &orders, Closing::ReplayFailed { dead_letter: ids[0], by: "anna", error: "still full" }).await;
    close(store, &orders, Closing::Replayed { dead_letter: ids[0], by: "ben" }).await;
    close(store, &orders, Closing::Discarded { dead_letter: ids[1], by: "anna", reason: "no need" }).await;
    let reset = Closing::Reset { to: 2, by: "carla", nonce: Uuid::now_v7(), setup_version: None };
    let term = close(store, &stock, reset).await.term;
    put(store, to(&Fence { term, ..stock }, records[5].global_sequence)).await;
    within("a pause", store.set_paused("projection:stock", true)).await.expect("it can be paused");
    let finished = request("projection:orders", 0, RequestKind::ReplayAll);
    for request in [finished.clone(), request("projection:orders", 5, RequestKind::Rebuild)] {
        within("filing", store.file_request(&request)).await.expect("a request can be filed");
    }
    let outcome = RequestOutcome::default();
    close(store, &orders, Closing::Finished { request: finished.id, outcome: &outcome }).await;
    assert_eq!(
        harness.reopen(store, Settings::default()).await.checkpoints().await.expect("they can be read").len(),
        2
    );
}

/// Every second dead letter waits behind another.
async fn bury(store: &dyn Backend, fence: &Fence, record: &Record) {
    let from = crate::checkpoints::position(store, &fence.subscriber_id).await.expect("it has a checkpoint");
    let failed = record.stream_version % 2 == 1;
    let dead_letter = NewDeadLetter {
        event_id: record.id,
        global_sequence: record.global_sequence,
        stream_id: record.stream_id,
        event_type: record.event_type.clone(),
        error_message: failed.then(|| "it would not go in".to_owned()),
        retry_count: 2,
        parks: true,
    };
    close(store, fence, Closing::Bury { dead_letter: &dead_letter, from }).await;
}
