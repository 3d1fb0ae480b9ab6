//! What a crash may take back: appends that did not wait for the disk, the last of them first.

use std::collections::HashSet;

use uuid::Uuid;

use crate::evidence::Evidence;
use crate::record::{How, Outcome};

/// What did not wait for the disk, and when a server may have lost it.
#[derive(Debug)]
pub(super) struct TakenBack {
    asynchronous: HashSet<Uuid>,
    /// Beginning and end, by end.
    crashes: Vec<(u64, u64)>,
    /// Appends that are in the log: when each was sent, and the earliest acknowledgement of it and all that were sent later.
    stayed: Vec<(u64, u64)>,
}

impl TakenBack {
    pub(super) fn new(evidence: &Evidence, is_logged: impl Fn(Uuid) -> bool) -> Self {
        let sendings = || evidence.appends.iter();
        let asynchronous = sendings().filter(|sending| sending.how == How::Asynchronous);
        let asynchronous = asynchronous.flat_map(|sending| &sending.events).map(|event| event.id).collect();
        let crashes = evidence.faults.iter().filter(|fault| fault.crash);
        let mut crashes: Vec<_> = crashes.map(|fault| (fault.from, fault.to)).collect();
        crashes.sort_unstable_by_key(|(_, to)| *to);
        let acknowledged = sendings().filter(|sending| matches!(sending.outcome, Some(Outcome::Stored { .. })));
        let logged = acknowledged.filter(|sending| sending.events.iter().any(|event| is_logged(event.id)));
        let mut stayed: Vec<_> = logged.filter_map(|sending| Some((sending.at, sending.ended_at?))).collect();
        stayed.sort_unstable();
        let mut earliest = u64::MAX;
        for (_, ended_at) in stayed.iter_mut().rev() {
            earliest = earliest.min(*ended_at);
            *ended_at = earliest;
        }
        Self { asynchronous, crashes, stayed }
    }

    /// Whether an event that was committed by then may be gone: it did not wait for the disk, the server crashed, and nothing
    /// stayed that was sent afterwards and acknowledged before the crash. A crash takes back an end of the log and no more.
    pub(super) fn excuses(&self, id: Uuid, committed: u64) -> bool {
        let later = self.stayed.partition_point(|(at, _)| *at <= committed);
        let first_stayed = self.stayed.get(later).map_or(u64::MAX, |(_, acknowledged)| *acknowledged);
        let crash = self.crashes.iter().find(|(_, to)| *to >= committed);
        self.asynchronous.contains(&id) && crash.is_some_and(|(from, _)| first_stayed >= *from)
    }
}
