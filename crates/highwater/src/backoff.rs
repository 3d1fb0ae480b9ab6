//! Waiting between two attempts, or two looks.

use std::time::Duration;

/// Twice as long each time, up to a limit.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    next: Duration,
    last: Duration,
}

impl Backoff {
    /// From the first delay to the longest.
    #[must_use]
    pub fn new(first: Duration, last: Duration) -> Self {
        Self { first, next: first, last }
    }

    /// For a backend that does not answer: from 20 ms to 1 s.
    pub(crate) fn of_backend() -> Self {
        Self::new(Duration::from_millis(20), Duration::from_secs(1))
    }

    /// How long to wait now.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(self.last);
        delay
    }

    /// Whether delays do not grow any more.
    #[must_use]
    pub fn is_at_limit(&self) -> bool {
        self.next == self.last
    }

    /// Begins with the first delay again.
    pub fn reset(&mut self) {
        self.next = self.first;
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
