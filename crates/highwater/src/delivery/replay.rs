//! Operators' requests, carried out by the subscriber's own task, between two events: so live delivery, replay, parking and
//! unparking cannot race with each other.
//!
//! A request stays open until it is finished in a fenced transaction. When the store is lost half way it is done again,
//! and what was replayed before is resolved by then.

use std::collections::HashSet;

use uuid::Uuid;

use super::driver::Driver;
use super::handling::{Failure, TimeBudget, call_within};
use super::journal::cut;
use super::machine::Machine;
use crate::subscriber::{Decoder, Handler};
use crate::{
    Begun, Closed, Closing, DeadLetter, DeadLetterDetail, DeadLetterQuery, DeadLetterState, Error, Opening, Record,
    Request, RequestKind, RequestOutcome, chain,
};

/// Dead letters that are read together.
const DEAD_LETTERS_PAGE: usize = 100;

impl Driver {
    /// Deals with the oldest request.
    pub(super) async fn serve(&mut self) -> Result<(), Error> {
        let Some(request) = self.requests.front().cloned() else { return Ok(()) };
        // The list may be older than what was done since.
        let open = self.shared.backend.request(request.id).await?.is_some_and(|found| found.outcome.is_none());
        if open {
            // Paused or stopped half way: the rest is done when it resumes.
            let done = match self.work_on(&request).await {
                Err(error) if Machine::ends_request(&error) => Some(failed(&chain(&error))),
                done => done?,
            };
            let Some(outcome) = done else { return Ok(()) };
            self.fenced(|_| Closing::Finished { request: request.id, outcome: &outcome }).await?;
            let error = outcome.error.as_deref();
            let kind = request.kind.name();
            self.journal.served(kind, &request.requested_by, outcome.done, outcome.failed, error);
        }
        self.requests.pop_front();
        Ok(())
    }

    async fn work_on(&mut self, request: &Request) -> Result<Option<RequestOutcome>, Error> {
        let by = &request.requested_by;
        if let Some(reason) = self.machine.refuses(&request.kind) {
            return Ok(Some(failed(reason)));
        }
        match &request.kind {
            RequestKind::Replay { dead_letter } => self.replay_one(*dead_letter, request).await,
            RequestKind::ReplayStream { stream_id } => self.replay_dead_letters(Some(*stream_id), by, |_| true).await,
            RequestKind::ReplayAll => self.replay_dead_letters(None, by, |_| true).await,
            RequestKind::Discard { dead_letter, reason } => self.discard(*dead_letter, reason, request).await.map(Some),
            RequestKind::Rebuild => self.rebuild(by).await.map(Some),
            // To store that it is done takes the term: whose checkpoint was moved learns it by that, and reads it again.
            RequestKind::Reread => Ok(Some(RequestOutcome::default())),
        }
    }

    async fn replay_one(&mut self, dead_letter: Uuid, request: &Request) -> Result<Option<RequestOutcome>, Error> {
        let Some(detail) = self.shared.backend.dead_letter(dead_letter).await? else {
            return Ok(Some(failed("there is no such dead letter")));
        };
        let dead_letter = detail.dead_letter;
        if dead_letter.subscriber_id != *self.subscriber.id {
            return Ok(Some(failed("the dead letter is another subscriber's")));
        }
        if !dead_letter.state.is_open() {
            return Ok(Some(resolved(&dead_letter, DeadLetterState::Replayed, request)));
        }
        if dead_letter.parks {
            let first = self.first_parking(dead_letter.stream_id).await?;
            if first.is_none_or(|first| first.id != dead_letter.id) {
                return Ok(Some(failed(
                    "the dead letter waits behind an earlier one of its stream; replay the stream",
                )));
            }
            return self
                .replay_dead_letters(Some(dead_letter.stream_id), &request.requested_by, |dead_letter| {
                    dead_letter.parks
                })
                .await;
        }
        let mut outcome = RequestOutcome::default();
        self.replay(&dead_letter, detail.record, &request.requested_by, &mut outcome).await?;
        Ok(Some(outcome))
    }

    /// In order. Where one of a parked stream fails again, those behind it stay.
    pub(in crate::delivery) async fn replay_dead_letters(
        &mut self,
        stream_id: Option<Uuid>,
        by: &str,
        wanted: fn(&DeadLetter) -> bool,
    ) -> Result<Option<RequestOutcome>, Error> {
        let mut outcome = RequestOutcome::default();
        let mut blocked = HashSet::new();
        let mut query =
            DeadLetterQuery { stream_id, limit: DEAD_LETTERS_PAGE, ..DeadLetterQuery::of(&*self.subscriber.id) };
        loop {
            let dead_letters = self.shared.backend.dead_letters(&query).await?;
            let Some(last) = dead_letters.last() else { return Ok(Some(outcome)) };
            query.after = Some(last.cursor());
            for dead_letter in dead_letters.into_iter().filter(wanted) {
                let is_interrupted = {
                    let control = self.signals.control.borrow();
                    control.stop || control.paused || self.signals.has_lost()
                };
                if is_interrupted {
                    return Ok(None);
                }
                if dead_letter.parks && blocked.contains(&dead_letter.stream_id) {
                    continue;
                }
                // Deleted by hand since it was listed: there is nothing left to replay.
                let Some(DeadLetterDetail { record, .. }) = self.shared.backend.dead_letter(dead_letter.id).await?
                else {
                    continue;
                };
                let handled = self.replay(&dead_letter, record, by, &mut outcome).await?;
                if !handled && dead_letter.parks {
                    blocked.insert(dead_letter.stream_id);
                }
            }
        }
    }

