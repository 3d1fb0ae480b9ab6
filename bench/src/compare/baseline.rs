//! What is different from an earlier run, beyond what both runs vary by themselves.
//!
//! Absolute figures of two runs say as much about the machine as about the project. Where the same case was measured raw,
//! the quotient of each round is compared instead of the figure.

use super::figures;
use super::grid::{self, CORRECTNESS, best, is_correctness};
use super::results::{Kind, Results, Row, Scenario};
use crate::rounds::{median, quantile};

/// A smaller change says nothing, however steady both runs were.
const CHANGE_MIN: f64 = 0.05;

/// What is compared, for those who read the changes.
pub(crate) const METHOD: &str = "Told is what changed beyond the spread of both runs, by more than 5 %. Absolute figures of two \
    runs are not comparable on a noisy machine: where a case has a raw row, what is compared is the quotient of each round with \
    the raw figure of the same round. What is marked as absolute has no raw row, or is one.";

/// Two runs beside each other.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// When the earlier one began, and what of the project it measured.
    pub(crate) earlier: String,
    /// Why the two may not be comparable.
    pub(crate) warnings: Vec<String>,
    /// Rows that both have.
    pub(crate) compared: usize,
    /// Correctness first, then those against a raw row, then those of absolute figures; of each the largest first.
    pub(crate) changes: Vec<Change>,
}

/// A row that is different.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) scenario: String,
    pub(crate) case: String,
    pub(crate) contestant: String,
    /// Whose figures these are divided by. Nothing: they are absolute.
    pub(crate) against: Option<String>,
    pub(crate) unit: String,
    pub(crate) before: Range,
    pub(crate) now: Range,
    pub(crate) better: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    pub(crate) median: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
}

/// Compares every row that both have.
pub(crate) fn compare(now: &Results, before: &Results) -> Comparison {
    let (mut compared, mut changes) = (0, Vec::new());
    for scenario in grid::in_order(now) {
        let Some(earlier) = before.scenarios.iter().find(|earlier| earlier.id == scenario.id) else { continue };
        for row in scenario.rows.iter().filter(|row| !row.samples.is_empty()) {
            let Some(old) = same(earlier, row, &row.contestant) else { continue };
            compared += 1;
            changes.extend(change(now, scenario, earlier, row, old));
        }
    }
    changes.sort_by(|a, b| {
        let group = |change: &Change| (change.scenario != CORRECTNESS, change.against.is_none());
        group(a).cmp(&group(b)).then(b.size().total_cmp(&a.size()))
    });
    let earlier = format!("{} ({})", before.date, before.commit);
    Comparison { earlier, warnings: warnings(now, before), compared, changes }
}

fn change(now: &Results, scenario: &Scenario, earlier: &Scenario, row: &Row, old: &Row) -> Option<Change> {
    // The same raw contestant on both sides, or the quotients would not be of the same kind.
    let raws = scenario.rows.iter().filter(|raw| {
        let of_case = raw.case == row.case && raw.at == row.at && raw.unit == row.unit;
        of_case && grid::kind(now, &raw.contestant) == Some(Kind::Raw) && same(earlier, row, &raw.contestant).is_some()
    });
    let own_kind = grid::kind(now, &row.contestant);
    let raw = best(raws).filter(|_| own_kind != Some(Kind::Raw));
    let quotients = raw.and_then(|raw| {
        let old_raw = same(earlier, row, &raw.contestant)?;
        Some((raw, quotients(row, raw)?, quotients(old, old_raw)?))
    });
    let (against, now, before) = match quotients {
        Some((raw, now, before)) => (Some(raw.contestant.clone()), Range::of(&now), Range::of(&before)),
        None => (None, Range::of(&row.samples), Range::of(&old.samples)),
    };
    // Of what must not be at all, one in one round is a change.
    let strict = is_correctness(scenario) && !row.higher_is_better;
    let differs = if strict { (now.highest > 0.0) != (before.highest > 0.0) } else { false };
    if !differs && !now.differs(before) {
        return None;
    }
    let higher =
        if strict && now.median == before.median { now.highest > before.highest } else { now.median > before.median };
    Some(Change {
        scenario: scenario.id.clone(),
        case: row.at.map_or_else(|| row.case.clone(), |at| titled(&row.case, at)),
        contestant: row.contestant.clone(),
        against,
        unit: row.unit.clone(),
        before,
        now,
        better: higher == row.higher_is_better,
    })
}

