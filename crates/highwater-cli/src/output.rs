//! What goes to stdout: text for people, or JSON for programs, one value a line.

use std::io::{self, BufWriter, Stdout, Write};

use serde::Serialize;

use crate::failure::Failure;
use crate::table::Table;
use crate::terminal::{self, Paint};

/// The output of a command. What is left in it is written by [`finish`](Self::finish).
pub(crate) struct Output {
    writer: BufWriter<Stdout>,
    pub(crate) json: bool,
    colour: bool,
    /// Where lines are cut; none without a terminal.
    width: Option<usize>,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let width = terminal::stdout_width();
        Self { writer: BufWriter::new(io::stdout()), json, colour: terminal::wants_colour(), width }
    }

    /// One line of text.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.writer.write_all(text.as_bytes())?;
        self.writer.write_all(b"\n")?;
        Ok(())
    }

    /// One line that is cut where the terminal ends.
    pub(crate) fn row(&mut self, text: &str) -> Result<(), Failure> {
        match self.width {
            Some(width) => self.line(&terminal::cut(text, width)),
            None => self.line(text),
        }
    }

    /// One value as a line of JSON.
    pub(crate) fn value(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.writer, value).map_err(io::Error::from)?;
        self.writer.write_all(b"\n")?;
        Ok(())
    }

    pub(crate) fn table(&mut self, table: &Table) -> Result<(), Failure> {
        for line in table.lines(self.colour, self.width) {
            self.line(&line)?;
        }
        Ok(())
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.writer.write_all(bytes)?)
    }

    pub(crate) fn paint(&self, text: &str, paint: Paint) -> String {
        if self.colour { paint.over(text) } else { text.to_owned() }
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.writer.flush()?)
    }

    /// Writes what is left, so that a full disk or a closed pipe is noticed.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.flush()
    }
}
