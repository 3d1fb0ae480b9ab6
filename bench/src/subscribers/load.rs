//! Events at a steady pace, each an append of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use highwater::{Append, ExpectedVersion, Log};
use highwater_postgres::PgEventStore;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use uuid::Uuid;

use crate::Error;
use crate::payload::{Order, Placed};

/// 1,000 a second. A tick that came late is made up for.
const PACE: Duration = Duration::from_millis(1);

#[derive(Clone)]
pub(super) struct Load {
    store: PgEventStore,
    order: Arc<Order>,
}

/// Events that are being sent.
pub(super) struct Flow {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl Load {
    pub(super) fn new(store: PgEventStore) -> Result<Self, Error> {
        Ok(Self { store, order: Arc::new(Placed::sample()?.into()) })
    }

    /// Begins, and counts what was stored.
    pub(super) fn start(&self, sent: Arc<AtomicUsize>) -> Flow {
        let (stop, stopped) = oneshot::channel();
        Flow { stop, task: tokio::spawn(self.clone().run(sent, stopped)) }
    }

    async fn run(self, sent: Arc<AtomicUsize>, mut stopped: oneshot::Receiver<()>) -> Result<(), Error> {
        let mut appends = JoinSet::new();
        let mut pace = tokio::time::interval(PACE);
        loop {
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                Some(done) = appends.join_next() => done??,
                _ = pace.tick() => {
                    appends.spawn(self.clone().append(sent.clone()));
                }
            }
        }
        while let Some(done) = appends.join_next().await {
            done??;
        }
        Ok(())
    }

    async fn append(self, sent: Arc<AtomicUsize>) -> Result<(), Error> {
        let append = Append::to(Uuid::new_v4()).expecting(ExpectedVersion::NoStream).event(&*self.order);
        self.store.append(&append).await?;
        sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Flow {
    /// Returns when everything that was sent is stored.
    pub(super) async fn stop(self) -> Result<(), Error> {
        drop(self.stop);
        self.task.await?
    }
}
