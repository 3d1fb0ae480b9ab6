//! cqrs-es: an append is a command to an aggregate.

mod order;

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;

use cqrs_es::EventStore;
use cqrs_es::persist::{EventStoreAggregateContext, PersistedEventStore};
use driver::{About, Appending, Delivery, Error, Settings, Sink, Store, locked_version};
use order::{Order, OrderEvent, Place};
use postgres_es::{PostgresCqrs, PostgresEventRepository, postgres_cqrs};
use sqlx::postgres::PgPoolOptions;
use uuid::Uuid;

/// Of default_postgress_pool.
const CONNECTIONS: u32 = 10;

struct CqrsEs {
    cqrs: PostgresCqrs<Order>,
    /// The same events without commands: the framework lets nobody load them.
    store: PersistedEventStore<PostgresEventRepository, Order>,
    settings: Settings,
}

impl Store for CqrsEs {
    fn about() -> About {
        let version = |package| locked_version(include_str!("../Cargo.lock"), package);
        About {
            name: "cqrs-es".to_owned(),
            versions: ["cqrs-es", "postgres-es", "sqlx"].map(version).join(", "),
            page: "docs.rs/cqrs-es/0.5.0, \"CqrsFramework\"; docs.rs/postgres-es/0.5.0, \"postgres_cqrs\"".to_owned(),
            documented: "postgres_cqrs with events as the source of truth, no queries; a command loads the aggregate first; \
                         a pool of 10 connections, as default_postgress_pool has it"
                .to_owned(),
            fastest: Some(
                "EventStore::commit at the version that the caller knows, without loading the aggregate before; \
                 connections that are not tested before each use; the best of several pool sizes"
                    .to_owned(),
            ),
            pools: vec![8, 16, 32, 64],
            no_follower: Some(
                "dispatches to queries inside the command's call, after the commit; has no subscription with a checkpoint"
                    .to_owned(),
            ),
            no_failover: Some("has no subscriber whose work another process could resume".to_owned()),
            tables: vec!["events".to_owned()],
            notes: vec![
                "its documentation knows no other way to append than a command, which loads the aggregate first".to_owned(),
                "its table has no order across streams, and QueryReplay starts anew each time".to_owned(),
            ],
            objection: "A command is what its users write, and what follows it in the same call (queries) is not measured."
                .to_owned(),
            ..About::default()
        }
    }

    async fn prepare(url: &str, _settings: &Settings) -> Result<(), Error> {
        let pool = PgPoolOptions::new().max_connections(1).connect(url).await?;
        sqlx::raw_sql(include_str!("events.sql")).execute(&pool).await?;
        Ok(())
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let pool = PgPoolOptions::new()
            .max_connections(settings.pool(CONNECTIONS))
            .test_before_acquire(!settings.is_fastest())
            .connect(url)
            .await?;
        let store = PersistedEventStore::new_event_store(PostgresEventRepository::new(pool.clone()));
        Ok(Self { cqrs: postgres_cqrs(pool, Vec::new(), ()), store, settings })
    }

    async fn append(&self, Appending { stream, version, events }: Appending) -> Result<u64, Error> {
        let aggregate_id = stream.to_string();
        if !self.settings.is_fastest() {
            self.cqrs.execute(&aggregate_id, Place { version, orders: events }).await?;
            return Ok(1);
        }
        // The primary key refuses what another writer has appended there.
        let context = EventStoreAggregateContext {
            aggregate_id,
            aggregate: Order::default(),
            current_sequence: usize::try_from(version)?,
            current_snapshot: None,
        };
        let events = events.into_iter().map(OrderEvent::Placed).collect();
        self.store.commit(events, context, HashMap::new()).await?;
        Ok(1)
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        Ok(self.store.load_events(&stream.to_string()).await?.len())
    }

    async fn follow(&self, _id: &str, _delivery: Delivery, _sink: Arc<Sink>) -> Result<(), Error> {
        Err("cqrs-es has no subscription".into())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    driver::run::<CqrsEs>().await
}
