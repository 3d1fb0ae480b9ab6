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
pub struct Wakeup {
    hints: watch::Receiver<u64>,
    losses: Option<watch::Receiver<u64>>,
}

impl Wakeup {
    /// A receiver for the hints sent into `sender`.
    #[must_use]
    pub fn new(sender: &watch::Sender<u64>) -> Self {
        Self { hints: sender.subscribe(), losses: None }
    }

    /// The same, and 0 whenever `losses` is sent anything: hints may have been lost, or are of a life of the log that is over.
    #[must_use]
    pub fn with_losses(sender: &watch::Sender<u64>, losses: &watch::Sender<u64>) -> Self {
        Self { losses: Some(losses.subscribe()), ..Self::new(sender) }
    }

    /// Waits for the next hint and returns the `global_sequence` it carries; `None` when the store is gone.
    ///
    /// May be dropped at any await: a hint that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<u64> {
        let lost = async {
            match &mut self.losses {
                Some(losses) => losses.changed().await,
                None => std::future::pending().await,
            }
        };
        let lost = tokio::select! {
            biased;
            lost = lost => lost.map(|()| true),
            changed = self.hints.changed() => changed.map(|()| false),
        };
        Some(if lost.ok()? { 0 } else { *self.hints.borrow_and_update() })
    }
}
