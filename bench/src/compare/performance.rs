//! The measured part of `docs/performance.md`: Markdown between two markers, so that the rest is written by people.

use std::fs;
use std::path::Path;

use super::figures::{self, Verdict};
use super::grid::{self, Cell, Grid, Line};
use super::results::{Kind, Results, Scenario};
use crate::Error;

const BEGIN: &str = "<!-- measured -->";
const END: &str = "<!-- /measured -->";

/// Puts what was measured between the markers of a document.
pub(crate) fn update(results: &Results, path: &Path) -> Result<(), Error> {
    put(path, &section(results))
}

/// Puts a part between the markers of a document.
pub(super) fn put(path: &Path, part: &str) -> Result<(), Error> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let text = between_markers(&text, part).ok_or_else(|| {
        format!("{shown} has no lines `{BEGIN}` and, after it, `{END}`, once each: what was measured goes between")
    })?;
    fs::write(path, text).map_err(|error| format!("{shown} cannot be written: {error}"))?;
    Ok(())
}

/// The text with another part between its markers, each of which has a line of its own.
pub(super) fn between_markers(text: &str, part: &str) -> Option<String> {
    let is = |marker: &'static str| move |line: &&str| line.trim_end() == marker;
    let single = |marker| text.lines().filter(is(marker)).count() == 1;
    if !single(BEGIN) || !single(END) {
        return None;
    }
    let mut lines = text.lines();
    let before: Vec<&str> = lines.by_ref().take_while(|line| line.trim_end() != BEGIN).collect();
    let mut after = lines.skip_while(|line| line.trim_end() != END);
    after.next()?;
    let [before, after] =
        [before, after.collect()].map(|lines| lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    Some(format!("{before}{BEGIN}\n{part}{END}\n{after}"))
}

fn section(results: &Results) -> String {
    let mut out = heading(results);
    for scenario in grid::in_order(results) {
        out += &table(results, scenario);
    }
    out += &ratios(results);
    out + &contestants(results)
}

fn heading(results: &Results) -> String {
    let machine = &results.machine;
    let (before, after) = machine.commit_micros;
    let mut quick = String::new();
    if results.quick {
        quick += "\n**A quick run: these figures show that it works, and no more.**\n";
    }
    if !results.complete {
        quick += "\n**The run was interrupted: what it had measured until then.**\n";
    }
    format!(
        "\nMeasured {} at commit `{}`, in {}: {}, {} cores, {} GB, {}, {}. A commit took {} µs before the run and {} µs after it.\n{quick}\n\
         Medians of the rounds; ± is how far from it a round was at most. Bold is Highwater, an asterisk the best of the other \
         libraries, — what a contestant has none for. A contestant with (!) lost, reordered or doubled events in G: its other \
         figures are those of another task. A row without an ending is a contestant as its documentation has it, `-fastest` the \
         fastest way that its public interface has, `+subscriber` the same with what a subscriber installs; \
         `highwater-again` is Highwater once more, which shows the noise.\n",
        results.date,
        escape(&results.commit),
        figures::duration(results.seconds),
        escape(&machine.processor),
        machine.cores,
        machine.memory_gigabytes,
        escape(&machine.kernel),
        escape(&machine.postgres),
        figures::number(before.round()),
        figures::number(after.round())
    )
}

fn table(results: &Results, scenario: &Scenario) -> String {
    let grid = Grid::new(results, scenario);
    let correctness = grid::is_correctness(scenario);
    let mut out = format!("\n### {}: {}\n\n{}\n\n|  |", scenario.id, escape(&scenario.title), escape(&scenario.sizes));
    for column in &grid.columns {
        let less = if column.higher_is_better { "" } else { " ↓" };
        out += &format!(" {}, {}{less} |", escape(&column.title), escape(column.unit));
    }
    out += &format!("\n|---|{}\n", "---:|".repeat(grid.columns.len()));
    for line in grid.lines.iter().filter(|line| line.contestant.not_measured.is_none()) {
        out += &row(line, correctness);
    }
    if grid.columns.iter().any(|column| !column.higher_is_better) && !correctness {
        out += "\n↓ less is better\n";
    }
    // Numbers of notes are plain text, so that they stay what the table says.
    for (at, note) in grid.notes.iter().enumerate() {
        out += &format!("\n({}) {}\n", at + 1, escape(note));
    }
    out
}

fn row(line: &Line<'_>, correctness: bool) -> String {
    let ours = line.contestant.kind == Kind::Highwater;
    let strong = |text: String| if ours { format!("**{text}**") } else { text };
    let wrong = if line.wrong { " (!)" } else { "" };
    let cell = |cell: &Cell<'_>| {
        let note = cell.note.map_or_else(String::new, |note| format!(" ({note})"));
        let best = if cell.best_peer && !correctness { " \\*" } else { "" };
        format!(" {}{best}{note} |", strong(cell.text()))
    };
    let cells: String = line.cells.iter().map(cell).collect();
    format!("| {}{wrong} |{cells}\n", strong(escape(&line.contestant.id)))
}

