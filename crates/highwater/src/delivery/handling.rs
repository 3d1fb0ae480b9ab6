//! Calling an application's code: errors, panics and time-outs all come out as failures.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use super::driver::Signals;
use super::journal::storable;
use crate::{Backend, BoxError, Error, Opening, Permanent};

/// How far to look for the reason of an error; one of the application's may go round in circles.
const SOURCES_MAX: usize = 16;

/// Why a handler failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Retrying is no use.
    pub(super) permanent: bool,
    /// Its error text, fit to be stored.
    pub(super) error: Arc<str>,
    /// It is the store's trouble, and not the event's.
    pub(super) outage: bool,
    /// It was aborted in the middle of something: its work may still be running.
    pub(super) unsure: bool,
}

impl Failure {
    /// An error in the transaction is the handler's, unless the store is down.
    pub(super) fn of_handler(self) -> Result<Self, Error> {
        if self.outage {
            let source = (*self.error).into();
            return Err(Error::Unavailable { action: "write in the transaction of delivery", source });
        }
        Ok(self)
    }

    /// What keeps a transaction from being committed is the store's trouble, unless it is what the handler did inside.
    pub(super) fn of_commit(error: Error, opening: Opening) -> Result<Self, Error> {
        match (opening, error) {
            // The fence was allowed what is denied now: the handler has changed its role.
            (Opening::Handler, error @ (Error::Aborted { .. } | Error::Denied { .. })) => Ok(Self::new(&error.into())),
            (_, error) => Err(error),
        }
    }

    pub(super) fn new(error: &BoxError) -> Self {
        let undecodable = matches!(error.downcast_ref(), Some(Error::Undecodable { .. }));
        // An error is the application's code as well, and may panic when it is asked what it says.
        let text = std::panic::catch_unwind(AssertUnwindSafe(|| storable(error)));
        let text = text.unwrap_or_else(|_| "an error that panics when it is shown".to_owned());
        Self { permanent: undecodable || error.is::<Permanent>(), error: text.into(), outage: false, unsure: false }
    }
}

/// How long a handler may work on the events it was given.
pub(crate) struct TimeBudget<'a> {
    /// For one event.
    pub(crate) timeout: Option<Duration>,
    /// When the checkpoint is due.
    due: Option<Instant>,
    /// What else may be wanted.
    signals: Option<&'a Signals>,
    /// Events so far.
    begun: u32,
    /// When the clock was last read, and before which event it is read again.
    looked: (Instant, u32),
    look_at: u32,
}

impl<'a> TimeBudget<'a> {
    /// Looking at the clock costs as much as handling a small event: it is not done for each of them.
    const LOOKS_EVERY: u32 = 16;
    /// But for each that takes longer than this.
    const SLOW: Duration = Duration::from_micros(100);

    /// As far as it goes.
    pub(super) fn whole(timeout: Option<Duration>) -> Self {
        Self { timeout, due: None, signals: None, begun: 0, looked: (Instant::now(), 0), look_at: 1 }
    }

    /// Until the checkpoint is due, or something else is wanted.
    pub(super) fn until(timeout: Option<Duration>, due: Instant, signals: &'a Signals) -> Self {
        Self { due: Some(due), signals: Some(signals), ..Self::whole(timeout) }
    }

    /// Whether something else is to be done before the next event. The first is delivered in any case.
    pub(crate) fn is_enough(&mut self) -> bool {
        let first = self.begun == 0;
        let enough = !first && (self.signals.is_some_and(Signals::is_pending) || self.is_due());
        self.begun += 1;
        enough
    }

    fn is_due(&mut self) -> bool {
        let Some(due) = self.due.filter(|_| self.begun >= self.look_at) else { return false };
        let now = Instant::now();
        let slow = now - self.looked.0 > Self::SLOW * (self.begun - self.looked.1);
        self.looked = (now, self.begun);
        self.look_at = self.begun + if slow { 1 } else { Self::LOOKS_EVERY };
        now >= due
    }
}

/// Runs a handler's future. `&self` handlers and owned transactions make it safe to continue after a panic.
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
                return Err(Failure { permanent: false, error, outage: false, unsure: true });
            }
        },
    };
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::new(&error)),
        Err(panic) => Err(panicked("the handler", &*panic)),
    }
}

/// The same for a handler that works in a transaction of the store's: what it fails with may be the store's trouble.
pub(crate) async fn call_within(
    backend: &dyn Backend,
    handler: impl Future<Output = Result<(), BoxError>>,
    timeout: Option<Duration>,
) -> Result<(), Failure> {
    let mut outage = false;
    let watched = async {
        let handled = handler.await;
        if let Err(error) = &handled {
            let sources = std::iter::successors(Some(&**error as &(dyn std::error::Error + 'static)), |e| e.source());
            outage = sources.take(SOURCES_MAX).any(|error| backend.is_outage(error));
        }
        handled
    };
    let called = call(watched, timeout).await;
    called.map_err(|failure| Failure { outage, ..failure })
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

pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_inside_and_a_commit_that_fails_are_the_stores_and_the_rest_is_the_handlers() {
        let met = |outage| Failure { outage, ..Failure::new(&"no room".into()) }.of_handler();
        assert_eq!(&*met(false).unwrap().error, "no room");
        assert!(matches!(met(true).unwrap_err(), Error::Unavailable { source, .. } if source.to_string() == "no room"));

        let aborted = || Error::Aborted { source: "a constraint".into() };
        let unknown = || Error::UnknownOutcome { source: "lost".into() };
        let denied = || Error::Denied { action: "close", source: "a constraint".into() };
        for error in [aborted, denied] {
            let failure = Failure::of_commit(error(), Opening::Handler).unwrap();
            assert!(failure.error.contains("a constraint") && !failure.permanent, "{failure:?}");
            assert!(Failure::of_commit(error(), Opening::Closing).is_err(), "nobody worked");
        }
        for opening in [Opening::Handler, Opening::Closing] {
            assert!(matches!(Failure::of_commit(unknown(), opening), Err(Error::UnknownOutcome { .. })));
        }
    }
}
