//! What moving a whole store answers, by what the caller should do.

use crate::BoxError;

/// What moving a whole store can answer besides what goes wrong with either store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// Only an empty store can be filled. Nothing was changed: take another one.
    #[error("not empty: this store holds {found}; fill one that is empty")]
    NotEmpty {
        /// What it holds.
        found: String,
    },

    /// What was filled in is not what the source holds. The store stays locked: abandon it, and find out why.
    #[error("the copy differs: {difference}")]
    CopyDiffers {
        /// The first difference.
        difference: String,
    },

    /// A line of an export cannot be imported. Nothing was stored: fix the file, or export again.
    #[error("line {line} cannot be imported: {source}")]
    Import {
        /// Which line, counted from 1.
        line: u64,
        /// What is wrong with it.
        #[source]
        source: BoxError,
    },
}
