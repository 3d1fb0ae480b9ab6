//! The tables of a read model: made before the first event, and made anew when their version goes up.
//!
//! Both happen in one fenced transaction with what is stored about it. Cut off anywhere, it leaves nothing behind; and when only
//! the answer is lost, the checkpoint tells.

use std::sync::Arc;

use chrono::Utc;

use super::{Driver, Inherited};
use crate::delivery::handling::{Failure, call, call_within};
use crate::delivery::machine::Verdict;
use crate::subscriber::Handler;
use crate::{
    Begun, Checkpoint, Closing, Error, Fence, OpenTx, Opening, Report, StartAt, SubscriptionState, Taken, leader_of,
};

/// In whose name a subscriber rebuilds itself.
const ITSELF: &str = "subscriber";

impl Driver {
    /// Has the tables made. What keeps `setup` from that concerns no event, so it is retried until it works, as when the store
    /// does not answer: skipping events would be wrong, and so would dead letters.
    pub(super) async fn set_up(&mut self, anew: bool) -> Result<(), Error> {
        let Some(version) = self.subscriber.version else { return Ok(()) };
        if anew {
            let started = self.start_over(ITSELF).await?;
            return started.map_err(|failure| self.cannot_set_up("rebuilding for", version, &failure));
        }
        let work = async |begun: &mut Begun| {
            let made = self.call_setup(&mut begun.tx).await?;
            Ok(if made && self.machine.would_lack_events() { None } else { Some(Closing::SetUp { version }) })
        };
        match self.in_transaction(Opening::Handler, None, work).await? {
            Ok(Some(_)) => {
                self.machine.on_set_up();
                self.journal.set_up(version);
                Ok(())
            }
            Ok(None) => {
                self.machine.on_lacking_events();
                self.is_fit().await.map(drop)
            }
            Err(failure) => Err(self.cannot_set_up("setup() of", version, &failure)),
        }
    }

    /// Back to the start with an emptied read model, in one transaction. Tables of another version are made first: `reset` is
    /// written for those of this one. The inner error is the handler's, and nothing has changed then.
    pub(in crate::delivery) async fn start_over(&mut self, by: &str) -> Result<Result<(), Failure>, Error> {
        let to = match self.subscriber.options.start {
            StartAt::After(position) => position,
            StartAt::Beginning | StartAt::End => 0,
        };
        let backend = &*self.shared.backend;
        let setup_version = self.subscriber.version.filter(|_| !self.machine.is_set_up());
        let opening = match &self.subscriber.handler {
            Handler::Each(handler) => {
                let reset = call(async { handler.reset().await }, self.config.handler_timeout);
                if let Err(failure) = reset.await {
                    return Ok(Err(failure));
                }
                Opening::Closing
            }
            Handler::Within(_) => Opening::Handler,
        };
        let work = async |begun: &mut Begun| {
            if setup_version.is_some() {
                self.call_setup(&mut begun.tx).await?;
            }
            if let Handler::Within(handler) = &self.subscriber.handler {
                call_within(backend, handler.reset(&mut begun.tx), self.config.handler_timeout).await?;
            }
            Ok(Some(Closing::Reset { to, by, nonce: self.machine.nonce(), setup_version }))
        };
        let closed = match self.in_transaction(opening, None, work).await? {
            Ok(closed) => closed,
            Err(failure) => return Ok(Err(failure)),
        };
        if let Some(version) = setup_version {
            self.journal.set_up(version);
        }
        // Those up to where it starts are left, and may park a stream still.
        let parked = backend.parked(&self.subscriber.id).await?.into_iter().collect();
        if let Some(closed) = closed {
            self.machine.on_new_term(closed.term);
        }
        self.begin_anew(to, parked);
        Ok(Ok(()))
    }

    /// Has the handler make its tables, and says whether it has any.
    async fn call_setup(&self, tx: &mut OpenTx) -> Result<bool, Failure> {
        let Handler::Within(handler) = &self.subscriber.handler else { return Ok(false) };
        let mut made = false;
        let setup = async {
            made = handler.setup(tx).await?;
            Ok(())
        };
        call_within(&*self.shared.backend, setup, self.config.handler_timeout).await?;
        Ok(made)
    }

    fn cannot_set_up(&self, what: &str, version: u32, failure: &Failure) -> Error {
        self.status_error(failure.error.clone());
        let source = format!("{what} version {version} failed with: {}", failure.error);
        Error::Unavailable { action: "set up the tables of the read model", source: source.into() }
    }

    /// Whether it has handled events. Where it started at the end of the log, that is not known, and the last event tells.
    pub(super) fn has_begun(&self, taken: &Taken) -> bool {
        let moved =
            self.subscriber.options.start != StartAt::End && taken.checkpoint.global_sequence > self.start.after;
        !taken.fresh && (taken.checkpoint.event_id.is_some() || moved)
    }

    /// Whether the tables are those that the code is written for, or can be made. What the machine says of others is done here.
    pub(super) async fn is_fit(&mut self) -> Result<bool, Error> {
        match self.machine.judge() {
            Verdict::Fit => return Ok(true),
            Verdict::Waits { reason } => {
                self.requests = self.shared.backend.open_requests(&[self.subscriber.id.to_string()]).await?.into();
                if !self.machine.is_to_be_rebuilt(self.requests.iter()) {
                    self.halted(&reason);
                }
            }
            Verdict::Leaves { reason, fence } => {
                self.halted(&reason);
                self.say_why(&reason, fence).await;
                self.release().await;
            }
        }
        Ok(false)
    }

    fn halted(&self, reason: &Arc<str>) {
        self.journal.halted(reason);
        self.status_error(reason.clone());
    }

    /// Whether another instance leads, or may, with tables that are newer than the code here. To take over from that one would
    /// only stop it.
    pub(super) async fn is_outdated(&mut self) -> Result<bool, Error> {
        if self.subscriber.version.is_none() {
            return Ok(false);
        }
        let found = self.shared.backend.checkpoint(&self.subscriber.id).await?;
        let found = found.filter(|found| self.machine.is_behind(found.setup_version));
        let Some(Checkpoint { global_sequence, setup_version, .. }) = found else { return Ok(false) };
        if leader_of(&*self.shared.backend, &self.subscriber.id).await?.is_none() {
            return Ok(false);
        }
        self.machine.on_taken(Inherited { global_sequence, setup_version, ..Inherited::default() });
        Ok(!self.is_fit().await?)
    }

    /// Leaves the reason where operators look for it: who leads nothing reports nothing.
    async fn say_why(&self, reason: &Arc<str>, fence: Option<Fence>) {
        let Some(fence) = fence else { return };
        let report = Report {
            subscriber_id: self.subscriber.id.to_string(),
            term: fence.term.number,
            state: SubscriptionState::Halted { reason: reason.clone() },
            position: self.machine.handled(),
            rate: 0.0,
            last_error: Some(reason.to_string()),
            push_degraded: None,
            reads: None,
            reported_at: Utc::now(),
        };
        if let Err(error) = self.shared.backend.store_reports(&[report]).await {
            self.journal.unreported(&error);
        }
    }
}
