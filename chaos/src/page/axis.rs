//! From times to places.

/// Where the names of lanes end and time begins.
pub(super) const LEFT: f64 = 196.0;
/// Where time ends.
pub(super) const RIGHT: f64 = 1_140.0;
/// How many columns are told apart: what is drawn stays small however long a run was.
pub(super) const COLUMNS: usize = 472;

/// The time that is drawn, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    from: u64,
    to: u64,
}

impl Axis {
    pub(super) fn new((from, to): (u64, u64)) -> Self {
        Self { from, to: to.max(from + 1_000_000) }
    }

    pub(super) fn x(self, at: u64) -> f64 {
        let part = at.saturating_sub(self.from) as f64 / (self.to - self.from) as f64;
        LEFT + part.min(1.0) * (RIGHT - LEFT)
    }

    /// The column that a time falls into.
    pub(super) fn column(self, at: u64) -> usize {
        let part = (at.saturating_sub(self.from) as u128 * COLUMNS as u128 / u128::from(self.to - self.from)) as usize;
        part.min(COLUMNS - 1)
    }

    /// Where a column begins.
    pub(super) fn column_x(column: usize) -> f64 {
        LEFT + column as f64 * (RIGHT - LEFT) / COLUMNS as f64
    }

    /// How many seconds a column stands for.
    pub(super) fn column_seconds(self) -> f64 {
        (self.to - self.from) as f64 / 1e6 / COLUMNS as f64
    }

    /// A time from the start on, as people say it.
    pub(super) fn time(self, at: u64) -> String {
        let tenths = at.saturating_sub(self.from) / 100_000;
        format!("{}:{:02}.{}", tenths / 600, tenths / 10 % 60, tenths % 10)
    }

    /// Where lines are drawn, about ten, with what stands beside them.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        let seconds = (self.to - self.from) / 1_000_000;
        let steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600];
        let step = steps.into_iter().find(|step| seconds / step <= 12).unwrap_or(seconds / 12);
        let ticks = (0..=seconds).step_by(step as usize);
        ticks.map(|at| (self.x(self.from + at * 1_000_000), format!("{}:{:02}", at / 60, at % 60))).collect()
    }
}
