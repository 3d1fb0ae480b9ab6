//! disintegrate: decisions on what was read, appended in serializable transactions, and listeners that poll.

mod listener;
mod orders;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use disintegrate::serde::json::Json;
use disintegrate::{DecisionError, EventSourcedStateStore, EventStore as _, LoadState as _, NoSnapshot, query};
use disintegrate_postgres::{Migrator, PgDecisionMaker, PgEventListenerConfig, PgEventStore, decision_maker};
use driver::{About, Appending, Delivery, Error, POLL, Placed, Recent, Settings, Sink, Store, locked_version};
use orders::{OrderEvent, Orders, Place};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

const LOCK: &str = include_str!("../Cargo.lock");
const DECIMAL_BEGIN_EPOCH: &str = include_str!("../sql/decimal_begin_epoch.sql");
/// For callers and listeners, as PgPool::connect has it.
const CONNECTIONS: u32 = 10;

/// How often a decision is made that others are in the way of.
const ATTEMPTS_MAX: u64 = 1_000;

type EventStore = PgEventStore<OrderEvent, Json<OrderEvent>>;

struct Disintegrate {
    settings: Settings,
    events: EventStore,
    decisions: PgDecisionMaker<OrderEvent, Json<OrderEvent>, NoSnapshot>,
    /// The ids of the last events of streams.
    recent: Recent,
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
            documented: "DecisionMaker::make: a decision reads its events first; PgPool::connect, which has 10 connections; listeners \
                         look for new events every 50 ms"
                .to_owned(),
            fastest: Some(
                "EventStore::append after the event that the caller knows to be the last; the best of several pool sizes; \
                 listeners are woken by NOTIFY, and look every 5 ms besides"
                    .to_owned(),
            ),
            pools: vec![4, 8, 16, 64],
            installs: Some("its trigger, by which every event is a NOTIFY, whether a listener asks for it or not".to_owned()),
            deliveries: BTreeMap::from([(
                Delivery::Batched,
                "a transaction for everything that is new, and the position with it; a crash of the server undoes the \
                 position of the batch under way, whose events come again"
                    .to_owned(),
            )]),
            no_follower: None,
            no_failover: None,
            tables: vec!["event".to_owned()],
            notes: [
                "Appends are serializable transactions, and many are refused because of others to other streams. They are made \
                 again at once, up to 1,000 times, by a loop of ours: its documentation leaves that to the caller.",
                "A state is read up to the oldest append under way, so that the last events of its stream may be missing. The \
                 library refuses to append to it, and it is made again.",
                "Of two processes with the same listener, each handles what it finds first: competing consumers.",
                "A number in its SQL is hexadecimal, for which it needs PostgreSQL 16; here it is decimal.",
            ]
            .map(str::to_owned)
            .to_vec(),
            objection: "Its appends check a query over any ids, not the version of a stream: a stronger promise than is asked for here, \
                        and the reason for its serializable transactions."
                .to_owned(),
            ..About::default()
        }
    }

    async fn prepare(url: &str, settings: &Settings) -> Result<(), Error> {
        // Without a look into functions: one has to be changed before an older server understands it.
        let options = PgConnectOptions::from_str(url)?.options([("check_function_bodies", "off")]);
        let pool = PgPool::connect_with(options).await?;
        let migrator = Migrator::new(PgEventStore::new_uninitialized(pool.clone(), Json::<OrderEvent>::default()));
        migrator.init_event_store().await?;
        sqlx::raw_sql(DECIMAL_BEGIN_EPOCH).execute(&pool).await?;
        if settings.subscriber {
            // Once a listener was started, this is there.
            migrator.init_listener().await?;
        }
        Ok(())
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let pool = PgPoolOptions::new().max_connections(settings.pool(CONNECTIONS)).connect(url).await?;
        let events = PgEventStore::new_uninitialized(pool, Json::default());
        let decisions = decision_maker(events.clone(), NoSnapshot);
        Ok(Self { settings, decisions, events, recent: Recent::default() })
    }

    async fn append(&self, append: Appending) -> Result<u64, Error> {
        let Appending { stream, version, events } = append;
        for attempt in 1.. {
            let refused = match self.settings.is_fastest() {
                true => self.append_known(stream, version, &events).await?,
                false => self.decide(Place { stream, version, orders: events.clone() }).await?,
            };
            match refused {
                None => return Ok(attempt),
                Some(error) if attempt >= ATTEMPTS_MAX => return Err(error),
                Some(_) => {}
            }
        }
        Err("nobody asks so often".into())
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        let states = EventSourcedStateStore::new(self.events.clone(), NoSnapshot);
        let orders = states.load(Orders::of(stream)).await?;
        Ok(usize::try_from(orders.state().events)?)
    }

    async fn follow(&self, id: &str, _delivery: Delivery, sink: Arc<Sink>) -> Result<(), Error> {
        let config = match self.settings.is_fastest() {
            false => PgEventListenerConfig::poller(Duration::from_millis(50)),
            true => PgEventListenerConfig::poller(POLL).with_notifier(),
        };
        listener::follow(self.events.clone(), id, sink, config).await
    }
}

/// An attempt: nothing if it was done, the reason if others were in the way and it is to be made again.
impl Disintegrate {
    async fn decide(&self, place: Place) -> Result<Option<Error>, Error> {
        match self.decisions.make(place).await {
            Ok(_) => Ok(None),
            Err(error) => {
                let conflict = match &error {
                    DecisionError::StateStore(error) => error.downcast_ref().is_some_and(is_conflict),
                    _ => false,
                };
                if conflict { Ok(Some(error.into())) } else { Err(error.into()) }
            }
        }
    }

    async fn append_known(&self, stream: Uuid, version: u64, orders: &[Placed]) -> Result<Option<Error>, Error> {
        let last = match version {
            0 => 0,
            _ => i64::try_from(self.recent.get(stream).ok_or("nobody here has appended to that stream")?)?,
        };
        let placed = |order: &Placed| OrderEvent::OrderPlaced { stream_id: stream, order: order.clone() };
        let events = orders.iter().map(placed).collect();
        match self.events.append(events, query!(OrderEvent; stream_id == stream), last).await {
            Ok(stored) => {
                if let Some(event) = stored.last() {
                    self.recent.put(stream, u64::try_from(event.id())?);
                }
                Ok(None)
            }
            Err(error) if is_conflict(&error) => Ok(Some(error.into())),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether others were in the way.
fn is_conflict(error: &disintegrate_postgres::Error) -> bool {
    match error {
        disintegrate_postgres::Error::Concurrency => true,
        // Only at its commit the library calls it a conflict.
        disintegrate_postgres::Error::Database(sqlx::Error::Database(error)) => {
            error.code().as_deref() == Some("40001")
        }
        _ => false,
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    driver::run::<Disintegrate>().await
}
