//! One writer of checkpoints for all subscribers of a bus: what is asked for while it writes goes together into the next
//! statement, so two hundred subscribers cost hardly more than one.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot};

use crate::lock::lock;
use crate::{Backend, CheckpointWrite, Error, Refused, SharedError};

/// Checkpoints in one statement.
const WRITES_MAX: usize = 1_000;

/// What came of a checkpoint: stored, refused, or the store's error.
pub(crate) type Outcome = Result<Option<Refused>, SharedError>;

/// Collects checkpoints and stores them.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// One entry a subscriber at most: each has one checkpoint on its way at a time.
    waiting: Mutex<Vec<(CheckpointWrite, oneshot::Sender<Outcome>)>>,
    wake: Notify,
    /// Held while something is being written.
    writing: AsyncMutex<()>,
}

impl Writer {
    fn waiting(&self) -> MutexGuard<'_, Vec<(CheckpointWrite, oneshot::Sender<Outcome>)>> {
        lock(&self.waiting)
    }

    /// Has a checkpoint stored while the caller does something else.
    pub(crate) fn store(&self, write: CheckpointWrite) -> oneshot::Receiver<Outcome> {
        let (sender, receiver) = oneshot::channel();
        self.waiting().push((write, sender));
        self.wake.notify_one();
        receiver
    }

    /// Stores a checkpoint, directly when no other write is under way: then there is no detour over another task. When this
    /// is dropped half way, the checkpoint is stored or it is not; the caller is gone in any case.
    pub(crate) async fn store_now(&self, backend: &dyn Backend, write: CheckpointWrite) -> Outcome {
        if let Ok(_writing) = self.writing.try_lock() {
            let answers = backend.store_checkpoints(std::slice::from_ref(&write)).await;
            return answers.map(|answers| answers.into_iter().next().flatten()).map_err(SharedError::new);
        }
        match self.store(write).await {
            Ok(outcome) => outcome,
            Err(_) => Err(SharedError::new(Error::ShutDown)),
        }
    }

    /// Writes what is asked for. Never ends by itself.
    pub(crate) async fn run(self: Arc<Self>, backend: Arc<dyn Backend>) {
        loop {
            self.wake.notified().await;
            loop {
                let _writing = self.writing.lock().await;
                let group: Vec<_> = {
                    let mut waiting = self.waiting();
                    let count = waiting.len().min(WRITES_MAX);
                    waiting.drain(..count).collect()
                };
                if group.is_empty() {
                    break;
                }
                let (writes, senders): (Vec<_>, Vec<_>) = group.into_iter().unzip();
                let answers = backend.store_checkpoints(&writes).await.map_err(SharedError::new);
                for (at, sender) in senders.into_iter().enumerate() {
                    let answer = answers.as_ref().map(|answers| answers.get(at).cloned().flatten());
                    // A subscriber that no longer waits has been stopped.
                    drop(sender.send(answer.map_err(SharedError::clone)));
                }
            }
        }
    }
}
