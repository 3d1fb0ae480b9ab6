//! How far something long has got: a bar on stderr, where that is a terminal and it takes long enough.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use highwater::transfer::{Phase, Step};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// After how long there is something to show.
const AFTER: Duration = Duration::from_millis(500);

/// A progress bar that appears once something takes a while.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    begun: Instant,
    shown: bool,
}

impl Progress {
    /// For what is measured in events, once it is known how many.
    pub(crate) fn of_transfer() -> Self {
        Self::new("events", Some(0), "{msg} {wide_bar} {human_pos}/{human_len}  {per_sec}  {eta} left", "events")
    }

    /// For input of which the size in bytes is known, or not.
    pub(crate) fn of_bytes(what: &'static str, total: Option<u64>) -> Self {
        Self::new(what, total, "{msg} {wide_bar} {bytes}/{total_bytes}  {eta} left", "bytes")
    }

    fn new(what: &'static str, total: Option<u64>, form: &str, unit: &str) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let open = format!("{{spinner}} {{msg}} {{human_pos}} {unit}  {{elapsed}}");
            let form = if total.is_some() { form } else { &open };
            let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
            bar.set_style(ProgressStyle::with_template(form).expect("the template is one of ours"));
            bar.set_message(what);
            bar
        });
        Self { bar, begun: Instant::now(), shown: false }
    }

    pub(crate) fn at(&mut self, position: u64) {
        let Some(bar) = &self.bar else { return };
        if !self.shown && self.begun.elapsed() >= AFTER {
            self.shown = true;
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.set_position(position);
    }

    /// How far a transfer is.
    pub(crate) fn step(&mut self, step: Step) {
        if let Some(bar) = &self.bar {
            bar.set_message(match step.phase {
                Phase::Events => "events",
                Phase::Delivery => "checkpoints and dead letters",
                _ => "comparing",
            });
            bar.set_length(step.total);
        }
        self.at(step.done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
