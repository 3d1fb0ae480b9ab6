//! One error for several callers.

use std::fmt;
use std::sync::Arc;

use crate::{BoxError, Error};

/// An error that several callers get: each gets one of the same kind, with the original as its source.
#[derive(Debug, Clone)]
pub struct SharedError(Arc<Error>);

impl SharedError {
    /// Makes an error one that can be shared.
    #[must_use]
    pub fn new(error: Error) -> Self {
        Self(Arc::new(error))
    }

    /// The error for one of the callers.
    #[must_use]
    pub fn for_caller(&self) -> Error {
        let source: BoxError = Box::new(self.clone());
        match &*self.0 {
            Error::UnknownOutcome { .. } => Error::UnknownOutcome { source },
            Error::NotPrimary { reason } => Error::NotPrimary { reason: reason.clone() },
            Error::Interrupted { reason } => Error::Interrupted { reason: reason.clone() },
            Error::Unfit { reason } => Error::Unfit { reason: reason.clone() },
            Error::Denied { action, .. } => Error::Denied { action, source },
            Error::Damaged { action, .. } => Error::Damaged { action, source },
            Error::Altered { reason } => Error::Altered { reason: reason.clone() },
            Error::NoSession { reason } => Error::NoSession { reason: reason.clone() },
            Error::BeingFilled { reason } => Error::BeingFilled { reason: reason.clone() },
            Error::ShutDown => Error::ShutDown,
            Error::Unavailable { action, .. } => Error::Unavailable { action, source },
            _ => Error::Unavailable { action: "serve several callers at once", source },
        }
    }
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for SharedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.0)
    }
}
