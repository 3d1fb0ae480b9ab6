//! What the bus answers, by what the caller should do.

use std::time::Duration;

/// What a bus, or looking at subscribers from outside, can answer besides what goes wrong with the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BusError {
    /// A subscriber's own handler waits for that subscriber, which continues only when the handler has returned. Nothing
    /// was changed: call it from elsewhere, or in a task that the handler does not wait for.
    #[error(
        "the handler of {subscriber_id:?} would wait for itself: {action} waits for that subscriber, which continues only \
         when its handler has returned; call it from elsewhere, or in a task that the handler does not wait for"
    )]
    WaitsForItself {
        /// The subscriber.
        subscriber_id: String,
        /// What was called.
        action: &'static str,
    },

    /// There is a subscription with this name on this bus already. Two observers cannot share a position.
    #[error("{0:?} is subscribed already on this bus; unsubscribe it first, or give the other one its own name")]
    AlreadySubscribed(String),

    /// No subscriber has this name: no instance has started one, or it was removed. Check its spelling.
    #[error("there is no subscriber {0:?}: no instance has started it, or it was removed")]
    UnknownSubscriber(String),

    /// An instance leads the subscriber, or may do so, and would continue from where it is. Nothing was changed: stop it
    /// first, or force it.
    #[error("{subscriber_id:?} is being processed: {reason}; stop that first, or force it")]
    Led {
        /// The subscriber.
        subscriber_id: String,
        /// By whom, and how far that is known.
        reason: String,
        /// Who that is, if it is known.
        leader: Option<Box<crate::Leader>>,
    },

    /// A subscriber did not get there in time. It continues; wait again, or find out what keeps it.
    #[error(
        "{subscriber_id:?} has not reached {wanted} within {waited:?}: {}",
        reached.map_or_else(|| "it has never been started".to_owned(), |at| format!("it is at {at}"))
    )]
    NotReached {
        /// The subscriber.
        subscriber_id: String,
        /// What was waited for.
        wanted: u64,
        /// Where it is; none when it has no checkpoint.
        reached: Option<u64>,
        /// How long was waited.
        waited: Duration,
    },

    /// Some events of a subscriber went to the dead letters, so its read model does not show them. Fix what they failed for, and
    /// replay them.
    #[error(
        "{subscriber_id:?} could not handle event {global_sequence} ({event_type}), which is in its dead letters, perhaps with \
         others: {reason}; fix that, and replay them"
    )]
    DeadLetters {
        /// The subscriber.
        subscriber_id: String,
        /// The first of those events.
        global_sequence: u64,
        /// Its type, as it is stored.
        event_type: String,
        /// What it failed for.
        reason: String,
    },

    /// The tables of a read model are not those that this program's code is written for, and reading them could go wrong in
    /// silence. The log and `highwater why` give the reason. Rebuild it, upgrade the program, or wait until it is set up.
    #[error(
        "the tables of {subscriber_id:?} are {}, and this program is written for version {wanted}: rebuild it, or upgrade what is \
         older",
        found.map_or_else(|| "not set up in this store".to_owned(), |found| format!("of version {found}"))
    )]
    OtherTables {
        /// The subscriber.
        subscriber_id: String,
        /// The version of the tables; none when none were set up.
        found: Option<u32>,
        /// The version that the subscriber has on this bus.
        wanted: u32,
    },

    /// A live view could not fold an event, and is not kept up to date any more. Correct what is wrong, and start it again.
    #[error("the live view {view} has stopped: {reason}; correct that, and start it again")]
    ViewStopped {
        /// The type of its state.
        view: &'static str,
        /// Which event it was, and why.
        reason: String,
    },

    /// A live view was not ready in time. It continues; read it again, or wait for it with `ready`.
    #[error(
        "the live view {view} is not ready after {waited:?}: it is folded up to {folded_to}{}",
        wanted.map_or_else(String::new, |wanted| format!(", and {wanted} is wanted"))
    )]
    ViewNotReady {
        /// The type of its state.
        view: &'static str,
        /// What was waited for; `None` when that is the end of the log as it was when the view started.
        wanted: Option<u64>,
        /// Where it is.
        folded_to: u64,
        /// How long was waited.
        waited: Duration,
    },

    /// The subscriber does not process. Its state says why.
    #[error("{subscriber_id:?} is not running: {reason}")]
    NotRunning {
        /// The subscriber.
        subscriber_id: String,
        /// What state it is in, and why.
        reason: String,
    },

    /// A request could not be carried out as asked. What was done of it stays done.
    #[error("{kind} failed: {reason}")]
    RequestFailed {
        /// What was asked for.
        kind: &'static str,
        /// What went wrong.
        reason: String,
    },

    /// Not everything had stopped in time; what had not was aborted, and is delivered again at the next start.
    #[error("shut down, but these did not stop in time and were aborted: {}", subscribers.join(", "))]
    ShutdownTimedOut {
        /// The subscribers that were still at work.
        subscribers: Vec<String>,
    },
}
