//! Events that a live view cannot fold.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::watch;

use super::ViewSnapshot;
use super::status::{ViewProblem, ViewStatus};
use crate::delivery::handling::message;
use crate::{Event, Evolve};

/// An event was not folded, and the view ends with it.
pub(super) struct Stopped;

/// What becomes of events that cannot be folded, and where everything about a view is said.
pub(super) struct Failures {
    pub(super) view: &'static str,
    pub(super) skip: bool,
    pub(super) status: watch::Sender<ViewStatus>,
}

impl Failures {
    /// Says that an event is left out, or that the view cannot be read any more.
    pub(super) fn met(&self, number: u64, event_type: &str, why: &str) -> Result<(), Stopped> {
        let (view, reason) = (self.view, format!("event {number} ({event_type}): {why}"));
        if self.skip {
            tracing::warn!(view, reason, "a live view has skipped an event that it cannot fold");
            self.status.send_modify(|status| {
                (status.skipped.events, status.skipped.last) = (status.skipped.events + 1, reason.into());
            });
            return Ok(());
        }
        tracing::error!(view, reason, "a live view has stopped; it cannot be read any more");
        self.status.send_modify(|status| status.problem = Some(ViewProblem::Stopped(reason.into())));
        Err(Stopped)
    }
}

/// Folds events; what cannot be folded is left out, or ends it.
pub(super) fn evolve<S: Evolve>(
    folded: &mut ViewSnapshot<S>,
    events: &[Event<S::Event>],
    failures: &Failures,
) -> Result<(), Stopped> {
    for event in events {
        let number = event.global_sequence.unwrap_or_default();
        let folding = || {
            folded.state.evolve(event);
            Ok(())
        };
        match unpanicked(folding) {
            Ok(()) => (folded.global_sequence, folded.event_id) = (number, Some(event.id)),
            Err(why) => failures.met(number, &event.event_type, &why)?,
        }
    }
    folded.skipped = failures.status.borrow().skipped.events;
    Ok(())
}

/// Runs the application's code, which may panic.
pub(super) fn unpanicked<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(format!("it panicked: {}", message(&*panic))))
}
