//! A case as bars, with whiskers from the lowest round to the highest.

use highwater_pages::{cut, escape, label};

use super::super::figures;
use super::super::grid::{self, Grid};
use super::super::results::{Contestant, Kind, Results, Row, Scenario};
use super::drawn::fill;
use super::{figure, unit};

const WIDTH: f64 = 460.0;
/// Where bars begin, and where the longest ends.
const LEFT: f64 = 158.0;
const RIGHT: f64 = 356.0;
const STEP: f64 = 26.0;
const THICK: f64 = 15.0;
const NAME_MAX: usize = 21;

/// One figure for each case that has any.
pub(super) fn plots(results: &Results, scenario: &Scenario) -> String {
    let grid = Grid::new(results, scenario);
    let mut out = String::new();
    for (at, column) in grid.columns.iter().enumerate() {
        let bars: Vec<(&Contestant, &Row, bool)> = grid
            .lines
            .iter()
            .filter_map(|line| {
                let cell = line.cells.get(at)?;
                Some((line.contestant, cell.row?, cell.best_peer))
            })
            .collect();
        // What has a number along the bottom is a curve.
        if bars.is_empty() || bars.iter().all(|(_, row, _)| row.at.is_some()) {
            continue;
        }
        let unit = unit(column.unit, column.higher_is_better);
        let plot = svg(&format!("{}: {}", scenario.title, column.title), &unit, &bars, results);
        out += &figure(&column.title, &unit, &plot);
    }
    if out.is_empty() { out } else { format!("<div class=\"plots\">\n{out}</div>\n") }
}

fn svg(title: &str, unit: &str, bars: &[(&Contestant, &Row, bool)], results: &Results) -> String {
    let top = bars.iter().filter_map(|(_, row, _)| Some(row.spread()?.1)).fold(0.0, f64::max);
    let height = STEP * bars.len() as f64 + 6.0;
    let told: Vec<String> = bars
        .iter()
        .map(|(who, row, _)| format!("{} {}", who.id, figures::with_spread(row).unwrap_or_default()))
        .collect();
    let mut out = format!("<path class=\"axis\" d=\"M{LEFT} 2V{}\"/>", height - 2.0);
    for (at, (who, row, best_peer)) in bars.iter().enumerate() {
        out += &bar(who, row, *best_peer, STEP * at as f64 + 4.0, top, results);
    }
    highwater_pages::svg((WIDTH, height), title, &format!("{unit}. {}.", told.join("; ")), &out)
}

fn bar(who: &Contestant, row: &Row, best_peer: bool, y: f64, top: f64, results: &Results) -> String {
    let Some((median, (lowest, highest))) = row.median().zip(row.spread()) else { return String::new() };
    let scale = |figure: f64| if top > 0.0 { LEFT + figure.max(0.0) / top * (RIGHT - LEFT) } else { LEFT };
    let (middle, base) = (y + THICK / 2.0, y + THICK / 2.0 + 4.2);
    let strong = if who.kind == Kind::Highwater { " strong" } else { "" };
    let wrong = if grid::went_wrong(results, &who.id) { " !" } else { "" };
    let text = figures::with_spread(row).unwrap_or_default();
    let mut out = format!("<g><title>{}: {} {}</title>", escape(&who.id), escape(&text), escape(&row.unit));
    out += &label(&format!("end{strong}"), (LEFT - 8.0, base), &(cut(&who.id, NAME_MAX) + wrong));
    out += &format!(
        "<rect class=\"{}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{THICK}\" rx=\"2\"/>",
        fill(who, best_peer),
        (scale(median) - LEFT).max(1.0)
    );
    if highest > lowest {
        let (from, to) = (scale(lowest), scale(highest));
        let (up, down) = (middle - 3.5, middle + 3.5);
        out += &format!(
            "<path class=\"whisker\" d=\"M{from:.1} {middle:.1}H{to:.1}M{from:.1} {up:.1}V{down:.1}M{to:.1} {up:.1}V{down:.1}\"/>"
        );
    }
    out + &label(&format!("end num{strong}"), (WIDTH, base), &text) + "</g>"
}
