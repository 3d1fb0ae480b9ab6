//! The contract of dead letters: events that a subscriber failed to handle, kept until an operator has dealt with them.

use std::sync::Arc;

use chrono::{TimeDelta, Utc};
use highwater::backend::{
    Backend, Closing, DeadLetter, DeadLetterDetail, DeadLetterQuery, DeadLetterState, DeadLetters, Fence,
    NewDeadLetter, Opening,
};
use uuid::Uuid;

use crate::checkpoints::{position, take_over};
use crate::support::{deposits, everything, new_stream, store as append, within};
use crate::transactions::{close, dead_letter};
use crate::{Harness, Settings};

/// Writes a dead letter, and says how many are parked in its stream then.
async fn bury(store: &dyn Backend, fence: &Fence, dead_letter: &NewDeadLetter) -> u64 {
    let from = position(store, &fence.subscriber_id).await.expect("it has a checkpoint");
    close(store, fence, Closing::Bury { dead_letter, from }).await.parked_left
}

/// The dead letters that a query finds, in pages.
pub(crate) async fn found(store: &dyn Backend, query: &DeadLetterQuery) -> Vec<DeadLetter> {
    let mut query = query.clone();
    let mut all: Vec<DeadLetter> = Vec::new();
    loop {
        let page =
            within("a page of dead letters", store.dead_letters(&query)).await.expect("dead letters can be read");
        assert!(page.len() <= query.limit, "{} dead letters in a page of {}", page.len(), query.limit);
        let Some(last) = page.last() else { break };
        query.after = Some(last.cursor());
        all.extend(page);
        let ascending = all.is_sorted_by(|a, b| (a.global_sequence, a.id) < (b.global_sequence, b.id));
        assert!(ascending, "dead letters come in the order of the log, each once");
    }
    let count = within("a count", store.count_dead_letters(&query)).await.expect("dead letters can be counted");
    assert_eq!(count, all.len() as u64, "the count is of what is shown, whatever the page");
    all
}

/// The events of those dead letters, by their place in the log.
pub(crate) fn places(dead_letters: &[DeadLetter]) -> Vec<u64> {
    dead_letters.iter().map(|dead_letter| dead_letter.global_sequence).collect()
}

async fn detail<D: DeadLetters>(store: &D, id: Uuid) -> DeadLetterDetail {
    within("a dead letter", store.dead_letter(id)).await.expect("a dead letter can be read").expect("there is one")
}

pub(crate) async fn a_dead_letter_tells_everything<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    append(&store, &deposits(new_stream(), 2)).await;
    let record = everything(&store).await.pop().expect("there are two");
    let new = NewDeadLetter {
        event_id: record.id,
        global_sequence: record.global_sequence,
        stream_id: record.stream_id,
        event_type: record.event_type.clone(),
        error_message: Some("no \"room\" for ä 🦀\nat all".to_owned()),
        retry_count: 3,
        parks: false,
    };
    let before = Utc::now();
    assert_eq!(bury(&store, &fence, &new).await, 0, "nothing is parked");
    let dead_letters = found(&store, &DeadLetterQuery::of("projection:orders")).await;
    let [dead_letter] = dead_letters.as_slice() else { panic!("one dead letter, not {dead_letters:?}") };
    assert_eq!(dead_letter.subscriber_id, "projection:orders");
    assert_eq!((dead_letter.event_id, dead_letter.global_sequence), (record.id, record.global_sequence));
    assert_eq!((dead_letter.stream_id, &dead_letter.event_type), (record.stream_id, &record.event_type));
    assert_eq!((&dead_letter.error_message, dead_letter.retry_count), (&new.error_message, 3));
    assert_eq!((dead_letter.state, dead_letter.parks), (DeadLetterState::Dead, false));
    assert_eq!((dead_letter.resolved_at, &dead_letter.resolved_by, &dead_letter.reason), (None, &None, &None));
    assert!(dead_letter.last_retry_at.is_some(), "it was retried");
    let minute = TimeDelta::minutes(1);
    assert!(
        before - minute < dead_letter.created_at && dead_letter.created_at < Utc::now() + minute,
        "{}",
        dead_letter.created_at
    );
    let shown = detail(&store, dead_letter.id).await;
    assert_eq!((&shown.dead_letter, shown.record, shown.attempts), (dead_letter, Some(record), Vec::new()));
    assert_eq!(within("a dead letter", store.dead_letter(Uuid::now_v7())).await.expect("it can be looked for"), None);
}

