//! Dead letters, and what people ask to be done with them.

use chrono::{TimeDelta, Utc};
use highwater::Append;
use highwater::backend::{Log, Opening, Request, RequestKind, Requests};
use highwater::operations::RequestOutcome;

use super::*;

/// A time as PostgreSQL keeps it.
fn now() -> chrono::DateTime<Utc> {
    chrono::DateTime::from_timestamp_micros(Utc::now().timestamp_micros()).unwrap()
}

#[tokio::test]
async fn dead_letters_are_listed_by_position_in_pages_and_by_what_is_asked_for() {
    let db = Db::new();
    let store = db.store().await;
    let (s, t) = (take_over(&store, "s").await, take_over(&store, "t").await);
    let (a, b) = (Uuid::now_v7(), Uuid::now_v7());
    let mut ids = Vec::new();
    for (sequence, stream) in [(1, a), (2, b), (3, a), (4, b), (5, a)] {
        ids.push(bury(&store, &s, &failure(stream, sequence, "no")).await.0.id);
    }
    let middle = store.dead_letters(&DeadLetterQuery::of("s")).await.unwrap()[2].created_at;
    bury(&store, &t, &failure(a, 3, "no")).await;
    let listed = async |query: DeadLetterQuery| {
        let found = store.dead_letters(&query).await.unwrap();
        assert_eq!(store.count_dead_letters(&DeadLetterQuery { limit: 1, ..query }).await.unwrap(), found.len() as u64);
        found.iter().map(|dead_letter| dead_letter.global_sequence).collect::<Vec<_>>()
    };
    assert_eq!(listed(DeadLetterQuery::default()).await, [1, 2, 3, 3, 4, 5]);
    assert_eq!(listed(DeadLetterQuery::of("s")).await, [1, 2, 3, 4, 5]);
    assert_eq!(listed(DeadLetterQuery { stream_id: Some(a), ..DeadLetterQuery::default() }).await, [1, 3, 3, 5]);
    assert_eq!(listed(DeadLetterQuery { since: Some(middle), ..DeadLetterQuery::of("s") }).await, [3, 4, 5]);
    assert_eq!(listed(DeadLetterQuery { until: Some(middle), ..DeadLetterQuery::of("s") }).await, [1, 2]);
    close(&store, &s, Closing::Discarded { dead_letter: ids[1], by: "me", reason: "old" }).await.unwrap();
    assert_eq!(listed(DeadLetterQuery::of("s")).await, [1, 3, 4, 5]);
    assert_eq!(
        listed(DeadLetterQuery { states: vec![DeadLetterState::Discarded], ..DeadLetterQuery::of("s") }).await,
        [2]
    );
    assert_eq!(listed(DeadLetterQuery { states: vec![], ..DeadLetterQuery::of("s") }).await, [0; 0]);
    assert_eq!(listed(all_of("s")).await, [1, 2, 3, 4, 5]);

    let mut seen = Vec::new();
    let mut query = DeadLetterQuery { limit: 2, ..DeadLetterQuery::default() };
    loop {
        let page = store.dead_letters(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 2);
        query.after = Some(last.cursor());
        seen.extend(page.iter().map(|dead_letter| (dead_letter.global_sequence, dead_letter.id)));
    }
    assert_eq!(seen.iter().map(|(sequence, _)| *sequence).collect::<Vec<_>>(), [1, 3, 3, 4, 5]);
    assert!(seen.is_sorted_by(|a, b| a < b), "and by id where two are at the same position");
}