/// The number along the bottom, unless the case says it.
fn titled(case: &str, at: f64) -> String {
    if case.contains(|letter: char| letter.is_ascii_digit()) {
        case.to_owned()
    } else {
        format!("{case} {}", figures::short(at))
    }
}

/// The row of a contestant in the case of another row, if it was measured.
fn same<'a>(scenario: &'a Scenario, row: &Row, contestant: &str) -> Option<&'a Row> {
    scenario.rows.iter().find(|other| {
        let of_case = other.case == row.case && other.at == row.at && other.unit == row.unit;
        of_case && other.contestant == contestant && !other.samples.is_empty()
    })
}

/// Round by round.
fn quotients(row: &Row, raw: &Row) -> Option<Vec<f64>> {
    let fits = row.samples.len() == raw.samples.len() && raw.samples.iter().all(|raw| *raw > 0.0);
    fits.then(|| row.samples.iter().zip(&raw.samples).map(|(row, raw)| row / raw).collect())
}

fn warnings(now: &Results, before: &Results) -> Vec<String> {
    let mut warnings = Vec::new();
    let (a, b) = (&now.machine, &before.machine);
    let parts = [
        ("processor", a.processor.clone(), b.processor.clone()),
        ("number of cores", a.cores.to_string(), b.cores.to_string()),
        ("memory", format!("{} GB", a.memory_gigabytes), format!("{} GB", b.memory_gigabytes)),
        ("kernel", a.kernel.clone(), b.kernel.clone()),
        ("PostgreSQL", a.postgres.clone(), b.postgres.clone()),
        ("PostgreSQL settings", format!("{:?}", a.settings), format!("{:?}", b.settings)),
    ];
    for (what, now, before) in parts.into_iter().filter(|(_, now, before)| now != before) {
        let values = if what == "PostgreSQL settings" { String::new() } else { format!(": {before} then, {now} now") };
        warnings.push(format!("another {what}{values}"));
    }
    if now.quick != before.quick {
        let which = if now.quick { "this run" } else { "the earlier run" };
        warnings.push(format!("{which} was quick, with less data and less time, the other was not"));
    } else if now.quick {
        warnings.push("both runs were quick: their figures say little".to_owned());
    }
    warnings
}

impl Range {
    fn of(samples: &[f64]) -> Self {
        Self { median: median(samples), lowest: quantile(samples, 0.0), highest: quantile(samples, 1.0) }
    }

    fn differs(self, before: Self) -> bool {
        let apart = self.lowest > before.highest || self.highest < before.lowest;
        apart && (self.median - before.median).abs() > CHANGE_MIN * before.median.abs()
    }

    /// `0.45 (0.43–0.46)`
    pub(crate) fn text(self) -> String {
        let [median, lowest, highest] = [self.median, self.lowest, self.highest].map(figures::number);
        if self.lowest == self.highest { median } else { format!("{median} ({lowest}–{highest})") }
    }
}

impl Change {
    /// How many times as much it is, or as little.
    fn size(&self) -> f64 {
        if self.before.median == self.now.median {
            f64::INFINITY
        } else {
            (self.now.median / self.before.median).ln().abs()
        }
    }

    /// `+12%`, `×3.4`, `from 0`.
    pub(crate) fn text(&self) -> String {
        let factor = self.now.median / self.before.median;
        match factor {
            _ if self.before.median == 0.0 => "from 0".to_owned(),
            factor if factor >= 2.0 => format!("×{}", figures::number(factor)),
            factor => format!("{:+.0}%", (factor - 1.0) * 100.0),
        }
    }

    /// What the figures are.
    pub(crate) fn basis(&self) -> String {
        self.against.as_ref().map_or_else(|| format!("{}, absolute", self.unit), |raw| format!("of {raw}"))
    }
}

#[cfg(test)]
mod tests;
