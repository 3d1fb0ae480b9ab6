//! Wake-ups in memory: all readers are in the same process.

use super::MemoryEventStore;
use crate::{Wakeup, Wakeups};

impl Wakeups for MemoryEventStore {
    fn announce(&self, global_sequence: u64) {
        self.hints.send_modify(|highest| *highest = global_sequence.max(*highest));
    }

    fn wakeups(&self) -> Wakeup {
        Wakeup::new(&self.hints)
    }

    /// Never: there are no other processes.
    fn push_degraded(&self) -> Option<String> {
        None
    }
}
