//! Whether something is called from inside a subscriber's own handler, where waiting for that subscriber would never end.

use tokio::sync::watch;

use super::status::Status;

tokio::task_local! {
    /// The subscriber whose task this is, known by the channel that shows its status: another bus may have one of the same
    /// name.
    static TASK_OF: watch::Receiver<Status>;
}

/// Runs a subscriber. Its handler runs in the same task, so that the handler's calls can be told from other calls; what the
/// handler spawns is a separate task.
pub(crate) async fn running<T>(status: watch::Receiver<Status>, running: impl Future<Output = T>) -> T {
    TASK_OF.scope(status, running).await
}

/// Whether this is called from inside the handler of the subscriber with that status.
pub(crate) fn is_within(status: &watch::Receiver<Status>) -> bool {
    TASK_OF.try_with(|own| own.same_channel(status)).unwrap_or(false)
}
