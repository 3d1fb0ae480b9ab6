//! eventcore: commands that append to the streams they have read, and projections that commit their position with each event.

mod orders;
mod projection;

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use driver::{About, Appending, Error, Settings, Sink, Store, locked_version};
use eventcore::postgres::projections::{DeliverySourceId, PostgresProjectionSource, PostgresProjectionStore};
use eventcore::postgres::{MaxConnections, PostgresConfig, PostgresEventStore};
use eventcore::{RetryPolicy, StreamId, collect_events, execute};
use eventcore_types::EventStore as _;
use orders::{OrderPlaced, Place};
use tokio::runtime::Handle;
use uuid::Uuid;

const LOCK: &str = include_str!("../Cargo.lock");
/// Connections for the callers. Projections have their own, one each for reading and for writing.
const CONNECTIONS: NonZeroU32 = NonZeroU32::new(64).expect("64 is not zero");

struct EventCore {
    settings: Settings,
    store: PostgresEventStore,
    source: PostgresProjectionSource,
    destination: PostgresProjectionStore,
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
            settings: "64 connections; projections read pages of 100 and look for new events every second".to_owned(),
            best: Some("projections read pages of 1,000 and look for new events every 10 ms".to_owned()),
            no_follower: None,
            no_failover: None,
            tables: vec!["eventcore_events".to_owned()],
            notes: [
                "The subscriber is its transactional projection, which commits after each event. The older run_projection goes \
                 by the time in an event's id, and its documentation calls it legacy.",
                "Where these projections are installed, every append locks one row until its commit.",
                "A second process with the same projection is refused. That it tries again every 100 ms is a loop of ours.",
                "A command whose append fails with SQLSTATE P0001 or 23505 is repeated by the library, up to 4 times.",
            ]
            .map(str::to_owned)
            .to_vec(),
        }
    }

    async fn prepare(url: &str) -> Result<(), Error> {
        let EventCore { store, source, destination, .. } = Self::open(url, Settings::Default).await?;
        // On a thread of its own: to the compiler, these futures cannot go from one thread to another.
        let runtime = Handle::current();
        let migrate = move || {
            runtime.block_on(async {
                store.migrate().await;
                source.migrate().await?;
                Ok(destination.migrate().await?)
            })
        };
        tokio::task::spawn_blocking(migrate).await?
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let config = PostgresConfig { max_connections: MaxConnections::new(CONNECTIONS), ..PostgresConfig::default() };
        Ok(Self {
            settings,
            store: PostgresEventStore::with_config(url, config).await?,
            source: PostgresProjectionSource::new(url, DeliverySourceId::try_new("orders")?).await?,
            destination: PostgresProjectionStore::new(url).await?,
        })
    }

    async fn append(&self, append: Appending) -> Result<(), Error> {
        let Appending { stream, version, events } = append;
        let place = Place { stream: stream_id(stream)?, version, orders: events };
        execute(&self.store, place, RetryPolicy::new()).await?;
        Ok(())
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        let events = self.store.read_stream::<OrderPlaced>(stream_id(stream)?).await?;
        Ok(collect_events(events).await?.len())
    }

    async fn follow(&self, id: &str, sink: Arc<Sink>) -> Result<(), Error> {
        let (page, poll) = match self.settings {
            Settings::Default => (100, Duration::from_secs(1)),
            Settings::Best => (1_000, Duration::from_millis(10)),
        };
        // What it says itself hides the cause.
        projection::follow(&self.source, &self.destination, id, &sink, page, poll).await.map_err(|error| {
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
