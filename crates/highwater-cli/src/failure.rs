//! How a command fails: one sentence on stderr, and an exit code that says what kind of failure it was.

use highwater::transfer::TransferError;
use std::io::{self, Write as _};
use std::process::ExitCode;

use highwater::backend::chain;
use highwater::{BusError, Error};

/// The kinds of failure. Documented in `arguments::EXIT_CODES` and in docs/cli.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Refused = 1,
    Usage = 2,
    Database = 3,
    NotFound = 4,
    Conflict = 5,
    Interrupted = 130,
    ClosedPipe = 141,
    Terminated = 143,
}

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    /// None when there is nothing to print, or everything has been printed.
    message: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: Some(message.into()) }
    }

    /// Everything has been printed already.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self { exit, message: None }
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The same, said with what it is about in front of it and what follows from it behind.
    pub(crate) fn framed(mut self, before: &str, after: &str) -> Self {
        self.message = self.message.map(|message| format!("{before}{message}{after}"));
        self
    }

    /// The same, counted as another kind.
    pub(crate) fn because(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// The same in other words.
    pub(crate) fn replacing(mut self, text: &str, by: &str) -> Self {
        self.message = self.message.map(|message| message.replace(text, by));
        self
    }

    /// Says why, without the secrets, and gives the exit code.
    pub(crate) fn end(self, secrets: &[String]) -> ExitCode {
        if let Some(mut message) = self.message {
            for secret in secrets {
                message = message.replace(secret.as_str(), "***");
            }
            note(&message);
        }
        ExitCode::from(self.exit as u8)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.message.as_deref().unwrap_or_default())
    }
}

/// One line for people, beside the output.
pub(crate) fn note(message: &str) {
    let line = format!("highwater: {}\n", crate::words::one_line(message));
    // When stderr is closed, that cannot be reported either.
    drop(io::stderr().write_all(line.as_bytes()));
}

/// No user should ever see this; one who does can report it.
pub(crate) fn on_panic(info: &std::panic::PanicHookInfo<'_>) {
    crate::terminal::restore();
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let what = info.payload_as_str().unwrap_or("no message");
    note(&format!("a mistake in highwater itself, please report it: {what} ({place})"));
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::Conflict { .. } | Error::IdTaken { .. } | Error::PartlyStored { .. } => Exit::Conflict,
            Error::Invalid(_) | Error::Transfer(TransferError::Import { .. }) => Exit::Usage,
            Error::Bus(BusError::UnknownSubscriber(_)) | Error::NotFound { .. } => Exit::NotFound,
            Error::Unavailable { .. }
            | Error::UnknownOutcome { .. }
            | Error::NotPrimary { .. }
            | Error::Interrupted { .. }
            | Error::Unfit { .. }
            | Error::Damaged { .. }
            | Error::NoSession { .. }
            | Error::Denied { .. } => Exit::Database,
            _ => Exit::Refused,
        };
        let advice = match &error {
            Error::Bus(BusError::UnknownSubscriber(_)) => "; `highwater status` lists those there are",
            Error::NotFound { what: "dead letter", .. } => {
                "; `highwater dead-letters list --state all` lists those there are"
            }
            Error::BeingFilled { .. } => {
                " (run the same copy or import again, or give it up with `highwater copy --abandon STORE`)"
            }
            Error::Transfer(TransferError::Import { .. }) => "; nothing was stored",
            Error::Damaged { .. } => "; `highwater doctor` says what is wrong and what to do",
            Error::Bus(BusError::Led { .. }) => " (--force)",
            Error::Denied { action: "connect" | "connect to any host", .. } => {
                "; check the user, the password and what the server lets in"
            }
            Error::Denied { .. } => "; have a role do it that may, or grant what is missing",
            _ => "",
        };
        Self::new(exit, format!("{}{advice}", crate::words::for_the_shell(&chain(&error))))
    }
}

impl From<highwater::Invalid> for Failure {
    fn from(invalid: highwater::Invalid) -> Self {
        Error::from(invalid).into()
    }
}

/// What went wrong while writing output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(Exit::ClosedPipe),
            _ => Self::refused(format!("cannot write the output: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_said_once() {
        let source = io::Error::other("no route to host");
        let error = Error::Unavailable { action: "connect", source: source.into() };
        assert_eq!(chain(&error), "unavailable: cannot connect: no route to host");
    }

    #[test]
    fn kinds_have_their_exit_codes() {
        let failure = Failure::from(Error::Bus(BusError::UnknownSubscriber("x".to_owned())));
        assert_eq!(failure.exit, Exit::NotFound);
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit as u8, failure.message), (141, None));
    }
}