    /// Replays one dead letter. True when it was handled.
    async fn replay(
        &mut self,
        dead_letter: &DeadLetter,
        record: Option<Record>,
        by: &str,
        outcome: &mut RequestOutcome,
    ) -> Result<bool, Error> {
        let handled = match record {
            Some(record) => self.hand_over(dead_letter.id, &record, by).await?,
            None => Err(Failure::new(&"the log does not have the event any more".into())),
        };
        let closed = match handled {
            Ok(closed) => {
                outcome.done += 1;
                closed
            }
            Err(failure) => {
                outcome.failed += 1;
                outcome.error = Some(failure.error.to_string());
                self.journal.replay_failed(dead_letter.id, &failure.error);
                let error = &failure.error;
                let closing = Closing::ReplayFailed { dead_letter: dead_letter.id, by, error };
                return match self.fenced(|_| closing).await {
                    // Deleted by hand meanwhile: nothing is left to note it on.
                    Ok(_) | Err(Error::NotFound { .. }) => Ok(false),
                    Err(trouble) => Err(trouble),
                };
            }
        };
        if let (true, Some(closed)) = (dead_letter.parks, closed) {
            self.machine.on_parked_left(dead_letter.stream_id, closed.parked_left);
        }
        Ok(true)
    }

    /// `Ok(Ok(None))`: it had been handled already, by an attempt whose answer was lost; or the dead letter was deleted by
    /// hand meanwhile, and what the handler did in the transaction was rolled back.
    async fn hand_over(
        &self,
        dead_letter: Uuid,
        record: &Record,
        by: &str,
    ) -> Result<Result<Option<Closed>, Failure>, Error> {
        let backend = &*self.shared.backend;
        let decoder = Decoder { types: &self.subscriber.types, upcasters: backend.upcasters() };
        let (records, timeout) = (std::slice::from_ref(record), self.config.handler_timeout);
        let opening = match &self.subscriber.handler {
            Handler::Each(handler) => {
                let handled = handler.handle(records, decoder, &mut TimeBudget::whole(timeout)).await;
                if let (_, Some(failure)) = handled {
                    return Ok(Err(failure));
                }
                Opening::Closing
            }
            Handler::Within(_) => Opening::Handler,
        };
        let work = async |begun: &mut Begun| {
            if !begun.dead_letter_open {
                return Ok(None);
            }
            if let Handler::Within(handler) = &self.subscriber.handler {
                call_within(backend, handler.handle(&mut begun.tx, records, decoder), timeout).await?;
            }
            Ok(Some(Closing::Replayed { dead_letter, by }))
        };
        match self.in_transaction(opening, Some(dead_letter), work).await {
            Err(Error::NotFound { .. }) => Ok(Ok(None)),
            ended => ended,
        }
    }

    async fn discard(&mut self, dead_letter: Uuid, reason: &str, request: &Request) -> Result<RequestOutcome, Error> {
        let Some(detail) = self.shared.backend.dead_letter(dead_letter).await? else {
            return Ok(failed("there is no such dead letter"));
        };
        if detail.dead_letter.subscriber_id != *self.subscriber.id {
            return Ok(failed("the dead letter is another subscriber's"));
        }
        let by = &request.requested_by;
        let closing = Closing::Discarded { dead_letter, by, reason };
        let work = async |begun: &mut Begun| Ok(begun.dead_letter_open.then_some(closing));
        let closed = match self.in_transaction(Opening::Closing, Some(dead_letter), work).await {
            Err(Error::NotFound { .. }) => return Ok(failed("there is no such dead letter")),
            closed => closed?,
        };
        Ok(match closed {
            Ok(Some(closed)) => {
                if detail.dead_letter.parks {
                    self.machine.on_parked_left(detail.dead_letter.stream_id, closed.parked_left);
                }
                RequestOutcome { done: 1, ..RequestOutcome::default() }
            }
            Ok(None) => resolved(&detail.dead_letter, DeadLetterState::Discarded, request),
            Err(failure) => failed(&failure.error),
        })
    }

    /// Back to the start, with an emptied read model.
    async fn rebuild(&mut self, by: &str) -> Result<RequestOutcome, Error> {
        Ok(match self.start_over(by).await? {
            Ok(()) => RequestOutcome { done: 1, ..RequestOutcome::default() },
            Err(failure) => failed(&failure.error),
        })
    }
}

/// A dead letter that is resolved already: by this very request, if the answer to that was lost, and else by another one.
fn resolved(dead_letter: &DeadLetter, state: DeadLetterState, request: &Request) -> RequestOutcome {
    let since = dead_letter.resolved_at.is_some_and(|at| at >= request.requested_at);
    let by = dead_letter.resolved_by.as_deref() == Some(&*request.requested_by);
    if dead_letter.state == state && since && by {
        return RequestOutcome { done: 1, ..RequestOutcome::default() };
    }
    failed("the dead letter has been resolved already")
}

fn failed(reason: &str) -> RequestOutcome {
    RequestOutcome { error: Some(cut(reason)), ..RequestOutcome::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_request_can_be_stored() {
        let error = failed(&format!("a\0b{}", "x".repeat(100_000))).error.unwrap();
        assert!(error.starts_with("a\u{fffd}b") && error.len() < 16_384, "{}", error.len());
    }
}
