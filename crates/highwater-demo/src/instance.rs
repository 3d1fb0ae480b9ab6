//! One instance of the shop: a process of its own.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::time::Duration;

use highwater::{CheckpointMode, CoordinatorConfig, EventBus, InstanceMode, ReliableDeliveryConfig};
use highwater_postgres::PgEventStore;
use highwater_sqlite::SqliteEventStore;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::{Database, DemoError, Emails, Fulfilment, Orders, Place, Revenue, Shop};

/// What an instance says when it has subscribed to everything.
pub(crate) const READY: &str = "ready";
/// Events that share a transaction or a checkpoint: what may be delivered again after a crash, where it may.
const BATCH: CheckpointMode = CheckpointMode::Batched { size: 100, interval: Duration::from_millis(100) };

/// What an instance is told, on the first line of its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) place: Place,
    pub(crate) number: u32,
}

/// Runs one instance, as the demo starts it: until its standard input ends, because the process that started it does not
/// want it any more or is gone, or until SIGTERM.
///
/// # Errors
/// When it cannot start, or cannot stop in time.
pub async fn run_instance() -> Result<(), DemoError> {
    // Before anything else: a signal that comes early must not be missed.
    let mut terminate = signal(SignalKind::terminate()).map_err(DemoError::io("listen for SIGTERM"))?;
    let (job, orphaned) = listen()?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            // An error says that the thread which listens is gone: the same.
            _ = orphaned => {}
        }
    };
    match job.place {
        Place::Postgres { .. } => serve::<PgEventStore>(job, stop).await,
        Place::Sqlite { .. } => serve::<SqliteEventStore>(job, stop).await,
    }
}

/// Reads the job, and tells when there is nobody any more at the other end. On a thread, and not by the runtime: that would
/// wait for a read that has not ended.
fn listen() -> Result<(Job, oneshot::Receiver<()>), DemoError> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(DemoError::io("read the job"))?;
    let job = serde_json::from_str(&line).map_err(|error| {
        DemoError::Database(format!("this is what `highwater demo` starts, and not for people ({error})"))
    })?;
    let (sender, orphaned) = oneshot::channel();
    std::thread::spawn(move || {
        // Whatever comes, and however it ends: only that it has ended counts.
        drop(io::stdin().lock().read_to_end(&mut Vec::new()));
        drop(sender);
    });
    Ok((job, orphaned))
}

/// How the shop's instances deliver.
pub(crate) fn delivery(number: Option<u32>) -> ReliableDeliveryConfig {
    let instance_label = number.map(|number| number.to_string());
    ReliableDeliveryConfig {
        instance_mode: InstanceMode::Coordinated,
        coordination: CoordinatorConfig { instance_label, ..CoordinatorConfig::default() },
        checkpoint_mode: BATCH,
        initial_retry_delay: Duration::from_millis(100),
        shutdown_timeout: Duration::from_secs(5),
        ..ReliableDeliveryConfig::default()
    }
}

async fn serve<S: Shop>(job: Job, stop: impl Future<Output = ()>) -> Result<(), DemoError> {
    let (place, number) = (&job.place, job.number);
    let store = S::open(place).await?;
    let database = Database::open(place).await?;
    let bus = EventBus::with_config(store.clone(), delivery(Some(number)));
    bus.subscribe(Revenue::<S>::new(number)).await?;
    bus.subscribe(Orders::<S>::new(number)).await?;
    bus.subscribe(Emails::new(number, database.clone())).await?;
    bus.subscribe(Fulfilment::new(number, store)).await?;
    writeln!(io::stdout(), "{READY}").map_err(DemoError::io("say that it is ready"))?;
    stop.await;
    bus.shutdown().await?;
    database.close().await;
    Ok(())
}
