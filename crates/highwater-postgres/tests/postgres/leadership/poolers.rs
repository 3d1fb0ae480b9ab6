//! A real PgBouncer between.

use highwater::backend::Wakeups;
use highwater::{Error, EventStore, GlobalSequence};
use highwater_postgres::{PgConfig, PgEventBus, PgEventStore};
use throwaway_postgres::{PoolMode, ThrowawayPgBouncer, ThrowawayPostgres};

use super::{coordinated, leader};
use crate::bus::{Recorder, say};
use crate::support::{Db, Note, eventually};

/// A store that goes directly, but for what needs a dedicated session.
async fn by_way_of(db: &Db, pooler: &ThrowawayPgBouncer) -> Result<PgEventStore, Error> {
    let config = PgConfig { leadership_url: Some(pooler.url()), ..db.config() };
    PgEventStore::connect_with(&db.url, config).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_lends_out_sessions_is_refused_and_the_way_out_is_named() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    db.store().await;
    for mode in [PoolMode::Transaction, PoolMode::Statement] {
        let pooler = ThrowawayPgBouncer::start(&server, mode).unwrap();
        let refused = match by_way_of(&db, &pooler).await {
            Ok(store) => {
                let bus = PgEventBus::with_config(store, coordinated());
                let refused = bus.subscribe(Recorder::new("projection:a")).await.map(drop).unwrap_err();
                assert!(bus.subscriptions().is_empty(), "nothing is left of it");
                refused
            }
            // Through some, not even a connection can be set up.
            Err(refused) => refused,
        };
        assert!(matches!(refused, Error::NoSession { .. }), "{mode:?}: {refused:?}");
        let said = refused.to_string();
        assert!(said.contains("pooler") && said.contains("leadership_url"), "{said}");
    }
    assert!(leader(&db.store().await, "projection:a").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn listening_through_a_pooler_that_lends_out_sessions_falls_back_to_looking_and_says_so() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    let direct = db.store().await;
    let pooler = ThrowawayPgBouncer::start(&server, PoolMode::Transaction).unwrap();
    let store = by_way_of(&db, &pooler).await.unwrap();
    let bus = PgEventBus::with_config(store.clone(), crate::bus::quick());
    let recorder = Recorder::new("projection:a");
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    eventually("it is said", async || store.push_degraded().is_some_and(|why| why.contains("pooler"))).await;
    let at = say(&direct, "x").await;
    bus.wait_for("projection:a", GlobalSequence(at)).await.unwrap();
    assert_eq!(recorder.sequences(), [at], "it is found by looking");
    let told = subscription.progress().await.unwrap().push_degraded;
    assert!(told.as_ref().is_some_and(|why| why.contains("leadership_url")), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_in_session_mode_works() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    db.store().await;
    let pooler = ThrowawayPgBouncer::start(&server, PoolMode::Session).unwrap();
    // Everything through it.
    let stores = [
        PgEventStore::connect_with(&pooler.url(), db.config()).await.unwrap(),
        PgEventStore::connect_with(&pooler.url(), db.config()).await.unwrap(),
    ];
    let buses = stores.map(|store| PgEventBus::with_config(store, coordinated()));
    let recorders = [Recorder::new("projection:a"), Recorder::new("projection:a")];
    let leads = buses[0].subscribe(recorders[0].clone()).await.unwrap();
    eventually("the first leads", async || leads.state().is_live()).await;
    let stands_by = buses[1].subscribe(recorders[1].clone()).await.unwrap();
    eventually("the second stands by", async || stands_by.state().is_standby()).await;
    let first = say(buses[1].store(), "x").await;
    buses[1].wait_for("projection:a", GlobalSequence(first)).await.unwrap();
    buses[0].shutdown().await.unwrap();
    let second = say(buses[1].store(), "y").await;
    buses[1].wait_for("projection:a", GlobalSequence(second)).await.unwrap();
    assert_eq!((recorders[0].sequences(), recorders[1].sequences()), (vec![first], vec![second]));
    let events = buses[1].store().read_all_events_since::<Note>(0).collect().await.unwrap();
    assert_eq!(events.len(), 2);
}
