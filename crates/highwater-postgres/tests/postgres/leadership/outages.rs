//! Three instances, and a server that goes away.

use std::time::Duration;

use highwater::GlobalSequence;
use highwater_postgres::{PgEventBus, PgEventStore};
use throwaway_postgres::ThrowawayPostgres;

use super::coordinated_in_batches;
use super::processes::Load;
use crate::bus::handlers::{Counting, counted, nothing};
use crate::bus::{Recorder, say};
use crate::support::{Db, eventually, sequences};

/// Three instances with the same two subscribers each.
struct Three {
    buses: Vec<PgEventBus>,
    recorders: Vec<std::sync::Arc<Recorder>>,
}

impl Three {
    async fn start(db: &Db, url: &str) -> Self {
        let (mut buses, mut recorders) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let store = PgEventStore::connect_with(url, db.config()).await.unwrap();
            let bus = PgEventBus::with_config(store, coordinated_in_batches(20));
            let recorder = Recorder::new("projection:each");
            bus.subscribe(recorder.clone()).await.unwrap();
            bus.subscribe(Counting::new(db, "projection:within", coordinated_in_batches(20), nothing()).await)
                .await
                .unwrap();
            buses.push(bus);
            recorders.push(recorder);
        }
        Self { buses, recorders }
    }

    /// What all of them were handed, each event once.
    fn seen(&self) -> Vec<u64> {
        let mut seen: Vec<u64> = self.recorders.iter().flat_map(|recorder| recorder.sequences()).collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    async fn have_everything(&self, db: &Db, store: &PgEventStore) {
        let at = say(store, "the end").await;
        for subscriber_id in ["projection:each", "projection:within"] {
            self.buses[0].wait_for_within(subscriber_id, GlobalSequence(at), Duration::from_secs(20)).await.unwrap();
            let leading = || self.buses.iter().filter_map(|bus| bus.subscription(subscriber_id)?.state().term());
            // It may change hands once more, on a machine that is busy enough.
            eventually(&format!("one leads for {subscriber_id}"), async || leading().count() == 1).await;
        }
        let all = sequences(store).await;
        assert_eq!(self.seen(), all);
        assert_eq!(counted(db).await, all.iter().map(|at| *at as i64).collect::<Vec<_>>(), "each counts once");
    }
}

async fn survive(outage: fn(&mut ThrowawayPostgres)) {
    let mut server = ThrowawayPostgres::builder().durable().start().unwrap();
    let db = Db::on(server.url());
    let store = db.store().await;
    let three = Three::start(&db, &db.url).await;
    let load = Load::on(&store);
    for _ in 0..2 {
        let before = three.seen().len();
        eventually("events are handled", async || three.seen().len() > before + 30).await;
        outage(&mut server);
    }
    load.end().await;
    three.have_everything(&db, &store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_instances_continue_after_the_server_was_restarted() {
    survive(|server| server.restart().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_instances_continue_after_the_server_has_crashed() {
    survive(|server| {
        server.crash().unwrap();
        server.start_again().unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_instances_continue_with_the_replica_when_the_primary_dies() {
    let mut primary = ThrowawayPostgres::builder().durable().start().unwrap();
    let mut replica = primary.synchronous_replica().unwrap();
    let db = Db::on(primary.url());
    db.store().await;
    let both = format!("{},{}", primary.port(), format_args!("127.0.0.1:{}", replica.port()));
    let both = primary.url().replace(&primary.port().to_string(), &both);
    let store = PgEventStore::connect_with(&both, db.config()).await.unwrap();
    let three = Three::start(&db, &both).await;
    let load = Load::on(&store);
    eventually("events are handled", async || three.seen().len() > 30).await;
    primary.crash().unwrap();
    replica.promote().unwrap();
    let before = three.seen().len();
    eventually("they continue", async || three.seen().len() > before + 30).await;
    load.end().await;
    let promoted = Db { url: replica.url(), schema: db.schema.clone() };
    three.have_everything(&promoted, &store).await;
}
