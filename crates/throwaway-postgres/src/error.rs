//! The one error of this crate.

use std::fmt;
use std::io;

/// Why a server could not be started or stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// PostgreSQL's server programs, or PgBouncer, are not on this machine. The text says what to install.
    NotInstalled(String),
    /// The operating system refused something around the server: a folder, a file, a process.
    Io {
        /// What was being done, as "cannot …" would continue.
        action: String,
        /// The refusal.
        source: io::Error,
    },
    /// The server itself or a program around it (`initdb`, `pg_basebackup`, …) failed, or took too long.
    Server {
        /// What went wrong, in one clause.
        problem: String,
        /// The end of the server's log, which says why.
        log: String,
    },
}

impl Error {
    /// For `map_err`: adds what was being done to a bare [`io::Error`].
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled(what_to_do) => f.write_str(what_to_do),
            Self::Io { action, source } => write!(f, "cannot {action}: {source}"),
            Self::Server { problem, log } => write!(f, "{problem}; the end of its log:\n{log}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::NotInstalled(_) | Self::Server { .. } => None,
        }
    }
}
