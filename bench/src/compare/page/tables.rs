//! Tables of the page: scenarios, goals, changes.

use highwater_pages::{escape, table};

use super::super::baseline::{self, Comparison};
use super::super::figures::{self, Verdict};
use super::super::grid::{self, Cell, Column, Grid, Line};
use super::super::results::{Kind, Results, Scenario};

/// A scenario with all its figures and notes.
pub(super) fn scenario(results: &Results, scenario: &Scenario) -> String {
    let (grid, correctness) = (Grid::new(results, scenario), grid::is_correctness(scenario));
    let title = |column: &Column<'_>| {
        let less = if column.higher_is_better { "" } else { ", less is better" };
        format!("#{}<small>{}{less}</small>", escape(&column.title), escape(column.unit))
    };
    let titles: Vec<String> = grid.columns.iter().map(title).collect();
    let titles: Vec<&str> = ["contestant"].into_iter().chain(titles.iter().map(String::as_str)).collect();
    let rows: String = grid.lines.iter().map(|line| row(line, grid.columns.len(), correctness)).collect();
    let mut out = table(&format!("Figures of {}", scenario.title), "", &titles, &rows);
    if !grid.notes.is_empty() {
        let notes: String = grid.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
        out += &format!("<ol class=\"notes\">{notes}</ol>\n");
    }
    out
}

fn row(line: &Line<'_>, columns: usize, correctness: bool) -> String {
    let class = match line.contestant.kind {
        Kind::Highwater => "ours",
        Kind::Raw => "raw",
        Kind::Peer => "peer",
    };
    let wrong = if line.wrong {
        " <span class=\"badge bad\" title=\"lost, reordered or doubled events in G\">!</span>"
    } else {
        ""
    };
    let mut out = format!("<tr class=\"{class}\"><th scope=\"row\">{}{wrong}</th>", escape(&line.contestant.id));
    if let Some(why) = &line.contestant.not_measured {
        out += &format!("<td class=\"none w\" colspan=\"{columns}\">not measured: {}</td>", escape(why));
    }
    for cell in &line.cells {
        out += &self::cell(cell, correctness);
    }
    out + "</tr>\n"
}

fn cell(cell: &Cell<'_>, correctness: bool) -> String {
    let class = match cell.row {
        None => " none",
        Some(row) if correctness && grid::is_wrong(row) => " wrong",
        Some(row) if correctness && !row.higher_is_better => " right",
        Some(_) if cell.best_peer && !correctness => " best",
        Some(_) => "",
    };
    let note = cell.note.map_or_else(String::new, |note| format!("<sup>{note}</sup>"));
    format!("<td class=\"n{class}\">{}{note}</td>", escape(&cell.text()))
}

/// What was to be reached, and what was.
pub(super) fn goals(results: &Results) -> String {
    let mut rows = String::new();
    for ratio in &results.ratios {
        let badge = figures::verdict(ratio).map_or_else(String::new, |verdict| {
            let class = match verdict {
                Verdict::Reached => "good",
                Verdict::Missed => "bad",
                Verdict::WithinNoise | Verdict::NotMeasured => "none",
            };
            format!(" <span class=\"badge {class}\">{}</span>", verdict.text())
        });
        rows += &format!(
            "<tr><th scope=\"row\"><code>{}</code></th><td>{}{badge}</td><td class=\"n\">{}</td><td>{}</td></tr>\n",
            escape(&ratio.name),
            escape(&figures::goal(ratio)),
            escape(&figures::ratio(ratio)),
            escape(&ratio.against)
        );
    }
    let titles = ["ratio", "goal", "#value<small>lowest–highest round</small>", "against"];
    table("Ratios and goals", "tight", &titles, &rows)
}

/// What is different from an earlier run.
pub(super) fn changes(comparison: &Comparison) -> String {
    let mut out: String = comparison
        .warnings
        .iter()
        .map(|warning| format!("<p class=\"warning\"><strong>Warning:</strong> {}</p>\n", escape(warning)))
        .collect();
    out += &format!("<p>{}</p>\n", escape(baseline::METHOD));
    out += &format!("<p>{} of {} rows changed.</p>\n", comparison.changes.len(), comparison.compared);
    if comparison.changes.is_empty() {
        return out;
    }
    let mut rows = String::new();
    for change in &comparison.changes {
        let (class, told) = if change.better { ("good", "better") } else { ("bad", "worse") };
        rows += &format!(
            "<tr><td>{} · {}</td><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td><span class=\"badge {class}\">{told}</span></td><td>{}</td></tr>\n",
            escape(&change.scenario),
            escape(&change.case),
            escape(&change.contestant),
            escape(&change.before.text()),
            escape(&change.now.text()),
            escape(&change.text()),
            escape(&change.basis())
        );
    }
    let titles = ["case", "contestant", "#before", "#now", "#change", "", "figures"];
    out + &table("Changes", "tight", &titles, &rows)
}
