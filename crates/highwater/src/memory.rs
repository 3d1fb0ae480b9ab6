//! The backend for tests, and the oracle the others are compared with: the whole contract, in the obvious way.

mod checkpoints;
mod dead_letters;
mod delivery;
mod diagnose;
mod leadership;
mod log;
mod requests;
mod transactions;
mod transfer;
mod unit_of_work;
mod wakeups;

use std::sync::Arc;

use tokio::sync::watch;

pub use transactions::MemoryTx;
pub use unit_of_work::MemoryUnitOfWork;

use crate::{KindsWritten, Limits, Upcasters};

/// A log in memory. Clones share it; it is gone with the last of them.
#[derive(Debug, Clone)]
pub struct MemoryEventStore {
    log: Arc<log::MemoryLog>,
    delivery: Arc<delivery::MemoryDelivery>,
    leadership: Arc<leadership::MemoryLocks>,
    filling: Arc<transfer::MemoryFillings>,
    hints: watch::Sender<u64>,
    upcasters: Arc<Upcasters>,
    kinds: Arc<KindsWritten>,
    limits: Limits,
}

impl MemoryEventStore {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self {
            log: Arc::default(),
            delivery: Arc::default(),
            leadership: Arc::default(),
            filling: Arc::default(),
            hints: watch::Sender::new(0),
            upcasters: Arc::default(),
            kinds: Arc::default(),
            limits: Limits::default(),
        }
    }

    /// The same log, read with these upcasters.
    #[must_use]
    pub fn with_upcasters(self, upcasters: Upcasters) -> Self {
        Self { upcasters: Arc::new(upcasters), ..self }
    }

    /// The same log, written within these limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Collects appends to be stored together at the end, as the SQL backends do together with the user's own writes.
    ///
    /// # Errors
    /// Never: the SQL backends' can fail.
    #[expect(clippy::unused_async, reason = "it is begun as on every backend")]
    pub async fn begin(&self) -> Result<MemoryUnitOfWork, crate::Error> {
        Ok(MemoryUnitOfWork::new(self.clone()))
    }
}

impl Default for MemoryEventStore {
    fn default() -> Self {
        Self::new()
    }
}
