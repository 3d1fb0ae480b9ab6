//! What is stored: checkpoints and dead letters.

use std::time::Instant;

use tokio::sync::oneshot::{self, error::TryRecvError};
use uuid::Uuid;

use super::Driver;
use crate::delivery::retry;
use crate::delivery::writer::Outcome;
use crate::{
    CheckpointWrite, Closing, DeadLetter, DeadLetterQuery, DeadLetterState, Error, NewDeadLetter, Record, SharedError,
};

impl Driver {
    /// Has the checkpoint stored: at once where everything waits for it, and else while the next events are handled.
    pub(super) async fn store(&mut self) -> Result<(), Error> {
        let fence = self.machine.fence()?;
        let (global_sequence, event_id) = self.machine.on_storing();
        let write = CheckpointWrite { fence, global_sequence, event_id };
        self.behind_since = Some(Instant::now());
        if self.config.checkpoint_mode.size() == 1 {
            let outcome = self.shared.writer.store_now(&*self.shared.backend, write).await;
            return self.stored(outcome);
        }
        self.storing = Some(self.shared.writer.store(write));
        Ok(())
    }

    pub(super) async fn await_store(&mut self) -> Result<(), Error> {
        let outcome = arrived(&mut self.storing).await;
        self.stored(outcome)
    }

    pub(super) fn stored(&mut self, outcome: Outcome) -> Result<(), Error> {
        self.storing = None;
        self.machine.on_stored(matches!(outcome, Ok(None)));
        match outcome {
            Ok(None) => {
                self.calm();
                Ok(())
            }
            Ok(Some(refused)) => Err(refused.into_error(&self.subscriber.id)),
            Err(error) => Err(error.for_caller()),
        }
    }

    /// Writes a dead letter for the event in front, and moves the checkpoint past it.
    pub(super) async fn bury(&mut self, park: bool) -> Result<(), Error> {
        let Some(record) = self.current() else { return Ok(()) };
        if park && !self.may_park().await? {
            return Ok(());
        }
        let error = self.failure.as_ref().map_or_else(|| "it failed".into(), |failure| failure.error.clone());
        let failures = self.machine.failures();
        let dead_letter = dead_letter(&record, Some(error.to_string()), failures.saturating_sub(1), park);
        match self.fenced(|from| Closing::Bury { dead_letter: &dead_letter, from }).await {
            Ok(closed) => {
                self.machine.on_buried(closed.parked_left);
                self.moved(0);
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

    pub(super) async fn park(&mut self) -> Result<(), Error> {
        let Some(record) = self.current() else { return Ok(()) };
        if !self.may_park().await? {
            return Ok(());
        }
        if !self.machine.is_parked() {
            // Nothing to wait behind any more: it is handled like any other.
            return Ok(());
        }
        let dead_letter = dead_letter(&record, None, 0, true);
        let closed = self.fenced(|from| Closing::Bury { dead_letter: &dead_letter, from }).await?;
        self.machine.on_buried(closed.parked_left);
        self.moved(0);
        self.journal.parked(&record);
        let front = self.first_parking(record.stream_id).await?;
        if front.is_some_and(|dead_letter| dead_letter.state == DeadLetterState::Parked) {
            // What it was to wait behind was deleted by hand, so nobody would ever replay it. Killed here, it stays parked, and
            // is listed as such; the next event of the stream finds it.
            self.replay_dead_letters(Some(record.stream_id), "subscriber", |dead_letter| dead_letter.parks).await?;
        }
        Ok(())
    }

    /// The dead letter that the others of a parked stream wait behind. Dead letters from when a failure did not park may lie
    /// before it.
    pub(in crate::delivery) async fn first_parking(&self, stream_id: Uuid) -> Result<Option<DeadLetter>, Error> {
        let mut query = DeadLetterQuery { stream_id: Some(stream_id), ..DeadLetterQuery::of(&*self.subscriber.id) };
        loop {
            let dead_letters = self.shared.backend.dead_letters(&query).await?;
            let Some(last) = dead_letters.last() else { return Ok(None) };
            query.after = Some(last.cursor());
            if let Some(first) = dead_letters.into_iter().find(|dead_letter| dead_letter.parks) {
                return Ok(Some(first));
            }
        }
    }

    /// Whether one more event may be parked. What is remembered may be out of date, because dead letters can be deleted by
    /// hand at any time: it is checked again before the subscriber is halted for it. Otherwise the event is parked, and found to
    /// wait behind nothing.
    async fn may_park(&mut self) -> Result<bool, Error> {
        if self.machine.parking_limit().is_some() {
            let parked = self.shared.backend.parked(&self.subscriber.id).await?;
            self.machine.on_parked(parked.into_iter().collect());
        }
        let may = self.machine.may_park();
        if let Some(reason) = self.machine.halted().filter(|_| !may) {
            self.journal.halted(reason);
        }
        Ok(may)
    }
}

fn dead_letter(record: &Record, error_message: Option<String>, retry_count: u32, parks: bool) -> NewDeadLetter {
    NewDeadLetter {
        event_id: record.id,
        global_sequence: record.global_sequence,
        stream_id: record.stream_id,
        event_type: record.event_type.clone(),
        error_message,
        retry_count,
        parks,
    }
}

/// What came of the checkpoint that is being stored, if that is known.
pub(super) fn answered(storing: &mut Option<oneshot::Receiver<Outcome>>) -> Option<Outcome> {
    match storing.as_mut()?.try_recv() {
        Ok(outcome) => Some(outcome),
        Err(TryRecvError::Empty) => None,
        Err(TryRecvError::Closed) => Some(Err(SharedError::new(Error::ShutDown))),
    }
}

/// Waits for the checkpoint that is being stored. Never, when there is none.
pub(super) async fn arrived(storing: &mut Option<oneshot::Receiver<Outcome>>) -> Outcome {
    match storing {
        Some(receiver) => receiver.await.unwrap_or_else(|_| Err(SharedError::new(Error::ShutDown))),
        None => std::future::pending().await,
    }
}
