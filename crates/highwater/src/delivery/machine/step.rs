//! The machine's inputs and outputs.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::FailurePolicy;

/// What the machine has to know of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) on_failure: FailurePolicy,
    pub(crate) max_retries: u32,
    /// Events that may be delivered again after a crash: the size of a batch.
    pub(crate) batch: usize,
    /// How long a transaction should take, at most.
    pub(crate) batch_time: Duration,
    /// Events and checkpoint are one transaction.
    pub(crate) transactional: bool,
    pub(crate) parked_per_stream_max: u64,
    pub(crate) parked_max: u64,
    /// For what is said about it.
    pub(crate) subscriber_id: Arc<str>,
    /// The version of the tables that its code is written for; none where it has nothing to set up.
    pub(crate) version: Option<u32>,
    /// Tables of an earlier version are built again without asking.
    pub(crate) rebuilds: bool,
    /// By which its own terms are known, also those whose answer was lost and that took effect late.
    pub(crate) nonce: Uuid,
}

/// What is wanted from outside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Intent {
    #[default]
    Run,
    Pause,
    Stop,
}

/// What the driver knows at the moment of a step.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Now {
    /// The checkpoint has lagged behind for as long as it may.
    pub(crate) overdue: bool,
    /// The next page is there already.
    pub(crate) more: bool,
    /// An operator has filed a request.
    pub(crate) asked: bool,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Get the right to process, and the checkpoint.
    Lead,
    /// Get the checkpoint of the term it has: `Machine::on_reread` says whether it still has that.
    Reread,
    /// Have the tables of the read model made. `anew`: with an emptied read model, from the start.
    SetUp { anew: bool },
    /// Wait for a page; meanwhile a checkpoint that is being stored may arrive, or become overdue.
    Read,
    /// Hand so many events over: `Machine::front`.
    Handle { count: usize },
    /// Begin to store the checkpoint.
    Store,
    /// Wait for the checkpoint that is being stored.
    AwaitStore,
    /// The event in front has failed for good: write a dead letter. `park`: those behind it in its stream are to wait.
    Bury { park: bool },
    /// The event in front waits behind an earlier one of its stream: write a dead letter.
    Park,
    /// Wait until the event in front is due again.
    Sleep,
    /// Do what was asked for.
    Serve,
    /// Release leadership: another instance is to lead.
    Yield,
    /// Do nothing until something is wanted.
    Rest,
    /// It is over.
    End,
}

/// What follows when events failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// They were a batch: each is handled alone.
    Together,
    /// The one in front has failed so often, and is retried.
    Retry { failures: u32 },
    /// It is not retried.
    Spent,
}

/// What an error of the store means for leadership. The machine has drawn its own conclusions already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Everything stays as it is: the same again, later.
    Retry,
    /// What was read and remembered is void, and leadership is not: the checkpoint is read again, later.
    Reread,
    /// Leadership is released, and claimed again.
    StartAgain,
    /// Another instance leads: leadership is released, and waited for.
    StandBack,
    /// Another process has taken over, without coordination: it stops until it is resumed.
    Halt,
}
