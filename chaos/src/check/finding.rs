//! One kind of trouble, however often it was met.

use crate::evidence::Violation;

/// How many cases are shown.
const SHOWN_MAX: usize = 5;

/// What is wrong in one respect: all cases are counted, the first few are shown.
#[derive(Debug)]
pub(super) struct Finding {
    guarantee: &'static str,
    cases: u64,
    lines: Vec<String>,
}

impl Finding {
    pub(super) fn new(guarantee: &'static str) -> Self {
        Self { guarantee, cases: 0, lines: Vec::new() }
    }

    /// Counts a case. What there is to say of it is made only when it is shown.
    pub(super) fn add(&mut self, lines: impl FnOnce() -> Vec<String>) {
        self.cases += 1;
        if self.cases <= SHOWN_MAX as u64 {
            self.lines.extend(lines());
        }
    }

    /// The same, with one line.
    pub(super) fn line(&mut self, line: impl FnOnce() -> String) {
        self.add(|| vec![line()]);
    }

    /// What is wrong, in one sentence, from how often it is; `None` when it never was.
    pub(super) fn told(mut self, what: impl FnOnce(u64) -> String) -> Option<Violation> {
        if self.cases == 0 {
            return None;
        }
        if let Some(more) = self.cases.checked_sub(SHOWN_MAX as u64).filter(|more| *more > 0) {
            self.lines.push(format!("… and {more} more"));
        }
        Some(Violation { guarantee: self.guarantee.to_owned(), what: what(self.cases), evidence: self.lines })
    }
}

/// `1 event`, `2 events`.
pub(super) fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
