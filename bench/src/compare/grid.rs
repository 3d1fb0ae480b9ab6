//! A scenario as a table: contestants as lines, cases as columns, and what has to be said below it.

use super::figures;
use super::results::{Contestant, Kind, Results, Row, Scenario};

/// The one that the others mean nothing without.
pub(crate) const CORRECTNESS: &str = "G";

/// A scenario, laid out.
#[derive(Debug)]
pub(crate) struct Grid<'a> {
    pub(crate) columns: Vec<Column<'a>>,
    pub(crate) lines: Vec<Line<'a>>,
    /// Note 1 is the first.
    pub(crate) notes: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Column<'a> {
    pub(crate) title: String,
    case: &'a str,
    at: Option<f64>,
    pub(crate) unit: &'a str,
    pub(crate) higher_is_better: bool,
}

#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) contestant: &'a Contestant,
    /// It lost, reordered or doubled events.
    pub(crate) wrong: bool,
    /// One for each column; none where it was not measured at all.
    pub(crate) cells: Vec<Cell<'a>>,
}

#[derive(Debug)]
pub(crate) struct Cell<'a> {
    /// What was measured, if anything was.
    pub(crate) row: Option<&'a Row>,
    /// The best of the peers in this column.
    pub(crate) best_peer: bool,
    /// The number of its note.
    pub(crate) note: Option<usize>,
}

impl Cell<'_> {
    /// Without the note's number.
    pub(crate) fn text(&self) -> String {
        self.row.and_then(figures::with_spread).unwrap_or_else(|| figures::NOTHING.to_owned())
    }
}

impl<'a> Grid<'a> {
    pub(crate) fn new(results: &'a Results, scenario: &'a Scenario) -> Self {
        let mut grid = Self { columns: columns(scenario), lines: Vec::new(), notes: Vec::new() };
        for contestant in &results.contestants {
            if let Some(line) = grid.line(results, scenario, contestant) {
                grid.lines.push(line);
            }
        }
        grid
    }

    fn line(&mut self, results: &Results, scenario: &'a Scenario, contestant: &'a Contestant) -> Option<Line<'a>> {
        let wrong = went_wrong(results, &contestant.id);
        if contestant.not_measured.is_some() {
            return Some(Line { contestant, wrong, cells: Vec::new() });
        }
        let mut cells = Vec::new();
        for column in 0..self.columns.len() {
            let column = &self.columns[column];
            let row = scenario.rows.iter().find(|row| row.contestant == contestant.id && column.holds(row));
            let note = match row {
                Some(row) => match (&row.note, figures::calls(row)) {
                    (Some(note), Some(calls)) => Some(format!("{note}; {calls}")),
                    (note, calls) => note.clone().or(calls),
                },
                None => missing(scenario, contestant).map(str::to_owned),
            };
            let row = row.filter(|row| !row.samples.is_empty());
            let best = best_peer(results, scenario.rows.iter().filter(|row| column.holds(row)));
            let best_peer = row.is_some_and(|row| best.is_some_and(|best| std::ptr::eq(best, row)));
            cells.push(Cell { row, best_peer, note: note.map(|note| self.note(note)) });
        }
        let something = cells.iter().any(|cell| cell.row.is_some() || cell.note.is_some());
        something.then_some(Line { contestant, wrong, cells })
    }

    /// The number of a note, which is there once however many have it.
    fn note(&mut self, note: String) -> usize {
        if let Some(at) = self.notes.iter().position(|known| *known == note) {
            return at + 1;
        }
        self.notes.push(note);
        self.notes.len()
    }
}

impl Column<'_> {
    pub(crate) fn holds(&self, row: &Row) -> bool {
        row.case == self.case && row.at == self.at
    }
}

fn columns(scenario: &Scenario) -> Vec<Column<'_>> {
    let mut columns: Vec<Column<'_>> = Vec::new();
    for row in &scenario.rows {
        if columns.iter().any(|column| column.holds(row)) {
            continue;
        }
        let (case, at) = (row.case.as_str(), row.at);
        // A case may be there once for each number along the bottom, and say that number or not.
        let ambiguous = scenario.rows.iter().any(|other| other.case == row.case && other.at != row.at);
        let title = match at {
            Some(at) if ambiguous => format!("{case} {}", figures::short(at)),
            _ => case.to_owned(),
        };
        columns.push(Column { title, case, at, unit: &row.unit, higher_is_better: row.higher_is_better });
    }
    columns
}

