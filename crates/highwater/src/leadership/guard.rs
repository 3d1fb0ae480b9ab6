//! Leadership that is held.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use uuid::Uuid;

use super::HeldLock;
use super::roll::Entry;
use crate::{BoxFuture, Taken};

/// Leadership for a subscriber. Dropping it gives it back: at the end of a scope, on an early return, on a panic.
///
/// While it lasts, writes that name its [`term`](Self::term) go through, and no others.
pub struct LeadershipGuard {
    taken: Taken,
    /// Gone with the guard, so that nothing is requested of it any more; and before the lock, so that it removes nothing of
    /// the next holder.
    entry: Option<Entry>,
    held: Option<Box<dyn HeldLock>>,
}

impl LeadershipGuard {
    /// From a lock that is held and the term that was taken after that: for custom coordinators.
    #[must_use]
    pub fn new(taken: Taken, held: Box<dyn HeldLock>) -> Self {
        Self { taken, held: Some(held), entry: None }
    }

    pub(super) fn entered(self, entry: Entry) -> Self {
        Self { entry: Some(entry), ..self }
    }

    /// The number of its term: higher than that of every leader before.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.taken.checkpoint.term.number
    }

    /// What taking over gave: the term, and how far the subscriber is.
    #[must_use]
    pub fn taken(&self) -> &Taken {
        &self.taken
    }

    /// Whether it still leads, as far as can be known without asking. Cheap enough to ask before every event.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.is_held())
    }

    /// Resolves when leadership is gone, by this guard's own end as well. A [`LocalCoordinator`](crate::LocalCoordinator)
    /// has no way to know: its leader learns from the store that it was fenced.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let lost = self.losing();
        async move {
            if let Some(mut lost) = lost {
                // The sender has gone, and leadership with it.
                drop(lost.wait_for(|lost| *lost).await);
            }
        }
    }

    pub(crate) fn losing(&self) -> Option<watch::Receiver<bool>> {
        self.held.as_ref().map(|held| held.lost())
    }

    /// Gives leadership back, and returns when others can have it.
    pub async fn release(mut self) {
        let to = self.entry.as_ref().and_then(Entry::yields_to);
        self.entry = None;
        if let Some(held) = self.held.take() {
            held.release(to).await;
        }
    }

    /// Announces whether it would refuse to release, so that another one is asked.
    pub(crate) fn stays(&self, stays: bool) {
        if let Some(entry) = &self.entry {
            entry.stays(stays);
        }
    }

    /// Resolves when another instance, which does less at the moment, is to lead: finish the work in hand, and release.
    pub(crate) fn yielding(&self) -> Option<watch::Receiver<Option<Uuid>>> {
        self.entry.as_ref().map(Entry::asked)
    }
}

impl fmt::Debug for LeadershipGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeadershipGuard").field("term", &self.term()).field("held", &self.is_held()).finish()
    }
}

/// For guards without a lock behind them.
#[derive(Debug)]
pub(super) struct Always(watch::Sender<bool>);

impl Always {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl HeldLock for Always {
    fn session(&self) -> Option<Uuid> {
        None
    }

    fn is_held(&self) -> bool {
        true
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }

    fn release(self: Box<Self>, _: Option<Uuid>) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Shared by what is wanted and what is led.
pub(super) type Name = Arc<str>;