fn ratios(results: &Results) -> String {
    let mut out = String::from(
        "\n### Ratios\n\n| ratio | value (lowest–highest) | goal |  | against |\n|---|---:|---:|---|---|\n",
    );
    for ratio in &results.ratios {
        let verdict = match figures::verdict(ratio) {
            Some(Verdict::Missed) => "**missed**".to_owned(),
            Some(Verdict::WithinNoise) => {
                format!("within the noise (±{:.0}%)", ratio.noise.unwrap_or_default() * 100.0)
            }
            Some(verdict) => verdict.text().to_owned(),
            None => String::new(),
        };
        let (value, goal) = (figures::ratio(ratio), figures::goal(ratio));
        out += &format!("| `{}` | {value} | {goal} | {verdict} | {} |\n", escape(&ratio.name), escape(&ratio.against));
    }
    out
}

fn contestants(results: &Results) -> String {
    let mut out = String::from("\n### Contestants: what each was allowed, and what its maintainer would object to\n");
    let special = |id: &str| id.contains("-fastest") || id.contains("+subscriber");
    for contestant in results.contestants.iter().filter(|contestant| !special(&contestant.id)) {
        out += &format!("\n**{}**", escape(&contestant.id));
        if let Some(why) = &contestant.not_measured {
            out += &format!(": not measured: {}\n", escape(why));
            continue;
        }
        let Some(about) = &contestant.about else { continue };
        out += &format!(" ({}; follows {})\n\n", escape(&about.versions), escape(&about.page));
        let mut tell = |what: &str, text: &str| {
            if !text.is_empty() {
                out += &format!("- {what}{}\n", escape(text));
            }
        };
        tell("As documented: ", &about.documented);
        // The way it ended up with is told of by that row.
        let fastest = results.contestants.iter().find(|other| other.id == format!("{}-fastest", contestant.id));
        let fastest = fastest.and_then(|other| other.about.as_ref()).unwrap_or(about);
        tell("Fastest: ", fastest.fastest.as_deref().unwrap_or_default());
        tell("A subscriber installs: ", about.installs.as_deref().unwrap_or_default());
        tell("No subscribers: ", about.no_follower.as_deref().unwrap_or_default());
        tell("No takeover: ", about.no_failover.as_deref().filter(|_| about.no_follower.is_none()).unwrap_or_default());
        about.notes.iter().for_each(|note| tell("", note));
        if contestant.kind == Kind::Peer {
            tell("Its maintainer would object: ", &about.objection);
        }
    }
    out + "\n"
}

/// Text that stays text in Markdown, also within a table.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '|' | '*' | '[' | ']' | '\\' | '`' => {
                safe.push('\\');
                safe.push(letter);
            }
            letter if letter.is_control() => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn wins_and_losses_are_told_and_correctness_first() {
        let text = section(&sample::results());
        let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("no {needle} in {text}"));
        assert!(at("### G: Nothing lost") < at("### A: Append one event"));
        assert!(text.contains("| **highwater** | **0** | **0** | **0** |"), "{text}");
        assert!(text.contains("| `a1_vs_raw` | 0.61 (0.55–0.73) | ≥ 0.9 | **missed** | other-store |"), "{text}");
        assert!(text.contains("2,000 ±5% \\*"), "{text}");
        assert!(text.contains("**absent**: not measured: error: no such &lt;package&gt; \\| found\n"), "{text}");
        assert!(text.contains("- Its maintainer would object: it is &lt;slow&gt; here\n"), "{text}");
        assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt; (!)") && !text.contains("<script"), "{text}");
    }

    #[test]
    fn every_line_of_a_table_has_as_many_cells() {
        let text = section(&sample::results()).replace("\\|", "");
        let mut width = None;
        for line in text.lines() {
            let cells = line.starts_with('|').then(|| line.matches('|').count());
            assert!(width.is_none() || cells.is_none() || cells == width, "{line}");
            width = cells;
        }
    }

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let updated = between_markers(&text, "new\n").unwrap();
        assert_eq!(updated, format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
        assert_eq!(between_markers(&updated, "new\n").unwrap(), updated);
        for wrong in ["", BEGIN, END, &format!("{END}\n{BEGIN}\n"), &format!("{text}{text}")] {
            assert_eq!(between_markers(wrong, "new\n"), None, "{wrong}");
        }
    }

    #[test]
    fn the_document_has_its_markers() {
        let document = include_str!("../../../docs/performance.md");
        assert!(between_markers(document, "new\n").is_some_and(|updated| updated.contains("## Limits")));
    }
}
