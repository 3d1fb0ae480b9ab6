//! What a run found, as one page that needs nothing but itself.

use super::results::Results;

/// The whole page; with what changed since an earlier run, if there is one.
pub(crate) fn render(results: &Results, baseline: Option<&Results>) -> String {
    format!("{} {}", results.date, baseline.is_some())
}
