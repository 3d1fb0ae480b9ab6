//! Calling an application's code: errors, panics and time-outs all come out as failures.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use super::driver::Signals;
use super::journal::storable;
use crate::{BoxError, Error, Permanent};

/// Why a handler did not take something in.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Trying again is no use.
    pub(super) permanent: bool,
    /// What it said, fit to be stored.
    pub(super) error: Arc<str>,
    /// It was given up in the middle of something: what it was doing may still be going on.
    pub(super) unsure: bool,
}

impl Failure {
    pub(super) fn new(error: &BoxError) -> Self {
        let undecodable = matches!(error.downcast_ref(), Some(Error::Undecodable { .. }));
        // An error is the application's code as well, and may panic when it is asked what it says.
        let text = std::panic::catch_unwind(AssertUnwindSafe(|| storable(error)));
        let text = text.unwrap_or_else(|_| "an error that panics when it is shown".to_owned());
        Self { permanent: undecodable || error.is::<Permanent>(), error: text.into(), unsure: false }
    }
}

/// How long a handler may go on with the events it was given.
#[derive(Clone, Copy)]
pub(crate) struct Pace<'a> {
    /// For one event.
    pub(crate) timeout: Option<Duration>,
    /// When the checkpoint is due.
    pub(super) due: Option<Instant>,
    /// What else may be wanted.
    pub(super) signals: Option<&'a Signals>,
}

impl Pace<'_> {
    /// Looking at the clock costs as much as handling a small event.
    const LOOKS_EVERY: usize = 16;

    /// Whether something else is to be done before the next event.
    pub(crate) fn is_enough(&self, done: usize) -> bool {
        done > 0
            && (self.signals.is_some_and(Signals::is_pending)
                || (done.is_multiple_of(Self::LOOKS_EVERY) && self.due.is_some_and(|due| Instant::now() >= due)))
    }
}

/// Runs a handler's future. `&self` handlers and owned transactions make it safe to go on after a panic.
pub(crate) async fn call(
    handler: impl Future<Output = Result<(), BoxError>>,
    timeout: Option<Duration>,
) -> Result<(), Failure> {
    let caught = AssertUnwindSafe(handler).catch_unwind();
    let outcome = match timeout {
        None => caught.await,
        Some(timeout) => match tokio::time::timeout(timeout, caught).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let error = format!("the handler was not done after {timeout:?}").into();
                return Err(Failure { permanent: false, error, unsure: true });
            }
        },
    };
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::new(&error)),
        Err(panic) => Err(panicked("the handler", &*panic)),
    }
}

/// The same for what does not wait. Upcasters and `Deserialize` implementations may panic as well.
pub(crate) fn unpanicked<T>(decode: impl FnOnce() -> Result<T, BoxError>) -> Result<T, Failure> {
    match std::panic::catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(|error| Failure::new(&error)),
        Err(panic) => Err(panicked("decoding", &*panic)),
    }
}

fn panicked(what: &str, panic: &(dyn Any + Send)) -> Failure {
    let error: BoxError = format!("{what} panicked: {}", message(panic)).into();
    Failure { unsure: true, ..Failure::new(&error) }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
