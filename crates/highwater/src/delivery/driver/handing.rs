//! Handing events over, and what follows when one fails.

use std::sync::Arc;
use std::time::Instant;

use super::storing::arrived;
use super::{Driver, Trouble};
use crate::delivery::after_commit::noting;
use crate::delivery::handling::{Failure, Pace, call_within};
use crate::delivery::retry;
use crate::subscriber::{Decoder, Handler};
use crate::{Closing, Error, Record};

/// After how many events other tasks may run.
const EVENTS_PER_TURN: usize = 32;

impl Driver {
    pub(super) async fn handle(&mut self, count: usize) -> Result<(), Trouble> {
        let (records, range) = self.machine.front(count);
        match &self.subscriber.handler {
            Handler::Each(_) => {
                self.handle_each(&records[range]).await;
                Ok(())
            }
            Handler::Within(_) => self.handle_within(&records[range]).await,
        }
    }

    /// One by one, until one fails or something else is to be done.
    pub(super) async fn handle_each(&mut self, records: &[Record]) {
        let Handler::Each(handler) = &self.subscriber.handler else { return };
        let decoder = Decoder { types: &self.subscriber.types, upcasters: self.shared.backend.upcasters() };
        let due = self.due().unwrap_or_else(|| Instant::now() + self.config.checkpoint_mode.interval());
        let mut pace = Pace::until(self.config.handler_timeout, due, &self.signals);
        let (mut done, mut failed) = (0, None);
        for chunk in records.chunks(EVENTS_PER_TURN) {
            let (taken_in, failure) = handler.handle(chunk, decoder, &mut pace).await;
            (done, failed) = (done + taken_in, failure);
            if taken_in < chunk.len() {
                break;
            }
            // Others on this thread get their turn, though not each time: going back to the scheduler may move the task to
            // another core, away from what it has read.
            tokio::task::coop::consume_budget().await;
        }
        self.machine.on_handled(done);
        self.moved(done);
        if let (Some(failure), Some(record)) = (failed, records.get(done)) {
            self.failed(failure, record);
        }
    }

    /// All of them in one transaction, with the checkpoint.
    pub(super) async fn handle_within(&mut self, records: &[Record]) -> Result<(), Trouble> {
        let Handler::Within(handler) = &self.subscriber.handler else { return Ok(()) };
        let backend = self.shared.backend.clone();
        let decoder = Decoder { types: &self.subscriber.types, upcasters: backend.upcasters() };
        let (fence, mut begun) = self.begin(None).await?;
        let started = Instant::now();
        // After a lost answer some of these may be done: what the transaction found counts, not what we remember.
        let done = records.partition_point(|record| record.global_sequence <= begun.global_sequence);
        if done == records.len() {
            backend.rollback(begun.tx, false).await;
            self.machine.on_found(records.len(), begun.global_sequence);
            self.moved(0);
            return Ok(());
        }
        let handler = handler.handle(&mut begun.tx, &records[done..], decoder);
        let handling = call_within(&*backend, handler, self.config.handler_timeout);
        let (handled, appended) = noting(handling).await;
        // Of the handler alone: a commit that waits for a distant replica takes as long for one event as for a thousand.
        let took = started.elapsed();
        let failure = match handled {
            Ok(()) => {
                let to = self.machine.position_after(records.len());
                let event_id = records.last().map(|record| record.id);
                let closing = Closing::Advance { from: begun.global_sequence, to, event_id };
                match backend.commit(begun.tx, &fence, closing).await {
                    Ok(_) => {
                        if let Some(appended) = appended {
                            backend.announce(appended);
                        }
                        self.machine.on_took(records.len(), took);
                        self.machine.on_committed(records.len());
                        self.moved(records.len());
                        return Ok(());
                    }
                    Err(Error::Aborted { source }) => Failure::new(&Error::Aborted { source }.into()),
                    Err(error) => return Err(error),
                }
            }
            Err(failure) => {
                backend.rollback(begun.tx, failure.unsure).await;
                if failure.outage {
                    return Err(failure.into_trouble());
                }
                failure
            }
        };
        self.machine.on_took(records.len(), took);
        if let [record] = records {
            self.failed(failure, record);
        } else {
            self.journal.batch_failed(records.len(), &failure.error);
            self.machine.on_batch_failed(records.len());
        }
        Ok(())
    }

    /// The event in front failed: again later, or never.
    pub(super) fn failed(&mut self, failure: Failure, record: &Record) {
        let error = failure.error.clone();
        self.status_error(error.clone());
        if let Some(failures) = self.machine.on_failed(failure.permanent, &error) {
            let delay = retry::delay(&self.config, failures - 1, fastrand::f64());
            self.retry_at = Some(tokio::time::Instant::now() + delay);
            self.journal.retrying(record, failures, delay, &error);
        } else if let Some(reason) = self.machine.halted() {
            self.journal.halted(reason);
        }
        self.failure = Some(failure);
    }

    pub(super) fn status_error(&self, error: Arc<str>) {
        self.status.send_if_modified(|status| {
            status.last_error = Some(error);
            false
        });
    }

    pub(super) async fn sleep(&mut self) -> Result<(), Trouble> {
        let due = self.retry_at.unwrap_or_else(tokio::time::Instant::now);
        tokio::select! {
            () = tokio::time::sleep_until(due) => self.machine.on_due(),
            () = self.signals.changed() => {}
            outcome = arrived(&mut self.storing) => return self.stored(outcome),
        }
        Ok(())
    }
}
