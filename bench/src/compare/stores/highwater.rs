//! Highwater, as its README says: by `append` and by `execute`, with several instances, and in transactions of the application's.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use driver::{About, Appending, Delivery, Error, Placed, Settings, Sink, Store};
use highwater::backend::Log;
use highwater::{
    Append, BoxError, CheckpointMode, Event, EventStore, Evolve, ExpectedVersion, InstanceMode, Projection,
    ReliableDeliveryConfig, StateIs, TransactionalProjection,
};
use highwater_postgres::{PgEventBus, PgEventStore, PgTx};
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
    const STATE: StateIs = StateIs::Nothing;

    fn subscriber_id(&self) -> &str {
        &self.id
    }

    async fn apply(&self, event: &Event<Order>) -> Result<(), BoxError> {
        let Order::Placed(placed) = &event.data;
        self.sink.handle(placed, event.global_sequence);
        Ok(())
    }
}

/// The same in transactions.
struct OnceFollower(Follower);

impl TransactionalProjection<Order, PgTx> for OnceFollower {
    fn subscriber_id(&self) -> &str {
        &self.0.id
    }

    async fn apply(&self, _tx: &mut PgTx, event: &Event<Order>) -> Result<(), BoxError> {
        let Order::Placed(placed) = &event.data;
        self.0.sink.handle(placed, event.global_sequence);
        Ok(())
    }
}

/// How many there are is all that a decision has to know.
#[derive(Debug, Default)]
struct Orders {
    count: u64,
}

impl Evolve for Orders {
    type Event = Order;

    fn evolve(&mut self, _event: &Event<Order>) {
        self.count += 1;
    }
}