pub(crate) async fn dead_letters_are_found_by_what_is_asked_for<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (orders, _) = take_over(&store, "projection:orders", 0).await;
    let (stock, _) = take_over(&store, "projection:stock", 0).await;
    let (one, two) = (new_stream(), new_stream());
    for at in 1..=7 {
        bury(&store, &orders, &dead_letter(if at % 2 == 1 { one } else { two }, at)).await;
    }
    for at in [2, 4] {
        bury(&store, &stock, &dead_letter(two, at)).await;
    }
    let all = DeadLetterQuery::default();
    let of_orders = DeadLetterQuery::of("projection:orders");
    assert_eq!(places(&found(&store, &all).await), [1, 2, 2, 3, 4, 4, 5, 6, 7]);
    let dead_letters = found(&store, &of_orders).await;
    assert_eq!(places(&dead_letters), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(places(&found(&store, &DeadLetterQuery::of("projection:stock")).await), [2, 4]);
    assert_eq!(places(&found(&store, &DeadLetterQuery::of("projection:order")).await), [0; 0]);
    for limit in [1, 2, 3, 100] {
        let paged = DeadLetterQuery { limit, ..all.clone() };
        assert_eq!(places(&found(&store, &paged).await), [1, 2, 2, 3, 4, 4, 5, 6, 7], "in pages of {limit}");
        let paged = DeadLetterQuery { limit, stream_id: Some(two), ..of_orders.clone() };
        assert_eq!(places(&found(&store, &paged).await), [2, 4, 6], "of one stream, in pages of {limit}");
    }
    let middle = dead_letters[3].created_at;
    let since = DeadLetterQuery { since: Some(middle), ..of_orders.clone() };
    let until = DeadLetterQuery { until: Some(middle), ..of_orders.clone() };
    let later: Vec<u64> = dead_letters
        .iter()
        .filter(|dead_letter| dead_letter.created_at >= middle)
        .map(|it| it.global_sequence)
        .collect();
    let earlier: Vec<u64> = dead_letters
        .iter()
        .filter(|dead_letter| dead_letter.created_at < middle)
        .map(|it| it.global_sequence)
        .collect();
    assert_eq!(places(&found(&store, &since).await), later);
    assert_eq!(places(&found(&store, &until).await), earlier);
    close(&store, &orders, Closing::Replayed { dead_letter: dead_letters[0].id, by: "anna" }).await;
    close(&store, &orders, Closing::Discarded { dead_letter: dead_letters[1].id, by: "anna", reason: "no need" }).await;
    assert_eq!(places(&found(&store, &of_orders).await), [3, 4, 5, 6, 7], "the open ones unless others are asked for");
    let of = |states: &[DeadLetterState]| DeadLetterQuery { states: states.to_vec(), ..of_orders.clone() };
    assert_eq!(places(&found(&store, &of(&[DeadLetterState::Replayed])).await), [1]);
    assert_eq!(places(&found(&store, &of(&[DeadLetterState::Discarded, DeadLetterState::Archived])).await), [2]);
    assert_eq!(places(&found(&store, &of(&DeadLetterState::ALL)).await), [1, 2, 3, 4, 5, 6, 7]);
    let of_type = |event_type: &str| DeadLetterQuery { event_type: Some(event_type.to_owned()), ..of_orders.clone() };
    let rare = NewDeadLetter { event_type: "Closed".to_owned(), ..dead_letter(one, 8) };
    bury(&store, &orders, &rare).await;
    assert_eq!(places(&found(&store, &of_type("Closed")).await), [8], "of one type");
    assert_eq!(places(&found(&store, &of_type("closed")).await), [0; 0], "to the letter");
}

pub(crate) async fn an_event_has_one_dead_letter_which_is_opened_again<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    let new = dead_letter(new_stream(), 5);
    bury(&store, &fence, &new).await;
    let first = found(&store, &DeadLetterQuery::default()).await.pop().expect("a dead letter");
    close(&store, &fence, Closing::Discarded { dead_letter: first.id, by: "anna", reason: "no need" }).await;
    assert_eq!(found(&store, &DeadLetterQuery::default()).await, []);
    // A subscriber that starts again meets the event again.
    let closed =
        close(&store, &fence, Closing::Reset { to: 0, by: "ben", nonce: Uuid::now_v7(), setup_version: None }).await;
    let fence = Fence { term: closed.term, ..fence };
    bury(&store, &fence, &NewDeadLetter { error_message: Some("again".into()), retry_count: 1, ..new.clone() }).await;
    let dead_letters =
        found(&store, &DeadLetterQuery { states: DeadLetterState::ALL.to_vec(), ..DeadLetterQuery::default() }).await;
    let [again] = dead_letters.as_slice() else { panic!("one dead letter for an event, not {dead_letters:?}") };
    assert_eq!((again.event_id, again.state), (new.event_id, DeadLetterState::Dead));
    assert_eq!((again.error_message.as_deref(), again.retry_count), (Some("again"), 1));
    assert_eq!((again.resolved_at, &again.resolved_by, &again.reason), (None, &None, &None));
}

