//! Leadership without coordination.

use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;

use super::guard::Always;
use super::{Instance, Leader, LeadershipGuard, ProjectorCoordinator};
use crate::{Backend, BoxFuture, Claim, Error};

/// The explicit "I run one process": leadership is always granted, and no lock is taken. Terms are: started twice by
/// mistake, the newer instance continues and the older one is fenced.
pub struct LocalCoordinator {
    backend: Arc<dyn Backend>,
    instance: Instance,
    told: Once,
}

impl LocalCoordinator {
    /// For the subscribers of a store.
    #[must_use]
    pub fn new(backend: &dyn Backend) -> Self {
        Self { backend: backend.shared(), instance: Instance::here(None), told: Once::new() }
    }

    async fn grant(&self, claim: &Claim) -> Result<LeadershipGuard, Error> {
        crate::subscriber::check_id(&claim.subscriber_id)?;
        self.told.call_once(|| {
            tracing::info!("instance_mode is SingleInstance: no lock is taken. Run one instance, or set Coordinated.");
        });
        let claim = claim.clone().by(&self.instance, None);
        let taken = self.backend.take_over(&claim).await?;
        Ok(LeadershipGuard::new(taken, Box::new(Always::new())))
    }
}

impl ProjectorCoordinator for LocalCoordinator {
    fn ready(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<LeadershipGuard>, Error>> {
        Box::pin(async move { self.grant(claim).await.map(Some) })
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<LeadershipGuard, Error>> {
        Box::pin(self.grant(claim))
    }

    fn is_exclusive(&self) -> bool {
        false
    }

    fn leader(&self, _: &str) -> Option<Leader> {
        None
    }

    fn unled_for(&self, _: &str) -> Option<Duration> {
        None
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl fmt::Debug for LocalCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCoordinator").field("instance", &self.instance).finish_non_exhaustive()
    }
}
