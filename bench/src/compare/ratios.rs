//! What the last line says: Highwater against the best of the others, round by round.

use super::results::{Contestant, Goal, Kind, Ratio, Row, Scenario};
use super::stores::{HIGHWATER, HIGHWATER_AGAIN, HIGHWATER_EXECUTE};
use crate::rounds::{median, quantile};

/// Whom it is against.
#[derive(Debug, Clone, Copy)]
enum Against {
    BestOf(Kind),
    /// The same, but in another case.
    BestIn(Kind, &'static str),
    /// Of those that are as documented.
    Documented,
}

/// A ratio by its name: whose it is, scenario, case, against whom, goal.
type Wanted = (&'static str, &'static str, &'static str, &'static str, Against, Option<Goal>);

use Against::{BestIn, BestOf, Documented};
use Goal::{AtLeast, AtMost};

const TOGETHER: &str = "8 processes × 4 callers";

const WANTED: [Wanted; 16] = [
    ("a1_vs_raw", HIGHWATER, "A", "1 caller", BestOf(Kind::Raw), None),
    ("a32_vs_best_peer", HIGHWATER, "A", "32 callers", BestOf(Kind::Peer), Some(AtLeast(3.5))),
    ("a32_vs_raw", HIGHWATER, "A", "32 callers", BestOf(Kind::Raw), Some(AtLeast(1.8))),
    ("a256_vs_raw", HIGHWATER, "A", "256 callers", BestIn(Kind::Raw, "32 callers"), Some(AtLeast(3.0))),
    ("a8x4_vs_best_peer", HIGHWATER, "A", TOGETHER, BestOf(Kind::Peer), None),
    ("a8x4_vs_raw", HIGHWATER, "A", TOGETHER, BestOf(Kind::Raw), None),
    ("a32_execute_vs_documented", HIGHWATER_EXECUTE, "A", "32 callers", Documented, None),
    ("b8_vs_best_peer", HIGHWATER, "B", "8 callers", BestOf(Kind::Peer), Some(AtLeast(1.0))),
    ("b8_vs_raw", HIGHWATER, "B", "8 callers", BestOf(Kind::Raw), Some(AtLeast(0.9))),
    ("d_default_vs_best_peer", HIGHWATER, "D1", "catch-up", BestOf(Kind::Peer), Some(AtLeast(1.0))),
    ("d_default_vs_raw", HIGHWATER, "D1", "catch-up", BestOf(Kind::Raw), Some(AtLeast(0.8))),
    ("d_each_vs_raw", HIGHWATER, "D2", "catch-up", BestOf(Kind::Raw), None),
    ("d_once_vs_best_peer", HIGHWATER, "D3", "catch-up", BestOf(Kind::Peer), None),
    ("d_once_vs_raw", HIGHWATER, "D3", "catch-up", BestOf(Kind::Raw), None),
    ("e_p50_vs_best_peer", HIGHWATER, "E", "p50 at 100 events/s", BestOf(Kind::Peer), Some(AtMost(1.0))),
    ("e_p50_vs_raw", HIGHWATER, "E", "p50 at 100 events/s", BestOf(Kind::Raw), None),
];

/// Highwater against itself: how far apart equals are. The letter says for which scenarios it counts.
const EQUALS: [(&str, &str, &str); 4] = [
    ("aa_a32", "A", "32 callers"),
    ("aa_b8", "B", "8 callers"),
    ("aa_d", "D1", "catch-up"),
    ("aa_e", "E", "p50 at 100 events/s"),
];

/// Sums over all runs of Highwater, whatever its settings.
const SUMS: [(&str, &str); 3] = [("g_lost", "lost"), ("g_out_of_order", "out of order"), ("g_doubled", "doubled")];

/// A case of growth: the first against the last, or against the lowest of all others.
const GROWTH: [(&str, &str, f64); 4] = [
    ("h_append_growth", "append, 32 callers", 0.85),
    ("h_catchup_growth", "catch-up, everything", 0.85),
    ("h_catchup_same_growth", "catch-up, the first 1,000,000", 0.85),
    ("h_processes", "append, processes", 0.9),
];

/// Those of the scenarios that were run.
pub(super) fn of(scenarios: &[Scenario], contestants: &[Contestant]) -> Vec<Ratio> {
    let has = |id: &str| scenarios.iter().any(|scenario| scenario.id == id);
    let kind = |id: &str| contestants.iter().find(|contestant| contestant.id == id).map(|contestant| contestant.kind);
    let rows = |id: &str, case: &str| -> Vec<&Row> {
        let scenario = scenarios.iter().filter(|scenario| scenario.id == id);
        scenario.flat_map(|scenario| &scenario.rows).filter(|row| row.case == case).collect()
    };
    let row = |id: &str, case: &str, who: &str| rows(id, case).into_iter().find(|row| row.contestant == who);
    let equals: Vec<Ratio> = EQUALS
        .iter()
        .filter(|(_, id, _)| has(id))
        .map(|(name, id, case)| ratio(name, row(id, case, HIGHWATER_AGAIN), row(id, case, HIGHWATER), None))
        .collect();
    let compared = WANTED.iter().filter(|(_, _, id, ..)| has(id)).map(|(name, whose, id, case, against, goal)| {
        let (of, other) = match against {
            BestOf(kind) => (*kind, *case),
            BestIn(kind, case) => (*kind, *case),
            Documented => (Kind::Peer, *case),
        };
        let fits = |row: &&Row| {
            let documented = !row.contestant.contains("-fastest") && !row.contestant.contains("+subscriber");
            kind(&row.contestant) == Some(of) && (documented || !matches!(against, Documented))
        };
        let others = rows(id, other).into_iter().filter(fits);
        Ratio { noise: noise(&equals, id), ..ratio(name, row(id, case, whose), best(others), *goal) }
    });
    let sums = SUMS.iter().filter(|_| has("G")).map(|(name, case)| {
        let ours = rows("G", case).into_iter().filter(|row| kind(&row.contestant) == Some(Kind::Highwater));
        sum(name, &ours.collect::<Vec<_>>())
    });
    let growth = GROWTH.iter().filter(|_| has("H")).map(|(name, case, goal)| Ratio {
        noise: noise(&equals, "A"),
        ..grown(name, &rows("H", case), AtLeast(*goal))
    });
    compared.chain(sums).chain(growth).chain(equals.iter().cloned()).collect()
}

/// How far from 1 a round of two equals was at most, in that scenario or else in any.
fn noise(equals: &[Ratio], id: &str) -> Option<f64> {
    let letter = |ratio: &&Ratio| EQUALS.iter().any(|(name, of, _)| *name == ratio.name && of[..1] == id[..1]);
    let apart = |ratio: &Ratio| {
        let far = |quotient: f64| quotient.max(1.0 / quotient) - 1.0;
        Some(far(ratio.lowest?).max(far(ratio.highest?)))
    };
    let own = equals.iter().filter(letter).filter_map(apart).reduce(f64::max);
    own.or_else(|| equals.iter().filter_map(apart).reduce(f64::max))
}

fn best<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<&'a Row> {
    rows.filter(|row| row.median().is_some()).reduce(|a, b| {
        let (first, second) = (a.median().unwrap_or(f64::NAN), b.median().unwrap_or(f64::NAN));
        if (second > first) == a.higher_is_better { b } else { a }
    })
}

