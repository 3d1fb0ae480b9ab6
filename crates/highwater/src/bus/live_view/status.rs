//! How a live view is, for its readers and for its bus.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::Problem;

/// How far a view is.
#[derive(Debug, Clone, Default)]
pub(super) struct ViewStatus {
    /// Everything up to here is in what readers get.
    pub(super) position: u64,
    /// The life of the log that this is of.
    pub(super) life: Option<u64>,
    /// What was committed when it started is in it.
    pub(super) ready: bool,
    /// Everything up to here has been folded: into what readers get later, while it is not ready.
    pub(super) folded_to: u64,
    /// What keeps it from being read, or from being kept up to date.
    pub(super) problem: Option<ViewProblem>,
    /// What it has skipped.
    pub(super) skipped: Skipped,
}

/// Events that could not be folded, in a view that continues without them.
#[derive(Debug, Clone, Default)]
pub(super) struct Skipped {
    pub(super) events: u64,
    /// The last of them, and why.
    pub(super) last: Arc<str>,
}

#[derive(Debug, Clone)]
pub(super) enum ViewProblem {
    /// It cannot read the log, and retries.
    Trouble(Arc<str>),
    /// It could not fold an event.
    Stopped(Arc<str>),
    /// Its task is gone.
    Ended,
}

/// A view, as its bus knows it.
#[derive(Debug)]
pub(in crate::bus) struct ViewEntry {
    name: &'static str,
    status: watch::Receiver<ViewStatus>,
    task: AbortHandle,
}

impl ViewEntry {
    pub(super) fn new(name: &'static str, status: watch::Receiver<ViewStatus>, task: AbortHandle) -> Self {
        Self { name, status, task }
    }

    pub(in crate::bus) fn abort(&self) {
        self.task.abort();
    }

    /// What is wrong with the view.
    pub(in crate::bus) fn problems(&self) -> impl Iterator<Item = Problem> {
        let (view, status) = (self.name, self.status.borrow().clone());
        let reason = status.problem.map(|problem| match problem {
            ViewProblem::Trouble(reason) => format!("it cannot read the log: {reason}"),
            ViewProblem::Stopped(reason) => format!("it has stopped: {reason}"),
            ViewProblem::Ended => "its task has ended".to_owned(),
        });
        let Skipped { events, last } = status.skipped;
        let skipped = (events > 0).then(|| Problem::ViewSkipped { view, events, last: last.to_string() });
        reason.map(|reason| Problem::View { view, reason }).into_iter().chain(skipped)
    }
}
