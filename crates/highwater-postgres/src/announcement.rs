//! Telling readers of what was committed in a transaction of the application's.

use highwater::backend::Wakeups as _;

use crate::store::PgEventStore;

/// Tells that a transaction with appends has been committed. Only a hint: if it is not sent, polling finds the events.
#[derive(Debug, Clone)]
#[must_use = "send it after the commit, or subscribers learn of the events only by polling"]
pub struct Announcement {
    store: PgEventStore,
    global_sequence: u64,
}

impl Announcement {
    pub(crate) fn new(store: &PgEventStore, global_sequence: u64) -> Self {
        Self { store: store.clone(), global_sequence }
    }

    /// To be called after the commit.
    pub fn send(self) {
        self.store.announce(self.global_sequence);
    }
}
