//! What became of inputs.

use std::collections::BTreeMap;

/// Counts what became of inputs. A target that never gets past the first check would find nothing: the counts show it.
#[derive(Debug, Default)]
pub struct Outcomes(BTreeMap<String, usize>);

impl Outcomes {
    /// Counts one.
    pub fn add(&mut self, outcome: impl Into<String>) {
        *self.0.entry(outcome.into()).or_default() += 1;
    }

    /// Checks that each of these has happened so often at least.
    ///
    /// # Panics
    /// When one has not.
    pub fn assert(&self, least: usize, outcomes: &[&str]) {
        for outcome in outcomes {
            let count = self.0.get(*outcome).copied().unwrap_or_default();
            assert!(count >= least, "{outcome:?} has happened {count} times, and not {least}: {self:#?}");
        }
    }
}
