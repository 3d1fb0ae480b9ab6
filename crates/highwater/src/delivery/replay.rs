//! What people ask for, done by the subscriber's own task, between two events: so live delivery, replay, parking and
//! unparking cannot race with each other.
//!
//! A request stays open until it is finished in a fenced transaction. When the store is lost half way it is done again,
//! and what was replayed before is resolved by then.

use std::collections::HashSet;

use uuid::Uuid;

use super::after_commit::noting;
use super::driver::{Driver, Trouble};
use super::handling::{Failure, Pace, call, call_within};
use crate::subscriber::{Decoder, Handler};
use crate::{
    Ask, Begun, Closed, Closing, DeadLetter, DeadLetterDetail, DeadLetterQuery, DeadLetterState, Error, Fence, Record,
    Request, RequestOutcome, StartAt, chain,
};

/// Dead letters that are read together.
const LETTERS_PAGE: usize = 100;

impl Driver {
    /// Deals with the oldest request.
    pub(super) async fn serve(&mut self) -> Result<(), Trouble> {
        let Some(request) = self.requests.front().cloned() else { return Ok(()) };
        // The list may be older than what was done since.
        let open = self.shared.backend.request(request.id).await?.is_some_and(|found| found.outcome.is_none());
        if open {
            // Paused or stopped half way: the rest is done when it resumes.
            let done = match self.work_on(&request).await {
                // Trying again does not help, and events wait behind it.
                Err(damaged @ Error::Damaged { .. }) => Some(failed(&chain(&damaged))),
                done => done?,
            };
            let Some(outcome) = done else { return Ok(()) };
            self.fenced(|_| Closing::Finished { request: request.id, outcome: &outcome }).await?;
            let error = outcome.error.as_deref();
            let asked = request.ask.name();
            self.journal.served(asked, &request.requested_by, outcome.done, outcome.failed, error);
        }
        self.requests.pop_front();
        Ok(())
    }

    async fn work_on(&mut self, request: &Request) -> Result<Option<RequestOutcome>, Trouble> {
        let by = &request.requested_by;
        match &request.ask {
            Ask::Replay { letter } => self.replay_one(*letter, request).await,
            Ask::ReplayStream { stream_id } => self.replay_letters(Some(*stream_id), by, |_| true).await,
            Ask::ReplayAll => self.replay_letters(None, by, |_| true).await,
            Ask::Discard { letter, reason } => self.discard(*letter, reason, request).await.map(Some),
            Ask::Rebuild => self.rebuild(by).await.map(Some),
        }
    }

    async fn replay_one(&mut self, letter: Uuid, request: &Request) -> Result<Option<RequestOutcome>, Trouble> {
        let Some(detail) = self.shared.backend.letter(letter).await? else {
            return Ok(Some(failed("there is no such letter")));
        };
        let letter = detail.letter;
        if letter.subscriber_id != *self.subscriber.id {
            return Ok(Some(failed("the letter is another subscriber's")));
        }
        if !letter.state.is_open() {
            return Ok(Some(resolved(&letter, DeadLetterState::Replayed, request)));
        }
        if letter.parks {
            let first = self.first_parking(letter.stream_id).await?;
            if first.is_none_or(|first| first.id != letter.id) {
                return Ok(Some(failed("the letter waits behind an earlier one of its stream; replay the stream")));
            }
            return self.replay_letters(Some(letter.stream_id), &request.requested_by, |letter| letter.parks).await;
        }
        let mut outcome = RequestOutcome::default();
        self.replay(&letter, detail.record, &request.requested_by, &mut outcome).await?;
        Ok(Some(outcome))
    }

