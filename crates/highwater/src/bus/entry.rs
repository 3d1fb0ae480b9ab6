//! A subscriber, as its bus holds it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::delivery::driver::Control;
use crate::delivery::itself;
use crate::delivery::status::{CheckpointRate, Ends, Short, Status};
use crate::lock::lock;
use crate::{BusError, Error, Progress, ReliableDeliveryConfig, SubscriptionState};

/// A subscriber of this bus.
pub(super) struct Entry {
    pub(super) id: Arc<str>,
    pub(super) control: watch::Sender<Control>,
    pub(super) status: watch::Receiver<Status>,
    pub(super) config: ReliableDeliveryConfig,
    /// The version of the tables that its code is written for, if it has any.
    pub(super) version: Option<u32>,
    /// None while it is being started.
    pub(super) task: Mutex<Option<AbortHandle>>,
    /// For how long it has been behind.
    pub(super) behind: Mutex<Short>,
    /// How fast another instance progresses, as far as it was seen from here.
    pub(super) elsewhere: Mutex<CheckpointRate>,
}

impl Entry {
    pub(super) fn new(
        id: Arc<str>,
        control: watch::Sender<Control>,
        status: watch::Receiver<Status>,
        config: ReliableDeliveryConfig,
        version: Option<u32>,
    ) -> Self {
        Self {
            id,
            control,
            status,
            config,
            version,
            task: Mutex::default(),
            behind: Mutex::default(),
            elsewhere: Mutex::default(),
        }
    }

    /// How far it is, compared with where the log ends. `stored`: its checkpoint, where another instance moves it.
    pub(super) fn progress(&self, ends: Ends, stored: Option<u64>) -> Progress {
        let mut status = self.status.borrow().clone();
        if let Some(stored) = stored {
            (status.handled, status.stored) = (stored, stored);
            status.rate = lock(&self.elsewhere).seen(stored);
            (status.at, status.front_at) = (Instant::now(), None);
        }
        let behind = lock(&self.behind).seen(status.handled, ends.head);
        status.progress(ends, behind)
    }

    pub(super) fn task(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        lock(&self.task)
    }

    /// Waits until its task is over, however it ends. One that was never started is.
    pub(super) async fn ended(&self) {
        if self.task().is_none() {
            return;
        }
        let mut status = self.status.clone();
        // The other end is the task's: it closes with it.
        while status.changed().await.is_ok() {}
    }

    /// Whether its task has ended without having been told to.
    pub(super) fn has_died(&self) -> bool {
        self.task().as_ref().is_some_and(AbortHandle::is_finished) && !self.control.borrow().stop
    }

    /// Whether it leads here. If not, only its checkpoint tells how far it is.
    pub(super) fn leads(&self) -> bool {
        self.status.borrow().leads
    }

    pub(super) fn state(&self) -> SubscriptionState {
        self.status.borrow().state.clone()
    }

    /// Refuses to wait for it inside its own handler.
    pub(super) fn not_within(&self, action: &'static str) -> Result<(), Error> {
        if itself::is_within(&self.status) {
            return Err(Error::Bus(BusError::WaitsForItself { subscriber_id: self.id.to_string(), action }));
        }
        Ok(())
    }
}