fn about(name: &str, documented: &str) -> About {
    let lock = include_str!("../../../Cargo.lock");
    let versions = ["highwater", "highwater-postgres"].map(|package| driver::locked_version(lock, package));
    About {
        name: name.to_owned(),
        versions: versions.join(", "),
        page: "README.md, docs/operating.md".to_owned(),
        documented: documented.to_owned(),
        deliveries: BTreeMap::from([
            (
                Delivery::Batched,
                "a checkpoint after 4,000 events or 100 ms, which does not wait for the disk; a crash of the server can undo those of \
                 the last 0.6 s, whose events come again"
                    .to_owned(),
            ),
            (
                Delivery::Each,
                "a checkpoint after each event, which does not wait for the disk; a crash of the server can undo those of the last \
                 0.6 s, whose events come again"
                    .to_owned(),
            ),
            (
                Delivery::Once,
                "a transaction for up to 4,000 events or 100 ms, with the checkpoint in it; a crash of the server undoes nothing"
                    .to_owned(),
            ),
        ]),
        tables: vec!["highwater.events".to_owned()],
        objection: "None: it is ours.".to_owned(),
        ..About::default()
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
    mut config: ReliableDeliveryConfig,
    id: &str,
    delivery: Delivery,
    sink: Arc<Sink>,
) -> Result<(), Error> {
    if delivery == Delivery::Each {
        config.checkpoint_mode = CheckpointMode::Synchronous;
    }
    let bus = PgEventBus::with_config(store.clone(), config);
    let follower = Follower { id: format!("projection:{id}"), sink: sink.clone() };
    match delivery {
        Delivery::Once => bus.subscribe(OnceFollower(follower)).await.map(drop)?,
        Delivery::Batched | Delivery::Each => bus.subscribe(follower).await.map(drop)?,
    }
    sink.stopped().await;
    Ok(bus.shutdown().await?)
}

async fn prepare(url: &str) -> Result<(), Error> {
    Ok(PgEventStore::connect(url).await?.initialize().await?)
}

/// As an application would use it.
pub(super) struct Plain {
    store: PgEventStore,
    delivery: ReliableDeliveryConfig,
}

impl Store for Plain {
    fn about() -> About {
        about("Highwater", "append, at the version that the caller knows; everything as by default")
    }

    async fn prepare(url: &str, _settings: &Settings) -> Result<(), Error> {
        prepare(url).await
    }

    async fn open(url: &str, _settings: Settings) -> Result<Self, Error> {
        Ok(Self { store: PgEventStore::connect(url).await?, delivery: ReliableDeliveryConfig::default() })
    }

    async fn append(&self, appending: Appending) -> Result<u64, Error> {
        self.store.append(&append(appending)).await?;
        Ok(1)
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        load(&self.store, stream).await
    }

    async fn follow(&self, id: &str, delivery: Delivery, sink: Arc<Sink>) -> Result<(), Error> {
        follow(&self.store, self.delivery.clone(), id, delivery, sink).await
    }
}

/// By decisions: load, decide, append.
pub(super) struct Execute {
    plain: Plain,
}

impl Store for Execute {
    fn about() -> About {
        about("Highwater, by decisions", "execute: loads the stream, decides, appends; everything as by default")
    }

    async fn prepare(url: &str, _settings: &Settings) -> Result<(), Error> {
        prepare(url).await
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        Ok(Self { plain: Plain::open(url, settings).await? })
    }

    async fn append(&self, Appending { stream, version, events }: Appending) -> Result<u64, Error> {
        let mut attempts = 0;
        let decide = |orders: &Orders| {
            attempts += 1;
            let new = orders.count == version;
            let events: Vec<Order> = events.iter().filter(|_| new).cloned().map(Order::Placed).collect();
            Ok::<_, Infallible>(events)
        };
        self.plain.store.execute(stream, decide).await?.ok_or("the stream has another version")?;
        Ok(attempts)
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        Ok(usize::try_from(EventStore::load::<Orders>(&self.plain.store, stream).await?.version)?)
    }

    async fn follow(&self, id: &str, delivery: Delivery, sink: Arc<Sink>) -> Result<(), Error> {
        self.plain.follow(id, delivery, sink).await
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

    async fn prepare(url: &str, _settings: &Settings) -> Result<(), Error> {
        prepare(url).await
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let mut plain = Plain::open(url, settings).await?;
        plain.delivery.instance_mode = InstanceMode::Coordinated;
        Ok(Self { plain })
    }

    async fn append(&self, append: Appending) -> Result<u64, Error> {
        self.plain.append(append).await
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        self.plain.load(stream).await
    }

    async fn follow(&self, id: &str, delivery: Delivery, sink: Arc<Sink>) -> Result<(), Error> {
        self.plain.follow(id, delivery, sink).await
    }
}

/// Each append on a transaction of the application's, which then takes up to 20 ms more; one in seven is rolled back.
pub(super) struct InTransactions {
    plain: Plain,
    pool: PgPool,
}

/// How many transactions at once.
const TRANSACTIONS: u32 = 32;
const SLOWEST: f64 = 0.02;
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

    async fn prepare(url: &str, _settings: &Settings) -> Result<(), Error> {
        prepare(url).await
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let options = PgConnectOptions::from_str(url)?;
        let pool = PgPoolOptions::new().max_connections(TRANSACTIONS).connect_with(options).await?;
        Ok(Self { plain: Plain::open(url, settings).await?, pool })
    }

    async fn append(&self, appending: Appending) -> Result<u64, Error> {
        let chance = Uuid::new_v4().as_u64_pair().1;
        let mut tx = self.pool.begin().await?;
        let (_, announcement) = self.plain.store.append_on(&mut tx, &append(appending)).await?;
        // As in slow_commits.sql: most take little longer, a few take long.
        let part = (chance / ROLLED_BACK_IN % 1_000) as f64 / 1_000.0;
        tokio::time::sleep(Duration::from_secs_f64(SLOWEST * part.powi(3))).await;
        if chance.is_multiple_of(ROLLED_BACK_IN) {
            tx.rollback().await?;
            return Err("rolled back".into());
        }
        tx.commit().await?;
        announcement.send();
        Ok(1)
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        self.plain.load(stream).await
    }

    async fn follow(&self, id: &str, delivery: Delivery, sink: Arc<Sink>) -> Result<(), Error> {
        self.plain.follow(id, delivery, sink).await
    }
}
