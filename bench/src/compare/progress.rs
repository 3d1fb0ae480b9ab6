//! How far a run is, on standard error: one line that is redrawn on a terminal, elsewhere one for each step.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::figures::duration;

/// How wide a terminal is if it does not say.
const WIDTH: usize = 80;
const BAR: usize = 16;
const CLEAR_LINE: &str = "\r\x1b[2K";

/// A run on its way. Dropped before its end, it leaves the line to the next writer.
pub(crate) struct Progress {
    state: Mutex<State>,
}

struct State {
    out: Box<dyn Write + Send>,
    terminal: bool,
    width: usize,
    /// How long it may take.
    budget: Duration,
    done: usize,
    began: Instant,
    /// What is being done, and since when.
    current: Option<(String, Instant)>,
}

impl Progress {
    pub(crate) fn new(budget: Duration) -> Self {
        let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(WIDTH);
        Self::with(budget, Box::new(io::stderr()), io::stderr().is_terminal(), width)
    }

    fn with(budget: Duration, out: Box<dyn Write + Send>, terminal: bool, width: usize) -> Self {
        let began = Instant::now();
        Self { state: Mutex::new(State { out, terminal, width, budget, done: 0, began, current: None }) }
    }

    /// The next step begins, and the one before it is done.
    pub(crate) fn step(&self, what: &str) {
        self.change(|state| {
            state.end_step();
            state.current = Some((what.to_owned(), Instant::now()));
            state.draw();
        });
    }

    /// Something to know that is no step.
    pub(crate) fn note(&self, what: &str) {
        self.change(|state| {
            state.clear();
            state.write(&format!("{what}\n"));
            state.draw();
        });
    }

    /// The last step is done.
    pub(crate) fn finish(self) {
        self.change(|state| {
            state.end_step();
            state.clear();
            let (done, time) = (state.done, duration(state.began.elapsed().as_secs_f64()));
            state.write(&format!("{done} steps done in {time}\n"));
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.change(|state| {
            if state.current.is_some() {
                state.clear();
            }
        });
    }
}

impl State {
    fn end_step(&mut self) {
        let Some((what, since)) = self.current.take() else { return };
        self.done += 1;
        if !self.terminal {
            let (took, times) = (since.elapsed().as_secs_f64(), self.times());
            self.write(&format!("[{}] {what}: {took:.1} s ({times})\n", self.done));
        }
    }

    fn draw(&mut self) {
        if !self.terminal {
            return;
        }
        let Some((what, _)) = &self.current else { return };
        let part = self.began.elapsed().as_secs_f64() / self.budget.as_secs_f64().max(1.0);
        let full = ((part * BAR as f64) as usize).min(BAR);
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR - full));
        let line = format!("{bar} {}  {what}", self.times());
        // A line that is too long would wrap, and what has wrapped cannot be redrawn.
        let line: String = line.chars().take(self.width.saturating_sub(1)).collect();
        self.write(&format!("{CLEAR_LINE}{line}"));
    }

    fn clear(&mut self) {
        if self.terminal {
            self.write(CLEAR_LINE);
        }
    }

    fn times(&self) -> String {
        let [elapsed, budget] = [self.began.elapsed(), self.budget].map(|time| duration(time.as_secs_f64()));
        format!("{elapsed} of {budget}")
    }

    /// A run continues though nobody can see how far it is.
    fn write(&mut self, text: &str) {
        drop(self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[test]
    fn without_a_terminal_there_is_a_line_for_each_finished_step() {
        let screen = Screen::default();
        let progress = Progress::with(Duration::from_secs(60), Box::new(screen.clone()), false, 80);
        progress.step("A · other-store · round 1");
        assert_eq!(screen.text(), "");
        progress.step("A · other-store · round 2");
        progress.finish();
        let text = screen.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("[1] A · other-store · round 1: ") && lines[0].contains("of 1 min"), "{text}");
        assert!(lines[1].starts_with("[2] ") && lines[2].starts_with("2 steps done in "), "{text}");
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn on_a_terminal_one_line_is_redrawn_and_never_wraps() {
        let screen = Screen::default();
        let progress = Progress::with(Duration::from_secs(60), Box::new(screen.clone()), true, 40);
        progress.step(&"a long name ".repeat(20));
        progress.step("two");
        progress.step("three");
        let text = screen.text();
        assert!(!text.contains('\n'));
        assert!(text.split(CLEAR_LINE).all(|line| line.chars().count() < 40), "{text:?}");
        drop(progress);
        assert!(screen.text().ends_with(CLEAR_LINE), "{:?}", screen.text());
    }
}
