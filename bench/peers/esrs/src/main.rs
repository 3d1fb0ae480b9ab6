//! esrs: an append is a command to an aggregate.

mod order;

use std::process::ExitCode;
use std::sync::Arc;

use driver::{About, Appending, Delivery, Error, Settings, Sink, Store, locked_version};
use esrs::AggregateState;
use esrs::manager::AggregateManager;
use esrs::store::EventStore;
use esrs::store::postgres::{PgStore, PgStoreBuilder, UuidFormat};
use order::{Order, OrderEvent};
use sqlx::postgres::PgPoolOptions;
use uuid::Uuid;

/// Of PgPool::connect, which its README shows.
const CONNECTIONS: u32 = 10;

struct Esrs {
    settings: Settings,
    store: PgStore<Order>,
    manager: AggregateManager<PgStore<Order>>,
}

impl Store for Esrs {
    fn about() -> About {
        let version = |package| locked_version(include_str!("../Cargo.lock"), package);
        About {
            name: "esrs".to_owned(),
            versions: ["esrs", "sqlx"].map(version).join(", "),
            page: "docs.rs/esrs/0.18.0, \"AggregateManager\"; its README, \"Adding a persistence layer\"".to_owned(),
            documented: "AggregateManager::handle_command on a PgStore without event handlers, optimistic locking, a pool of 10 \
                         connections"
                .to_owned(),
            fastest: Some(
                "EventStore::persist at the version that the caller knows; event ids that are ordered by time \
                 (UuidFormat::V7); connections that are not tested before each use; the best of several pool sizes"
                    .to_owned(),
            ),
            pools: vec![8, 16, 32, 64],
            no_follower: Some(
                "calls event handlers and buses inside the command's call, after the commit; its README says that it \
                 has no consumer"
                    .to_owned(),
            ),
            no_failover: Some("has no subscriber whose work another process could resume".to_owned()),
            tables: vec!["order_events".to_owned()],
            notes: vec![
                "a new aggregate is not loaded before, one that exists is".to_owned(),
                "its table has no order across streams but the clocks of the writers, and its rebuilder starts anew \
                 each time"
                    .to_owned(),
            ],
            objection: "Its event handlers run inside the call, and its users rely on that; here it has none.".to_owned(),
            ..About::default()
        }
    }

    async fn prepare(url: &str, _settings: &Settings) -> Result<(), Error> {
        let pool = PgPoolOptions::new().max_connections(1).connect(url).await?;
        // Building a store lays out its table.
        PgStoreBuilder::<Order>::new(pool).try_build().await?;
        Ok(())
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let pool = PgPoolOptions::new()
            .max_connections(settings.pool(CONNECTIONS))
            .test_before_acquire(!settings.is_fastest())
            .connect(url)
            .await?;
        let builder = PgStoreBuilder::new(pool).without_running_migrations();
        let builder = match settings.is_fastest() {
            false => builder,
            true => builder.with_event_id_format(UuidFormat::V7),
        };
        let store: PgStore<Order> = builder.try_build().await?;
        Ok(Self { manager: AggregateManager::new(store.clone()), store, settings })
    }

    async fn append(&self, Appending { stream, version, events }: Appending) -> Result<u64, Error> {
        let mut state = match version {
            // A unique index refuses the first event of a stream that is there.
            0 => AggregateState::with_id(stream),
            _ => self.manager.load(stream).await?.ok_or("there is no such stream")?,
        };
        if u64::try_from(*state.sequence_number())? != version {
            return Err("the stream has another version".into());
        }
        if self.settings.is_fastest() {
            let events = events.into_iter().map(OrderEvent::Placed).collect();
            self.store.persist(&mut state, events).await?;
        } else {
            self.manager.handle_command(state, events).await??;
        }
        Ok(1)
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        Ok(self.store.by_aggregate_id(stream).await?.len())
    }

    async fn follow(&self, _id: &str, _delivery: Delivery, _sink: Arc<Sink>) -> Result<(), Error> {
        Err("esrs has no subscription".into())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    driver::run::<Esrs>().await
}
