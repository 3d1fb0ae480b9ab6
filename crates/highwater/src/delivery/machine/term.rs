//! Whether what a subscriber remembers still counts: its term, the life of the server that its positions come from, and what
//! was stored. Pure.

use uuid::Uuid;

use super::{Machine, Phase, Reaction};
use crate::{Checkpoint, Error, Fence, Term};

/// Only a subscriber that no instance is to take over from is halted by another one.
const COORDINATE: &str = "if several instances are to run it, give each InstanceMode::Coordinated";

impl Machine {
    /// Another instance leads, and this one waits for it to stop.
    pub(crate) fn on_standing_by(&mut self) {
        self.stands_by = true;
    }

    /// Leadership was acquired, with this checkpoint. Recorded before anything else can fail: from now on this term counts.
    pub(crate) fn on_leading(&mut self, checkpoint: &Checkpoint) {
        (self.fence, self.stands_by) = (Some(checkpoint.fence()), false);
    }

    /// The checkpoint as it is stored now. Its term is this subscriber's, or another instance leads; without a checkpoint the
    /// subscriber starts again.
    pub(crate) fn on_reread(&mut self, found: Option<&Checkpoint>) -> Result<(), Error> {
        let fence = self.fence()?;
        let taken = found.filter(|found| found.term == fence.term || found.term.nonce == self.policy.nonce);
        let Some(taken) = taken else {
            let subscriber_id = fence.subscriber_id.to_string();
            return Err(Error::Fenced { subscriber_id, term: found.map(|found| found.term.number) });
        };
        self.fence = Some(taken.fence());
        Ok(())
    }

    /// A reset has given it a new term.
    pub(crate) fn on_new_term(&mut self, term: Term) {
        if let Some(fence) = &mut self.fence {
            fence.term = term;
        }
    }

    /// What every write names, and every position that was read comes from.
    pub(crate) fn fence(&self) -> Result<Fence, Error> {
        self.fence.clone().ok_or_else(|| Error::Interrupted { reason: "no term has been taken".to_owned() })
    }

    /// Whether it leads, and has checked so since it was last interrupted.
    pub(crate) fn leads(&self) -> bool {
        self.fence.is_some() && !self.is_taking()
    }

    /// The number of its term, also while it checks whether it still has that.
    pub(crate) fn term(&self) -> Option<u64> {
        self.fence.as_ref().map(|fence| fence.term.number)
    }

    pub(crate) fn stands_by(&self) -> bool {
        self.stands_by
    }

    pub(crate) fn is_taking(&self) -> bool {
        self.phase == Phase::Taking
    }

    /// Whether a checkpoint belongs to this log. One beyond the end was set by hand, or events that it had passed are gone, or
    /// numbers started again: a leader that continued from there would miss the events that get them. One that was only moved
    /// by hand names an event that is there. `gone`: the event that was handled last is not.
    pub(crate) fn check_log(&self, at: u64, head: u64, gone: Option<Uuid>) -> Result<(), Error> {
        let found = match gone {
            _ if head < at => format!("the log ends at {head}"),
            Some(id) => format!("event {id}, which it handled last, is not in the log"),
            None => return Ok(()),
        };
        let id = &self.policy.subscriber_id;
        let why =
            format!("the checkpoint of {id:?} is at {at}, and {found}; set it to where the log is the same as it was");
        Err(Error::Damaged { action: "resume from the checkpoint", source: why.into() })
    }

    /// Something was read in this life of the server; `None`: in another one than what was read before.
    pub(crate) fn check_life(&self, incarnation: Option<u64>) -> Result<(), Error> {
        if incarnation == Some(self.fence()?.incarnation) {
            return Ok(());
        }
        Err(Error::Interrupted { reason: "another life of the server".to_owned() })
    }

    /// A transaction has begun where this checkpoint is.
    pub(crate) fn check_begun(&self, checkpoint: u64) -> Result<(), Error> {
        if self.continues_from(checkpoint) {
            return Ok(());
        }
        let stored = self.stored;
        let reason = format!(
            "the checkpoint is at {checkpoint}, and {stored} was stored: the database has lost what was committed"
        );
        Err(Error::Interrupted { reason })
    }

    /// Whether a transaction that begins where this checkpoint is continues what was done. One below what is believed to be
    /// stored does not: the server has lost something, and to step over that would be to skip it.
    pub(crate) fn continues_from(&self, checkpoint: u64) -> bool {
        checkpoint >= self.stored
    }

    /// Whether a request has failed for good: to retry it does not help, and events wait behind it.
    pub(crate) fn ends_request(error: &Error) -> bool {
        matches!(error, Error::Damaged { .. })
    }

    /// The store refused something, or could not do it. `exclusive`: leadership is a lock, so another one can be told from
    /// this one started twice.
    pub(crate) fn on_error(&mut self, error: &Error, exclusive: bool) -> Reaction {
        let reaction = match error {
            // Perhaps by itself: something whose answer was lost has raised the term. Checked before it is trusted.
            Error::Fenced { term: Some(_), .. } if !self.is_taking() => Reaction::Reread,
            // No instance took over: the checkpoint was deleted. That means to start again.
            Error::Fenced { term: None, .. } => Reaction::StartAgain,
            Error::Fenced { .. } if exclusive => Reaction::StandBack,
            Error::Fenced { .. } => Reaction::Halt,
            // Something was committed or it was not, or the server is another one.
            Error::UnknownOutcome { .. } | Error::Interrupted { .. } => Reaction::Reread,
            _ => Reaction::Retry,
        };
        match reaction {
            Reaction::Retry => {}
            Reaction::Reread => self.on_interrupted(),
            Reaction::StartAgain => self.on_released(),
            Reaction::StandBack => self.on_not_leading(),
            Reaction::Halt => self.on_fenced(&format!("{error}; {COORDINATE}")),
        }
        reaction
    }

    /// Everything remembered is void; the checkpoint has to be read again.
    pub(crate) fn on_interrupted(&mut self) {
        self.phase = Phase::Taking;
        self.storing = None;
    }

    /// Leadership is lost, or was released for another instance.
    pub(crate) fn on_not_leading(&mut self) {
        self.on_released();
        self.stands_by = true;
    }

    /// Leadership was released, to be claimed again.
    fn on_released(&mut self) {
        self.on_interrupted();
        (self.fence, self.yielding) = (None, false);
    }

    /// Another instance has taken over: what is not stored now is left to it.
    fn on_fenced(&mut self, reason: &str) {
        self.phase = Phase::Fenced(reason.into());
        (self.work, self.fence) = (None, None);
        (self.handled, self.unsaved, self.storing) = (self.stored, 0, None);
    }
}
