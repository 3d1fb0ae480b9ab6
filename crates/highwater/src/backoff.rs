//! Waiting between two attempts, or two looks.

use std::time::Duration;

/// Twice as long each time, up to a limit.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    last: Duration,
    attempts: u32,
}

impl Backoff {
    /// From the first delay to the longest.
    #[must_use]
    pub fn new(first: Duration, last: Duration) -> Self {
        Self { first, last, attempts: 0 }
    }

    /// For a backend that does not answer: from 20 ms to 1 s.
    pub(crate) fn of_backend() -> Self {
        Self::new(Duration::from_millis(20), Duration::from_secs(1))
    }

    /// How long to wait now.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.after(self.attempts);
        self.attempts = self.attempts.saturating_add(1);
        delay
    }

    /// How long to wait after so many attempts beyond the first.
    pub(crate) fn after(&self, attempts: u32) -> Duration {
        let factor = 2_u32.checked_pow(attempts).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.last)
    }

    /// Whether delays do not grow any more.
    #[must_use]
    pub fn is_at_limit(&self) -> bool {
        self.after(self.attempts) == self.last
    }

    /// Begins with the first delay again.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_limit_and_begin_again_after_a_reset() {
        let mut backoff = Backoff::new(Duration::from_millis(3), Duration::from_millis(10));
        assert_eq!([3, 6, 10, 10].map(Duration::from_millis), std::array::from_fn(|_| backoff.next_delay()));
        assert!(backoff.is_at_limit());
        backoff.reset();
        assert_eq!(backoff.next_delay(), Duration::from_millis(3));
    }
}
