//! Handing events over, and what follows when one fails.

use std::sync::Arc;
use std::time::Instant;

use super::Driver;
use super::storing::arrived;
use crate::delivery::handling::{Failure, TimeBudget, call_within};
use crate::delivery::machine::Failed;
use crate::delivery::retry;
use crate::subscriber::{Decoder, Handler};
use crate::{Begun, Closing, Error, Opening, Record};

/// After how many events other tasks may run.
const EVENTS_PER_TURN: usize = 32;

impl Driver {
    pub(super) async fn handle(&mut self, count: usize) -> Result<(), Error> {
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
        // From now on the checkpoint lags behind, and not from when these events are done.
        let since = *self.behind_since.get_or_insert_with(Instant::now);
        let due = since + self.config.checkpoint_mode.interval();
        let mut budget = TimeBudget::until(self.config.handler_timeout, due, &self.signals);
        let (mut done, mut failed) = (0, None);
        for chunk in records.chunks(EVENTS_PER_TURN) {
            let (handled, failure) = handler.handle(chunk, decoder, &mut budget).await;
            (done, failed) = (done + handled, failure);
            if handled < chunk.len() {
                break;
            }
            // Others on this thread get their turn, though not each time: going back to the scheduler may move the task to
            // another core, away from what it has read.
            tokio::task::coop::consume_budget().await;
        }
        self.machine.on_handled(done);
        self.moved(done);
        if let (Some(failure), Some(record)) = (failed, records.get(done)) {
            self.failed(failure, std::slice::from_ref(record));
        }
    }

    /// All of them in one transaction, with the checkpoint.
    pub(super) async fn handle_within(&mut self, records: &[Record]) -> Result<(), Error> {
        let Handler::Within(handler) = &self.subscriber.handler else { return Ok(()) };
        let backend = &*self.shared.backend;
        let decoder = Decoder { types: &self.subscriber.types, upcasters: backend.upcasters() };
        let (to, event_id) = (self.machine.position_after(records.len()), records.last().map(|record| record.id));
        let (mut from, mut took) = (0, None);
        let work = async |begun: &mut Begun| {
            from = begun.global_sequence;
            // After a lost answer some of these may be done: what the transaction found counts, not what we remember.
            let done = records.partition_point(|record| record.global_sequence <= from);
            if done == records.len() {
                return Ok(None);
            }
            let started = Instant::now();
            let handling = handler.handle(&mut begun.tx, &records[done..], decoder);
            let handled = call_within(backend, handling, self.config.handler_timeout).await;
            // Of the handler alone: a commit that waits for a distant replica takes as long for one event as for a thousand.
            took = Some(started.elapsed());
            handled.map(|()| Some(Closing::Advance { from, to, event_id }))
        };
        let ended = self.in_transaction(Opening::Handler, None, work).await?;
        if let Some(took) = took {
            self.machine.on_took(records.len(), took);
        }
        match ended {
            Ok(Some(_)) => {
                self.machine.on_committed(records.len());
                self.moved(records.len());
            }
            Ok(None) => {
                self.machine.on_found(records.len(), from);
                self.moved(0);
            }
            Err(failure) => self.failed(failure, records),
        }
        Ok(())
    }

    /// The events in front failed: again later, one by one, or never.
    fn failed(&mut self, failure: Failure, records: &[Record]) {
        let error = failure.error.clone();
        match self.machine.on_failed(records.len(), failure.permanent, &error) {
            Failed::Together => return self.journal.batch_failed(records.len(), &error),
            Failed::Retry { failures } => {
                let delay = retry::delay(&self.config, failures - 1, fastrand::f64());
                self.retry_at = Some(tokio::time::Instant::now() + delay);
                self.journal.retrying(&records[0], failures, delay, &error);
            }
            Failed::Spent => {
                if let Some(reason) = self.machine.halted() {
                    self.journal.halted(reason);
                }
            }
        }
        self.status_error(error);
        self.failure = Some(failure);
    }

    pub(super) fn status_error(&self, error: Arc<str>) {
        self.status.send_if_modified(|status| {
            status.last_error = Some(error);
            false
        });
    }

    pub(super) async fn sleep(&mut self) -> Result<(), Error> {
        let due = self.retry_at.unwrap_or_else(tokio::time::Instant::now);
        tokio::select! {
            () = tokio::time::sleep_until(due) => self.machine.on_due(),
            () = self.signals.changed() => {}
            outcome = arrived(&mut self.storing) => return self.stored(outcome),
        }
        Ok(())
    }
}
