//! The contract of checkpoints: where subscribers have got to, and who may say so.

use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use highwater::backend::{
    Backend, Checkpoint, CheckpointWrite, Checkpoints, Fence, Opening, Refused, Report, Requests, Taken, Term,
};
use highwater::{Claim, Error, EventTypes, Filter, SubscriptionState};
use uuid::Uuid;

use crate::support::within;
use crate::{Harness, Settings};

/// Takes over for a subscriber, and gives the fence that comes with it.
pub(crate) async fn take_over(store: &dyn Backend, subscriber_id: &str, start: u64) -> (Fence, Taken) {
    let taken = within("taking over", store.take_over(&Claim { start, ..Claim::of(subscriber_id) }))
        .await
        .expect("one can take over");
    (taken.checkpoint.fence(), taken)
}

/// A write of a checkpoint alone.
pub(crate) fn to(fence: &Fence, global_sequence: u64) -> CheckpointWrite {
    CheckpointWrite { fence: fence.clone(), global_sequence, event_id: None }
}

/// Stores one checkpoint.
pub(crate) async fn put(store: &dyn Backend, write: CheckpointWrite) -> Option<Refused> {
    let answers = within("storing a checkpoint", store.store_checkpoints(std::slice::from_ref(&write))).await;
    let answers = answers.expect("a checkpoint can be stored");
    assert_eq!(answers.len(), 1, "one write, one answer");
    answers[0].clone()
}

/// The checkpoint that is stored.
pub(crate) async fn stored(store: &dyn Backend, subscriber_id: &str) -> Option<Checkpoint> {
    within("reading a checkpoint", store.checkpoint(subscriber_id)).await.expect("a checkpoint can be read")
}

/// Where the checkpoint stands.
pub(crate) async fn position(store: &dyn Backend, subscriber_id: &str) -> Option<u64> {
    stored(store, subscriber_id).await.map(|checkpoint| checkpoint.global_sequence)
}

pub(crate) async fn a_new_subscriber_has_no_checkpoint<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    assert_eq!(stored(&store, "projection:new").await, None);
    assert_eq!(store.checkpoints().await.expect("checkpoints can be read"), []);
    take_over(&store, "projection:other", 5).await;
    assert_eq!(stored(&store, "projection:new").await, None, "another's checkpoint is not its own");
}

pub(crate) async fn taking_over_stores_the_start<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (_, taken) = take_over(&store, "projection:late", 42).await;
    assert_eq!((taken.fresh, taken.checkpoint.global_sequence), (true, 42), "it was new");
    let checkpoint = stored(&store, "projection:late").await.expect("the start is stored");
    assert_eq!((checkpoint.global_sequence, checkpoint.term, checkpoint.event_id), (42, taken.checkpoint.term, None));
    assert_eq!(checkpoint.incarnation, taken.checkpoint.incarnation);
    let (_, again) = take_over(&store, "projection:late", 7).await;
    assert_eq!((again.fresh, again.checkpoint.global_sequence), (false, 42), "the start counts once");
}

pub(crate) async fn a_checkpoint_is_stored_and_replaced<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    let event_id = Uuid::now_v7();
    assert_eq!(put(&store, CheckpointWrite { event_id: Some(event_id), ..to(&fence, 3) }).await, None);
    let first = stored(&store, "projection:orders").await.expect("it is stored");
    assert_eq!((first.global_sequence, first.event_id), (3, Some(event_id)));
    assert_eq!(first.subscriber_id, "projection:orders");
    assert_eq!(put(&store, to(&fence, 9)).await, None);
    let second = stored(&store, "projection:orders").await.expect("it is stored");
    assert_eq!((second.global_sequence, second.event_id), (9, Some(event_id)), "no event id leaves the one there is");
    assert!(second.updated_at >= first.updated_at);
    assert_eq!(store.checkpoints().await.expect("checkpoints can be read"), [second], "one row, not two");
}

pub(crate) async fn checkpoints_are_independent<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    // Names that only differ in case, in a blank or in what comes last.
    let names = ["projection:a", "projection:A", "projection:a ", "projection:ab", "projektion:ä", "saga:a"];
    let mut fences = Vec::new();
    for (at, name) in (1..).zip(names) {
        let (fence, taken) = take_over(&store, name, at).await;
        assert!(taken.fresh, "{name:?} is new");
        fences.push(fence);
    }
    for (at, fence) in (1..).zip(&fences) {
        assert_eq!(put(&store, to(fence, 100 * at)).await, None);
    }
    for (at, name) in (1..).zip(names) {
        assert_eq!(position(&store, name).await, Some(100 * at), "{name:?}");
    }
    let all = store.checkpoints().await.expect("checkpoints can be read");
    let mut found: Vec<_> = all.iter().map(|checkpoint| checkpoint.subscriber_id.as_str()).collect();
    found.sort_unstable();
    let mut wanted = names;
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

