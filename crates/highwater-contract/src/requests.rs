//! The contract of pauses and requests: what operators ask of a subscriber, from any process.

use std::sync::Arc;

use chrono::Utc;
use highwater::backend::{Closing, Request, RequestKind, RequestOutcome, Requests};
use uuid::Uuid;

use crate::checkpoints::take_over;
use crate::support::{new_stream, within};
use crate::transactions::close;
use crate::{Harness, Settings};

pub(crate) async fn pauses_are_kept<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let names = ["projection:a", "projection:b", "projection:none"].map(str::to_owned);
    for name in &names[..2] {
        take_over(&store, name, 0).await;
    }
    let paused = async |store: &H::Store| store.paused(&names).await.expect("pauses can be read");
    assert_eq!(paused(&store).await, [""; 0]);
    assert!(store.set_paused("projection:b", true).await.expect("it can be paused"));
    assert!(store.set_paused("projection:b", true).await.expect("twice is once"));
    assert_eq!(paused(&store).await, ["projection:b"]);
    let again = harness.reopen(&store, Settings::default()).await;
    take_over(&again, "projection:b", 0).await;
    assert_eq!(paused(&again).await, ["projection:b"], "taking over ends no pause");
    assert_eq!(again.paused(&names[..1]).await.expect("pauses can be read"), [""; 0], "only those asked about");
    assert!(again.set_paused("projection:b", false).await.expect("it can be resumed"));
    assert_eq!(paused(&store).await, [""; 0]);
}

pub(crate) async fn requests_stay_open_until_they_are_finished<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    let kinds = [
        RequestKind::Replay { dead_letter: Uuid::now_v7() },
        RequestKind::ReplayStream { stream_id: new_stream() },
        RequestKind::ReplayAll,
        RequestKind::Discard { dead_letter: Uuid::now_v7(), reason: "no need".into() },
        RequestKind::Rebuild,
        RequestKind::Reread,
    ];
    let request = |name: &str, kind: RequestKind| Request {
        id: Uuid::now_v7(),
        subscriber_id: name.to_owned(),
        kind,
        requested_by: "anna".to_owned(),
        requested_at: Utc::now(),
        outcome: None,
    };
    let filed: Vec<Request> = kinds.into_iter().map(|kind| request("projection:orders", kind)).collect();
    let others = request("projection:other", RequestKind::ReplayAll);
    for request in filed.iter().chain([&others, &filed[0]]) {
        within("filing", store.file_request(request)).await.expect("it can be filed");
    }
    let again = harness.reopen(&store, Settings::default()).await;
    let open = async |names: &[&str]| {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let requests = within("requests", again.open_requests(&names)).await.expect("they can be read");
        requests.into_iter().map(|request| (request.id, request.kind, request.requested_by)).collect::<Vec<_>>()
    };
    let as_filed = |request: &Request| (request.id, request.kind.clone(), request.requested_by.clone());
    assert_eq!(open(&["projection:orders"]).await, filed.iter().map(as_filed).collect::<Vec<_>>(), "the oldest first");
    assert_eq!(open(&["projection:other", "projection:none"]).await, [as_filed(&others)]);
    assert_eq!(open(&[]).await, []);
    let outcome = RequestOutcome { done: 2, failed: 1, error: Some("still full".into()), finished_at: None };
    close(&store, &fence, Closing::Finished { request: filed[0].id, outcome: &outcome }).await;
    assert_eq!(open(&["projection:orders"]).await, filed[1..].iter().map(as_filed).collect::<Vec<_>>());
    let read = within("a request", again.request(filed[0].id)).await.expect("it can be read").expect("it is kept");
    let told = read.outcome.expect("it is finished");
    assert_eq!((told.done, told.failed, told.error.as_deref()), (2, 1, Some("still full")));
    assert!(told.finished_at.is_some());
    let read = within("a request", again.request(filed[1].id)).await.expect("it can be read").expect("it is there");
    assert_eq!((read.outcome, read.kind), (None, filed[1].kind.clone()));
    assert_eq!(within("a request", again.request(Uuid::now_v7())).await.expect("it can be looked for"), None);
}
