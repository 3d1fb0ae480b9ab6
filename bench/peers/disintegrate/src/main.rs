//! disintegrate: decisions on what was read, appended in serializable transactions, and listeners that poll.

mod listener;
mod orders;

use std::process::ExitCode;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use disintegrate::serde::json::Json;
use disintegrate::{DecisionError, EventSourcedStateStore, LoadState as _, NoSnapshot};
use disintegrate_postgres::{Migrator, PgDecisionMaker, PgEventListenerConfig, PgEventStore, decision_maker};
use driver::{About, Appending, Error, Settings, Sink, Store, locked_version};
use orders::{OrderEvent, Orders, OtherVersion, Place};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

const LOCK: &str = include_str!("../Cargo.lock");
const DECIMAL_BEGIN_EPOCH: &str = include_str!("../sql/decimal_begin_epoch.sql");
/// For callers and listeners.
const CONNECTIONS: u32 = 64;

/// How often a decision is made that others are in the way of.
const ATTEMPTS_MAX: u32 = 1_000;

type EventStore = PgEventStore<OrderEvent, Json<OrderEvent>>;

struct Disintegrate {
    settings: Settings,
    events: EventStore,
    decisions: PgDecisionMaker<OrderEvent, Json<OrderEvent>, NoSnapshot>,
}

impl Store for Disintegrate {
    fn about() -> About {
        About {
            name: "disintegrate".to_owned(),
            versions: format!(
                "{}, {}",
                locked_version(LOCK, "disintegrate"),
                locked_version(LOCK, "disintegrate-postgres")
            ),
            page: "docs.rs/disintegrate/4.0.0, \"Usage\"; disintegrate-es.github.io/disintegrate, \"Event Listener\""
                .to_owned(),
            settings: "64 connections; listeners look for new events every 50 ms".to_owned(),
            best: Some("listeners are woken by NOTIFY, and look every 10 ms besides".to_owned()),
            no_follower: None,
            no_failover: None,
            tables: vec!["event".to_owned()],
            notes: [
                "Appends are serializable transactions, and many are refused because of others to other streams. They are made \
                 again at once, up to 1,000 times, by a loop of ours: its documentation leaves that to the caller.",
                "A state is read up to the oldest append under way, so that the last events of its stream may be missing. The \
                 library refuses to append to it, and it is made again.",
                "From the first start of a listener on, every event is a NOTIFY, whether a listener asks for it or not.",
                "Of two processes with the same listener, each handles what it finds first.",
                "A number in its SQL is hexadecimal, for which it needs PostgreSQL 16; here it is decimal.",
            ]
            .map(str::to_owned)
            .to_vec(),
        }
    }

    async fn prepare(url: &str) -> Result<(), Error> {
        // Without a look into functions: one has to be changed before an older server understands it.
        let options = PgConnectOptions::from_str(url)?.options([("check_function_bodies", "off")]);
        let pool = PgPool::connect_with(options).await?;
        let migrator = Migrator::new(PgEventStore::new_uninitialized(pool.clone(), Json::<OrderEvent>::default()));
        migrator.init_event_store().await?;
        sqlx::raw_sql(DECIMAL_BEGIN_EPOCH).execute(&pool).await?;
        // Whoever has started a listener has this from then on.
        Ok(migrator.init_listener().await?)
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(url).await?;
        let events = PgEventStore::new_uninitialized(pool, Json::default());
        Ok(Self { settings, decisions: decision_maker(events.clone(), NoSnapshot), events })
    }

    async fn append(&self, append: Appending) -> Result<(), Error> {
        let Appending { stream, version, events } = append;
        let mut attempts = 1;
        loop {
            let place = Place { stream, version, orders: events.clone() };
            match self.decisions.make(place).await {
                Ok(_) => return Ok(()),
                Err(error) if attempts < ATTEMPTS_MAX && is_conflict(&error) => attempts += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        let states = EventSourcedStateStore::new(self.events.clone(), NoSnapshot);
        let orders = states.load(Orders::of(stream)).await?;
        Ok(usize::try_from(orders.state().events)?)
    }

    async fn follow(&self, id: &str, sink: Arc<Sink>) -> Result<(), Error> {
        let config = match self.settings {
            Settings::Default => PgEventListenerConfig::poller(Duration::from_millis(50)),
            Settings::Best => PgEventListenerConfig::poller(Duration::from_millis(10)).with_notifier(),
        };
        listener::follow(self.events.clone(), id, sink, config).await
    }
}

/// Whether others were in the way: then a decision is to be made again.
fn is_conflict(error: &DecisionError<OtherVersion>) -> bool {
    let DecisionError::StateStore(error) = error else { return false };
    match error.downcast_ref() {
        Some(disintegrate_postgres::Error::Concurrency) => true,
        // Only at its commit the library calls it a conflict.
        Some(disintegrate_postgres::Error::Database(sqlx::Error::Database(error))) => {
            error.code().as_deref() == Some("40001")
        }
        _ => false,
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    driver::run::<Disintegrate>().await
}
