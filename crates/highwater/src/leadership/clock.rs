//! A clock that runs while the machine sleeps, and what backends measure by it: leadership is not kept by a laptop that was
//! shut.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// After how long without a sign of the application it counts as hanging, and after how many takeover bounds it has hung.
const HANGS_AFTER: Duration = Duration::from_secs(3);
const GIVES_UP_AFTER: u32 = 12;

/// A moment, counted since the machine was started. For backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// This one.
    #[must_use]
    pub fn now() -> Self {
        Self(nanos())
    }

    /// Milliseconds since the machine was started: the same in every process, except in a time namespace.
    #[must_use]
    pub fn millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// How long ago it was.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Duration::from_nanos(Self::now().0.saturating_sub(self.0))
    }

    fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[cfg(unix)]
fn nanos() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let now = clock_gettime(CLOCK);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

#[cfg(not(unix))]
fn nanos() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    u64::try_from(START.get_or_init(std::time::Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Until when others certainly leave a lock to its holder. For backends.
#[derive(Debug)]
pub struct Validity(AtomicU64);

impl Validity {
    /// From a moment *before* the sign was given that others wait for: they see it later than that, and wait as long.
    #[must_use]
    pub fn new(sent: Moment, bound: Duration) -> Self {
        Self(AtomicU64::new(sent.plus(bound).0))
    }

    /// Another sign was given.
    pub fn extend(&self, sent: Moment, bound: Duration) {
        self.0.store(sent.plus(bound).0, Ordering::Release);
    }

    /// Whether others may have taken the lock by now.
    #[must_use]
    pub fn is_over(&self) -> bool {
        Moment::now().0 >= self.0.load(Ordering::Acquire)
    }
}

/// When the application was last seen at work. For backends whose locks are kept by a dedicated thread: it outlives an
/// application that hangs.
#[derive(Debug)]
pub struct Seen(AtomicU64);

impl Seen {
    /// Seen now.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it depends on when it is made")]
    pub fn new() -> Self {
        Self(AtomicU64::new(Moment::now().0))
    }

    /// It is at work.
    pub fn now(&self) {
        self.0.store(Moment::now().0, Ordering::Release);
    }

    /// When it was.
    #[must_use]
    pub fn at(&self) -> Moment {
        Moment(self.0.load(Ordering::Acquire))
    }

    /// Whether it has not been seen for a while. It keeps what it leads: a handler may block its runtime. But it gets
    /// nothing more, because it would do nothing with it.
    #[must_use]
    pub fn hangs(&self) -> bool {
        self.at().elapsed() > HANGS_AFTER
    }

    /// Whether it has not been seen for so long that it is useless: then it gives up what it leads, and is not counted among
    /// the instances that could lead. Without anything to lead, it ceases to be counted much sooner.
    #[must_use]
    pub fn has_hung(&self, leads_nothing: bool, bound: Duration) -> bool {
        let patience = if leads_nothing { HANGS_AFTER } else { bound * GIVES_UP_AFTER };
        self.at().elapsed() > patience.max(HANGS_AFTER)
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

    #[test]
    fn an_application_that_was_just_seen_does_not_hang() {
        let seen = Seen::new();
        assert!(!seen.hangs() && !seen.has_hung(true, Duration::ZERO));
        seen.0.store(Moment::now().0.saturating_sub(4_000_000_000), Ordering::Release);
        assert!(seen.hangs() && seen.has_hung(true, Duration::from_secs(5)));
        assert!(!seen.has_hung(false, Duration::from_secs(5)), "who leads is given more time");
        seen.now();
        assert!(!seen.hangs());
    }
}
