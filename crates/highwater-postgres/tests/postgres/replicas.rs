//! Servers that are not the primary.

use highwater::backend::Log;
use highwater::{Error, EventStore};
use highwater_postgres::PgEventStore;
use throwaway_postgres::ThrowawayPostgres;
use uuid::Uuid;

use crate::support::*;

/// Turns a server into a standby that follows nobody: in recovery, read-only, for as long as it runs.
pub fn make_standby(server: &mut ThrowawayPostgres) {
    server.stop().unwrap();
    std::fs::write(server.data_dir().join("standby.signal"), "").unwrap();
    server.start_again().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_refused_for_writing_and_for_reading_in_order() {
    let mut server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    let stream = Uuid::now_v7();
    let store = db.store().await;
    store.append(&highwater::Append::to(stream).event(note("a"))).await.unwrap();
    assert_eq!(sequences(&store).await, [1]);
    make_standby(&mut server);

    // The store that knew it as a primary, and one that did not.
    for store in [store, PgEventStore::connect_with(&db.url, db.config()).await.unwrap()] {
        let not_primary = |error: Error| matches!(error, Error::NotPrimary { .. });
        eventually("appending says what is wrong", async || store.append(&one()).await.is_err_and(not_primary)).await;
        let filters = [highwater::Filter::ALL, highwater::EventTypes::only(["Noted"]).into()];
        for filter in &filters {
            eventually("reading in order says what is wrong", async || {
                store.read_all(0, filter, highwater::backend::ReadLimit::default()).await.is_err_and(not_primary)
            })
            .await;
        }
        // One stream has its own order, which no replica can disturb.
        eventually("a stream is read", async || store.read_events::<Note>(stream).collect().await.is_ok()).await;
    }
}

#[tokio::test]
async fn a_read_only_session_cannot_append_and_says_why() {
    let db = Db::new();
    db.store().await;
    let options: sqlx::postgres::PgConnectOptions = db.url.parse().unwrap();
    let read_only = options.options([("default_transaction_read_only", "on")]);
    let store = PgEventStore::connect_to_with(read_only, db.config()).await.unwrap();
    let refused = store.append(&one()).await.unwrap_err();
    assert!(matches!(refused, Error::NotPrimary { .. }), "{refused:?}");
}