pub(crate) async fn a_checkpoint_never_moves_back<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    assert_eq!(put(&store, to(&fence, 50)).await, None);
    assert_eq!(put(&store, to(&fence, 20)).await, None, "a write that comes late counts as stored");
    assert_eq!(position(&store, "projection:orders").await, Some(50), "and changes nothing");
    let (_, taken) = take_over(&store, "projection:orders", 0).await;
    assert_eq!(taken.checkpoint.global_sequence, 50);
}

pub(crate) async fn several_writes_are_answered_one_by_one<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (first, _) = take_over(&store, "projection:1", 0).await;
    let (old, _) = take_over(&store, "projection:2", 0).await;
    let (_, newer) = take_over(&store, "projection:2", 0).await;
    let missing = Fence { subscriber_id: "projection:3".into(), ..first.clone() };
    let (last, _) = take_over(&store, "projection:4", 0).await;
    let writes = [to(&last, 4), to(&old, 2), to(&first, 1), to(&missing, 3)];
    let answers = within("storing checkpoints", store.store_checkpoints(&writes)).await.expect("they can be stored");
    let superseded = Some(Refused::Superseded { term: newer.checkpoint.term.number });
    assert_eq!(answers, [None, superseded, None, Some(Refused::Missing)], "in the order of the writes");
    assert_eq!(position(&store, "projection:1").await, Some(1));
    assert_eq!(position(&store, "projection:2").await, Some(0));
    assert_eq!(position(&store, "projection:3").await, None);
    assert_eq!(position(&store, "projection:4").await, Some(4));
    assert_eq!(store.store_checkpoints(&[]).await.expect("nothing can be stored"), []);
}

pub(crate) async fn terms_only_grow<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let other = harness.reopen(&store, Settings::default()).await;
    let mut before: Option<Term> = None;
    for turn in 0..12 {
        let store = if turn % 3 == 0 { &other } else { &store };
        let (_, taken) = take_over(store, ["projection:a", "projection:b"][turn % 2], 0).await;
        if let Some(before) = before {
            assert!(
                taken.checkpoint.term.number > before.number,
                "{:?} after {before:?}, whichever subscriber they are for",
                taken.checkpoint.term
            );
            assert_ne!(taken.checkpoint.term.nonce, before.nonce, "nonces tell terms apart");
        }
        before = Some(taken.checkpoint.term);
    }
}

pub(crate) async fn an_older_term_writes_nothing<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (old, _) = take_over(&store, "projection:orders", 0).await;
    assert_eq!(put(&store, to(&old, 10)).await, None);
    let (new, taken) = take_over(&store, "projection:orders", 0).await;
    assert_eq!(taken.checkpoint.global_sequence, 10);
    let superseded = Some(Refused::Superseded { term: new.term.number });
    assert_eq!(put(&store, to(&old, 20)).await, superseded);
    // The same number with another nonce is another term: a restored backup may number alike.
    let alike = Fence { term: Term { nonce: Uuid::now_v7(), ..new.term }, ..new.clone() };
    assert_eq!(put(&store, to(&alike, 30)).await, superseded);
    assert_eq!(position(&store, "projection:orders").await, Some(10));
    for fence in [&old, &alike] {
        match within("beginning", store.begin(fence, Opening::Handler, None)).await.map(drop) {
            Err(Error::Fenced { subscriber_id, term }) => {
                assert_eq!((subscriber_id.as_str(), term), ("projection:orders", Some(new.term.number)));
            }
            other => panic!("an older term begins nothing: {other:?}"),
        }
    }
    assert_eq!(put(&store, to(&new, 11)).await, None);
    assert_eq!(position(&store, "projection:orders").await, Some(11));
}

pub(crate) async fn a_missing_checkpoint_is_fenced<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:there", 0).await;
    let missing = Fence { subscriber_id: "projection:missing".into(), ..fence };
    assert_eq!(put(&store, to(&missing, 5)).await, Some(Refused::Missing));
    match within("beginning", store.begin(&missing, Opening::Handler, None)).await.map(drop) {
        Err(Error::Fenced { term: None, .. }) => {}
        other => panic!("without a checkpoint nothing begins: {other:?}"),
    }
    assert_eq!(stored(&store, "projection:missing").await, None, "nothing was made of it");
    assert!(!store.set_paused("projection:missing", true).await.expect("it can be tried"), "there is nobody to pause");
    assert_eq!(stored(&store, "projection:missing").await, None, "nothing was made of it");
}

