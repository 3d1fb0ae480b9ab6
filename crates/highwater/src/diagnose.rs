//! What a store says about its own health, and what initializing it would do.

mod kinds;
mod rows;
mod subscribers;

use std::fmt;

use crate::{BoxFuture, Error};

pub(crate) use kinds::Kinds;
pub use kinds::diagnose_kinds;
pub use rows::diagnose_rows;
pub use subscribers::diagnose_subscribers;

/// A store that checks itself, for its operator.
///
/// # Contract
///
/// - Looking changes nothing, and waits for no writer and no lock that another holds for long \[G36\].
/// - Findings come in the same order every time. Everything that is not good says what to do.
/// - What cannot be checked is a finding, not an error. What the role may not see is a [`Severity::Note`].
/// - Nothing is planned once [`initialize`](crate::backend::Backend::initialize) has returned.
pub trait Diagnose: Send + Sync {
    /// Looks at everything that is known to go wrong.
    ///
    /// # Errors
    /// Only when nothing at all can be found out.
    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>, Error>>;

    /// What [`initialize`](crate::backend::Backend::initialize) would do now, in order; empty when nothing.
    ///
    /// # Errors
    /// Those of `initialize`, as far as they can be told without doing it: a layout that is newer than the library, tables
    /// that are not ours, rights that are missing for what is to be done.
    fn planned(&self) -> BoxFuture<'_, Result<Vec<Planned>, Error>>;
}

/// How much something matters, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As it should be.
    Good,
    /// Worth knowing; nothing has to be done.
    Note,
    /// It works, but not through everything or not for ever.
    Warning,
    /// It does not work, or not as promised.
    Bad,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Bad => "bad",
        })
    }
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is about, in a word or two.
    pub topic: &'static str,
    /// What was found, in a sentence.
    pub found: String,
    /// What to do. Everything has it that is not [`Severity::Good`].
    pub advice: Option<String>,
}

impl Finding {
    /// As it should be.
    #[must_use]
    pub fn good(topic: &'static str, found: impl Into<String>) -> Self {
        Self { severity: Severity::Good, topic, found: found.into(), advice: None }
    }

    /// Worth knowing.
    #[must_use]
    pub fn note(topic: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::advised(Severity::Note, topic, found, advice)
    }

    /// Will go wrong some day.
    #[must_use]
    pub fn warning(topic: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::advised(Severity::Warning, topic, found, advice)
    }

    /// Wrong now.
    #[must_use]
    pub fn bad(topic: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::advised(Severity::Bad, topic, found, advice)
    }

    /// With a severity that was decided on before.
    #[must_use]
    pub fn advised(
        severity: Severity,
        topic: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { severity, topic, found: found.into(), advice: Some(advice.into()) }
    }
}

/// `warning: settings: fsync is off; set fsync = on`
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, topic, found, advice } = self;
        write!(f, "{severity}: {topic}: {found}")?;
        match advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

/// One step of bringing the layout up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Planned {
    /// The layout's version after it.
    pub version: u32,
    /// What the step is called.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub does: &'static str,
}

impl Planned {
    /// A step.
    #[must_use]
    pub fn new(version: u32, name: &'static str, does: &'static str) -> Self {
        Self { version, name, does }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_is_the_greatest() {
        assert!(Severity::Good < Severity::Note && Severity::Note < Severity::Warning);
        assert_eq!([Severity::Bad, Severity::Good].into_iter().max(), Some(Severity::Bad));
    }

    #[test]
    fn a_finding_is_a_line() {
        let finding = Finding::warning("settings", "fsync is off", "set fsync = on");
        assert_eq!(finding.to_string(), "warning: settings: fsync is off; set fsync = on");
        assert_eq!(Finding::good("layout", "it is complete").to_string(), "good: layout: it is complete");
    }
}
