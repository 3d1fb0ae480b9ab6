//! Highwater, as its README says: by default, at its best, with several instances, and in transactions of the application's.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use driver::{About, Appending, Error, Placed, Settings, Sink, Store};
use highwater::backend::Log;
use highwater::{
    Append, BoxError, CheckpointMode, Event, EventStore, ExpectedVersion, InstanceMode, Projection,
    ReliableDeliveryConfig,
};
use highwater_postgres::{PgEventBus, PgEventStore};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use uuid::Uuid;

/// What an application has.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Placed(Placed),
}

/// Hands over what it is handed.
struct Follower {
    id: String,
    sink: Arc<Sink>,
}

impl Projection<Order> for Follower {
    fn subscriber_id(&self) -> &str {
        &self.id
    }

    async fn apply(&self, event: &Event<Order>) -> Result<(), BoxError> {
        let Order::Placed(placed) = &event.data;
        self.sink.handle(placed, event.global_sequence);
        Ok(())
    }
}

fn about(name: &str, settings: &str) -> About {
    let lock = include_str!("../../../Cargo.lock");
    let versions = ["highwater", "highwater-postgres"].map(|package| driver::locked_version(lock, package));
    About {
        name: name.to_owned(),
        versions: versions.join(", "),
        page: "README.md, docs/operating.md".to_owned(),
        settings: settings.to_owned(),
        best: None,
        no_follower: None,
        no_failover: None,
        tables: vec!["highwater.events".to_owned()],
        notes: Vec::new(),
    }
}

fn append(append: Appending) -> Append {
    let expected = match append.version {
        0 => ExpectedVersion::NoStream,
        version => ExpectedVersion::Exact(version),
    };
    let to = Append::to(append.stream).expecting(expected);
    append.events.into_iter().fold(to, |to, placed| to.event(Order::Placed(placed)))
}

async fn load(store: &PgEventStore, stream: Uuid) -> Result<usize, Error> {
    let (mut events, mut count) = (store.read_events::<Order>(stream), 0);
    while let Some(event) = events.next().await {
        event?;
        count += 1;
    }
    Ok(count)
}

async fn follow(
    store: &PgEventStore,
    delivery: ReliableDeliveryConfig,
    id: &str,
    sink: Arc<Sink>,
) -> Result<(), Error> {
    let bus = PgEventBus::with_config(store.clone(), delivery);
    bus.subscribe(Follower { id: format!("projection:{id}"), sink: sink.clone() }).await?;
    sink.stopped().await;
    Ok(bus.shutdown().await?)
}

async fn prepare(url: &str) -> Result<(), Error> {
    Ok(PgEventStore::connect(url).await?.initialize().await?)
}

/// As anybody would use it.
pub(super) struct Plain {
    store: PgEventStore,
    delivery: ReliableDeliveryConfig,
}

impl Store for Plain {
    fn about() -> About {
        let best = "catches up by pages and batches of 10,000 events; appends have nothing to turn that helps here";
        About { best: Some(best.to_owned()), ..about("Highwater", "everything as by default") }
    }

    async fn prepare(url: &str) -> Result<(), Error> {
        prepare(url).await
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let mut delivery = ReliableDeliveryConfig::default();
        if settings == Settings::Best {
            delivery.checkpoint_mode = CheckpointMode::Batched { size: 10_000, interval: Duration::from_secs(1) };
            delivery.catch_up_batch_size = 10_000;
        }
        Ok(Self { store: PgEventStore::connect(url).await?, delivery })
    }

    async fn append(&self, appending: Appending) -> Result<(), Error> {
        self.store.append(&append(appending)).await?;
        Ok(())
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        load(&self.store, stream).await
    }

    async fn follow(&self, id: &str, sink: Arc<Sink>) -> Result<(), Error> {
        follow(&self.store, self.delivery.clone(), id, sink).await
    }
}

/// As one of several instances.
pub(super) struct Coordinated {
    plain: Plain,
}

impl Store for Coordinated {
    fn about() -> About {
        about("Highwater, several instances", "`InstanceMode::Coordinated`, otherwise as by default")
    }

    async fn prepare(url: &str) -> Result<(), Error> {
        prepare(url).await
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let mut plain = Plain::open(url, settings).await?;
        plain.delivery.instance_mode = InstanceMode::Coordinated;
        Ok(Self { plain })
    }

    async fn append(&self, append: Appending) -> Result<(), Error> {
        self.plain.append(append).await
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        self.plain.load(stream).await
    }

    async fn follow(&self, id: &str, sink: Arc<Sink>) -> Result<(), Error> {
        self.plain.follow(id, sink).await
    }
}

/// Each append on a transaction of the application's, which then takes up to 20 ms more; one in seven is rolled back.
pub(super) struct InTransactions {
    plain: Plain,
    pool: PgPool,
}

/// How many transactions at once.
const TRANSACTIONS: u32 = 32;
const SLOWEST_MICROS: u64 = 20_000;
const ROLLED_BACK_IN: u64 = 7;

impl Store for InTransactions {
    fn about() -> About {
        About {
            // They are slow by themselves.
            tables: Vec::new(),
            ..about(
                "Highwater, application's transactions",
                "`append_on`, up to 20 ms before the end; otherwise as by default",
            )
        }
    }

    async fn prepare(url: &str) -> Result<(), Error> {
        prepare(url).await
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let options = PgConnectOptions::from_str(url)?;
        let pool = PgPoolOptions::new().max_connections(TRANSACTIONS).connect_with(options).await?;
        Ok(Self { plain: Plain::open(url, settings).await?, pool })
    }

    async fn append(&self, appending: Appending) -> Result<(), Error> {
        let chance = Uuid::new_v4().as_u64_pair().1;
        let mut tx = self.pool.begin().await?;
        let (_, announcement) = self.plain.store.append_on(&mut tx, &append(appending)).await?;
        tokio::time::sleep(Duration::from_micros(chance / ROLLED_BACK_IN % SLOWEST_MICROS)).await;
        if chance.is_multiple_of(ROLLED_BACK_IN) {
            tx.rollback().await?;
            return Err("rolled back".into());
        }
        tx.commit().await?;
        announcement.send();
        Ok(())
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        self.plain.load(stream).await
    }

    async fn follow(&self, id: &str, sink: Arc<Sink>) -> Result<(), Error> {
        self.plain.follow(id, sink).await
    }
}
