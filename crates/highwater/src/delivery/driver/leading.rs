//! Acquiring, losing and releasing leadership.

use std::collections::HashMap;
use std::time::Duration;

use super::{Driver, Inherited, Trouble};
use crate::{Backoff, Checkpoint, Claim, Error, LeadershipGuard, Taken, chain};

/// After how long being fenced is forgotten.
const UNDISTURBED: Duration = Duration::from_secs(10);

impl Driver {
    /// Gets the right to process. After an interruption it has that already, unless another instance took over meanwhile.
    pub(super) async fn begin_leading(&mut self) -> Result<(), Trouble> {
        let id = self.subscriber.id.clone();
        let taken = match &self.fence {
            Some(fence) => {
                let subscriber_id = id.to_string();
                match self.shared.backend.checkpoint(&id).await? {
                    None => return Err(Error::Fenced { subscriber_id, term: None }),
                    Some(found) if found.term != fence.term && found.term.nonce != self.nonce => {
                        return Err(Error::Fenced { subscriber_id, term: Some(found.term.number) });
                    }
                    Some(checkpoint) => Taken { checkpoint, fresh: false },
                }
            }
            None => {
                if self.is_outdated().await? {
                    return Ok(());
                }
                let Some(guard) = self.lead().await? else { return Ok(()) };
                let taken = guard.taken().clone();
                self.signals.leads(guard);
                // Before anything else can fail: from now on it is this term that counts.
                (self.fence, self.stands_by) = (Some(taken.checkpoint.fence()), false);
                taken
            }
        };
        // Loaded after the term was raised, so no other instance can park anything after this.
        let parked: HashMap<_, _> = self.shared.backend.parked(&id).await?.into_iter().collect();
        self.fence = Some(taken.checkpoint.fence());
        if !taken.fresh {
            self.is_of_this_log(&taken).await?;
        }
        let begun = self.has_begun(&taken);
        let Taken { checkpoint: Checkpoint { term, global_sequence, setup_version, .. }, fresh } = taken;
        self.machine.on_taken(Inherited { global_sequence, parked, setup_version, begun });
        if let Some(reason) = self.machine.unfit().cloned() {
            self.unfit(&reason).await?;
        } else {
            self.journal.started(term.number, global_sequence, fresh);
        }
        Ok(())
    }

    /// A checkpoint beyond the end was set by hand, or events that it had passed are gone, or numbers started again: a
    /// leader that continued from there would miss the events that get them. A checkpoint that was only moved by hand names
    /// an event that is there.
    async fn is_of_this_log(&self, taken: &Taken) -> Result<(), Trouble> {
        let (backend, at) = (&self.shared.backend, taken.checkpoint.global_sequence);
        let head = if at > self.start { backend.head().await? } else { at };
        let found = match taken.checkpoint.event_id {
            _ if head < at => format!("the log ends at {head}"),
            Some(id) if backend.record(id).await?.is_none() => {
                format!("event {id}, which it handled last, is not in the log")
            }
            _ => return Ok(()),
        };
        let id = &self.subscriber.id;
        let why =
            format!("the checkpoint of {id:?} is at {at}, and {found}; set it to where the log is the same as it was");
        Err(Error::Damaged { action: "resume from the checkpoint", source: why.into() })
    }

    /// Waits for leadership; `None` when something else is wanted first.
    async fn lead(&mut self) -> Result<Option<LeadershipGuard>, Trouble> {
        // What was held is released before it is requested again.
        self.signals.release().await;
        let claim = Claim {
            subscribes: true,
            start: self.start,
            nonce: self.nonce,
            prefers: self.subscriber.options.prefers.clone(),
            ..Claim::of(self.subscriber.id.clone())
        };
        let coordinator = self.shared.coordinator.clone();
        let mut control = self.signals.control.clone();
        // Once the bus is gone nothing can request anything, and the subscriber continues.
        let mut is_unwanted = async || {
            if control.wait_for(|control| control.stop || control.paused).await.is_err() {
                std::future::pending().await
            }
        };
        let tried = tokio::select! {
            tried = coordinator.try_acquire(&claim) => tried?,
            () = is_unwanted() => return Ok(None),
        };
        if tried.is_some() {
            return Ok(tried);
        }
        if !self.stands_by {
            self.stands_by = true;
            self.journal.stands_by();
        }
        self.publish(false);
        tokio::select! {
            guard = coordinator.acquire(&claim) => guard.map(Some),
            () = is_unwanted() => Ok(None),
        }
    }

    /// Leadership is gone. What was done and is not stored is left to the next leader.
    pub(super) fn lose(&mut self) {
        self.journal.lost_leadership(self.machine.stored());
        self.machine.on_not_leading();
        self.void_source();
        (self.fence, self.stands_by) = (None, true);
        self.signals.forget();
    }

    /// Gives leadership back.
    pub(super) async fn release(&mut self) {
        self.void_source();
        self.fence = None;
        self.signals.release().await;
    }

    /// Everything is stored: another instance continues from here.
    pub(super) async fn yield_leadership(&mut self) -> Result<(), Trouble> {
        self.journal.yielded_leadership(self.machine.stored());
        self.machine.on_not_leading();
        self.release().await;
        self.stands_by = true;
        self.publish(false);
        Ok(())
    }

    /// Another instance has taken over, though a lock was held: it was lost silently. Others may lead now.
    pub(super) async fn stand_back(&mut self, error: &Error) {
        self.journal.fenced(error);
        self.release().await;
        (self.trouble, self.stands_by) = (None, true);
        self.status_error(chain(error).into());
        self.publish(false);
        let now = tokio::time::Instant::now();
        let lately = self.fenced.take().filter(|(fenced, _)| now - *fenced < UNDISTURBED);
        let (_, mut backoff) = lately.unwrap_or((now, Backoff::of_backend()));
        let delay = backoff.next_delay();
        self.fenced = Some((now, backoff));
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = self.signals.changed() => {}
        }
    }
}
