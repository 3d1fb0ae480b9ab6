//! Several runs together, as a page of documentation has them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use highwater::BoxError;

use crate::summary::Summary;

/// The figures of several runs of one backend.
#[derive(Debug, Clone, Default)]
struct Total {
    runs: u64,
    broken: u64,
    minutes: f64,
    events: u64,
    appends: u64,
    acknowledged: u64,
    load_held: Vec<f64>,
    twice: u64,
    dead_letters: u64,
    rebuilds: u64,
    caught_up: Vec<f64>,
    faults: BTreeMap<String, (u64, u64)>,
    takeovers: BTreeMap<String, Takeover>,
}

/// Takeovers after one kind of fault.
#[derive(Debug, Clone, Default)]
struct Takeover {
    count: u64,
    /// Of each run.
    medians: Vec<f64>,
    longest: f64,
}

/// Several runs together, by backend. Shows itself as tables of Markdown.
#[derive(Debug, Clone, Default)]
pub struct Totals(BTreeMap<String, Total>);

impl Totals {
    /// Reads every `summary.json` in the folders, and in the folders in them.
    ///
    /// # Errors
    /// When one cannot be read, and when there is none.
    pub fn read(folders: &[PathBuf]) -> Result<Self, BoxError> {
        let mut totals = Self::default();
        for folder in folders {
            totals.add_below(folder)?;
        }
        if totals.0.is_empty() {
            Err("there is no summary.json in these folders: name those of runs".into())
        } else {
            Ok(totals)
        }
    }

    fn add_below(&mut self, folder: &Path) -> Result<(), BoxError> {
        let cannot = |error| format!("cannot read {}: {error}", folder.display());
        for entry in fs::read_dir(folder).map_err(cannot)? {
            let path = entry?.path();
            if path.is_dir() {
                self.add_below(&path)?;
            } else if path.ends_with("summary.json") {
                let summary = serde_json::from_slice(&fs::read(&path)?);
                self.add(&summary.map_err(|error| format!("{} is no summary: {error}", path.display()))?);
            }
        }
        Ok(())
    }

    fn add(&mut self, summary: &Summary) {
        let total = self.0.entry(summary.setting.backend.clone()).or_default();
        total.runs += 1;
        total.broken += u64::from(summary.violations > 0);
        total.minutes += summary.minutes;
        total.events += summary.events;
        total.appends += summary.appends;
        total.acknowledged += summary.acknowledged;
        total.load_held.push(summary.load_held);
        total.twice += summary.delivered_twice;
        total.dead_letters += summary.dead_letters.values().sum::<u64>();
        total.rebuilds += summary.rebuilds;
        total.caught_up.extend(summary.caught_up_seconds);
        for (kind, faults) in &summary.faults {
            let (count, failed) = total.faults.entry(kind.clone()).or_default();
            (*count, *failed) = (*count + faults.count, *failed + faults.failed);
        }
        for (kind, seen) in &summary.takeovers {
            let takeover = total.takeovers.entry(kind.clone()).or_default();
            takeover.count += seen.count;
            takeover.medians.push(seen.median);
            takeover.longest = takeover.longest.max(seen.max);
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = |total: &Total| total.faults.values().map(|(count, failed)| count - failed).sum::<u64>();
        writeln!(f, "| | {} |", self.0.keys().map(String::as_str).collect::<Vec<_>>().join(" | "))?;
        writeln!(f, "|---|{}", "---|".repeat(self.0.len()))?;
        let mut line = |name: &str, cell: &dyn Fn(&Total) -> String| {
            writeln!(f, "| {name} | {} |", self.0.values().map(cell).collect::<Vec<_>>().join(" | "))
        };
        line("runs, of which broke a promise", &|t| format!("{}, {}", t.runs, t.broken))?;
        line("minutes in all", &|t| format!("{:.0}", t.minutes))?;
        line("faults", &|t| done(t).to_string())?;
        line("events in the log", &|t| t.events.to_string())?;
        line("appends acknowledged, of those sent", &|t| format!("{} of {}", t.acknowledged, t.appends))?;
        line("seconds in which something was acknowledged", &|t| format!("{:.0} %", 100.0 * mean(&t.load_held)))?;
        line("effects that came again after a takeover or a crash", &|t| t.twice.to_string())?;
        line("dead letters, all accounted for", &|t| t.dead_letters.to_string())?;
        line("rebuilds under load", &|t| t.rebuilds.to_string())?;
        line("all had caught up after: median, longest", &|t| {
            format!("{:.1} s, {:.1} s", median(&t.caught_up), t.caught_up.iter().copied().fold(0.0, f64::max))
        })?;
        for (backend, total) in &self.0 {
            writeln!(f, "\n| {backend}: fault | done | takeovers | median | longest |\n|---|---|---|---|---|")?;
            for (kind, (count, failed)) in &total.faults {
                write!(f, "| {kind} | {} |", count - failed)?;
                match total.takeovers.get(kind) {
                    Some(seen) => {
                        writeln!(f, " {} | {:.2} s | {:.2} s |", seen.count, median(&seen.medians), seen.longest)?
                    }
                    None => writeln!(f, " | | |")?,
                }
            }
        }
        Ok(())
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::summary::Setting;

    #[test]
    fn runs_are_added_up_by_backend() {
        let evidence = sample::evidence(40);
        let summary = |backend: &str| {
            let setting = Setting { seed: 1, backend: backend.to_owned(), instances: 2 };
            Summary::new(setting, &evidence, &[])
        };
        let mut totals = Totals::default();
        for backend in ["postgres", "sqlite", "postgres"] {
            totals.add(&summary(backend));
        }
        let events = summary("sqlite").events;
        let text = totals.to_string();
        assert!(text.contains("| | postgres | sqlite |"), "{text}");
        assert!(text.contains("| 2, 0 | 1, 0 |"), "{text}");
        assert!(text.contains(&format!("| {} | {events} |", 2 * events)), "{text}");
    }

    #[test]
    fn folders_without_runs_are_refused() {
        assert!(Totals::read(&[PathBuf::from("src")]).is_err());
        assert!(Totals::read(&[PathBuf::from("nowhere")]).unwrap_err().to_string().contains("cannot read nowhere"));
    }
}
