//! What was found: a table for people, one JSON object for programs.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::Error;
use crate::options::{Options, Scenario};
use crate::rounds::median;

/// One way, measured in every round.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) figures: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    EventsPerSecond,
    /// Of one call, the median.
    Microseconds,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::EventsPerSecond => "events/s",
            Self::Microseconds => "µs",
        })
    }
}

impl Unit {
    /// The figure of a round, from those of its slices, which are all as long.
    pub(crate) fn of_slices(self, figures: &[f64]) -> f64 {
        match self {
            Self::EventsPerSecond => figures.iter().sum::<f64>() / figures.len() as f64,
            Self::Microseconds => median(figures),
        }
    }
}

impl Row {
    fn median(&self) -> f64 {
        median(&self.figures)
    }

    fn better_than(&self, other: &Self) -> bool {
        match self.unit {
            Unit::EventsPerSecond => self.median() > other.median(),
            Unit::Microseconds => self.median() < other.median(),
        }
    }
}

/// Ours against the raw limit: the median of the rounds' quotients.
#[derive(Debug)]
pub(crate) struct Ratio {
    name: &'static str,
    value: f64,
    /// The lowest and the highest of them.
    spread: (f64, f64),
    /// Which of the raw ways it is measured against: the best.
    against: &'static str,
    goal: Option<Goal>,
}

/// What a ratio is to reach.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn reached(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, "≥ {bound:.2}"),
            Self::AtMost(bound) => write!(f, "≤ {bound:.2}"),
        }
    }
}

/// All that a run has to say.
#[derive(Debug)]
pub(crate) struct Report {
    scenario: Scenario,
    heading: String,
    rows: Vec<Row>,
    ratios: Vec<Ratio>,
}

impl Report {
    pub(crate) fn new(options: &Options, rows: Vec<Row>) -> Self {
        let heading = format!(
            "{}: {} rounds of {} s each, fsync on; median and spread over the rounds",
            options.scenario.name(),
            options.rounds,
            options.time.as_secs_f64()
        );
        Self { scenario: options.scenario, heading, rows, ratios: Vec::new() }
    }

    /// Adds a ratio, by the names of rows: ours, and the raw ways of which the best counts.
    pub(crate) fn compare(mut self, name: &'static str, ours: &str, raw: &[&str], goal: Option<Goal>) -> Self {
        let row = |name: &str| self.rows.iter().find(|row| row.name == name);
        let best = raw.iter().filter_map(|name| row(name)).reduce(|a, b| if b.better_than(a) { b } else { a });
        let (Some(ours), Some(best)) = (row(ours), best) else { unreachable!("{name} compares rows that there are") };
        let single: Vec<f64> = ours.figures.iter().zip(&best.figures).map(|(ours, raw)| ours / raw).collect();
        let ratio = Ratio { name, value: median(&single), spread: spread(&single), against: best.name, goal };
        self.ratios.push(ratio);
        self
    }

    /// One line.
    pub(crate) fn json(&self) -> Result<String, Error> {
        let row = |row: &Row| {
            let (lowest, highest) = spread(&row.figures);
            let [median, lowest, highest] = [row.median(), lowest, highest].map(|figure| rounded(figure, 10.0));
            JsonRow { name: row.name, unit: row.unit.to_string(), median, lowest, highest }
        };
        let ratio = |ratio: &Ratio| (ratio.name, rounded(ratio.value, 1_000.0));
        let json = Json {
            scenario: self.scenario.name(),
            rows: self.rows.iter().map(row).collect(),
            ratios: self.ratios.iter().map(ratio).collect(),
        };
        Ok(serde_json::to_string(&json)?)
    }
}

/// The report as programs get it.
#[derive(Serialize)]
struct Json {
    scenario: &'static str,
    rows: Vec<JsonRow>,
    ratios: BTreeMap<&'static str, f64>,
}

#[derive(Serialize)]
struct JsonRow {
    name: &'static str,
    unit: String,
    median: f64,
    lowest: f64,
    highest: f64,
}

fn rounded(figure: f64, parts: f64) -> f64 {
    (figure * parts).round() / parts
}

/// The lowest and the highest.
fn spread(figures: &[f64]) -> (f64, f64) {
    figures.iter().fold((f64::INFINITY, 0.0), |(low, high), figure| (low.min(*figure), f64::max(high, *figure)))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.heading)?;
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        writeln!(f, "{:width$}  {:>10}  {:>10}  {:>10}  unit", "way", "median", "lowest", "highest")?;
        for row in &self.rows {
            let (lowest, highest) = spread(&row.figures);
            writeln!(f, "{:width$}  {:>10.0}  {lowest:>10.0}  {highest:>10.0}  {}", row.name, row.median(), row.unit)?;
        }
        let width = self.ratios.iter().map(|ratio| ratio.name.len()).max().unwrap_or(0);
        writeln!(f, "\n{:width$}  {:>6}  {:>6}  {:>7}  {:14}  against", "ratio", "value", "lowest", "highest", "goal")?;
        for Ratio { name, value, spread: (lowest, highest), against, goal } in &self.ratios {
            let goal = goal.map_or_else(String::new, |goal| {
                format!("{goal} {}", if goal.reached(*value) { "reached" } else { "missed" })
            });
            writeln!(f, "{name:width$}  {value:>6.2}  {lowest:>6.2}  {highest:>7.2}  {goal:14}  {against}")?;
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn report() -> Report {
        let options = Options { scenario: Scenario::Append, rounds: 3, time: Duration::from_millis(500), quick: false };
        let row = |name, figures: [f64; 3]| Row { name, unit: Unit::EventsPerSecond, figures: figures.into() };
        let rows =
            vec![row("ours", [90.0, 110.0, 100.0]), row("slow", [1.0, 2.0, 3.0]), row("fast", [200.0, 200.0, 250.0])];
        Report::new(&options, rows).compare("ours_vs_raw", "ours", &["slow", "fast"], Some(Goal::AtLeast(0.9)))
    }

    #[test]
    fn the_best_raw_way_counts() {
        let text = report().to_string();
        assert!(text.contains("ours_vs_raw    0.45    0.40     0.55  ≥ 0.90 missed   fast\n"), "{text}");
    }

    #[test]
    fn programs_get_one_line() {
        let json = report().json().unwrap();
        assert!(!json.contains('\n'));
        assert!(json.contains(r#""ratios":{"ours_vs_raw":0.45}"#), "{json}");
        assert!(json.contains(r#""median":100.0"#), "{json}");
    }
}
