//! Growth: a curve for each contestant over events in the log or processes, on a logarithmic axis.

use highwater_pages::escape;

use super::super::figures;
use super::super::results::{Results, Row, Scenario};
use super::axes::{self, Scale};
use super::drawn::{curve, dot};
use super::{figure, unit};

/// From how many times the lowest on the highest needs a logarithmic axis too.
const LOG_FROM: f64 = 12.0;

/// What belongs on one plot.
struct Family<'a> {
    title: String,
    /// What the numbers along the bottom are.
    along: String,
    rows: Vec<&'a Row>,
}

/// One figure for each thing that grows.
pub(super) fn plots(results: &Results, scenario: &Scenario) -> String {
    let mut out = String::new();
    for family in families(scenario) {
        let Some(row) = family.rows.first() else { continue };
        let unit = unit(&row.unit, row.higher_is_better);
        out += &figure(&family.title, &unit, &svg(results, scenario, &family));
    }
    if out.is_empty() { out } else { format!("<div class=\"plots\">\n{out}</div>\n{}", key(results, scenario)) }
}

/// Rows with a number along the bottom whose cases differ in that number only.
fn families(scenario: &Scenario) -> Vec<Family<'_>> {
    let mut families: Vec<((String, &str), Family<'_>)> = Vec::new();
    for row in scenario.rows.iter().filter(|row| row.at.is_some() && !row.samples.is_empty()) {
        let (before, after) = around_number(&row.case);
        let key = (before.clone(), row.unit.as_str());
        match families.iter_mut().find(|(known, _)| *known == key) {
            Some((_, family)) => {
                family.rows.push(row);
                // `processes`, not `process`.
                if after.len() > family.along.len() {
                    family.along = after;
                }
            }
            None => families.push((key, Family { title: before, along: after, rows: vec![row] })),
        }
    }
    let named = families.into_iter().map(|(_, mut family)| {
        if family.along.is_empty() {
            family.along = "events in the log".to_owned();
        }
        let title = family.title.trim_end_matches([',', ':']);
        let title = title.strip_suffix(" at").or(title.strip_suffix(" with")).unwrap_or(title);
        family.title = format!("{title} by {}", family.along).trim_start().to_owned();
        family
    });
    named.collect()
}

/// `append at 1M events`: what stands before the number, and after it.
fn around_number(case: &str) -> (String, String) {
    let words: Vec<&str> = case.split_whitespace().collect();
    match words.iter().rposition(|word| word.starts_with(|letter: char| letter.is_ascii_digit())) {
        Some(at) => (words[..at].join(" "), words[at + 1..].join(" ")),
        None => (words.join(" "), String::new()),
    }
}

fn svg(results: &Results, scenario: &Scenario, family: &Family<'_>) -> String {
    let all = || family.rows.iter().filter_map(|row| Some((row.at?, row.median()?, row.spread()?)));
    let (left, right) = all().fold((f64::INFINITY, 0.0), |(low, high), (at, ..)| (at.min(low), at.max(high)));
    let low = all().map(|(_, _, (lowest, _))| lowest).fold(f64::INFINITY, f64::min);
    let high = all().map(|(_, _, (_, highest))| highest).fold(0.0, f64::max);
    let log = low > 0.0 && high / low >= LOG_FROM;
    let (x, y) = (Scale::log(left, right), if log { Scale::decades(low, high) } else { Scale::linear(high) });
    let mut places: Vec<f64> = all().map(|(at, ..)| at).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let bottom: Vec<_> = places.iter().map(|at| (x.x(*at), figures::short(*at))).collect();
    let label = format!("{}, logarithmic{}", family.along, if log { "; so is the axis on the left" } else { "" });
    let mut curves = String::new();
    let mut told = Vec::new();
    for contestant in &results.contestants {
        let mut rows: Vec<&&Row> = family.rows.iter().filter(|row| row.contestant == contestant.id).collect();
        rows.sort_by(|a, b| a.at.unwrap_or(0.0).total_cmp(&b.at.unwrap_or(0.0)));
        let found: Vec<_> = rows.iter().filter_map(|row| Some((row.at?, row.median()?, row.spread()?))).collect();
        if found.is_empty() {
            continue;
        }
        let figures: Vec<String> = found
            .iter()
            .map(|(at, median, _)| format!("{} at {}", figures::number(*median), figures::short(*at)))
            .collect();
        told.push(format!("{}: {}", contestant.id, figures.join(", ")));
        curves += &format!(
            "<g class=\"{}\"><title>{}</title>",
            curve(&results.contestants, &contestant.id),
            escape(&contestant.id)
        );
        let points: Vec<_> = found.iter().map(|(at, median, _)| (x.x(*at), y.y(*median))).collect();
        curves += &axes::line(&points);
        for ((_, _, (lowest, highest)), (px, py)) in found.iter().zip(&points) {
            curves += &format!("<path class=\"whisker\" d=\"M{px:.1} {:.1}V{:.1}\"/>", y.y(*lowest), y.y(*highest));
            curves += &dot(&results.contestants, &contestant.id, *px, *py);
        }
        curves += "</g>";
    }
    let title = format!("{}: {}", scenario.title, family.title);
    axes::plot((&title, &told.join("; ")), y, (&bottom, &label), &curves)
}

/// Which curve is whose.
pub(super) fn key(results: &Results, scenario: &Scenario) -> String {
    let mut out = String::new();
    for contestant in &results.contestants {
        let drawn = |row: &Row| row.contestant == contestant.id && (row.at.is_some() || !row.distribution.is_empty());
        if scenario.rows.iter().any(drawn) {
            out += &format!(
                "<span><svg viewBox=\"0 0 22 12\" class=\"{}\" aria-hidden=\"true\">{}{}</svg>{}</span>",
                curve(&results.contestants, &contestant.id),
                axes::line(&[(0.0, 6.0), (22.0, 6.0)]),
                dot(&results.contestants, &contestant.id, 11.0, 6.0),
                escape(&contestant.id)
            );
        }
    }
    highwater_pages::key([], &out)
}

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::*;

    #[test]
    fn cases_that_differ_in_their_number_are_one_curve() {
        let results = sample::results();
        let scenario = results.scenarios.iter().find(|scenario| scenario.id == "H").unwrap();
        let titles: Vec<_> = families(scenario).into_iter().map(|family| (family.title, family.rows.len())).collect();
        let expected = [("append by events", 9), ("index by events in the log", 9), ("append by processes", 8)];
        assert_eq!(titles, expected.map(|(title, rows)| (title.to_owned(), rows)));
    }
}
