//! Tables for people: aligned, and cut where the terminal ends.

use crate::terminal::{self, Paint};
use crate::words;

/// A table. Its columns are as wide as what is in them.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

struct Column {
    title: &'static str,
    right: bool,
}

/// One cell, in a colour where there are colours.
pub(crate) struct Cell {
    text: String,
    paint: Option<Paint>,
}

impl<T: ToString> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: words::one_line(&text.to_string()), paint: None }
    }
}

impl Cell {
    pub(crate) fn painted(text: impl ToString, paint: Paint) -> Self {
        Self { paint: Some(paint), ..Self::from(text.to_string()) }
    }
}

impl Table {
    /// Titles that begin with `>` stand over columns that are aligned to the right.
    pub(crate) fn new(titles: &[&'static str]) -> Self {
        let column = |title: &&'static str| match title.strip_prefix('>') {
            Some(title) => Column { title, right: true },
            None => Column { title, right: false },
        };
        Self { columns: titles.iter().map(column).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<_> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for every column");
        self.rows.push(cells);
    }

    pub(crate) fn lines(&self, colour: bool, width: Option<usize>) -> Vec<String> {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| column.title.len()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
        let titles: Vec<Cell> = self.columns.iter().map(|column| Cell::painted(column.title, Paint::Bold)).collect();
        let all = std::iter::once(&titles).chain(&self.rows);
        all.map(|row| self.line(row, &widths, colour, width)).collect()
    }

    fn line(&self, row: &[Cell], widths: &[usize], colour: bool, limit: Option<usize>) -> String {
        let mut line = String::new();
        let mut used = 0;
        for (index, (cell, column)) in row.iter().zip(&self.columns).enumerate() {
            let last = index + 1 == row.len();
            let padding = " ".repeat(widths[index] - cell.text.chars().count());
            // Nothing is padded at the end of a line, and what is beyond the edge of the terminal is left out.
            let mut text = cell.text.clone();
            let room = limit.map(|limit| limit.saturating_sub(used + if column.right { padding.len() } else { 0 }));
            if let Some(room) = room {
                text = terminal::cut(&text, room);
            }
            used += widths[index] + 2;
            let text = match cell.paint {
                Some(paint) if colour && !text.is_empty() => paint.over(&text),
                _ => text,
            };
            match (column.right, last) {
                (true, true) => line.push_str(&format!("{padding}{text}")),
                (true, false) => line.push_str(&format!("{padding}{text}  ")),
                (false, true) => line.push_str(&text),
                (false, false) => line.push_str(&format!("{text}{padding}  ")),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["name", ">events", "error"]);
        table.row(["a".into(), 12.into(), "".into()]);
        table.row(["longer".into(), 1_000.into(), Cell::painted("broken\nin two", Paint::Red)]);
        table
    }

    #[test]
    fn columns_are_aligned_and_nothing_trails() {
        let lines = table().lines(false, None);
        assert_eq!(lines, ["name    events  error", "a           12", "longer    1000  broken\\nin two"]);
    }

    #[test]
    fn colours_do_not_count_as_width_and_the_edge_cuts() {
        let lines = table().lines(true, Some(18));
        assert_eq!(lines[2], "longer    1000  \u{1b}[31mb…\u{1b}[0m");
    }
}
