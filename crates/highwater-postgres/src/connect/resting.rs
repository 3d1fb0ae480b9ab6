//! The connections of a pool that rest, so that no more of them are kept than are needed.
//!
//! The driver hands out the one that has rested longest. So as many as were ever needed at once are used in turn, and none of
//! them ever rests for long enough to be closed by it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// One that rests for longer while others are used is one too many.
const REST: Duration = Duration::from_millis(250);
/// By how much two clocks of the same rest may differ.
const ABOUT: Duration = Duration::from_millis(50);

/// Since when each has rested, in the order in which they are handed out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Resting(Arc<Mutex<VecDeque<Instant>>>);

impl Resting {
    /// One that has rested so long is taken.
    pub(super) fn taken(&self, idle_for: Duration) {
        let mut resting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those before it are gone silently: they would have been handed out first.
        while resting.pop_front_if(|since| since.elapsed() > idle_for + ABOUT).is_some() {}
        resting.pop_front_if(|since| since.elapsed() + ABOUT > idle_for);
    }

    /// A new one is opened: none rests.
    pub(crate) fn opened(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// One comes back. Whether it is to be kept: not while another rests unused.
    pub(crate) fn returned(&self) -> bool {
        let mut resting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if resting.front().is_some_and(|since| since.elapsed() > REST) {
            return false;
        }
        resting.push_back(Instant::now());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool as the driver has it.
    #[derive(Default)]
    struct Pool {
        resting: Resting,
        idle: VecDeque<Instant>,
        opened: usize,
    }

    impl Pool {
        /// Uses so many connections at once, for a moment.
        async fn used(&mut self, at_once: usize) {
            for _ in 0..at_once {
                match self.idle.pop_front() {
                    Some(since) => self.resting.taken(since.elapsed()),
                    None => {
                        self.resting.opened();
                        self.opened += 1;
                    }
                }
            }
            tokio::time::advance(Duration::from_millis(1)).await;
            for _ in 0..at_once {
                if self.resting.returned() {
                    self.idle.push_back(Instant::now());
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pool_keeps_no_more_connections_than_it_needs() {
        let mut pool = Pool::default();
        pool.used(4).await;
        for _ in 0..20 {
            tokio::time::advance(Duration::from_millis(332)).await;
            pool.used(1).await;
        }
        assert_eq!((pool.idle.len(), pool.opened), (1, 4), "one is enough for one after the other");
        tokio::time::advance(Duration::from_secs(60)).await;
        pool.used(1).await;
        assert_eq!((pool.idle.len(), pool.opened), (1, 4), "and may rest for as long as it likes");
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_are_needed_together_stay_together() {
        let mut pool = Pool::default();
        for _ in 0..10 {
            pool.used(4).await;
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        assert_eq!((pool.idle.len(), pool.opened), (4, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_went_without_a_word_is_forgotten() {
        let mut pool = Pool::default();
        pool.used(3).await;
        pool.idle.pop_front();
        for _ in 0..10 {
            tokio::time::advance(Duration::from_millis(400)).await;
            pool.used(1).await;
        }
        assert_eq!((pool.idle.len(), pool.opened), (1, 4), "it costs one connection at most");
    }
}
