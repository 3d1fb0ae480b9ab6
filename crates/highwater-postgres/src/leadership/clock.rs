//! A clock that runs while the machine sleeps: leadership is not kept by a laptop that was shut.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment, counted since the machine was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

impl Moment {
    pub(super) fn now() -> Self {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        const CLOCK: ClockId = ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const CLOCK: ClockId = ClockId::Monotonic;
        let now = clock_gettime(CLOCK);
        Self(now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned())
    }

    pub(super) fn elapsed(self) -> Duration {
        Duration::from_nanos(Self::now().0.saturating_sub(self.0))
    }

    fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Until when a session is certainly alive at its other end.
#[derive(Debug)]
pub(super) struct Validity(AtomicU64);

impl Validity {
    /// From the moment at which something was *sent* that was answered: the server heard of it later than that, and waits
    /// as long.
    pub(super) fn new(sent: Moment, bound: Duration) -> Self {
        Self(AtomicU64::new(sent.plus(bound).0))
    }

    pub(super) fn extend(&self, sent: Moment, bound: Duration) {
        self.0.store(sent.plus(bound).0, Ordering::Release);
    }

    pub(super) fn is_over(&self) -> bool {
        Moment::now().0 >= self.0.load(Ordering::Acquire)
    }
}

/// When the application was last seen at work.
#[derive(Debug)]
pub(super) struct Seen(AtomicU64);

impl Seen {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(Moment::now().0))
    }

    pub(super) fn now(&self) {
        self.0.store(Moment::now().0, Ordering::Release);
    }

    pub(super) fn at(&self) -> Moment {
        Moment(self.0.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity_counts_from_what_was_sent() {
        let sent = Moment::now();
        let validity = Validity::new(sent, Duration::from_secs(60));
        assert!(!validity.is_over());
        validity.extend(sent, Duration::ZERO);
        assert!(validity.is_over(), "whatever the time of the answer");
        assert!(sent.elapsed() < Duration::from_secs(60));
    }
}
