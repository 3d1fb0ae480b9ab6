//! Acquiring, losing and releasing leadership.

use std::collections::HashMap;
use std::time::Duration;

use super::{Driver, Inherited};
use crate::{Backoff, Checkpoint, Claim, Error, LeadershipGuard, Taken, chain};

/// After how long being fenced is forgotten.
const UNDISTURBED: Duration = Duration::from_secs(10);

impl Driver {
    /// Gets the right to process.
    pub(super) async fn begin_leading(&mut self) -> Result<(), Error> {
        if self.is_outdated().await? {
            return Ok(());
        }
        let Some(guard) = self.lead().await? else { return Ok(()) };
        let taken = guard.taken().clone();
        self.signals.leads(guard);
        self.machine.on_leading(&taken.checkpoint);
        self.inherit(taken).await
    }

    /// Reads the checkpoint again, after an interruption.
    pub(super) async fn reread(&mut self) -> Result<(), Error> {
        let found = self.shared.backend.checkpoint(&self.subscriber.id).await?;
        self.machine.on_reread(found.as_ref())?;
        match found {
            Some(checkpoint) => self.inherit(Taken { checkpoint, fresh: false }).await,
            None => Ok(()),
        }
    }

    async fn inherit(&mut self, taken: Taken) -> Result<(), Error> {
        // Loaded after the term was raised, so no other instance can park anything after this.
        let parked: HashMap<_, _> = self.shared.backend.parked(&self.subscriber.id).await?.into_iter().collect();
        if !taken.fresh {
            self.check_log(&taken.checkpoint).await?;
        }
        let begun = self.has_begun(&taken);
        let Taken { checkpoint: Checkpoint { term, global_sequence, setup_version, .. }, fresh } = taken;
        self.machine.on_taken(Inherited { global_sequence, parked, setup_version, begun });
        self.begins_to_read(global_sequence);
        if self.is_fit().await? {
            self.journal.started(term.number, global_sequence, fresh);
        }
        Ok(())
    }

    /// For the report: what it reads is new from here on.
    pub(super) fn begins_to_read(&self, position: u64) {
        self.status.send_modify(|status| status.reads = Some((self.filter.clone(), position)));
    }

    async fn check_log(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        let (backend, at) = (&self.shared.backend, checkpoint.global_sequence);
        let head = if at > self.start.after { backend.head().await? } else { at };
        let gone = match checkpoint.event_id {
            Some(id) if head >= at && backend.record(id).await?.is_none() => Some(id),
            _ => None,
        };
        self.machine.check_log(at, head, gone)
    }

    /// Waits for leadership; `None` when something else is wanted first.
    async fn lead(&mut self) -> Result<Option<LeadershipGuard>, Error> {
        // What was held is released before it is requested again.
        self.signals.release().await;
        let claim = Claim {
            subscribes: true,
            start: self.start.after,
            start_event: self.start.event,
            nonce: self.machine.nonce(),
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
        if !self.machine.stands_by() {
            self.machine.on_standing_by();
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
        self.signals.forget();
    }

    /// Gives leadership back.
    pub(super) async fn release(&mut self) {
        self.void_source();
        self.signals.release().await;
    }

    /// Everything is stored: another instance continues from here.
    pub(super) async fn yield_leadership(&mut self) -> Result<(), Error> {
        self.journal.yielded_leadership(self.machine.stored());
        self.machine.on_not_leading();
        self.release().await;
        self.publish(false);
        Ok(())
    }

    /// Another instance has taken over, though a lock was held: it was lost silently. Others may lead now.
    pub(super) async fn stand_back(&mut self, error: &Error) {
        self.journal.fenced(error);
        self.release().await;
        self.trouble = None;
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
