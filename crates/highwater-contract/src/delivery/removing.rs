//! Subscribers that are gone for good, removed from outside.

use std::sync::Arc;

use chrono::Utc;
use highwater::backend::{
    Backend, Closing, DeadLetterQuery, DeadLetterState, Opening, Refused, Report, Request, RequestKind, Requests,
};
use highwater::{BusError, Error, EventStore, GlobalSequence, StartAt, SubscriberOptions, SubscriptionState};
use uuid::Uuid;

use super::instances::{instance, settled};
use super::players::{Act, Observer, bus, end, fill, in_state};
use crate::checkpoints::{put, stored, take_over, to};
use crate::dead_letters::{found, places};
use crate::support::{eventually, new_stream, within};
use crate::transactions::{begin, close, dead_letter};
use crate::{Harness, Settings};

const NAME: &str = "projection:each";
const OTHER: &str = "projection:other";

/// Everything that can be stored under a name; returns the request.
async fn furnish(store: &dyn Backend, name: &str, term: u64) -> Request {
    let request = Request {
        id: Uuid::now_v7(),
        subscriber_id: name.to_owned(),
        kind: RequestKind::ReplayAll,
        requested_by: "anna".to_owned(),
        requested_at: Utc::now(),
        outcome: None,
    };
    store.file_request(&request).await.expect("a request can be filed");
    assert!(store.set_paused(name, true).await.expect("it can be paused"));
    let report = Report {
        subscriber_id: name.to_owned(),
        term,
        state: SubscriptionState::Paused,
        position: 5,
        rate: 0.0,
        last_error: None,
        push_degraded: None,
        reads: None,
        reported_at: Utc::now(),
    };
    store.store_reports(&[report]).await.expect("a report can be stored");
    request
}

/// Under which names something is stored: checkpoints, leaders, pauses, reports, open requests.
async fn names(store: &dyn Backend) -> [Vec<String>; 5] {
    let both = [NAME.to_owned(), OTHER.to_owned()];
    let checkpoints = store.checkpoints().await.expect("checkpoints can be read").into_iter();
    let leaders = store.leaders().await.expect("leaders can be listed").into_iter();
    let reports = store.reports().await.expect("reports can be read").into_iter();
    let requests = store.open_requests(&both).await.expect("requests can be listed").into_iter();
    [
        checkpoints.map(|it| it.subscriber_id).collect(),
        leaders.map(|it| it.subscriber_id).collect(),
        store.paused(&both).await.expect("pauses can be read"),
        reports.map(|it| it.subscriber_id).collect(),
        requests.map(|it| it.subscriber_id).collect(),
    ]
    .map(|mut names: Vec<String>| {
        names.sort();
        names
    })
}

pub(crate) async fn a_removal_is_one_with_everything_that_is_stored<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (former, _) = take_over(&store, NAME, 0).await;
    let (fence, _) = take_over(&store, NAME, 0).await;
    let (other, _) = take_over(&store, OTHER, 0).await;
    for fence in [&fence, &other] {
        close(&store, fence, Closing::Bury { dead_letter: &dead_letter(new_stream(), 5), from: 0 }).await;
    }
    let request = furnish(&store, NAME, fence.term.number).await;
    furnish(&store, OTHER, other.term.number).await;
    let both = || vec![NAME.to_owned(), OTHER.to_owned()];
    let everything = [both(), both(), both(), both(), both()];
    assert_eq!(names(&store).await, everything);

    let refused = within("a beginning", store.begin(&former, Opening::Closing, None)).await;
    assert!(matches!(refused, Err(Error::Fenced { term: Some(_), .. })), "an older term removes nothing: {refused:?}");
    let begun = begin(&store, &fence).await;
    store.rollback(begun.tx, false).await;
    assert_eq!(names(&store).await, everything, "nothing was removed");

    close(&store, &fence, Closing::Remove { by: "ben" }).await;
    let left = || vec![OTHER.to_owned()];
    assert_eq!(names(&store).await, [left(), left(), left(), left(), left()], "everything, and of no other");
    assert_eq!(store.request(request.id).await.expect("a request can be looked up"), None);
    let open = found(&store, &DeadLetterQuery::default()).await;
    assert_eq!(open.iter().map(|it| it.subscriber_id.as_str()).collect::<Vec<_>>(), [OTHER]);
    let query = DeadLetterQuery { states: vec![DeadLetterState::Archived], ..DeadLetterQuery::of(NAME) };
    let archived = found(&store, &query).await;
    assert_eq!((places(&archived), archived[0].resolved_by.as_deref()), (vec![5], Some("ben")));

    assert_eq!(put(&store, to(&fence, 9)).await, Some(Refused::Missing), "a former leader stores nothing");
    let refused = within("a beginning", store.begin(&fence, Opening::Closing, None)).await;
    assert!(matches!(refused, Err(Error::Fenced { term: None, .. })), "and begins nothing: {refused:?}");
    let (anew, taken) = take_over(&store, NAME, 7).await;
    assert_eq!((taken.fresh, taken.checkpoint.global_sequence), (true, 7), "it starts as it is told to");
    assert!(anew.term.number > other.term.number, "terms keep growing");
    assert_eq!(put(&store, to(&fence, 9)).await, Some(Refused::Superseded { term: anew.term.number }));
}

