//! Appends that a handler makes in its own transaction: waiting readers are notified when that has been committed.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

tokio::task_local! {
    static APPENDED: Arc<AtomicU64>;
}

/// For backends: says that the handler which is running has appended in its transaction, up to this number. Outside of a
/// handler it does nothing.
pub fn appended_in_handler(global_sequence: u64) {
    // Where no handler of ours is running, the appending caller announces it.
    if let Ok(highest) = APPENDED.try_with(Arc::clone) {
        highest.fetch_max(global_sequence, Ordering::Relaxed);
    }
}

/// Runs a handler and notes what it appends. Says the highest number, if there is one.
pub(super) async fn noting<F: Future>(handler: F) -> (F::Output, Option<u64>) {
    let highest = Arc::new(AtomicU64::new(0));
    let output = APPENDED.scope(highest.clone(), handler).await;
    (output, Some(highest.load(Ordering::Relaxed)).filter(|highest| *highest > 0))
}
