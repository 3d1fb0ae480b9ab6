//! Latencies: how many of a hundred, of a thousand … took at most so long, on two logarithmic axes.

use highwater_pages::escape;

use super::super::figures;
use super::super::results::{Results, Row, Scenario};
use super::axes::{self, Scale};
use super::curves::key;
use super::drawn::{curve, dot};

/// What is marked along the bottom.
const PARTS: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

/// One figure for each case that has distributions.
pub(super) fn plots(results: &Results, scenario: &Scenario) -> String {
    let mut cases: Vec<&str> = Vec::new();
    for row in scenario.rows.iter().filter(|row| !row.distribution.is_empty()) {
        if !cases.contains(&row.case.as_str()) {
            cases.push(&row.case);
        }
    }
    if cases.is_empty() {
        return String::new();
    }
    let figures: String = cases.iter().map(|case| distribution(results, scenario, case)).collect();
    format!("<h3>Distributions</h3>\n<div class=\"plots\">\n{figures}</div>\n{}", key(results, scenario))
}

fn distribution(results: &Results, scenario: &Scenario, case: &str) -> String {
    let rows: Vec<&Row> = scenario.rows.iter().filter(|row| row.case == case && !row.distribution.is_empty()).collect();
    let all = || rows.iter().flat_map(|row| &row.distribution).filter(|(_, micros)| *micros > 0.0);
    let low = all().map(|(_, micros)| micros / 1e3).fold(f64::INFINITY, f64::min);
    let high = all().map(|(_, micros)| micros / 1e3).fold(0.0, f64::max);
    let (x, y) = (Scale::log(1.0, 1.0 / (1.0 - end(&rows))), Scale::decades(low, high));
    let bottom: Vec<_> = PARTS
        .iter()
        .filter(|part| **part < end(&rows))
        .map(|part| (place(x, *part, &rows), format!("{}%", part * 100.0)))
        .chain([(place(x, 1.0, &rows), "max".to_owned())])
        .collect();
    let (mut curves, mut told) = (String::new(), Vec::new());
    for contestant in &results.contestants {
        let Some(row) = rows.iter().find(|row| row.contestant == contestant.id) else { continue };
        let points: Vec<_> =
            row.distribution.iter().map(|(part, micros)| (place(x, *part, &rows), y.y(micros / 1e3))).collect();
        let figures: Vec<String> = [0.5, 0.99, 1.0].iter().filter_map(|part| at(row, *part)).collect();
        told.push(format!("{}: {}", contestant.id, figures.join(", ")));
        let class = curve(&results.contestants, &contestant.id);
        curves += &format!("<g class=\"{class}\"><title>{}</title>{}", escape(&contestant.id), axes::line(&points));
        for (px, py) in marked(row, &points) {
            curves += &dot(&results.contestants, &contestant.id, px, py);
        }
        curves += "</g>";
    }
    // The distribution is of all, whichever percentile the case is named after.
    let title = case.split_once(" at ").map_or(case, |(_, rate)| rate);
    let desc = format!("Latency in ms. {}", told.join("; "));
    let full = format!("{}, {title}", scenario.title);
    let plot = axes::plot((&full, &desc), y, (&bottom, "of the events took at most so long"), &curves);
    super::figure(title, "ms, logarithmic, less is better", &plot)
}

/// Half a step beyond the last percentile that a contestant has: there the highest is drawn.
fn end(rows: &[&Row]) -> f64 {
    let parts = rows.iter().flat_map(|row| &row.distribution).map(|(part, _)| *part);
    let last = parts.filter(|part| *part < 1.0).fold(0.9, f64::max).min(0.999_99);
    1.0 - (1.0 - last) / 4.0
}

fn place(x: Scale, part: f64, rows: &[&Row]) -> f64 {
    x.x(1.0 / (1.0 - part.min(end(rows))))
}

/// The marks that tell curves apart: few, or they would hide them.
fn marked(row: &Row, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let wanted = |part: f64| part >= 1.0 || PARTS.iter().any(|known| (known - part).abs() < 1e-9);
    row.distribution.iter().zip(points).filter(|((part, _), _)| wanted(*part)).map(|(_, point)| *point).collect()
}

fn at(row: &Row, part: f64) -> Option<String> {
    let (_, micros) = row.distribution.iter().find(|(known, _)| (known - part).abs() < 1e-9)?;
    let name = if part < 1.0 { format!("p{}", part * 100.0) } else { "highest".to_owned() };
    Some(format!("{name} {} ms", figures::number(micros / 1e3)))
}
