//! Whether the output is a terminal, and of which kind.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::Show;
use crossterm::terminal::LeaveAlternateScreen;

use crate::failure::Failure;

/// How something is set off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

impl Paint {
    pub(crate) fn over(self, text: &str) -> String {
        let code = match self {
            Self::Bold => 1,
            Self::Dim => 2,
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Whether to use colours: on a terminal that can, unless the user does not want them (<https://no-color.org>).
pub(crate) fn wants_colour() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdout().is_terminal() && !unwanted && !dumb
}

/// How wide the terminal is that the output goes to, if it goes to one.
pub(crate) fn stdout_width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    crossterm::terminal::size().ok().map(|(width, _)| usize::from(width)).filter(|width| *width > 0)
}

/// A text that fits: what does not is left out, and that is shown.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { kept } else { kept + "…" }
}

/// Asks before something is done that cannot be undone. Without a terminal it is refused.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::refused(format!("{question} Nobody can be asked here: say --yes to do it.")));
    }
    let mut stderr = io::stderr();
    let asked = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
    asked.map_err(|error| Failure::refused(format!("cannot ask: {error}")))?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::refused(format!("cannot read the answer: {error}")))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::refused("nothing was done")),
    }
}

/// Whether the screen is ours at the moment.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The screen is about to be taken: from now on [`restore`] has something to do.
pub(crate) fn taken() {
    TAKEN.store(true, Ordering::SeqCst);
}

/// Gives the screen back as it was, if it was taken.
pub(crate) fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // A failure of this cannot be reported.
        drop(crossterm::execute!(io::stdout(), LeaveAlternateScreen, Show));
        drop(crossterm::terminal::disable_raw_mode());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_cut_says_so() {
        assert_eq!((cut("abc", 3), cut("abcd", 3), cut("abcd", 0)), ("abc".into(), "ab…".into(), String::new()));
    }
}