#[tokio::test]
async fn a_dead_letter_shows_the_event_as_it_is_stored_and_all_that_was_done_with_it() {
    let db = Db::new();
    let store = db.store().await;
    let fence = take_over(&store, "s").await;
    let stream_id = Uuid::now_v7();
    store.append(&Append::to(stream_id).event(note("hello"))).await.unwrap();
    let record = page(&store, 0).await.records.remove(0);
    let dead_letter = NewDeadLetter { event_id: record.id, ..failure(stream_id, record.global_sequence, "first") };
    let (buried, _) = bury(&store, &fence, &dead_letter).await;
    let id = buried.id;
    assert_eq!((buried.retry_count, buried.event_type.as_str(), buried.parks), (3, "Noted", false));
    assert_eq!(store.dead_letter(id).await.unwrap().unwrap().record, Some(record.clone()));

    close(&store, &fence, Closing::ReplayFailed { dead_letter: id, by: "me", error: "second" }).await.unwrap();
    let failed = store.dead_letter(id).await.unwrap().unwrap().dead_letter;
    assert_eq!((failed.state, failed.retry_count), (DeadLetterState::Dead, 4));
    assert_eq!((failed.error_message.as_deref(), failed.resolved_at), (Some("second"), None));
    assert!(failed.last_retry_at > buried.last_retry_at);

    assert!(Backend::begin(&store, &fence, Opening::Handler, Some(id)).await.unwrap().dead_letter_open);
    close(&store, &fence, Closing::Replayed { dead_letter: id, by: "you" }).await.unwrap();
    assert!(!Backend::begin(&store, &fence, Opening::Handler, Some(id)).await.unwrap().dead_letter_open);
    let detail = store.dead_letter(id).await.unwrap().unwrap();
    assert_eq!(
        (detail.dead_letter.state, detail.dead_letter.resolved_by.as_deref()),
        (DeadLetterState::Replayed, Some("you"))
    );
    assert!(detail.dead_letter.resolved_at.is_some());
    let attempts: Vec<_> = detail.attempts.iter().map(|a| (&*a.by, &*a.outcome, a.detail.as_deref())).collect();
    assert_eq!(attempts, [("me", "failed", Some("second")), ("you", "replayed", None)]);

    // What was resolved is not resolved again, and what is another subscriber's is not touched.
    let again = close(&store, &fence, Closing::Replayed { dead_letter: id, by: "me" }).await.unwrap_err();
    assert!(matches!(again, Error::NotFound { .. }), "{again:?}");
    let other = take_over(&store, "other").await;
    let (open, _) = bury(&store, &fence, &failure(stream_id, 9, "no")).await;
    close(&store, &other, Closing::Discarded { dead_letter: open.id, by: "me", reason: "" }).await.unwrap_err();
    assert!(!Backend::begin(&store, &other, Opening::Handler, Some(open.id)).await.unwrap().dead_letter_open);
    let kept = store.dead_letter(open.id).await.unwrap().unwrap();
    assert_eq!((kept.dead_letter.state, kept.record, kept.attempts), (DeadLetterState::Dead, None, vec![]));
    assert_eq!(store.dead_letter(Uuid::now_v7()).await.unwrap(), None);
}

#[tokio::test]
async fn a_parked_stream_is_one_with_open_dead_letters_that_park_it() {
    let db = Db::new();
    let store = db.store().await;
    let fence = take_over(&store, "s").await;
    let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let parking = |stream, sequence| NewDeadLetter { parks: true, ..failure(stream, sequence, "no") };
    let (head, closed) = bury(&store, &fence, &parking(a, 1)).await;
    assert_eq!(closed.parked_left, 1);
    let waits = NewDeadLetter { error_message: None, ..parking(a, 2) };
    let (behind, closed) = bury(&store, &fence, &waits).await;
    assert_eq!((behind.state, closed.parked_left), (DeadLetterState::Parked, 2));
    bury(&store, &fence, &parking(b, 3)).await;
    let (_, closed) = bury(&store, &fence, &failure(Uuid::from_u128(3), 4, "no")).await;
    assert_eq!(closed.parked_left, 0, "this one does not park its stream");
    assert_eq!(store.parked("s").await.unwrap(), [(a, 2), (b, 1)]);
    assert_eq!(store.parked("other").await.unwrap(), []);
    let closed = close(&store, &fence, Closing::Replayed { dead_letter: head.id, by: "me" }).await.unwrap();
    assert_eq!(closed.parked_left, 1);
    let closed =
        close(&store, &fence, Closing::ReplayFailed { dead_letter: behind.id, by: "me", error: "no" }).await.unwrap();
    assert_eq!(closed.parked_left, 1);
    assert_eq!(store.dead_letter(behind.id).await.unwrap().unwrap().dead_letter.state, DeadLetterState::Dead);
    let closed =
        close(&store, &fence, Closing::Discarded { dead_letter: behind.id, by: "me", reason: "old" }).await.unwrap();
    assert_eq!(closed.parked_left, 0);
    assert_eq!(store.parked("s").await.unwrap(), [(b, 1)]);
    let discarded = store.dead_letter(behind.id).await.unwrap().unwrap();
    assert_eq!(discarded.dead_letter.reason.as_deref(), Some("old"));
    assert_eq!(discarded.attempts.last().unwrap().detail.as_deref(), Some("old"));
    assert_eq!(at(&store, "s").await, Some(4), "what is done with dead letters moves no checkpoint");
}

