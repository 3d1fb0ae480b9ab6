//! What was found: a table for people, one JSON object for programs.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::options::{Options, Scenario};
use crate::rounds::{median, quantile};

/// One way, measured in every round.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) figures: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    EventsPerSecond,
    Microseconds,
    Milliseconds,
    /// Of processor time, user and system, per event that was delivered.
    CpuMicroseconds,
    /// Of processor time in a second.
    CpuMillisecondsPerSecond,
    TransactionsPerSecond,
    StatementsPerSecond,
    Connections,
    Megabytes,
    Percent,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::EventsPerSecond => "events/s",
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::CpuMicroseconds => "µs CPU/delivery",
            Self::CpuMillisecondsPerSecond => "ms CPU/s",
            Self::TransactionsPerSecond => "transactions/s",
            Self::StatementsPerSecond => "statements/s",
            Self::Connections => "connections",
            Self::Megabytes => "MB",
            Self::Percent => "% of a core",
        })
    }
}

impl Unit {
    /// The figure of a round, from those of its slices, which are all as long.
    pub(crate) fn of_slices(self, figures: &[f64]) -> f64 {
        match self {
            Self::Microseconds => median(figures),
            _ => figures.iter().sum::<f64>() / figures.len() as f64,
        }
    }

    /// How many decimals say something.
    pub(crate) fn decimals(self) -> usize {
        match self {
            Self::CpuMicroseconds | Self::Percent => 2,
            Self::Milliseconds | Self::StatementsPerSecond | Self::Megabytes => 1,
            _ => 0,
        }
    }
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit, figures: Vec::new() }
    }

    /// The figure of one more round, which is told on the way.
    pub(crate) fn push(&mut self, figure: f64) {
        let (round, decimals) = (self.figures.len() + 1, self.unit.decimals());
        eprintln!("round {round}: {}: {figure:.decimals$} {}", self.name, self.unit);
        self.figures.push(figure);
    }

    fn median(&self) -> f64 {
        median(&self.figures)
    }

    fn better_than(&self, other: &Self) -> bool {
        match self.unit {
            Unit::EventsPerSecond => self.median() > other.median(),
            _ => self.median() < other.median(),
        }
    }
}

/// Ours against the raw limit: the median of the rounds' quotients. Or a figure against a limit of its own.
#[derive(Debug)]
pub(crate) struct Ratio {
    name: &'static str,
    value: f64,
    /// The lowest and the highest of them.
    spread: (f64, f64),
    /// Which of the raw ways it is measured against: the best.
    against: String,
    goal: Option<Goal>,
}

/// What a ratio is to reach.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    pub(crate) fn reached(self, value: f64) -> bool {
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
        let ratio = Ratio { name, value: median(&single), spread: spread(&single), against: best.name.clone(), goal };
        self.ratios.push(ratio);
        self
    }

    /// Adds a figure that has a limit by itself: the highest of the row counts.
    pub(crate) fn limit(self, name: &'static str, row: &str, highest: f64) -> Self {
        self.figure(name, row, 1.0, Some(highest))
    }

    /// Adds a figure that stands by itself: the one of the row that so large a part of them does not exceed.
    pub(crate) fn figure(mut self, name: &'static str, row: &str, part: f64, highest: Option<f64>) -> Self {
        let row = self.rows.iter().find(|found| found.name == row);
        let Some(row) = row else { unreachable!("{name} is about a row that there is") };
        let which = if part < 1.0 { format!("p{}", part * 100.0) } else { "the highest".to_owned() };
        let (value, spread) = (quantile(&row.figures, part), spread(&row.figures));
        let against = format!("nothing: {}, {which}", row.unit);
        self.ratios.push(Ratio { name, value, spread, against, goal: highest.map(Goal::AtMost) });
        self
    }

    /// One line.
    pub(crate) fn json(&self) -> Result<String, Error> {
        let row = |row: &Row| {
            let (lowest, highest) = spread(&row.figures);
            let [median, lowest, highest] = [row.median(), lowest, highest].map(|figure| rounded(figure, 100.0));
            JsonRow { name: row.name.clone(), unit: row.unit.to_string(), median, lowest, highest }
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
    name: String,
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
            let ((lowest, highest), median, n) = (spread(&row.figures), row.median(), row.unit.decimals());
            writeln!(f, "{:width$}  {median:>10.n$}  {lowest:>10.n$}  {highest:>10.n$}  {}", row.name, row.unit)?;
        }
        let width = self.ratios.iter().map(|ratio| ratio.name.len()).max().unwrap_or(0);
        writeln!(f, "\n{:width$}  {:>7}  {:>7}  {:>7}  {:17}  against", "ratio", "value", "lowest", "highest", "goal")?;
        for Ratio { name, value, spread: (lowest, highest), against, goal } in &self.ratios {
            let goal = goal.map_or_else(String::new, |goal| {
                format!("{goal} {}", if goal.reached(*value) { "reached" } else { "missed" })
            });
            writeln!(f, "{name:width$}  {value:>7.2}  {lowest:>7.2}  {highest:>7.2}  {goal:17}  {against}")?;
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::compare::CompareOptions;

    fn report() -> Report {
        let options = Options {
            scenario: Scenario::Append,
            rounds: 3,
            time: Duration::from_millis(500),
            quick: false,
            compare: CompareOptions::default(),
        };
        let row =
            |name: &str, figures: [f64; 3]| Row { figures: figures.into(), ..Row::new(name, Unit::EventsPerSecond) };
        let rows =
            vec![row("ours", [90.0, 110.0, 100.0]), row("slow", [1.0, 2.0, 3.0]), row("fast", [200.0, 200.0, 250.0])];
        Report::new(&options, rows).compare("ours_vs_raw", "ours", &["slow", "fast"], Some(Goal::AtLeast(0.9)))
    }

    #[test]
    fn the_best_raw_way_counts() {
        let text = report().to_string();
        assert!(text.contains("ours_vs_raw     0.45     0.40     0.55  ≥ 0.90 missed      fast\n"), "{text}");
    }

    #[test]
    fn of_what_has_a_limit_the_highest_counts() {
        let text = report().limit("memory", "ours", 105.0).to_string();
        assert!(text.contains("memory        110.00    90.00   110.00  ≤ 105.00 missed"), "{text}");
    }

    #[test]
    fn programs_get_one_line() {
        let json = report().json().unwrap();
        assert!(!json.contains('\n'));
        assert!(json.contains(r#""ratios":{"ours_vs_raw":0.45}"#), "{json}");
        assert!(json.contains(r#""median":100.0"#), "{json}");
    }
}