    /// In order. Where one of a parked stream fails again, those behind it stay.
    pub(in crate::delivery) async fn replay_letters(
        &mut self,
        stream_id: Option<Uuid>,
        by: &str,
        wanted: fn(&DeadLetter) -> bool,
    ) -> Result<Option<RequestOutcome>, Trouble> {
        let mut outcome = RequestOutcome::default();
        let mut blocked = HashSet::new();
        let mut query = DeadLetterQuery { stream_id, limit: LETTERS_PAGE, ..DeadLetterQuery::of(&*self.subscriber.id) };
        loop {
            let letters = self.shared.backend.letters(&query).await?;
            let Some(last) = letters.last() else { return Ok(Some(outcome)) };
            query.after = Some(last.cursor());
            for letter in letters.into_iter().filter(wanted) {
                let is_interrupted = {
                    let control = self.signals.control.borrow();
                    control.stop || control.paused || self.signals.has_lost()
                };
                if is_interrupted {
                    return Ok(None);
                }
                if letter.parks && blocked.contains(&letter.stream_id) {
                    continue;
                }
                // Deleted by hand since it was listed: there is nothing left to replay.
                let Some(DeadLetterDetail { record, .. }) = self.shared.backend.letter(letter.id).await? else {
                    continue;
                };
                let taken_in = self.replay(&letter, record, by, &mut outcome).await?;
                if !taken_in && letter.parks {
                    blocked.insert(letter.stream_id);
                }
            }
        }
    }

    /// Replays one dead letter. True when it was handled.
    async fn replay(
        &mut self,
        letter: &DeadLetter,
        record: Option<Record>,
        by: &str,
        outcome: &mut RequestOutcome,
    ) -> Result<bool, Trouble> {
        let taken_in = match record {
            Some(record) => self.hand_over(letter.id, &record, by).await?,
            None => Err(Failure::new(&"the log does not have the event any more".into())),
        };
        let closed = match taken_in {
            Ok(closed) => {
                outcome.done += 1;
                closed
            }
            Err(failure) => {
                outcome.failed += 1;
                outcome.error = Some(failure.error.to_string());
                self.journal.replay_failed(letter.id, &failure.error);
                let error = &failure.error;
                let closing = Closing::ReplayFailed { letter: letter.id, by, error };
                return match self.fenced(|_| closing).await {
                    // Deleted by hand meanwhile: nothing is left to note it on.
                    Ok(_) | Err(Error::NotFound { .. }) => Ok(false),
                    Err(trouble) => Err(trouble),
                };
            }
        };
        if let (true, Some(closed)) = (letter.parks, closed) {
            self.machine.on_parked_left(letter.stream_id, closed.parked_left);
        }
        Ok(true)
    }

    /// `Ok(Ok(None))`: it had been handled already, by an attempt whose answer was lost; or the dead letter was deleted by
    /// hand meanwhile, and what the handler did in the transaction was rolled back.
    async fn hand_over(
        &self,
        letter: Uuid,
        record: &Record,
        by: &str,
    ) -> Result<Result<Option<Closed>, Failure>, Trouble> {
        let (fence, backend) = (self.fence()?, &self.shared.backend);
        let decoder = Decoder { types: &self.subscriber.types, upcasters: backend.upcasters() };
        let timeout = self.config.handler_timeout;
        let closing = Closing::Replayed { letter, by };
        match &self.subscriber.handler {
            Handler::Each(handler) => {
                let mut pace = Pace::whole(timeout);
                let records = std::slice::from_ref(record);
                if let (_, Some(failure)) = handler.handle(records, decoder, &mut pace).await {
                    return Ok(Err(failure));
                }
                let (_, begun) = self.begin_closing(Some(letter)).await?;
                let Some(begun) = self.if_open(begun).await? else { return Ok(Ok(None)) };
                match backend.commit(begun.tx, &fence, closing).await {
                    Ok(closed) => Ok(Ok(Some(closed))),
                    Err(Error::NotFound { .. }) => Ok(Ok(None)),
                    Err(trouble) => Err(trouble),
                }
            }
            Handler::Within(handler) => {
                let (_, begun) = self.begin(Some(letter)).await?;
                let Some(mut begun) = self.if_open(begun).await? else { return Ok(Ok(None)) };
                let records = std::slice::from_ref(record);
                let handling = call_within(&**backend, handler.handle(&mut begun.tx, records, decoder), timeout);
                let (handled, appended) = noting(handling).await;
                if let Err(failure) = handled {
                    backend.rollback(begun.tx, failure.unsure).await;
                    return if failure.outage { Err(failure.into_trouble()) } else { Ok(Err(failure)) };
                }
                match backend.commit(begun.tx, &fence, closing).await {
                    Ok(closed) => {
                        if let Some(appended) = appended {
                            backend.announce(appended);
                        }
                        Ok(Ok(Some(closed)))
                    }
                    Err(Error::NotFound { .. }) => Ok(Ok(None)),
                    Err(Error::Aborted { source }) => Ok(Err(Failure::new(&Error::Aborted { source }.into()))),
                    Err(trouble) => Err(trouble),
                }
            }
        }
    }

