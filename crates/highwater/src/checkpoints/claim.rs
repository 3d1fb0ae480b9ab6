//! What an instance says that wants to lead for a subscriber.

use std::sync::Arc;

use uuid::Uuid;

use super::lease::of_a_lease;
use crate::{Error, Instance};

/// An instance wants to lead for a subscriber, or to hold a lease.
///
/// ```
/// use highwater::Claim;
/// let claim = Claim { start: 100, ..Claim::of("projection:orders") };
/// assert_eq!(&*claim.subscriber_id, "projection:orders");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The subscriber.
    pub subscriber_id: Arc<str>,
    /// Whether it is made for a subscriber, as a bus does. Otherwise what a coordinator acquires with it is a lease: for an
    /// application's own work, which has no position in the log. [`Overview`](crate::Overview) shows leases in their own list.
    pub subscribes: bool,
    /// Where it starts if it is new: after this position.
    pub start: u64,
    /// The event there, if the position was found by looking where the log ends. A subscriber that is new does not start there in a
    /// log that does not have this event any more: [`start_is_gone`](crate::backend::start_is_gone), and no checkpoint is stored.
    pub start_event: Option<Uuid>,
    /// What the new term is known by. Should an answer be lost and take effect late, the claimant knows it again by this.
    pub nonce: Uuid,
    /// The label of instances that should rather do it.
    pub prefers: Option<String>,
    /// The claimant. A coordinator fills it in.
    pub instance: Instance,
    /// The session that the claimant holds the subscriber's lock on, if it does. Then a transaction open on the checkpoint
    /// is that of a former leader that may be frozen, and is not waited for.
    pub session: Option<Uuid>,
}

/// For backends: the error where a subscriber was to start at the end of a log that does not have the event there any more.
#[must_use]
pub fn start_is_gone(claim: &Claim) -> Error {
    let (id, start) = (&claim.subscriber_id, claim.start);
    let why = format!(
        "{id:?} was to start at the end of the log, at {start}, and the event there is gone: the server has lost it, or the log is \
         another one; subscribe it again, or say after which position it starts"
    );
    Error::Damaged { action: "start at the end of the log", source: why.into() }
}

impl Claim {
    /// A claim by this process, for the application's own work.
    #[must_use]
    pub fn of(subscriber_id: impl Into<Arc<str>>) -> Self {
        let (nonce, instance) = (Uuid::from_u128(fastrand::u128(..)), Instance::here(None));
        let subscriber_id = subscriber_id.into();
        Self {
            subscriber_id,
            subscribes: false,
            start: 0,
            start_event: None,
            nonce,
            prefers: None,
            instance,
            session: None,
        }
    }

    pub(crate) fn by(self, instance: &Instance, session: Option<Uuid>) -> Self {
        let nonce = if self.subscribes { self.nonce } else { of_a_lease(self.nonce) };
        Self { instance: instance.clone(), session, nonce, ..self }
    }
}
