//! What can go wrong.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use highwater::Error;

/// Why the demo could not be carried out. That the books do not balance is not among these: it is in the report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The event store said so.
    #[error(transparent)]
    Store(#[from] Error),
    /// Plain SQL failed.
    #[error("cannot {action}: {source}")]
    Sql {
        /// What was to be done.
        action: &'static str,
        /// What the driver said.
        source: sqlx::Error,
    },
    /// The operating system said so.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was to be done.
        action: String,
        /// Why not.
        source: io::Error,
    },
    /// The audience cannot be shown anything.
    #[error("cannot show how things are: {0}")]
    Show(io::Error),
    /// Not a database that the demo knows.
    #[error("{0}")]
    Database(String),
    /// There is something already where the shop was to be.
    #[error("{path:?} exists already, and the demo touches nobody else's events: name a file that does not exist")]
    FileExists {
        /// The file.
        path: PathBuf,
    },
    /// There is something already where the shop was to be.
    #[error(
        "the schema {schema:?} exists already, and the demo touches nobody else's events: leave --schema out, or name one that does not exist"
    )]
    SchemaExists {
        /// The schema.
        schema: String,
    },
    /// An instance did not do what it should.
    #[error("instance {number} {what}")]
    Instance {
        /// Which.
        number: u32,
        /// What it did instead.
        what: String,
    },
    /// Nobody processes.
    #[error("no instance leads for any subscriber, so there is none to kill")]
    NobodyLeads,
    /// Not everything was handled in time.
    #[error("for {waited:?} nothing more was handled, and not everything is: {}", .behind.join(", "))]
    NotCaughtUp {
        /// Who was behind, and how far.
        behind: Vec<String>,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A task of the demo itself ended badly.
    #[error("a part of the demo ended badly: {0}")]
    Task(#[from] tokio::task::JoinError),
    /// Something went wrong, and then not everything could be removed.
    #[error("{error}; and the shop is left behind: {left}")]
    Left {
        /// What went wrong first.
        error: Box<DemoError>,
        /// Why something is left.
        left: Box<DemoError>,
    },
    /// The user wanted it to end.
    #[error("interrupted")]
    Interrupted,
}

impl DemoError {
    pub(crate) fn sql(action: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Sql { action, source }
    }

    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}
