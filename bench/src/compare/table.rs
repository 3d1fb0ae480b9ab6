//! What a run found, in the terminal: correctness first, then each scenario, the goals, what changed, and one line of JSON.

mod layout;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use self::layout::{Paint, Part, columns};
use super::baseline::{self, Comparison};
use super::figures::{self, Verdict};
use super::grid::{self, Cell, Grid, Line};
use super::results::{Contestant, Kind, Results, Scenario};
use crate::Error;

/// How wide a line may be.
const WIDTH: usize = 120;

/// Prints everything to standard output, in colour on a terminal; the last line is one JSON object.
pub(crate) fn print(results: &Results, baseline: Option<&Results>) -> Result<(), Error> {
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let text = render(results, baseline, Paint { colour });
    let mut out = io::stdout().lock();
    writeln!(out, "{text}{}", last_line(results)?)?;
    Ok(out.flush()?)
}

/// For programs.
pub(crate) fn last_line(results: &Results) -> Result<String, Error> {
    let names = |wanted: Verdict| {
        let found = results.ratios.iter().filter(move |ratio| figures::verdict(ratio) == Some(wanted));
        found.map(|ratio| ratio.name.as_str()).collect()
    };
    let round = |figure: f64| (figure * 1_000.0).round() / 1_000.0;
    let wrong = results.contestants.iter().filter(|contestant| grid::went_wrong(results, &contestant.id));
    Ok(serde_json::to_string(&LastLine {
        scenario: "compare",
        ratios: results.ratios.iter().map(|ratio| (ratio.name.as_str(), ratio.value.map(round))).collect(),
        reached: names(Verdict::Reached),
        missed: names(Verdict::Missed),
        wrong: wrong.map(|contestant| contestant.id.as_str()).collect(),
        quick: results.quick,
        commit: &results.commit,
        date: &results.date,
    })?)
}

#[derive(Serialize)]
struct LastLine<'a> {
    scenario: &'static str,
    ratios: BTreeMap<&'a str, Option<f64>>,
    /// Goals.
    reached: Vec<&'a str>,
    missed: Vec<&'a str>,
    /// Who lost, reordered or doubled events.
    wrong: Vec<&'a str>,
    quick: bool,
    commit: &'a str,
    date: &'a str,
}

fn render(results: &Results, baseline: Option<&Results>, paint: Paint) -> String {
    let mut out = heading(results, paint);
    for scenario in grid::in_order(results) {
        out += &table(results, scenario, paint);
    }
    out += &ratios(results, paint);
    if let Some(earlier) = baseline {
        out += &changes(&baseline::compare(results, earlier), paint);
    }
    out
}

fn heading(results: &Results, paint: Paint) -> String {
    let machine = &results.machine;
    let quick = if results.quick { paint.bad(" QUICK: these figures say little.") } else { String::new() };
    let mut out =
        format!("{}{quick}\n", paint.strong(&format!("Highwater {} beside others, {}", results.commit, results.date)));
    let (before, after) = machine.commit_micros;
    let line = format!(
        "{}, {} cores, {} GB; {}; {}; a commit takes {} µs before, {} µs after; {} in all",
        machine.processor,
        machine.cores,
        machine.memory_gigabytes,
        machine.kernel,
        machine.postgres,
        figures::number(before.round()),
        figures::number(after.round()),
        figures::duration(results.seconds)
    );
    out += &layout::wrap(&line, "", WIDTH);
    out += &layout::wrap(
        "Median of the rounds; ±: how far from it a round was at most. ▸ Highwater, * the best of the other libraries, \
         ! lost, reordered or doubled events in G: its rates are those of another task. ↓ less is better; — has none; small numbers are notes.",
        "",
        WIDTH,
    );
    out
}

fn table(results: &Results, scenario: &Scenario, paint: Paint) -> String {
    let grid = Grid::new(results, scenario);
    let mut out = format!("\n{}  {}\n", paint.strong(&format!("{}  {}", scenario.id, scenario.title)), scenario.sizes);
    let mut head: Vec<Vec<String>> = vec![Vec::new(); 2];
    for column in &grid.columns {
        head[0].push(format!("{} ", column.title));
        head[1].push(format!("{}{} ", column.unit, if column.higher_is_better { "" } else { " ↓" }));
    }
    let correctness = grid::is_correctness(scenario);
    let measured: Vec<&Line<'_>> = grid.lines.iter().filter(|line| line.contestant.not_measured.is_none()).collect();
    let lines =
        measured.iter().map(|line| (name(line), line.cells.iter().map(|cell| part(cell, line, correctness)).collect()));
    out += &columns(&head, &lines.collect::<Vec<_>>(), WIDTH, paint);
    for line in &grid.lines {
        if let Some(why) = &line.contestant.not_measured {
            let name = &line.contestant.id;
            out +=
                &paint.faint(&layout::wrap(&format!("  {name}: not measured: {}", layout::plain(why)), "    ", WIDTH));
        }
    }
    for (at, note) in grid.notes.iter().enumerate() {
        out += &paint.faint(&layout::wrap(
            &format!("  {} {}", layout::superscript(at + 1), layout::plain(note)),
            "    ",
            WIDTH,
        ));
    }
    out
}

