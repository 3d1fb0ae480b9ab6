//! From the driver's errors to ours: by SQLite's result code, never by the text of a message.

use highwater::Error;

/// What an error of SQLite is about: its result code without what extends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// Another connection holds the lock that this needs.
    Busy,
    /// What would be written may not be.
    ReadOnly,
    /// The disk gave an error.
    Io,
    /// The file cannot be opened, or created.
    CantOpen,
    /// A constraint does not hold.
    Constraint,
    /// A unique index has it already.
    Unique,
    /// A trigger of ours refused it: the store is being filled.
    Refused,
    /// It is not a database, or it is damaged.
    NotADatabase,
    /// It is damaged.
    Corrupt,
    /// The disk is full.
    Full,
    /// The file may not be opened.
    Permission,
    /// Something else, most likely a mistake in a statement.
    Other,
}

/// The code of an error that SQLite gave.
pub(crate) fn code(error: &sqlx::Error) -> Option<Code> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(match (extended, extended & 0xff) {
        (1555 | 2067, _) => Code::Unique,
        (1811, _) => Code::Refused,
        (_, 3 | 23) => Code::Permission,
        (_, 5 | 6) => Code::Busy,
        (_, 8) => Code::ReadOnly,
        (_, 10) => Code::Io,
        (_, 11) => Code::Corrupt,
        (_, 13) => Code::Full,
        (_, 14) => Code::CantOpen,
        (_, 19) => Code::Constraint,
        (_, 26) => Code::NotADatabase,
        _ => Code::Other,
    })
}

/// Whether the disk is full or fails, which any transaction would meet.
pub(crate) fn is_outage(error: &sqlx::Error) -> bool {
    matches!(code(error), Some(Code::Full | Code::Io))
}

/// What an error means when nothing was being committed.
pub(crate) fn failed(action: &'static str, error: sqlx::Error) -> Error {
    match code(&error) {
        // The file was read, and what is in it is not what we store.
        None if matches!(
            error,
            sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::RowNotFound
        ) =>
        {
            let source = match error {
                sqlx::Error::Decode(source) => source,
                error => error.into(),
            };
            Error::Damaged { action, source }
        }
        Some(Code::ReadOnly | Code::Permission | Code::CantOpen) => Error::Denied { action, source: error.into() },
        Some(Code::NotADatabase) => Error::Unfit { reason: "the file is not a SQLite database".to_owned() },
        Some(Code::Corrupt) => Error::Unfit {
            reason: format!(
                "the database is damaged ({error}); restore a backup, or try the sqlite3 command's .recover"
            ),
        },
        // Statements of ours keep every constraint, unless they start from something that does not.
        Some(Code::Constraint) => Error::Damaged { action, source: error.into() },
        Some(Code::Refused) => {
            let said = error.as_database_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
            Error::BeingFilled { reason: said }
        }
        // A table or a column that is not there.
        Some(Code::Other) => Error::Unfit { reason: format!("{error}; call initialize()") },
        _ => Error::Unavailable { action, source: error.into() },
    }
}

/// What an error means for a commit that was under way. When the disk gives an error, what was written may turn up after
/// all: as long as nothing has been written since, a restart takes it for committed.
pub(crate) fn commit_failed(action: &'static str, error: sqlx::Error) -> Error {
    match code(&error) {
        Some(Code::Io) | None => Error::UnknownOutcome { source: error.into() },
        _ => failed(action, error),
    }
}
