use highwater::{Append, EventStore, ExpectedVersion, Log};
use uuid::Uuid;

use crate::support::*;

#[tokio::test]
async fn a_lone_append_is_stored_and_read_back() {
    let db = Db::new();
    let store = db.store().await;
    let stream = Uuid::now_v7();
    let append = Append::to(stream).expecting(ExpectedVersion::NoStream).event(note("a")).event(Note::Struck);
    let done = store.append(&append).await.unwrap();
    assert_eq!(done.stream_version, 2);
    let again = store.append(&append).await.unwrap();
    assert!(again.repeated);
    assert_eq!(again.positions, done.positions);
    let events = store.read_events::<Note>(stream).collect().await.unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!(sequences(&store).await, [1, 2]);
    let done = store.append(&Append::to(stream).event(Note::Struck)).await.unwrap();
    assert_eq!(done.stream_version, 3);
    let done = store.append(&one()).await.unwrap();
    assert_eq!(done.stream_version, 1);
    eprintln!("{:?}", store.append(&Append::to(stream).expecting(ExpectedVersion::NoStream).event(note("a"))).await);
}
