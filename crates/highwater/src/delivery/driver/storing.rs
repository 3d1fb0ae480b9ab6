//! What is written down: checkpoints and letters.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use super::{Driver, Trouble};
use crate::delivery::retry;
use crate::delivery::writer::Outcome;
use crate::{Backend, CheckpointWrite, Closed, Closing, Error, NewLetter, Record};

impl<B: Backend> Driver<B> {
    /// Has the checkpoint stored: at once where everything waits for it, and else while the next events are handled.
    pub(super) async fn store(&mut self) -> Result<(), Trouble> {
        let fence = self.fence()?;
        let (global_sequence, event_id) = self.machine.on_storing();
        let write = CheckpointWrite { fence, global_sequence, event_id };
        self.behind_since = Some(Instant::now());
        if self.config.checkpoint_mode.size() == 1 {
            let outcome = self.shared.writer.store_now(&self.shared.backend, write).await;
            return self.stored(outcome);
        }
        self.storing = Some(self.shared.writer.store(write));
        Ok(())
    }

    pub(super) async fn await_store(&mut self) -> Result<(), Trouble> {
        let outcome = arrived(&mut self.storing).await;
        self.stored(outcome)
    }

    pub(super) fn stored(&mut self, outcome: Outcome) -> Result<(), Trouble> {
        self.storing = None;
        self.machine.on_stored(matches!(outcome, Ok(None)));
        match outcome {
            Ok(None) => {
                self.calm();
                Ok(())
            }
            Ok(Some(refused)) => Err(refused.into_error(&self.subscriber.id)),
            Err(error) => Err(Error::Unavailable { action: "store the checkpoint", source: Box::new(error) }),
        }
    }

    /// Opens and closes a fenced transaction in which nothing else happens.
    pub(in crate::delivery) async fn fenced<'a>(
        &self,
        closing: impl FnOnce(u64) -> Closing<'a>,
    ) -> Result<Closed, Trouble> {
        let fence = self.fence()?;
        let begun = self.shared.backend.begin(&fence, None).await?;
        self.shared.backend.commit(begun.tx, &fence, closing(begun.global_sequence)).await
    }

    /// Writes a letter for the event in front, and moves the checkpoint past it.
    pub(super) async fn bury(&mut self, park: bool) -> Result<(), Trouble> {
        let Some(record) = self.current() else { return Ok(()) };
        if park && !self.may_park() {
            return Ok(());
        }
        let error = self.failure.as_ref().map_or_else(|| "it failed".into(), |failure| failure.error.clone());
        let failures = self.machine.failures();
        let letter = letter(&record, Some(error.to_string()), failures.saturating_sub(1), park);
        match self.fenced(|from| Closing::Bury { letter: &letter, from }).await {
            Ok(closed) => {
                self.machine.on_buried(closed.parked_left);
                self.journal.dead_letter(&record, failures, &error);
                self.failure = None;
                Ok(())
            }
            Err(trouble) => {
                // Handled again, in case what was wrong has passed; but no faster than any other retry.
                let delay = retry::delay(&self.config, failures.saturating_sub(1), fastrand::f64());
                self.retry_at = Some(tokio::time::Instant::now() + delay);
                self.machine.on_bury_failed();
                Err(trouble)
            }
        }
    }

    pub(super) async fn park(&mut self) -> Result<(), Trouble> {
        let Some(record) = self.current() else { return Ok(()) };
        if !self.may_park() {
            return Ok(());
        }
        let letter = letter(&record, None, 0, true);
        let closed = self.fenced(|from| Closing::Bury { letter: &letter, from }).await?;
        self.machine.on_buried(closed.parked_left);
        self.journal.parked(&record);
        Ok(())
    }

    pub(super) fn may_park(&mut self) -> bool {
        let may = self.machine.may_park();
        if let Some(reason) = self.machine.halted().filter(|_| !may) {
            self.journal.halted(reason);
        }
        may
    }
}

fn letter(record: &Record, error_message: Option<String>, retry_count: u32, parks: bool) -> NewLetter {
    NewLetter {
        event_id: record.id,
        global_sequence: record.global_sequence,
        stream_id: record.stream_id,
        event_type: record.event_type.clone(),
        error_message,
        retry_count,
        parks,
    }
}

/// Waits for the checkpoint that is being stored. Never, when there is none.
pub(super) async fn arrived(storing: &mut Option<oneshot::Receiver<Outcome>>) -> Outcome {
    match storing {
        Some(receiver) => receiver.await.unwrap_or_else(|_| Err(Arc::new(Error::ShutDown))),
        None => std::future::pending().await,
    }
}
