//! From the driver's errors to ours: by SQLSTATE, never by the text of a message.

use std::time::Duration;

use highwater::Error;

/// The SQLSTATE of an error that the server sent.
pub(crate) fn sqlstate(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(|code| code.into_owned())
}

/// Whether the connection is gone, or about to be.
pub(crate) fn is_lost(error: &sqlx::Error) -> bool {
    match sqlstate(error) {
        // Shutdown, crash, start-up, terminated for being idle or for taking too long; and everything about the connection
        // itself.
        Some(code) => {
            let ended = ["57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04"];
            ended.contains(&code.as_str()) || code.starts_with("08")
        }
        None => !matches!(error, sqlx::Error::RowNotFound | sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_)),
    }
}

/// Whether the server cannot do what any transaction would ask of it: its disk is full or fails. A lost connection is not among
/// these: what an event does may be why it is lost. Nor is a transaction that only reads: the fence has locked a row in it, so it was
/// made so since.
pub(crate) fn is_outage(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|code| matches!(code.as_str(), "53100" | "58030"))
}

/// What it means that the server answered COMMIT with an error: a deferred constraint or trigger raised it, and may raise any, unless
/// the server itself is in trouble.
pub(crate) fn commit_refused(error: sqlx::Error) -> Error {
    let code = sqlstate(&error).unwrap_or_default();
    // Out of resources; a disk that fails; an error of the server's own.
    if ["53", "58", "XX"].iter().any(|class| code.starts_with(class)) {
        return failed("commit", error);
    }
    Error::Aborted { source: error.into() }
}

/// Whether a server that could not be connected to may only have to start, to be promoted, or to notice that others are gone.
pub(crate) fn is_starting(error: &Error) -> bool {
    match error {
        Error::NotPrimary { .. } => true,
        Error::Unavailable { source, .. } => match source.downcast_ref() {
            Some(sqlx::Error::Io(error)) => error.kind() == std::io::ErrorKind::ConnectionRefused,
            Some(error) => matches!(sqlstate(error).as_deref(), Some("57P03" | "53300")),
            // Of several hosts, each for its own reason.
            None => true,
        },
        _ => false,
    }
}

/// An error of ours that has to pass as one of the driver's, until [`failed`] finds it again.
pub(crate) fn ours(error: Error) -> sqlx::Error {
    sqlx::Error::Configuration(error.into())
}

/// What an error means when nothing was being committed.
pub(crate) fn failed(action: &'static str, error: sqlx::Error) -> Error {
    let Some(code) = sqlstate(&error) else {
        return match error {
            sqlx::Error::Configuration(source) => match source.downcast() {
                Ok(ours) => *ours,
                Err(source) => Error::Unavailable { action, source },
            },
            // The server has answered, and what it sent is not what we store.
            sqlx::Error::Decode(source) => Error::Damaged { action, source },
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::RowNotFound => {
                Error::Damaged { action, source: error.into() }
            }
            _ => Error::Unavailable { action, source: error.into() },
        };
    };
    match code.as_str() {
        // A damaged page, an index that does not fit its table, a number that cannot be counted on from.
        "XX001" | "XX002" | "22003" => Error::Damaged { action, source: error.into() },
        "25006" => Error::NotPrimary { reason: "the server is read-only".to_owned() },
        "42501" => Error::Denied { action, source: error.into() },
        "28000" | "28P01" => Error::Denied { action, source: error.into() },
        // There is no such database.
        "3D000" => Error::Unfit { reason: format!("{}; create it first", describe(&error)) },
        // Undefined table, schema, function, column; a column of another type than it was made with.
        "42P01" | "3F000" | "42883" | "42703" | "42804" => {
            Error::Unfit { reason: format!("{}; call initialize() with a role that owns the schema", describe(&error)) }
        }
        // What was prepared in a session is gone, or there before.
        "26000" | "42P05" => crate::pooler::no_session(&describe(&error)),
        // A table that cannot be adopted; arguments that no version of this library sends.
        "HW002" | "HW008" => Error::Unfit { reason: describe(&error) },
        "HW007" => Error::Altered { reason: describe(&error) },
        "HW006" => Error::NotPrimary { reason: describe(&error) },
        "HW005" => Error::Interrupted { reason: describe(&error) },
        "HW004" => Error::BeingFilled { reason: describe(&error) },
        _ => Error::Unavailable { action, source: error.into() },
    }
}

/// The same for a statement that asks which life of the server it is: on a replica there is no such table to be read.
pub(crate) fn failed_in_life(action: &'static str, error: sqlx::Error) -> Error {
    match sqlstate(&error).as_deref() {
        Some("0A000") => Error::NotPrimary { reason: describe(&error) },
        _ => failed(action, error),
    }
}

/// What an error means for an append that was under way. A lost connection leaves it open whether it was stored.
pub(crate) fn append_failed(error: sqlx::Error) -> Error {
    if is_lost(&error) {
        return Error::UnknownOutcome { source: error.into() };
    }
    match sqlstate(&error).as_deref() {
        // What an INSERT with RETURNING meets at a table with a rule that stores something else, or nothing.
        Some("0A000") => Error::Altered { reason: describe(&error) },
        _ => failed("append", error),
    }
}

fn describe(error: &sqlx::Error) -> String {
    error.as_database_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

/// Does something unless it takes too long: a host that has vanished gives no answer, and no error either.
pub(crate) async fn in_time<T>(
    patience: Duration,
    action: &'static str,
    doing: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(patience, doing).await {
        Ok(done) => done,
        Err(elapsed) => Err(Error::Unavailable { action, source: elapsed.into() }),
    }
}
