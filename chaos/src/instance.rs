//! One application instance: a process with writers and subscribers, that writes down what it does.

mod commands;
mod journal;
mod shaky;
mod subscribers;
mod view;
mod writers;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use highwater::{
    BoxError, CheckpointMode, CoordinatorConfig, EventBus, InstanceMode, ReliableDeliveryConfig, SubscriberOptions,
};
use highwater_postgres::PgEventStore;
use highwater_sqlite::SqliteEventStore;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::base::{Base, Place};
use crate::broken::{Broken, Flaw};
use crate::cast::{ALONE_IN, ROLES, Role};
use crate::record::{Entry, Life};

pub use commands::{Command, Order, Reply};
pub use journal::{Journal, now, path as journal_path};
pub use shaky::{asynchronous_path, poison_path};

/// What an instance is told, on the first line of its standard input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Where the events are.
    pub place: Place,
    /// Which life of which instance this is.
    pub life: Life,
    /// Where it writes down what it does.
    pub folder: PathBuf,
    /// What its writers draw from.
    pub seed: u64,
    /// How many writers it has.
    pub writers: usize,
    /// How long each rests between two appends, at most.
    pub rest_millis: u64,
    /// Whether the late ones have joined already.
    pub late: bool,
    /// What is wrong with its engine, if it is a broken one.
    pub flaw: Option<Flaw>,
}

/// Runs one instance until its standard input ends.
///
/// # Errors
/// When it cannot start, or cannot stop in time.
pub async fn run() -> Result<(), BoxError> {
    let (job, commands) = commands::listen()?;
    match (&job.place, job.flaw) {
        (Place::Postgres { .. }, None) => serve(open::<PgEventStore>(&job).await?, job, commands).await,
        (Place::Postgres { .. }, Some(flaw)) => {
            serve(Broken::new(open::<PgEventStore>(&job).await?, flaw), job, commands).await
        }
        (Place::Sqlite { .. }, None) => serve(open::<SqliteEventStore>(&job).await?, job, commands).await,
        (Place::Sqlite { .. }, Some(flaw)) => Err(format!("{flaw:?} is an engine on PostgreSQL only").into()),
    }
}

/// Opens the store, and retries for as long as it is away: instances start at any time.
async fn open<S: Base>(job: &Job) -> Result<S, BoxError> {
    loop {
        match S::open(&job.place, &job.life.to_string()).await {
            Ok(store) => return Ok(store),
            Err(error) if error.is_retryable() => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the store cannot be opened yet");
                tokio::time::sleep(OPEN_AGAIN).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// How long to wait before opening a store that is away is retried.
const OPEN_AGAIN: Duration = Duration::from_millis(100);
/// How long to wait for what was asked for.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// How all instances deliver.
#[must_use]
pub fn delivery() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig {
        instance_mode: InstanceMode::Coordinated,
        max_retries: 2,
        initial_retry_delay: Duration::from_millis(20),
        max_retry_delay: Duration::from_millis(200),
        shutdown_timeout: Duration::from_secs(8),
        wait_timeout: WAIT_TIMEOUT,
        ..ReliableDeliveryConfig::default()
    }
}

/// How events are delivered to one of them.
fn delivered(options: SubscriberOptions, role: &Role) -> SubscriberOptions {
    let interval = Duration::from_millis(50);
    let checkpoint_mode = match role.batch {
        1 => CheckpointMode::Synchronous,
        size => CheckpointMode::Batched { size, interval },
    };
    let options = options.checkpoint_mode(checkpoint_mode);
    match role.shaky {
        true => options.max_retries(2).handler_timeout(Duration::from_millis(300)),
        // These have no reason to fail but the database: what is lost with it is retried.
        false => options.max_retries(50),
    }
}

async fn serve<S: Base>(store: S, job: Job, mut commands: commands::Heard) -> Result<(), BoxError> {
    let journal = Journal::open(&job.folder, job.life)?;
    let label = Some(job.life.instance.to_string());
    let coordination = CoordinatorConfig { instance_label: label, ..CoordinatorConfig::default() };
    let bus = EventBus::with_config(store.clone(), ReliableDeliveryConfig { coordination, ..delivery() });
    let uncoordinated = ReliableDeliveryConfig { instance_mode: InstanceMode::SingleInstance, ..delivery() };
    let alone = (job.life.instance == ALONE_IN).then(|| EventBus::with_config(store.clone(), uncoordinated));
    let cast = subscribers::Cast {
        bus: bus.clone(),
        alone: alone.clone(),
        store: store.clone(),
        journal: journal.clone(),
        job: job.clone(),
    };
    let (wanted, writing) = watch::channel(false);
    let writers = writers::start(&store, &bus.live_view()?, &journal, &job, &writing);
    // A database that is away keeps nobody from being told what to do: subscribing is tried until it works.
    let mut joining = Some(tokio::spawn(join_all(cast.clone(), job.late, journal.clone())));
    while let Some(Command { id, order }) = commands.recv().await {
        let done = match order {
            Order::Write(write) => {
                wanted.send_replace(write);
                if write { Ok(()) } else { writers.idle().await }
            }
            Order::Subscribe(role) => cast.join(&ROLES[role]).await,
            Order::Unsubscribe(role) => cast.leave(&ROLES[role]).await,
            Order::Joined => match joining.take() {
                Some(joining) => joining.await.map_err(Into::into).flatten(),
                None => Ok(()),
            },
        };
        let reply = Reply { id, error: done.err().map(|error| error.to_string()) };
        writeln!(io::stdout(), "{}", serde_json::to_string(&reply)?)?;
    }
    wanted.send_replace(false);
    if let Some(alone) = alone {
        alone.shutdown().await?;
    }
    bus.shutdown().await?;
    Ok(())
}

async fn join_all<S: Base>(cast: subscribers::Cast<S>, late: bool, journal: Journal) -> Result<(), BoxError> {
    for role in ROLES.iter().filter(|role| late || !role.late) {
        cast.join(role).await.inspect_err(|error| {
            journal.write(&Entry::Trouble { what: format!("{} could not be subscribed: {error}", role.id) });
        })?;
    }
    Ok(())
}
