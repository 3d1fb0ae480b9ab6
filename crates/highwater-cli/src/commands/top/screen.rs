//! The terminal while it is ours. It is restored on every exit, a panic included.

use std::io::{self, Stdout, Write as _};

use crossterm::cursor::{Hide, MoveTo};
use crossterm::queue;
use crossterm::style::Print;
use crossterm::terminal::{self as term, Clear, ClearType, EnterAlternateScreen};

use crate::failure::Failure;
use crate::terminal;

/// The alternate screen, in raw mode.
pub(crate) struct Screen {
    stdout: Stdout,
    colour: bool,
}

impl Screen {
    pub(crate) fn open() -> Result<Self, Failure> {
        terminal::taken();
        let mut screen = Self { stdout: io::stdout(), colour: terminal::wants_colour() };
        term::enable_raw_mode().map_err(|error| Failure::refused(format!("the terminal cannot be used: {error}")))?;
        queue!(screen.stdout, EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Draws the lines that `frame` makes for the terminal as it is now.
    pub(crate) fn draw(&mut self, frame: impl FnOnce((usize, usize), bool) -> Vec<String>) -> io::Result<()> {
        let (width, height) = term::size()?;
        let size = (usize::from(width).max(1), usize::from(height).max(1));
        for (row, line) in frame(size, self.colour).into_iter().take(size.1).enumerate() {
            let row = u16::try_from(row).unwrap_or(u16::MAX);
            queue!(self.stdout, MoveTo(0, row), Print(line), Clear(ClearType::UntilNewLine))?;
        }
        queue!(self.stdout, Clear(ClearType::FromCursorDown))?;
        self.stdout.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        terminal::restore();
    }
}
