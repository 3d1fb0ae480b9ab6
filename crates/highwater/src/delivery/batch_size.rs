//! How many events go into one transaction. Pure.
//!
//! A transaction holds locks, on SQLite it keeps all writers waiting, and its writes become visible only at its end: it must
//! not grow long because a handler is slow. Only the handler's last transactions show how slow it is.

use std::time::Duration;

/// Events in the first transaction, before anything is known.
const FIRST: usize = 16;
/// By how much a transaction may grow over the one before.
const GROWTH: usize = 4;

/// As many as fit into a while.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchSize {
    now: usize,
    max: usize,
    within: Duration,
}

impl BatchSize {
    /// So many at most, and so long about.
    pub(crate) fn new(max: usize, within: Duration) -> Self {
        Self { now: FIRST.min(max), max, within }
    }

    pub(crate) fn events(&self) -> usize {
        self.now
    }

    /// Records how long a transaction took, whatever its outcome. A few slow events show that many would take too long; a
    /// few quick ones show nothing.
    pub(crate) fn took(&mut self, events: usize, took: Duration) {
        let room = self.within.div_duration_f64(took.max(Duration::from_micros(1)));
        let fits = (events as f64 * room) as usize;
        if fits < self.now {
            self.now = fits.max(1);
        } else if events >= self.now {
            self.now = fits.min(self.now * GROWTH).min(self.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_millis(100);

    /// Events in each of so many transactions, when one event takes so long.
    fn lives(batch_size: &mut BatchSize, each: Duration, transactions: usize) -> Vec<usize> {
        let next = |_| {
            let events = batch_size.events();
            batch_size.took(events, each * u32::try_from(events).unwrap());
            events
        };
        (0..transactions).map(next).collect()
    }

    #[test]
    fn where_events_are_quick_transactions_grow_to_the_limit() {
        let mut batch_size = BatchSize::new(1_000, WITHIN);
        assert_eq!(lives(&mut batch_size, Duration::from_micros(10), 5), [16, 64, 256, 1_000, 1_000]);
    }

    #[test]
    fn where_events_are_slow_transactions_last_about_as_long_as_they_may() {
        let mut batch_size = BatchSize::new(1_000, WITHIN);
        assert_eq!(lives(&mut batch_size, Duration::from_millis(10), 4), [16, 10, 10, 10]);
        assert_eq!(lives(&mut batch_size, Duration::from_secs(1), 3), [10, 1, 1], "never none");
        assert_eq!(lives(&mut batch_size, Duration::from_millis(1), 5), [1, 4, 16, 64, 100], "and recovers");
    }

    #[test]
    fn the_limit_is_never_exceeded_and_short_transactions_say_nothing_about_long_ones() {
        let mut batch_size = BatchSize::new(3, WITHIN);
        assert_eq!(lives(&mut batch_size, Duration::ZERO, 3), [3, 3, 3]);
        let mut batch_size = BatchSize::new(1_000, WITHIN);
        batch_size.took(1, Duration::from_micros(1));
        assert_eq!(batch_size.events(), 16, "one event says nothing about seventeen");
        batch_size.took(1, Duration::from_millis(10));
        assert_eq!(batch_size.events(), 10, "but one that is slow says that sixteen are too many");
    }
}