pub(crate) async fn what_is_done_with_a_dead_letter_is_recorded<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    for at in 1..=3 {
        bury(&store, &fence, &dead_letter(new_stream(), at)).await;
    }
    let ids: Vec<Uuid> =
        found(&store, &DeadLetterQuery::default()).await.iter().map(|dead_letter| dead_letter.id).collect();
    close(&store, &fence, Closing::ReplayFailed { dead_letter: ids[0], by: "anna", error: "still full" }).await;
    let again = detail(&store, ids[0]).await;
    assert_eq!((again.dead_letter.state, again.dead_letter.retry_count), (DeadLetterState::Dead, 4));
    assert_eq!(again.dead_letter.error_message.as_deref(), Some("still full"));
    assert!(again.dead_letter.last_retry_at.is_some() && again.dead_letter.resolved_at.is_none());
    close(&store, &fence, Closing::Replayed { dead_letter: ids[0], by: "ben" }).await;
    let replayed = detail(&store, ids[0]).await;
    assert_eq!((replayed.dead_letter.state, replayed.dead_letter.retry_count), (DeadLetterState::Replayed, 5));
    assert_eq!(replayed.dead_letter.resolved_by.as_deref(), Some("ben"));
    assert!(replayed.dead_letter.resolved_at.is_some());
    let attempts: Vec<_> =
        replayed.attempts.iter().map(|it| (it.by.as_str(), it.outcome.as_str(), it.detail.as_deref())).collect();
    assert_eq!(attempts, [("anna", "failed", Some("still full")), ("ben", "replayed", None)]);
    close(&store, &fence, Closing::Discarded { dead_letter: ids[1], by: "anna", reason: "a test order" }).await;
    let discarded = detail(&store, ids[1]).await;
    assert_eq!((discarded.dead_letter.state, discarded.dead_letter.retry_count), (DeadLetterState::Discarded, 3));
    assert_eq!(discarded.dead_letter.resolved_by.as_deref(), Some("anna"));
    assert_eq!(discarded.dead_letter.reason.as_deref(), Some("a test order"));
    assert_eq!(discarded.attempts.len(), 1);
    close(&store, &fence, Closing::Reset { to: 0, by: "carla", nonce: Uuid::now_v7(), setup_version: None }).await;
    let archived = detail(&store, ids[2]).await;
    assert_eq!(
        (archived.dead_letter.state, archived.dead_letter.resolved_by.as_deref()),
        (DeadLetterState::Archived, Some("carla"))
    );
    let attempts: Vec<_> = archived.attempts.iter().map(|it| (it.by.as_str(), it.outcome.as_str())).collect();
    assert_eq!(attempts, [("carla", "archived")]);
    assert_eq!(detail(&store, ids[1]).await, discarded, "what was resolved stays as it was");
    let again = harness.reopen(&store, Settings::default()).await;
    assert_eq!(detail(&again, ids[2]).await, archived);
}

