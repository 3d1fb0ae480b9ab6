//! Moving checkpoints and removing subscribers from outside: by hand, from any process, without the subscriber's code.

mod removing;

use std::sync::Arc;

use chrono::Utc;
use uuid::Uuid;

pub use self::removing::Removed;
use crate::bus::check_text;
use crate::delivery::status::Ends;
use crate::overview::ends;
use crate::{
    Backend, BusError, Checkpoint, Claim, Closing, Coordinator, CoordinatorConfig, Error, Fence, Instance, Invalid,
    Leader, LeaderHold, Opening, ProjectorCoordinator, Report, Request, RequestKind, SubscriptionState, Term,
    leader_of,
};

/// How often what is forced is retried when leaders change under it.
const TRIES: u32 = 5;

/// The label of an instance that leads in order to move a checkpoint or to remove a subscriber. No other may have it.
pub(crate) const REPAIR_LABEL: &str = "repair";

/// Moves checkpoints and removes subscribers, in an operator's name.
///
/// Of a subscriber that is moved only the checkpoint is moved, and what a projection has written stays: moved back it gets events that it has seen before,
/// moved forward it never sees those in between. To have a projection emptied and filled again, request a
/// [`rebuild`](Self::rebuild).
///
/// Open dead letters beyond the new position are archived, because their events come again; those up to there stay open.
///
/// ```
/// use highwater::backend::Checkpoints;
/// use highwater::{Claim, EventStore, MemoryEventStore};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = MemoryEventStore::new();
/// store.take_over(&Claim::of("projection:orders")).await?;             // runs without coordination
/// let repair = store.repair().by("anna");
/// assert!(repair.reset("projection:orders").await.is_err());           // it may still run
/// let moved = repair.force().reset("projection:orders").await?;
/// assert_eq!(moved.to, 0);
/// store.repair().force().remove("projection:orders").await?;           // no process subscribes it any more
/// # Ok::<(), highwater::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Repair {
    store: Arc<dyn Backend>,
    by: String,
    force: bool,
}

/// A checkpoint that has been moved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moved {
    /// Where it was.
    pub from: u64,
    /// Where it is: the subscriber continues after this.
    pub to: u64,
    /// The term that holds now; earlier ones write nothing any more.
    pub term: u64,
    /// The leader, or possible leader, that was overridden. It finishes its current event, cannot store that, and resumes
    /// from the new position by itself.
    pub fenced: Option<Leader>,
}

/// What is done in a fenced transaction.
#[derive(Debug, Clone, Copy)]
enum Change {
    Move { to: u64 },
    Remove,
}

impl Repair {
    /// For the subscribers of a store.
    #[must_use]
    pub(crate) fn of(store: Arc<dyn Backend>) -> Self {
        Self { store, by: format!("process {}", std::process::id()), force: false }
    }

    /// In whose name: it is recorded with the dead letters that are archived.
    #[must_use]
    pub fn by(self, who: impl Into<String>) -> Self {
        Self { by: who.into(), ..self }
    }

    /// Also while an instance leads: what it is about to store is fenced.
    #[must_use]
    pub fn force(self) -> Self {
        Self { force: true, ..self }
    }

    /// Has a subscriber continue from the beginning of the log.
    ///
    /// # Errors
    /// As [`set_checkpoint`](Self::set_checkpoint).
    pub async fn reset(&self, subscriber_id: &str) -> Result<Moved, Error> {
        self.set_checkpoint(subscriber_id, 0).await
    }

    /// Has a subscriber continue after a position. While it has no leader, no instance can begin to lead before this is
    /// done.
    ///
    /// # Errors
    /// [`BusError::Led`] while an instance leads it, or may do so because it runs without coordination, unless this is
    /// [forced](Self::force); [`BusError::UnknownSubscriber`]; [`Error::Invalid`] for a position beyond the end of the log;
    /// [`Error::Unavailable`] for one that is not settled yet, and when the store cannot be asked.
    pub async fn set_checkpoint(&self, subscriber_id: &str, to: u64) -> Result<Moved, Error> {
        crate::subscriber::check_id(subscriber_id)?;
        check_text("by", &self.by)?;
        self.subscriber(subscriber_id).await?;
        self.check(to).await?;
        let leader = leader_of(&*self.store, subscriber_id).await?;
        if leader.is_none()
            && let Some((from, term)) = self.alone(subscriber_id, Change::Move { to }).await?
        {
            return Ok(Moved { from, to, term: term.number, fenced: None });
        }
        if self.force {
            return self.overrule(subscriber_id, to, leader).await;
        }
        Err(led(subscriber_id, leader))
    }

    /// Requests that a projection is emptied and filled again, and returns the request's id. The leader does it, now or when
    /// an instance begins to lead: only that has the code. The term is raised with it, so no earlier work in hand is stored.
    ///
    /// # Errors
    /// [`BusError::Led`] while an instance leads it, or may do so, unless this is [forced](Self::force);
    /// [`BusError::UnknownSubscriber`]; and when the store cannot be asked.
    pub async fn rebuild(&self, subscriber_id: &str) -> Result<Uuid, Error> {
        crate::subscriber::check_id(subscriber_id)?;
        check_text("by", &self.by)?;
        self.subscriber(subscriber_id).await?;
        match leader_of(&*self.store, subscriber_id).await? {
            Some(leader) if !self.force => Err(led(subscriber_id, Some(leader))),
            _ => self.file(subscriber_id, RequestKind::Rebuild).await,
        }
    }

