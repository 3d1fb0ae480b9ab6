//! The contract of wake-ups: hints that there may be something new.

use tokio::sync::watch;

/// Hints that there may be something new in the log.
///
/// # Contract
///
/// - A hint may be lost, repeated or reordered, and several may arrive as one: a reader that waits for hints also polls from
///   time to time. A lost hint may cause only delay.
/// - A hint is given after the commit, never inside it, and carries the highest `global_sequence` that is known \[G12\]; or 0: hints
///   were lost, so look.
/// - Waiters in the same process are woken without a detour over the database.
pub trait Wakeups: Send + Sync {
    /// Says that everything up to `global_sequence` has been committed. Never waits.
    ///
    /// Appends through the store do this by themselves; it is for appends in a custom transaction.
    fn announce(&self, global_sequence: u64);

    /// Waits for hints, those given from now on.
    fn wakeups(&self) -> Wakeup;

    /// Why hints from other processes do not arrive at the moment; `None` when they do. They are found by looking then.
    fn push_degraded(&self) -> Option<String>;
}

/// Receives hints.
#[derive(Debug, Clone)]
pub struct Wakeup(watch::Receiver<u64>);

impl Wakeup {
    /// A receiver for the hints sent into `sender`.
    #[must_use]
    pub fn new(sender: &watch::Sender<u64>) -> Self {
        Self(sender.subscribe())
    }

    /// Waits for the next hint and returns the `global_sequence` it carries; `None` when the store is gone.
    ///
    /// May be dropped at any await: a hint that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<u64> {
        self.0.changed().await.ok()?;
        Some(*self.0.borrow_and_update())
    }
}
