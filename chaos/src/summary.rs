//! What a run was like, in figures.

mod takeovers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use self::takeovers::Takeovers;
use crate::evidence::{Evidence, Violation};
use crate::record::Outcome;

/// What is known of a run before it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// What everything random was drawn from.
    pub seed: u64,
    /// The backend's name.
    pub backend: String,
    /// How many instances take part.
    pub instances: u32,
}

/// A run in figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// What was known before.
    #[serde(flatten)]
    pub setting: Setting,
    /// How long it took.
    pub minutes: f64,
    /// Events in the log.
    pub events: u64,
    /// Appends that were sent.
    pub appends: u64,
    /// Appends that were acknowledged.
    pub acknowledged: u64,
    /// Acknowledged appends a second, over the whole run.
    pub appends_per_second: f64,
    /// The part of all seconds in which at least one append was acknowledged.
    pub load_held: f64,
    /// Faults by kind.
    pub faults: BTreeMap<String, Faults>,
    /// How long it took another instance to deliver, by the kind of fault that stopped the one before.
    pub takeovers: BTreeMap<String, Takeovers>,
    /// From the end of the last fault until all had caught up, in seconds; `None`: that did not happen.
    pub caught_up_seconds: Option<f64>,
    /// Effects beyond the first of each event.
    pub delivered_twice: u64,
    /// Dead letters by what has become of them.
    pub dead_letters: BTreeMap<String, u64>,
    /// Rebuilds.
    pub rebuilds: u64,
    /// Promises that were broken.
    pub violations: u64,
}

/// Faults of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    /// How many were tried.
    pub count: u64,
    /// How many of them could not be done.
    pub failed: u64,
}

impl Summary {
    /// The figures of a run.
    #[must_use]
    pub fn new(setting: Setting, evidence: &Evidence, violations: &[Violation]) -> Self {
        let (from, to) = span(evidence);
        let seconds = (to - from) as f64 / 1e6;
        let ends: Vec<u64> = acknowledged(evidence).collect();
        let mut faults: BTreeMap<String, Faults> = BTreeMap::new();
        for fault in &evidence.faults {
            let kind = faults.entry(fault.kind.clone()).or_default();
            kind.count += 1;
            kind.failed += u64::from(fault.failed.is_some());
        }
        let mut dead_letters = BTreeMap::new();
        for dead_letter in &evidence.dead_letters {
            *dead_letters.entry(dead_letter.state.clone()).or_insert(0) += 1;
        }
        let caught_up = evidence.caught_up.map(|at| at.saturating_sub(evidence.last_fault_over) as f64 / 1e6);
        Self {
            setting,
            minutes: seconds / 60.0,
            events: evidence.log.len() as u64,
            appends: evidence.appends.len() as u64,
            acknowledged: ends.len() as u64,
            appends_per_second: if seconds > 0.0 { ends.len() as f64 / seconds } else { 0.0 },
            load_held: load_held(evidence, &ends),
            faults,
            takeovers: takeovers::takeovers(evidence),
            caught_up_seconds: caught_up,
            delivered_twice: delivered_twice(evidence),
            dead_letters,
            rebuilds: crate::check::rebuilds(evidence).values().sum(),
            violations: violations.len() as u64,
        }
    }
}

/// From the first to the last time that is known of a run.
pub(crate) fn span(evidence: &Evidence) -> (u64, u64) {
    let times = || {
        let samples = evidence.samples.iter().map(|sample| sample.at);
        let appends = evidence.appends.iter().flat_map(|append| [Some(append.at), append.ended_at]).flatten();
        let faults = evidence.faults.iter().flat_map(|fault| [fault.from, fault.to]);
        samples.chain(appends).chain(faults).chain(evidence.caught_up)
    };
    (times().min().unwrap_or(0), times().max().unwrap_or(0))
}

/// When appends were acknowledged.
pub(crate) fn acknowledged(evidence: &Evidence) -> impl Iterator<Item = u64> {
    let stored = evidence.appends.iter().filter(|append| matches!(append.outcome, Some(Outcome::Stored { .. })));
    stored.filter_map(|append| append.ended_at)
}

/// Of the seconds between the first append and the last: in how many something was acknowledged.
fn load_held(evidence: &Evidence, ends: &[u64]) -> f64 {
    let sent = || evidence.appends.iter().map(|append| append.at);
    let (Some(from), Some(to)) = (sent().min(), sent().max()) else { return 0.0 };
    let mut busy: Vec<u64> =
        ends.iter().filter(|at| **at <= to).map(|at| at.saturating_sub(from) / 1_000_000).collect();
    busy.sort_unstable();
    busy.dedup();
    (busy.len() as f64 / ((to - from) / 1_000_000 + 1) as f64).min(1.0)
}

fn delivered_twice(evidence: &Evidence) -> u64 {
    let mut seen: HashMap<(usize, Uuid), u64> = HashMap::with_capacity(evidence.effects.len());
    for effect in &evidence.effects {
        *seen.entry((effect.role, effect.id)).or_insert(0) += 1;
    }
    seen.into_values().map(|times| times - 1).sum()
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting { seed, backend, instances } = &self.setting;
        let verdict = match self.violations {
            0 => "every promise held".to_owned(),
            1 => "1 promise broken".to_owned(),
            more => format!("{more} promises broken"),
        };
        writeln!(f, "seed {seed}, {backend}, {instances} instances, {:.1} minutes: {verdict}", self.minutes)?;
        writeln!(
            f,
            "  load       {} appends acknowledged of {} ({:.0} a second, in {:.0} % of all seconds), {} events",
            self.acknowledged,
            self.appends,
            self.appends_per_second,
            self.load_held * 100.0,
            self.events
        )?;
        let faults = self.faults.iter().map(|(kind, faults)| match faults.failed {
            0 => format!("{kind} {}", faults.count),
            failed => format!("{kind} {} ({failed} not done)", faults.count),
        });
        let all: u64 = self.faults.values().map(|faults| faults.count).sum();
        writeln!(f, "  faults     {all}: {}", list(faults))?;
        let takeovers = self.takeovers.iter().map(|(kind, times)| format!("{kind} {times}"));
        writeln!(f, "  takeovers  {}", list(takeovers))?;
        let caught_up = self.caught_up_seconds.map_or("never".to_owned(), |seconds| format!("{seconds:.1} s"));
        writeln!(f, "  at the end caught up after {caught_up}; {} effects came again", self.delivered_twice)?;
        let dead_letters = self.dead_letters.iter().map(|(state, count)| format!("{state} {count}"));
        write!(f, "  dead letters {}; rebuilds: {}", list(dead_letters), self.rebuilds)
    }
}

fn list(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