pub(crate) async fn positions_of_another_life_write_nothing<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    let former = Fence { incarnation: fence.incarnation.wrapping_add(1), ..fence.clone() };
    assert_eq!(put(&store, to(&former, 5)).await, Some(Refused::Interrupted));
    assert_eq!(position(&store, "projection:orders").await, Some(0));
    match within("beginning", store.begin(&former, Opening::Handler, None)).await.map(drop) {
        Err(Error::Interrupted { .. }) => {}
        other => panic!("positions of another life of the server count for nothing: {other:?}"),
    }
    assert_eq!(put(&store, to(&fence, 5)).await, None);
}

pub(crate) async fn checkpoints_are_there_when_a_log_is_opened_again<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    assert_eq!(put(&store, to(&fence, 77)).await, None);
    store.set_paused("projection:orders", true).await.expect("it can be paused");
    let again = harness.reopen(&store, Settings::default()).await;
    assert_eq!(stored(&again, "projection:orders").await, stored(&store, "projection:orders").await);
    let (_, taken) = take_over(&again, "projection:orders", 0).await;
    assert!(
        !taken.fresh && taken.checkpoint.global_sequence == 77 && taken.checkpoint.term.number > fence.term.number,
        "{taken:?}"
    );
}

/// A time that every backend can hold: to the microsecond.
fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_micros(Utc::now().timestamp_micros()).expect("now is a time")
}

const ERROR: &str = "no \"room\" for ä 🦀\nat all";

fn report(subscriber_id: &str, term: u64, state: SubscriptionState) -> Report {
    Report {
        subscriber_id: subscriber_id.to_owned(),
        term,
        state,
        position: 41,
        rate: 1234.5,
        last_error: Some(ERROR.to_owned()),
        push_degraded: Some("a pooler".to_owned()),
        reads: Some(Filter::from(EventTypes::only(["Opened", "\"quoted\" ä"])).of_kinds(["account"])),
        reported_at: now(),
    }
}

async fn told<C: Checkpoints>(store: &C, reports: &[Report]) {
    within("storing reports", store.store_reports(reports)).await.expect("reports can be stored");
}

async fn reports<C: Checkpoints>(store: &C) -> Vec<Report> {
    within("reading reports", store.reports()).await.expect("reports can be read")
}

pub(crate) async fn reports_come_back_as_they_were_made<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    assert_eq!(reports(&store).await, []);
    told(&store, &[]).await;
    let next_at = now() + Duration::seconds(5);
    let states = [
        SubscriptionState::CatchingUp { term: 7 },
        SubscriptionState::Live { term: 7 },
        SubscriptionState::Retrying { term: 7, global_sequence: 42, failures: 3, next_at, error: ERROR.into() },
        SubscriptionState::Disconnected { error: ERROR.into() },
        SubscriptionState::Paused,
        SubscriptionState::Halted { reason: "event 42 \"failed\"".into() },
        SubscriptionState::Stopped,
    ];
    // Names that only differ in case, and in an order that is not theirs.
    let names = ["saga:b", "projection:a", "projection:A", "projection:ä", "saga:a", "saga:c", "projection:b"];
    let mut all: Vec<Report> = names.iter().zip(states).map(|(name, state)| report(name, 7, state)).collect();
    let quiet = Report { rate: 0.0, last_error: None, push_degraded: None, reads: Some(Filter::ALL), ..all[0].clone() };
    told(&store, &all).await;
    all[0] = quiet;
    told(&store, &all[..1]).await;
    let again = harness.reopen(&store, Settings::default()).await;
    let found = reports(&again).await;
    all.sort_by(|a, b| a.subscriber_id.cmp(&b.subscriber_id));
    assert_eq!(found, all, "by subscriber, each with what was said last");
}

pub(crate) async fn a_former_leader_says_nothing_any_more<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (one, two) = ("projection:one", "projection:two");
    told(&store, &[report(one, 8, SubscriptionState::Live { term: 8 })]).await;
    let late = [report(one, 7, SubscriptionState::Stopped), report(two, 7, SubscriptionState::Paused)];
    told(&store, &late).await;
    let found: Vec<_> = reports(&store).await.into_iter().map(|it| (it.term, it.state)).collect();
    assert_eq!(
        found,
        [(8, SubscriptionState::Live { term: 8 }), (7, SubscriptionState::Paused)],
        "the others of its batch are stored"
    );
    told(
        &store,
        &[
            report(one, 9, SubscriptionState::CatchingUp { term: 9 }),
            report(two, 7, SubscriptionState::Live { term: 7 }),
        ],
    )
    .await;
    let found: Vec<_> = reports(&store).await.into_iter().map(|it| (it.term, it.state)).collect();
    assert_eq!(found, [(9, SubscriptionState::CatchingUp { term: 9 }), (7, SubscriptionState::Live { term: 7 })]);
}
