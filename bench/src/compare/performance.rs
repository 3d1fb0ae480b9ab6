//! The measured part of `docs/performance.md`.

use std::path::Path;

use super::results::Results;
use crate::Error;

/// Puts what was measured between the markers of a document.
pub(crate) fn update(results: &Results, path: &Path) -> Result<(), Error> {
    Err(format!("{} {}", results.date, path.display()).into())
}
