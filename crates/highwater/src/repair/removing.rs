//! Removing what is gone for good.

use super::{Change, Repair, led};
use crate::bus::check_text;
use crate::{DeadLetterQuery, Error, Leader, leader_of};

/// A subscriber that has been removed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// Where it was.
    pub checkpoint: u64,
    /// How many open dead letters it had. They are archived.
    pub dead_letters: u64,
    /// The leader, or possible leader, that was overridden. What it has in hand cannot be stored; if it is still subscribed
    /// then, it starts anew.
    pub fenced: Option<Leader>,
}

impl Repair {
    /// Removes a subscriber that no application subscribes any more, or a lease that none acquires: its checkpoint, leader,
    /// pause, report and requests are gone, and its open dead letters are archived, all in one transaction. A former leader
    /// that comes back can store nothing. A subscriber of that name that is subscribed later starts anew, as its options say.
    ///
    /// # Errors
    /// [`BusError::Led`] while an instance leads it, or may do so because it runs without coordination, unless this is
    /// [forced](Self::force): then stop that instance before, since it starts the subscriber anew with the next event that
    /// it handles. [`BusError::UnknownSubscriber`]; and when the store cannot be asked.
    ///
    /// [`BusError::Led`]: crate::BusError::Led
    /// [`BusError::UnknownSubscriber`]: crate::BusError::UnknownSubscriber
    pub async fn remove(&self, subscriber_id: &str) -> Result<Removed, Error> {
        crate::subscriber::check_id(subscriber_id)?;
        check_text("by", &self.by)?;
        self.checkpoint(subscriber_id).await?;
        let dead_letters = self.store.count_dead_letters(&DeadLetterQuery::of(subscriber_id)).await?;
        let leader = leader_of(&*self.store, subscriber_id).await?;
        let removed = |checkpoint, fenced| Removed { checkpoint, dead_letters, fenced };
        if leader.is_none()
            && let Some((from, _)) = self.alone(subscriber_id, Change::Remove).await?
        {
            return Ok(removed(from, None));
        }
        if !self.force {
            return Err(led(subscriber_id, leader));
        }
        let (from, _) = self.insist(subscriber_id, Change::Remove).await?;
        Ok(removed(from, leader))
    }
}