    /// Refuses a name that no subscriber has: a lease has no position that could be moved.
    async fn subscriber(&self, subscriber_id: &str) -> Result<(), Error> {
        match self.checkpoint(subscriber_id).await?.is_lease() {
            true => Err(Error::Bus(BusError::UnknownSubscriber(subscriber_id.to_owned()))),
            false => Ok(()),
        }
    }

    async fn checkpoint(&self, subscriber_id: &str) -> Result<Checkpoint, Error> {
        let found = self.store.checkpoint(subscriber_id).await?;
        found.ok_or_else(|| Error::Bus(BusError::UnknownSubscriber(subscriber_id.to_owned())))
    }

    /// A checkpoint passes nothing that may still appear: not by hand either.
    async fn check(&self, to: u64) -> Result<(), Error> {
        let Ends { frontier, head } = ends(&*self.store).await?;
        if to > head {
            return Err(Invalid::Position { wanted: to, head }.into());
        }
        if to > frontier {
            let source =
                "transactions that append are open, and may bring something before it; open_writers() says which";
            return Err(Error::Unavailable { action: "move a checkpoint there yet", source: source.into() });
        }
        Ok(())
    }

    /// Leads for as long as it takes; returns where the subscriber was, and the term that holds now. `None`: another instance
    /// leads by now.
    async fn alone(&self, subscriber_id: &str, change: Change) -> Result<Option<(u64, Term)>, Error> {
        let instance = Instance::here(Some(REPAIR_LABEL.to_owned()));
        let config = CoordinatorConfig { spread: false, ..CoordinatorConfig::default() };
        let coordinator = Coordinator::of(&*self.store, instance, &config);
        let changed = async {
            let claim = Claim { subscribes: true, ..Claim::of(subscriber_id) };
            let Some(guard) = coordinator.try_acquire(&claim).await? else { return Ok(None) };
            let taken = guard.taken().clone();
            let fence = taken.checkpoint.fence();
            let changed = self.change(&fence, change).await;
            if let (Ok((_, term)), Change::Move { to }) = (&changed, change) {
                self.last_words(subscriber_id, *term, to).await;
            }
            guard.release().await;
            changed.map(Some)
        };
        let changed = changed.await;
        coordinator.close().await;
        changed
    }

    /// The same with the term of whichever instance leads.
    async fn insist(&self, subscriber_id: &str, change: Change) -> Result<(u64, Term), Error> {
        let mut tries = 1;
        loop {
            let found = self.checkpoint(subscriber_id).await?;
            match self.change(&found.fence(), change).await {
                // Another leader, or a reset, came in between.
                Err(Error::Fenced { .. }) if tries < TRIES => tries += 1,
                changed => return changed,
            }
        }
    }

    /// Moves the checkpoint of a leader. The new term has the old one's nonce: by that the leader knows that no other
    /// instance has taken over, and continues from what it finds.
    async fn overrule(&self, subscriber_id: &str, to: u64, leader: Option<Leader>) -> Result<Moved, Error> {
        let (from, term) = self.insist(subscriber_id, Change::Move { to }).await?;
        // It is done, whether or not that one learns of it now: at the latest from the next event it cannot store.
        if let Err(error) = self.file(subscriber_id, RequestKind::Reread).await {
            tracing::warn!(subscriber_id, %error, "the checkpoint is moved, but its leader could not be notified");
        }
        Ok(Moved { from, to, term: term.number, fenced: leader })
    }

    /// Reports that the leader for this has stopped in good order: no operator has to find out why it is gone. Errors that
    /// the previous leader reported stay.
    async fn last_words(&self, subscriber_id: &str, term: Term, to: u64) {
        let said = async {
            let reports = self.store.reports().await?;
            let before = reports.into_iter().find(|report| report.subscriber_id == subscriber_id);
            let report = Report {
                subscriber_id: subscriber_id.to_owned(),
                term: term.number,
                state: SubscriptionState::Stopped,
                position: to,
                rate: 0.0,
                last_error: before.and_then(|before| before.last_error),
                push_degraded: None,
                reads: None,
                reported_at: Utc::now(),
            };
            self.store.store_reports(&[report]).await
        };
        if let Err(error) = said.await {
            tracing::debug!(subscriber_id, %error, "cannot report that a checkpoint was moved");
        }
    }

    async fn change(&self, fence: &Fence, change: Change) -> Result<(u64, Term), Error> {
        let begun = self.store.begin(fence, Opening::Closing, None).await?;
        let by = &self.by;
        let closing = match change {
            Change::Move { to } => Closing::Reset { to, by, nonce: fence.term.nonce, setup_version: None },
            Change::Remove => Closing::Remove { by },
        };
        let closed = self.store.commit(begun.tx, fence, closing).await?;
        Ok((begun.global_sequence, closed.term))
    }

    async fn file(&self, subscriber_id: &str, kind: RequestKind) -> Result<Uuid, Error> {
        let request = Request {
            id: Uuid::now_v7(),
            subscriber_id: subscriber_id.to_owned(),
            kind,
            requested_by: self.by.clone(),
            requested_at: Utc::now(),
            outcome: None,
        };
        self.store.file_request(&request).await?;
        Ok(request.id)
    }
}

fn led(subscriber_id: &str, leader: Option<Leader>) -> Error {
    let reason = match &leader {
        None => "another instance has only just taken over".to_owned(),
        Some(leader) if leader.hold == LeaderHold::Unknown => {
            let who = &leader.instance;
            format!("{who} runs without coordination, so it cannot be told whether it still does")
        }
        Some(leader) => format!("{} leads since {}", leader.instance, leader.since.format("%Y-%m-%d %H:%M:%S UTC")),
    };
    Error::Bus(BusError::Led { subscriber_id: subscriber_id.to_owned(), reason, leader: leader.map(Box::new) })
}
