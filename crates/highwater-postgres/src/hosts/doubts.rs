//! Whether connections that were opened some time ago still lead to the primary.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::Error;
use highwater::backend::lock;
use tokio::time::Instant;

/// The least time between two doubts: a server that stays read-only must not cost a new connection for every statement.
const INTERVAL: Duration = Duration::from_secs(1);

/// When a server was last seen not to be the primary, or to be another one. Whatever was opened before is not used again:
/// a server that was replaced may live on, and answer what it is asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doubts {
    last: Arc<Mutex<Option<Instant>>>,
}

impl Doubts {
    pub(crate) fn raise(&self) {
        *lock(&self.last) = Some(Instant::now());
    }

    /// Checks whether an error is a reason for doubt.
    pub(crate) fn note(&self, error: &Error) {
        if !matches!(error, Error::NotPrimary { .. }) {
            return;
        }
        let mut last = lock(&self.last);
        if last.is_none_or(|last| last.elapsed() >= INTERVAL) {
            *last = Some(Instant::now());
        }
    }

    /// Whether a connection of this age is older than the last doubt.
    pub(crate) fn concern(&self, age: Duration) -> bool {
        lock(&self.last).is_some_and(|last| last.elapsed() <= age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn not_primary() -> Error {
        Error::NotPrimary { reason: String::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_opened_before_is_doubted_and_what_came_after_is_not() {
        let doubts = Doubts::default();
        assert!(!doubts.concern(SECOND));
        doubts.note(&Error::ShutDown);
        assert!(!doubts.concern(SECOND));
        doubts.note(&not_primary());
        assert!(doubts.concern(SECOND));
        tokio::time::advance(2 * SECOND).await;
        assert!(!doubts.concern(SECOND));
        assert!(doubts.concern(3 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stays_read_only_is_doubted_once_in_a_while() {
        let doubts = Doubts::default();
        doubts.note(&not_primary());
        tokio::time::advance(SECOND / 2).await;
        doubts.note(&not_primary());
        assert!(!doubts.concern(SECOND / 4));
        tokio::time::advance(SECOND / 2).await;
        doubts.note(&not_primary());
        assert!(doubts.concern(SECOND / 4));
    }
}