fn name(line: &Line<'_>) -> Part {
    let Contestant { id, kind, .. } = line.contestant;
    let mark = if *kind == Kind::Highwater { "▸ " } else { "  " };
    let wrong = if line.wrong { " !" } else { "" };
    let part = Part::new(format!("{mark}{}{wrong}", layout::plain(id)));
    match kind {
        _ if line.wrong => part.bad(),
        Kind::Highwater => part.strong(),
        Kind::Raw => part.faint(),
        Kind::Peer => part,
    }
}

fn part(cell: &Cell<'_>, line: &Line<'_>, correctness: bool) -> Part {
    let note = cell.note.map(layout::superscript).unwrap_or_default();
    let best = if cell.best_peer && !correctness { "*" } else { " " };
    // Figures stand below each other, with or without a mark.
    let part = Part::new(format!("{}{note}{best}", cell.text()));
    match cell.row {
        None => part.faint(),
        Some(row) if correctness && grid::is_wrong(row) => part.bad(),
        Some(row) if correctness && !row.higher_is_better => part.good(),
        Some(_) if line.contestant.kind == Kind::Highwater => part.strong(),
        Some(_) => part,
    }
}

fn ratios(results: &Results, paint: Paint) -> String {
    let head = [["value", "goal", "", "against"].map(str::to_owned).to_vec()];
    let lines = results.ratios.iter().map(|ratio| {
        let verdict = figures::verdict(ratio);
        let told = Part::new(verdict.map_or("", Verdict::text).to_owned());
        let told = match verdict {
            Some(Verdict::Reached) => told.good(),
            Some(Verdict::Missed) => told.bad(),
            _ => told.faint(),
        };
        let cells = vec![
            Part::new(figures::ratio(ratio)),
            Part::new(figures::goal(ratio)),
            told,
            Part::new(layout::plain(&ratio.against)),
        ];
        (Part::new(format!("  {}", ratio.name)), cells)
    });
    let lines: Vec<_> = lines.collect();
    let mut out = format!("\n{}\n", paint.strong("Ratios and goals"));
    out += &columns(&head, &lines, WIDTH, paint);
    let count = |wanted| results.ratios.iter().filter(|ratio| figures::verdict(ratio) == Some(wanted)).count();
    let [reached, missed, unsure, open] =
        [Verdict::Reached, Verdict::Missed, Verdict::WithinNoise, Verdict::NotMeasured].map(count);
    out + &format!("  {reached} reached, {missed} missed, {unsure} within the noise, {open} not measured\n")
}

fn changes(comparison: &Comparison, paint: Paint) -> String {
    let mut out = format!("\n{}\n", paint.strong(&format!("Since {}", comparison.earlier)));
    for warning in &comparison.warnings {
        out += &paint.bad(&layout::wrap(&format!("  Warning: {}", layout::plain(warning)), "    ", WIDTH));
    }
    out += &layout::wrap(baseline::METHOD, "", WIDTH);
    let head = [["before", "now", "change", "", "figures"].map(str::to_owned).to_vec()];
    let lines = comparison.changes.iter().map(|change| {
        let told =
            if change.better { Part::new("better".to_owned()).good() } else { Part::new("worse".to_owned()).bad() };
        let cells = vec![
            Part::new(change.before.text()),
            Part::new(change.now.text()),
            Part::new(change.text()),
            told,
            Part::new(layout::plain(&change.basis())),
        ];
        (
            Part::new(format!(
                "  {} {} · {}",
                change.scenario,
                layout::plain(&change.case),
                layout::plain(&change.contestant)
            )),
            cells,
        )
    });
    let lines: Vec<_> = lines.collect();
    if !lines.is_empty() {
        out += &columns(&head, &lines, WIDTH, paint);
    }
    let told = comparison.changes.len();
    out + &format!("  {told} of {} rows changed\n", comparison.compared)
}

#[cfg(test)]
mod tests;