pub(crate) async fn parked_streams_are_counted<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    let (other, _) = take_over(&store, "projection:other", 0).await;
    let (one, two) = (new_stream(), new_stream());
    let head = |stream_id, at| NewDeadLetter { parks: true, ..dead_letter(stream_id, at) };
    let behind = |stream_id, at| NewDeadLetter { error_message: None, retry_count: 0, ..head(stream_id, at) };
    assert_eq!(bury(&store, &fence, &head(one, 1)).await, 1);
    assert_eq!(bury(&store, &fence, &dead_letter(two, 2)).await, 0, "this one parks nothing");
    assert_eq!(bury(&store, &fence, &behind(one, 3)).await, 2);
    assert_eq!(bury(&store, &fence, &behind(one, 4)).await, 3);
    assert_eq!(bury(&store, &fence, &head(two, 5)).await, 1);
    assert_eq!(bury(&store, &other, &head(two, 5)).await, 1);
    let parked = async |name| {
        let mut parked = within("parked streams", store.parked(name)).await.expect("they can be read");
        parked.sort_unstable();
        parked
    };
    let mut wanted = [(one, 3), (two, 1)];
    wanted.sort_unstable();
    assert_eq!(parked("projection:orders").await, wanted);
    assert_eq!(parked("projection:other").await, [(two, 1)]);
    assert_eq!(parked("projection:none").await, []);
    let dead_letters =
        found(&store, &DeadLetterQuery { stream_id: Some(one), ..DeadLetterQuery::of("projection:orders") }).await;
    let states: Vec<_> =
        dead_letters.iter().map(|dead_letter| (dead_letter.state, dead_letter.error_message.is_some())).collect();
    assert_eq!(
        states,
        [(DeadLetterState::Dead, true), (DeadLetterState::Parked, false), (DeadLetterState::Parked, false)]
    );
    let failed = Closing::ReplayFailed { dead_letter: dead_letters[0].id, by: "anna", error: "still full" };
    assert_eq!(close(&store, &fence, failed).await.parked_left, 3, "it stays parked");
    assert_eq!(
        close(&store, &fence, Closing::Replayed { dead_letter: dead_letters[0].id, by: "anna" }).await.parked_left,
        2
    );
    let failed = Closing::ReplayFailed { dead_letter: dead_letters[1].id, by: "anna", error: "not this one" };
    assert_eq!(close(&store, &fence, failed).await.parked_left, 2);
    let state = detail(&store, dead_letters[1].id).await.dead_letter.state;
    assert_eq!(state, DeadLetterState::Dead, "what waited and then failed is dead like any other");
    let discarded = Closing::Discarded { dead_letter: dead_letters[1].id, by: "anna", reason: "no need" };
    assert_eq!(close(&store, &fence, discarded).await.parked_left, 1);
    assert_eq!(
        close(&store, &fence, Closing::Replayed { dead_letter: dead_letters[2].id, by: "anna" }).await.parked_left,
        0
    );
    assert_eq!(parked("projection:orders").await, [(two, 1)]);
    let again = harness.reopen(&store, Settings::default()).await;
    assert_eq!(again.parked("projection:orders").await.expect("they can be read"), [(two, 1)]);
}

pub(crate) async fn beginning_tells_whether_a_dead_letter_is_open<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    bury(&store, &fence, &dead_letter(new_stream(), 1)).await;
    let id = found(&store, &DeadLetterQuery::default()).await[0].id;
    let open = async |id| {
        let begun =
            within("beginning", store.begin(&fence, Opening::Handler, Some(id))).await.expect("it can be begun");
        store.rollback(begun.tx, false).await;
        begun.dead_letter_open
    };
    assert!(open(id).await);
    assert!(!open(Uuid::now_v7()).await, "there is no such dead letter");
    close(&store, &fence, Closing::ReplayFailed { dead_letter: id, by: "anna", error: "still full" }).await;
    assert!(open(id).await, "one that failed again is open");
    close(&store, &fence, Closing::Replayed { dead_letter: id, by: "anna" }).await;
    assert!(!open(id).await);
}

pub(crate) async fn only_what_was_resolved_long_ago_is_purged<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    let (other, _) = take_over(&store, "projection:other", 0).await;
    for at in 1..=2 {
        bury(&store, &fence, &dead_letter(new_stream(), at)).await;
    }
    bury(&store, &other, &dead_letter(new_stream(), 1)).await;
    let (mine, others) = (
        found(&store, &DeadLetterQuery::of("projection:orders")).await,
        found(&store, &DeadLetterQuery::of("projection:other")).await,
    );
    close(&store, &fence, Closing::Replayed { dead_letter: mine[0].id, by: "anna" }).await;
    close(&store, &other, Closing::Replayed { dead_letter: others[0].id, by: "anna" }).await;
    let purge = async |before| {
        within("purging", store.purge_dead_letters("projection:orders", before))
            .await
            .expect("dead letters can be purged")
    };
    let hour = TimeDelta::hours(1);
    assert_eq!(purge(Utc::now() - hour).await, 0, "what was resolved later stays");
    assert_eq!(purge(Utc::now() + hour).await, 1);
    let states = DeadLetterState::ALL.to_vec();
    let left = found(&store, &DeadLetterQuery { states, ..DeadLetterQuery::default() }).await;
    assert_eq!(left.len(), 2, "the open one stays, and the other subscriber's");
    assert!(left.iter().all(|dead_letter| dead_letter.id != mine[0].id));
    assert_eq!(store.dead_letter(mine[0].id).await.expect("it can be looked for"), None);
}