#[tokio::test]
async fn requests_stay_open_until_they_are_finished_under_the_fence() {
    let db = Db::new();
    let store = db.store().await;
    let fence = take_over(&store, "s").await;
    let kinds = [
        RequestKind::Replay { dead_letter: Uuid::now_v7() },
        RequestKind::ReplayStream { stream_id: Uuid::now_v7() },
        RequestKind::ReplayAll,
        RequestKind::Discard { dead_letter: Uuid::now_v7(), reason: "old".into() },
        RequestKind::Rebuild,
    ];
    let mut filed = Vec::new();
    for (n, kind) in (0..).zip(kinds) {
        let request = Request {
            id: Uuid::now_v7(),
            subscriber_id: if n == 4 { "t".into() } else { "s".into() },
            kind,
            requested_by: "me".into(),
            // The last was asked for first.
            requested_at: now() - TimeDelta::seconds(n),
            outcome: None,
        };
        store.file_request(&request).await.unwrap();
        store.file_request(&Request { requested_by: "again".into(), ..request.clone() }).await.unwrap();
        assert_eq!(store.request(request.id).await.unwrap().as_ref(), Some(&request));
        filed.insert(0, request);
    }
    let both = ["s".to_owned(), "t".to_owned()];
    assert_eq!(store.open_requests(&both).await.unwrap(), filed);
    assert_eq!(store.open_requests(&both[..1]).await.unwrap(), filed[1..]);
    let outcome = RequestOutcome { done: 3, failed: 1, error: Some("oh".into()), finished_at: Some(now()) };
    let request = filed[1].id;
    for _ in 0..2 {
        close(&store, &fence, Closing::Finished { request, outcome: &outcome }).await.unwrap();
    }
    assert_eq!(store.request(request).await.unwrap().unwrap().outcome, Some(outcome.clone()));
    assert_eq!(store.open_requests(&both[..1]).await.unwrap(), filed[2..]);
    let unknown = close(&store, &fence, Closing::Finished { request: filed[0].id, outcome: &outcome }).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "it is another subscriber's: {unknown:?}");
    let at_some_time = RequestOutcome::default();
    close(&store, &fence, Closing::Finished { request: filed[2].id, outcome: &at_some_time }).await.unwrap();
    assert!(store.request(filed[2].id).await.unwrap().unwrap().outcome.unwrap().finished_at.is_some());
    assert_eq!(store.request(Uuid::now_v7()).await.unwrap(), None);
}

#[tokio::test]
async fn purging_removes_what_was_resolved_long_ago_and_nothing_else() {
    let db = Db::new();
    let store = db.store().await;
    let (s, t) = (take_over(&store, "s").await, take_over(&store, "t").await);
    let mut ids = Vec::new();
    for sequence in 1..=3 {
        ids.push(bury(&store, &s, &failure(Uuid::now_v7(), sequence, "no")).await.0.id);
    }
    let (theirs, _) = bury(&store, &t, &failure(Uuid::now_v7(), 1, "no")).await;
    let request = Request {
        id: Uuid::now_v7(),
        subscriber_id: "s".into(),
        kind: RequestKind::ReplayAll,
        requested_by: "me".into(),
        requested_at: now(),
        outcome: None,
    };
    let open = Request { id: Uuid::now_v7(), ..request.clone() };
    store.file_request(&request).await.unwrap();
    store.file_request(&open).await.unwrap();
    close(&store, &s, Closing::Replayed { dead_letter: ids[0], by: "me" }).await.unwrap();
    close(&store, &s, Closing::Finished { request: request.id, outcome: &RequestOutcome::default() }).await.unwrap();
    close(&store, &t, Closing::Replayed { dead_letter: theirs.id, by: "me" }).await.unwrap();
    let between = store.dead_letter(theirs.id).await.unwrap().unwrap().dead_letter.resolved_at.unwrap();
    close(&store, &s, Closing::Replayed { dead_letter: ids[1], by: "me" }).await.unwrap();

    assert_eq!(store.purge_dead_letters("s", between - TimeDelta::hours(1)).await.unwrap(), 0);
    assert_eq!(store.purge_dead_letters("s", between).await.unwrap(), 1);
    let left: Vec<_> =
        store.dead_letters(&all_of("s")).await.unwrap().iter().map(|dead_letter| dead_letter.id).collect();
    assert_eq!(left, ids[1..]);
    assert_eq!(store.count_dead_letters(&all_of("t")).await.unwrap(), 1);
    assert_eq!(store.request(request.id).await.unwrap(), None);
    assert!(store.request(open.id).await.unwrap().is_some());
    let attempts: i64 = sqlx::query_scalar("SELECT count(*) FROM event_bus_dlq_attempts")
        .fetch_one(&mut db.connection().await)
        .await
        .unwrap();
    assert_eq!(attempts, 2, "what was done with a dead letter goes with it");
}
