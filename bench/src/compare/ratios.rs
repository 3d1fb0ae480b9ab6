//! What the last line says: Highwater against the best of the others, round by round.

use super::entrants::Field;
use super::results::{Goal, Kind, Ratio, Row, Scenario};
use super::stores::HIGHWATER;
use crate::rounds::{median, quantile};

/// Whom it is against.
#[derive(Debug, Clone, Copy)]
enum Against {
    BestOf(Kind),
    /// The same, but in another case.
    BestIn(Kind, &'static str),
}

/// A ratio by its name: scenario, case, against whom, goal. Highwater is as by default throughout.
type Wanted = (&'static str, &'static str, &'static str, Against, Goal);

use Against::{BestIn, BestOf};
use Goal::{AtLeast, AtMost};

const WANTED: [Wanted; 8] = [
    ("a32_vs_best_peer", "A", "32 callers", BestOf(Kind::Peer), AtLeast(3.5)),
    ("a32_vs_raw", "A", "32 callers", BestOf(Kind::Raw), AtLeast(1.8)),
    ("a256_vs_raw", "A", "256 callers", BestIn(Kind::Raw, "32 callers"), AtLeast(3.0)),
    ("b8_vs_best_peer", "B", "8 callers", BestOf(Kind::Peer), AtLeast(1.0)),
    ("b8_vs_raw", "B", "8 callers", BestOf(Kind::Raw), AtLeast(0.9)),
    ("d_default_vs_best_peer", "D", "catch-up", BestOf(Kind::Peer), AtLeast(1.0)),
    ("d_default_vs_raw", "D", "catch-up", BestOf(Kind::Raw), AtLeast(0.8)),
    ("e_p50_vs_best_peer", "E", "p50 at 100 events/s", BestOf(Kind::Peer), AtMost(1.0)),
];

/// Sums over all runs of Highwater, whatever its settings.
const SUMS: [(&str, &str); 3] = [("g_lost", "lost"), ("g_out_of_order", "out of order"), ("g_doubled", "doubled")];

/// A case of growth: the first against the last, or against the lowest of all others.
const GROWTH: [(&str, &str, f64); 4] = [
    ("h_append_growth", "append, 32 callers", 0.85),
    ("h_catchup_growth", "catch-up, everything", 0.85),
    ("h_catchup_same_growth", "catch-up, the first 100,000", 0.85),
    ("h_processes", "append, processes", 0.9),
];

/// Those of the scenarios that were run.
pub(super) fn of(scenarios: &[Scenario], field: &Field) -> Vec<Ratio> {
    let has = |id: &str| scenarios.iter().any(|scenario| scenario.id == id);
    let kind = |id: &str| {
        let entrants = field.entrants.iter().chain([&field.coordinated, &field.transactions]);
        entrants.filter(|entrant| entrant.id == id).map(|entrant| entrant.kind).next()
    };
    let rows = |id: &str, case: &str| -> Vec<&Row> {
        let scenario = scenarios.iter().filter(|scenario| scenario.id == id);
        scenario.flat_map(|scenario| &scenario.rows).filter(|row| row.case == case).collect()
    };
    let compared = WANTED.iter().filter(|(_, id, ..)| has(id)).map(|(name, id, case, against, goal)| {
        let (of, other) = match against {
            BestOf(kind) => (*kind, *case),
            BestIn(kind, case) => (*kind, *case),
        };
        let ours = rows(id, case).into_iter().find(|row| row.contestant == HIGHWATER);
        let others = rows(id, other).into_iter().filter(|row| kind(&row.contestant) == Some(of));
        ratio(name, ours, best(others), *goal)
    });
    let sums = SUMS.iter().filter(|_| has("G")).map(|(name, case)| {
        let ours = rows("G", case).into_iter().filter(|row| kind(&row.contestant) == Some(Kind::Highwater));
        sum(name, &ours.collect::<Vec<_>>())
    });
    let growth =
        GROWTH.iter().filter(|_| has("H")).map(|(name, case, goal)| grown(name, &rows("H", case), AtLeast(*goal)));
    compared.chain(sums).chain(growth).collect()
}

fn best<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<&'a Row> {
    rows.filter(|row| row.median().is_some()).reduce(|a, b| {
        let (first, second) = (a.median().unwrap_or(f64::NAN), b.median().unwrap_or(f64::NAN));
        if (second > first) == a.higher_is_better { b } else { a }
    })
}

fn missing(name: &str, against: String, goal: Goal) -> Ratio {
    Ratio { name: name.to_owned(), value: None, lowest: None, highest: None, against, goal: Some(goal) }
}

fn ratio(name: &str, ours: Option<&Row>, best: Option<&Row>, goal: Goal) -> Ratio {
    let (Some(ours), Some(best)) = (ours.filter(|row| row.median().is_some()), best) else {
        return missing(name, "nobody: a side was not measured".to_owned(), goal);
    };
    // Who was too slow for all rounds is compared by the median it has.
    let single: Vec<f64> = match ours.samples.len() == best.samples.len() {
        true => ours.samples.iter().zip(&best.samples).map(|(ours, other)| ours / other).collect(),
        false => ours.samples.iter().map(|ours| ours / median(&best.samples)).collect(),
    };
    let against = format!("{}, {}", best.contestant, best.case);
    figures(name, &single, median(&single), against, goal)
}

fn figures(name: &str, single: &[f64], value: f64, against: String, goal: Goal) -> Ratio {
    Ratio {
        name: name.to_owned(),
        value: Some(value),
        lowest: Some(quantile(single, 0.0)),
        highest: Some(quantile(single, 1.0)),
        against,
        goal: Some(goal),
    }
}

fn sum(name: &str, ours: &[&Row]) -> Ratio {
    let (against, goal) = ("nothing: the sum of all runs".to_owned(), AtMost(0.0));
    // One that failed has no runs to speak of, and must not pass for one that lost nothing.
    if ours.is_empty() || ours.iter().any(|row| row.samples.is_empty() || row.note.is_some()) {
        return missing(name, "nothing: a run of Highwater failed".to_owned(), goal);
    }
    let runs: Vec<f64> = ours.iter().flat_map(|row| row.samples.iter().copied()).collect();
    figures(name, &runs, runs.iter().sum(), against, goal)
}

fn grown(name: &str, rows: &[&Row], goal: Goal) -> Ratio {
    let [first, others @ ..] = rows else { return missing(name, "nothing".to_owned(), goal) };
    let to_first = |row: &&Row| -> Vec<f64> { row.samples.iter().zip(&first.samples).map(|(a, b)| a / b).collect() };
    let lowest = others.iter().map(|row| (to_first(row), row)).min_by(|(a, _), (b, _)| median(a).total_cmp(&median(b)));
    match lowest {
        Some((single, row)) if !single.is_empty() => {
            let size = |row: &Row| row.at.unwrap_or_default();
            let against = format!("{} at {}, against {}", row.case, size(row), size(first));
            figures(name, &single, median(&single), against, goal)
        }
        _ => missing(name, "nothing".to_owned(), goal),
    }
}

/// Whether everything of ours was measured, and nothing was lost: otherwise the run says so with its exit code.
pub(super) fn trouble(scenarios: &[Scenario], ratios: &[Ratio]) -> Option<String> {
    let ours = |row: &&Row| row.contestant.starts_with(HIGHWATER);
    let failed = scenarios.iter().flat_map(|scenario| scenario.rows.iter().filter(ours));
    if let Some(row) = failed.into_iter().find(|row| row.samples.is_empty()) {
        let reason = row.note.as_deref().unwrap_or("it was not measured");
        return Some(format!("{} in the case {:?}: {reason}", row.contestant, row.case));
    }
    let unsafe_runs = ratios.iter().find(|ratio| ratio.name.starts_with("g_") && ratio.value != Some(0.0));
    unsafe_runs.map(|ratio| format!("{} is {:?}, and must be 0", ratio.name, ratio.value))
}
