//! Events at a steady pace, each an append of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use highwater::backend::Log;
use highwater::{Append, ExpectedVersion};
use highwater_postgres::PgEventStore;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use uuid::Uuid;

use crate::Error;
use crate::payload::{self, Order};

#[derive(Clone)]
pub(crate) struct Load {
    store: PgEventStore,
    /// The time between two of them. A tick that came late is made up for.
    pace: Duration,
    order: Arc<Order>,
}

/// Events that are being sent.
pub(crate) struct Flow {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl Load {
    pub(crate) fn new(store: PgEventStore, pace: Duration) -> Result<Self, Error> {
        Ok(Self { store, pace, order: Arc::new(payload::sample()?.into()) })
    }

    /// Begins, and counts what was stored.
    pub(crate) fn start(&self, sent: Arc<AtomicUsize>) -> Flow {
        let (stop, stopped) = oneshot::channel();
        Flow { stop, task: tokio::spawn(self.clone().run(sent, stopped)) }
    }

    async fn run(self, sent: Arc<AtomicUsize>, mut stopped: oneshot::Receiver<()>) -> Result<(), Error> {
        let mut appends = JoinSet::new();
        let mut pace = tokio::time::interval(self.pace);
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
    pub(crate) async fn stop(self) -> Result<(), Error> {
        drop(self.stop);
        self.task.await?
    }
}