fn missing(name: &str, against: String, goal: Option<Goal>) -> Ratio {
    Ratio { name: name.to_owned(), value: None, lowest: None, highest: None, against, goal, noise: None }
}

fn ratio(name: &str, ours: Option<&Row>, best: Option<&Row>, goal: Option<Goal>) -> Ratio {
    let measured = |row: Option<&'_ Row>| row.filter(|row| row.median().is_some()).cloned();
    let (Some(ours), Some(best)) = (measured(ours), measured(best)) else {
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

fn figures(name: &str, single: &[f64], value: f64, against: String, goal: Option<Goal>) -> Ratio {
    Ratio {
        name: name.to_owned(),
        value: Some(value),
        lowest: Some(quantile(single, 0.0)),
        highest: Some(quantile(single, 1.0)),
        against,
        goal,
        noise: None,
    }
}

fn sum(name: &str, ours: &[&Row]) -> Ratio {
    let (against, goal) = ("nothing: the sum of all runs".to_owned(), Some(AtMost(0.0)));
    // One that failed has no runs to speak of, and must not pass for one that lost nothing.
    if ours.is_empty() || ours.iter().any(|row| row.samples.is_empty() || row.note.is_some()) {
        return missing(name, "nothing: a run of Highwater failed".to_owned(), goal);
    }
    let runs: Vec<f64> = ours.iter().flat_map(|row| row.samples.iter().copied()).collect();
    figures(name, &runs, runs.iter().sum(), against, goal)
}

fn grown(name: &str, rows: &[&Row], goal: Goal) -> Ratio {
    let goal = Some(goal);
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