pub(crate) async fn a_subscriber_that_is_gone_is_removed_and_starts_anew<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 5).await;
    let bad = events[1];
    let observer = || {
        Observer::new(NAME)
            .plays(move |event, _| if event.global_sequence == Some(bad) { Act::GiveUp("no room") } else { Act::Take })
            .shared()
    };
    let first = instance(&*harness, &store, settled()).await;
    first.subscribe(observer()).await.expect("it can be subscribed");
    first.wait_for(NAME, GlobalSequence(events[4])).await.expect("it gets there");
    end(first).await;

    let elsewhere = harness.reopen(&store, Settings::default()).await;
    let repair = elsewhere.repair().by("anna");
    let removed = within("a removal", repair.remove(NAME)).await.expect("no instance leads");
    assert_eq!((removed.checkpoint, removed.dead_letters, removed.fenced), (events[4], 1, None));
    assert_eq!(names(&store).await, [(); 5].map(|()| Vec::<String>::new()), "nothing is left");
    assert_eq!(found(&store, &DeadLetterQuery::of(NAME)).await, [], "its dead letters are archived");
    let overview = within("an overview", elsewhere.overview()).await.expect("the store answers");
    assert_eq!(overview.subscribers, []);
    for repair in [repair.clone(), repair.clone().force()] {
        let unknown = within("a removal", repair.remove(NAME)).await;
        assert!(
            matches!(&unknown, Err(Error::Bus(BusError::UnknownSubscriber(id))) if id == NAME),
            "it is gone: {unknown:?}"
        );
    }

    let second = instance(&*harness, &store, settled()).await;
    let again = observer();
    second.subscribe(Arc::clone(&again)).await.expect("it can be subscribed");
    second.wait_for(NAME, GlobalSequence(events[4])).await.expect("it gets there");
    assert_eq!(again.calls(), events, "from the beginning");
    end(second).await;
    within("a removal", repair.remove(NAME)).await.expect("no instance leads");
    let third = instance(&*harness, &store, settled()).await;
    let late = Observer::new(NAME).with(SubscriberOptions::new().start(StartAt::End)).shared();
    third.subscribe(Arc::clone(&late)).await.expect("it can be subscribed");
    let more = fill(&store, new_stream(), 1).await;
    third.wait_for(NAME, GlobalSequence(more[0])).await.expect("it gets there");
    assert_eq!(late.calls(), more, "from where its options say");
    end(third).await;
}

pub(crate) async fn no_subscriber_is_removed_under_a_leader<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 3).await;
    let elsewhere = harness.reopen(&store, Settings::default()).await;
    let repair = elsewhere.repair();
    let (coordinated, single) = (instance(&*harness, &store, settled()).await, bus(&store));
    let observer = Observer::new(NAME).shared();
    let subscription = coordinated.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    single.subscribe(Observer::new(OTHER).shared()).await.expect("it can be subscribed");
    for name in [NAME, OTHER] {
        coordinated.wait_for(name, GlobalSequence(events[2])).await.expect("it gets there");
        let before = stored(&store, name).await;
        let refused = within("a removal", repair.remove(name)).await;
        assert!(
            matches!(&refused, Err(Error::Bus(BusError::Led { leader: Some(_), .. }))),
            "{name} is being processed: {refused:?}"
        );
        assert_eq!(stored(&store, name).await, before, "nothing was changed");
    }
    within("catching up", subscription.caught_up()).await.expect("it gets there");
    let removed = within("a removal", repair.clone().force().remove(NAME)).await.expect("it is forced");
    assert!(removed.fenced.is_some() && removed.checkpoint == events[2], "{removed:?}");
    assert_eq!(stored(&store, NAME).await, None);
    // The leader still subscribes: it cannot store what comes next, and starts anew.
    let more = fill(&store, new_stream(), 1).await;
    let all = [&events[..], &more[..]].concat();
    eventually("it has started anew", async || observer.calls().ends_with(&all)).await;
    in_state(&subscription, "it is live", SubscriptionState::is_live).await;
    eventually("its checkpoint is stored", async || {
        stored(&store, NAME).await.is_some_and(|found| found.global_sequence == more[0])
    })
    .await;
    end(coordinated).await;
    end(single).await;
    within("a removal", repair.remove(OTHER)).await.expect("it has said that it has stopped");
}
