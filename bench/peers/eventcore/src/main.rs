//! eventcore: commands that append to the streams they have read, and projections that commit their position with each event.

mod orders;
mod projection;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use driver::{About, Appending, Delivery, Error, POLL, Settings, Sink, Store, locked_version};
use eventcore::postgres::projections::{DeliverySourceId, PostgresProjectionSource, PostgresProjectionStore};
use eventcore::postgres::{MaxConnections, PostgresConfig, PostgresEventStore};
use eventcore::{RetryPolicy, StreamId, collect_events, execute};
use eventcore_types::{EventStore as _, StreamVersion, StreamWrites};
use orders::{OrderPlaced, Place};
use tokio::runtime::Handle;
use uuid::Uuid;

const LOCK: &str = include_str!("../Cargo.lock");
/// Connections for the callers, as PostgresConfig::default() has it. Projections have their own, for reading and for writing.
const CONNECTIONS: u32 = 10;

struct EventCore {
    settings: Settings,
    store: PostgresEventStore,
    /// Where there may be a subscriber.
    projections: Option<(PostgresProjectionSource, PostgresProjectionStore)>,
}

impl Store for EventCore {
    fn about() -> About {
        About {
            name: "eventcore".to_owned(),
            versions: format!(
                "{}, {}",
                locked_version(LOCK, "eventcore"),
                locked_version(LOCK, "eventcore-postgres")
            ),
            page: "docs.rs/eventcore/2.1.0, \"Quick start: your first command\"; docs.rs/crate/eventcore-postgres/2.1.0, \
                   \"Minimal wiring\""
                .to_owned(),
            documented: "execute: a command reads its stream first; PostgresConfig::default(), which has 10 connections; \
                         projections read pages of 100 and look for new events every second"
                .to_owned(),
            fastest: Some(
                "EventStore::append_events at the version that the caller knows; the best of several pool sizes; \
                 projections read pages of 1,000 and look for new events every 5 ms"
                    .to_owned(),
            ),
            pools: vec![8, 16, 32, 64],
            installs: Some(
                "the tables and triggers of its transactional projections: every append locks one row until its commit"
                    .to_owned(),
            ),
            deliveries: BTreeMap::from([(
                Delivery::Once,
                "a transaction for each event, with the position in it; a crash of the server undoes nothing".to_owned(),
            )]),
            no_follower: None,
            no_failover: None,
            tables: vec!["eventcore_events".to_owned()],
            notes: [
                "The subscriber is its transactional projection, which commits after each event. The older run_projection goes \
                 by the time in an event's id, and its documentation calls it legacy.",
                "A second process with the same projection is refused. That it retries every 100 ms is a loop of ours.",
                "A command whose append fails with SQLSTATE P0001 or 23505 is repeated by the library, up to 4 times.",
            ]
            .map(str::to_owned)
            .to_vec(),
            objection: "Its commands may read and write several streams at once, which nobody else here can; only one is asked for."
                .to_owned(),
            ..About::default()
        }
    }

    async fn prepare(url: &str, settings: &Settings) -> Result<(), Error> {
        let EventCore { store, projections, .. } = Self::open(url, settings.clone()).await?;
        // On a dedicated thread: to the compiler, these futures cannot go from one thread to another.
        let runtime = Handle::current();
        let migrate = move || {
            runtime.block_on(async {
                store.migrate().await;
                if let Some((source, destination)) = &projections {
                    source.migrate().await?;
                    destination.migrate().await?;
                }
                Ok(())
            })
        };
        tokio::task::spawn_blocking(migrate).await?
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let connections = NonZeroU32::new(settings.pool(CONNECTIONS)).ok_or("a pool without connections")?;
        let config = PostgresConfig { max_connections: MaxConnections::new(connections), ..PostgresConfig::default() };
        let projections = match settings.subscriber {
            true => Some((
                PostgresProjectionSource::new(url, DeliverySourceId::try_new("orders")?).await?,
                PostgresProjectionStore::new(url).await?,
            )),
            false => None,
        };
        Ok(Self { settings, store: PostgresEventStore::with_config(url, config).await?, projections })
    }

    async fn append(&self, append: Appending) -> Result<u64, Error> {
        let Appending { stream, version, events } = append;
        let stream = stream_id(stream)?;
        if !self.settings.is_fastest() {
            execute(&self.store, Place { stream, version, orders: events }, RetryPolicy::new()).await?;
            return Ok(1);
        }
        let known =
            StreamWrites::new().register_stream(stream.clone(), StreamVersion::new(usize::try_from(version)?))?;
        let placed = |order| OrderPlaced { stream: stream.clone(), order };
        let writes = events.into_iter().map(placed).try_fold(known, StreamWrites::append)?;
        self.store.append_events(writes).await?;
        Ok(1)
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        let events = self.store.read_stream::<OrderPlaced>(stream_id(stream)?).await?;
        Ok(collect_events(events).await?.len())
    }

    async fn follow(&self, id: &str, _delivery: Delivery, sink: Arc<Sink>) -> Result<(), Error> {
        let (source, destination) = self.projections.as_ref().ok_or("projections are not installed")?;
        let (page, poll) = match self.settings.is_fastest() {
            false => (100, Duration::from_secs(1)),
            true => (1_000, POLL),
        };
        // What it says itself hides the cause.
        projection::follow(source, destination, id, &sink, page, poll).await.map_err(|error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("{error}{cause}").into()
        })
    }
}

fn stream_id(stream: Uuid) -> Result<StreamId, Error> {
    Ok(StreamId::try_new(stream.to_string())?)
}

#[tokio::main]
async fn main() -> ExitCode {
    driver::run::<EventCore>().await
}