    /// A fenced transaction for a dead letter, if that is still open.
    async fn if_open(&self, begun: Begun) -> Result<Option<Begun>, Trouble> {
        if begun.letter_open {
            return Ok(Some(begun));
        }
        self.shared.backend.rollback(begun.tx, false).await;
        Ok(None)
    }

    async fn discard(&mut self, letter: Uuid, reason: &str, request: &Request) -> Result<RequestOutcome, Trouble> {
        let Some(detail) = self.shared.backend.letter(letter).await? else {
            return Ok(failed("there is no such letter"));
        };
        if detail.letter.subscriber_id != *self.subscriber.id {
            return Ok(failed("the letter is another subscriber's"));
        }
        let by = &request.requested_by;
        let (fence, begun) = self.begin_closing(Some(letter)).await?;
        let Some(begun) = self.if_open(begun).await? else {
            return Ok(resolved(&detail.letter, DeadLetterState::Discarded, request));
        };
        let closed = match self.shared.backend.commit(begun.tx, &fence, Closing::Discarded { letter, by, reason }).await
        {
            Err(Error::NotFound { .. }) => return Ok(failed("there is no such letter")),
            closed => closed?,
        };
        if detail.letter.parks {
            self.machine.on_parked_left(detail.letter.stream_id, closed.parked_left);
        }
        Ok(RequestOutcome { done: 1, ..RequestOutcome::default() })
    }

    /// Back to the start, with an emptied read model.
    async fn rebuild(&mut self, by: &str) -> Result<RequestOutcome, Trouble> {
        let to = match self.subscriber.options.start {
            StartAt::After(position) => position,
            StartAt::Beginning | StartAt::End => 0,
        };
        let (fence, backend) = (self.fence()?, self.shared.backend.clone());
        if let Handler::Each(handler) = &self.subscriber.handler
            && let Err(failure) = call(async { handler.reset().await }, self.config.handler_timeout).await
        {
            return Ok(failed(&failure.error));
        }
        let (_, mut begun) = match &self.subscriber.handler {
            Handler::Each(_) => self.begin_closing(None).await?,
            Handler::Within(_) => self.begin(None).await?,
        };
        if let Handler::Within(handler) = &self.subscriber.handler
            && let Err(failure) = call(async { handler.reset(&mut begun.tx).await }, self.config.handler_timeout).await
        {
            backend.rollback(begun.tx, failure.unsure).await;
            return Ok(failed(&failure.error));
        }
        match backend.commit(begun.tx, &fence, Closing::Reset { to, by, nonce: self.nonce }).await {
            Ok(closed) => {
                // Those up to where it starts are left, and may park a stream still.
                let parked = backend.parked(&self.subscriber.id).await?.into_iter().collect();
                self.begin_anew(Fence { term: closed.term, ..fence }, to, parked);
                Ok(RequestOutcome { done: 1, ..RequestOutcome::default() })
            }
            Err(Error::Aborted { source }) => Ok(failed(&Failure::new(&Error::Aborted { source }.into()).error)),
            Err(trouble) => Err(trouble),
        }
    }
}

/// A letter that is resolved already: by this very request, if the answer to that was lost, and else by another one.
fn resolved(letter: &DeadLetter, state: DeadLetterState, request: &Request) -> RequestOutcome {
    let since = letter.resolved_at.is_some_and(|at| at >= request.requested_at);
    let by = letter.resolved_by.as_deref() == Some(&*request.requested_by);
    if letter.state == state && since && by {
        return RequestOutcome { done: 1, ..RequestOutcome::default() };
    }
    failed("the letter has been resolved already")
}

fn failed(reason: &str) -> RequestOutcome {
    RequestOutcome { error: Some(reason.to_owned()), ..RequestOutcome::default() }
}
