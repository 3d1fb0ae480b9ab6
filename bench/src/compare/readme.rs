//! The table of `README.md`: appends of one event at every number of callers, as the same run found them.

use std::path::Path;

use super::figures;
use super::grid::{best, kind};
use super::performance::put;
use super::results::{Kind, Results, Row};
use super::stores::{HIGHWATER, HIGHWATER_EXECUTE};
use crate::Error;

/// Peers that have a line.
const PEERS: usize = 4;

/// Puts the table between the markers of the document.
pub(crate) fn update(results: &Results, path: &Path) -> Result<(), Error> {
    put(path, &section(results))
}

fn section(results: &Results) -> String {
    let Some(scenario) = results.scenarios.iter().find(|scenario| scenario.id == "A") else { return "\n".to_owned() };
    let mut cases: Vec<&str> = Vec::new();
    for row in &scenario.rows {
        if !cases.contains(&row.case.as_str()) {
            cases.push(&row.case);
        }
    }
    let mut out = format!(
        "\nAppends of one event in a second, from the lowest round to the highest, as measured {} on {} cores with PostgreSQL beside \
         the callers:\n\n| | {} |\n|---|{}\n",
        results.date.split('T').next().unwrap_or_default(),
        results.machine.cores,
        cases.join(" | "),
        "---:|".repeat(cases.len())
    );
    for who in lines(results, &scenario.rows) {
        let cell = |case: &&str| {
            let row = scenario.rows.iter().find(|row| row.contestant == who && row.case == **case);
            row.and_then(figures::range).unwrap_or_else(|| figures::NOTHING.to_owned())
        };
        let cells: Vec<String> = cases.iter().map(cell).collect();
        let strong = if kind(results, &who) == Some(Kind::Highwater) { "**" } else { "" };
        out += &format!("| {strong}{}{strong} | {} |\n", name(&who), cells.join(" | "));
    }
    out += "\n[How it was measured, all other figures, and what each contestant was allowed](docs/performance.md)\n\n";
    out
}

/// Highwater, the best raw driver, and the peers that were fastest with 32 callers, each in its faster way.
fn lines(results: &Results, rows: &[Row]) -> Vec<String> {
    let at = |wanted: Kind| {
        let rows = rows.iter().filter(|row| row.case == "32 callers" && !row.contestant.contains("+subscriber"));
        rows.filter(move |row| kind(results, &row.contestant) == Some(wanted))
    };
    let mut peers: Vec<&Row> = at(Kind::Peer).filter(|row| row.median().is_some()).collect();
    peers.sort_by(|a, b| b.median().unwrap_or(0.0).total_cmp(&a.median().unwrap_or(0.0)));
    let mut lines = vec![HIGHWATER.to_owned(), HIGHWATER_EXECUTE.to_owned()];
    lines.extend(best(at(Kind::Raw)).map(|row| row.contestant.clone()));
    let mut known: Vec<&str> = Vec::new();
    for row in peers {
        let base = row.contestant.trim_end_matches("-fastest");
        if !known.contains(&base) && known.len() < PEERS {
            known.push(base);
            lines.push(row.contestant.clone());
        }
    }
    lines
}

/// For people who have not read more than this.
fn name(id: &str) -> String {
    match id {
        HIGHWATER => "Highwater, `append`".to_owned(),
        HIGHWATER_EXECUTE => "Highwater, `execute`".to_owned(),
        _ if id.starts_with("raw-") => format!("bare INSERTs, {}", id.trim_start_matches("raw-")),
        _ => match id.strip_suffix("-fastest") {
            Some(base) => format!("{base}, its fastest way"),
            None => format!("{id}, as documented"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::compare::performance::between_markers;

    #[test]
    fn the_table_has_ranges_at_every_number_of_callers() {
        let text = section(&sample::results());
        assert!(text.contains("| | 1 caller | 8 callers | 32 callers | 256 callers |\n"), "{text}");
        assert!(text.contains("| **Highwater, `append`** | 9,600–10,200 |"), "{text}");
        assert!(text.contains("| other-store, as documented | 380–420 |"), "{text}");
    }

    #[test]
    fn the_readme_has_its_markers() {
        assert!(between_markers(include_str!("../../../README.md"), "new\n").is_some());
    }
}
