//! What a caller knows of the streams it has appended to.

use std::collections::HashMap;
use std::sync::Mutex;

use uuid::Uuid;

/// After so many streams the older ones are forgotten: nobody appends to them again.
const STREAMS_MAX: usize = 4_096;

/// Where the last event of a stream is, for stores that want to be told when they append to it.
#[derive(Debug, Default)]
pub struct Recent {
    last: Mutex<HashMap<Uuid, u64>>,
}

impl Recent {
    /// The last event of a stream is there.
    pub fn put(&self, stream: Uuid, position: u64) {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if last.len() >= STREAMS_MAX {
            last.clear();
        }
        last.insert(stream, position);
    }

    /// Where the last event of a stream is, if it is known.
    #[must_use]
    pub fn get(&self, stream: Uuid) -> Option<u64> {
        self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get(&stream).copied()
    }
}