/// Why there is not even a row.
fn missing<'a>(scenario: &Scenario, contestant: &'a Contestant) -> Option<&'a str> {
    let about = contestant.about.as_ref()?;
    // Who has nothing of the kind is told of once: as documented.
    if contestant.id.contains("+subscriber") || contestant.id.ends_with("-fastest") {
        return None;
    }
    match scenario.id.as_str() {
        "D1" | "E" | CORRECTNESS => about.no_follower.as_deref(),
        "F" => about.no_follower.as_deref().or(about.no_failover.as_deref()),
        _ => None,
    }
}

/// Of these rows the best that a peer has.
pub(crate) fn best_peer<'a>(results: &Results, rows: impl Iterator<Item = &'a Row>) -> Option<&'a Row> {
    best(rows.filter(|row| kind(results, &row.contestant) == Some(Kind::Peer)))
}

/// Of these rows the best.
pub(crate) fn best<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<&'a Row> {
    rows.filter(|row| !row.samples.is_empty()).reduce(|best, row| if better(row, best) { row } else { best })
}

fn better(row: &Row, other: &Row) -> bool {
    match (row.median(), other.median()) {
        (Some(row_median), Some(other)) if row.higher_is_better => row_median > other,
        (Some(row_median), Some(other)) => row_median < other,
        _ => false,
    }
}

pub(crate) fn kind(results: &Results, id: &str) -> Option<Kind> {
    results.contestants.iter().find(|contestant| contestant.id == id).map(|contestant| contestant.kind)
}

/// G first, whatever the order in the file.
pub(crate) fn in_order(results: &Results) -> impl Iterator<Item = &Scenario> {
    let correctness = |scenario: &&Scenario| is_correctness(scenario);
    let rest = results.scenarios.iter().filter(move |scenario| !correctness(scenario));
    results.scenarios.iter().filter(correctness).chain(rest)
}

pub(crate) fn is_correctness(scenario: &Scenario) -> bool {
    scenario.id == CORRECTNESS
}

/// A row of G that counts what must not be, and found some.
pub(crate) fn is_wrong(row: &Row) -> bool {
    !row.higher_is_better && row.spread().is_some_and(|(_, highest)| highest > 0.0)
}

/// Whether a contestant lost, reordered or doubled events. Every round counts.
pub(crate) fn went_wrong(results: &Results, id: &str) -> bool {
    let rows = results.scenarios.iter().filter(|scenario| is_correctness(scenario)).flat_map(|scenario| &scenario.rows);
    rows.filter(|row| row.contestant == id).any(is_wrong)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn notes_are_numbered_and_there_once() {
        let results = sample::results();
        let scenario = in_order(&results).next().unwrap();
        assert_eq!(scenario.id, "G");
        let grid = Grid::new(&results, scenario);
        assert_eq!(grid.columns.len(), 3);
        let raw = grid.lines.iter().find(|line| line.contestant.id == "raw-tokio-postgres").unwrap();
        assert!(raw.cells.iter().all(|cell| cell.row.is_none() && cell.note == Some(1)), "{raw:?}");
        assert_eq!(grid.notes[0], "a driver delivers nothing");
    }

    #[test]
    fn the_best_peer_is_found_by_column() {
        let results = sample::results();
        let scenario = results.scenarios.iter().find(|scenario| scenario.id == "A").unwrap();
        let grid = Grid::new(&results, scenario);
        let best: Vec<_> = grid.lines.iter().filter(|line| line.cells.iter().any(|cell| cell.best_peer)).collect();
        assert_eq!(best.len(), 1);
        assert_eq!(best[0].contestant.id, "other-store");
        let absent = grid.lines.iter().find(|line| line.contestant.id == "absent").unwrap();
        assert!(absent.cells.is_empty());
    }

    #[test]
    fn one_wrong_round_is_wrong() {
        let results = sample::results();
        assert!(went_wrong(&results, "<script>alert(1)</script>"));
        assert!(!went_wrong(&results, "highwater"));
    }

    #[test]
    fn a_case_at_several_numbers_has_a_column_for_each() {
        let results = sample::results();
        let scenario = results.scenarios.iter().find(|scenario| scenario.id == "H").unwrap();
        let titles: Vec<_> = Grid::new(&results, scenario).columns.into_iter().map(|column| column.title).collect();
        assert!(titles.contains(&"index 1M".to_owned()), "{titles:?}");
        assert!(titles.contains(&"append at 1M events".to_owned()), "{titles:?}");
    }
}
