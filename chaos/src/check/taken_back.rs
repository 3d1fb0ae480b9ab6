//! What a crash may take back: appends that did not wait for the disk, the last of them first; and what was committed while the
//! replica was lost, unless its writer was told before that it is stored.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use crate::evidence::Evidence;
use crate::record::{How, Outcome};

/// The fault after which a replica is promoted that lacks what could be seen.
const LOST: &str = "lose-replica";

/// What did not wait for the disk or for the replica, and when a server may have lost it.
#[derive(Debug)]
pub(super) struct TakenBack {
    sent: HashMap<Uuid, Sent>,
    /// From when on a replica was lost, and until when what was read before its promotion may have been handled.
    lost: Vec<(u64, u64)>,
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
        let lost = evidence.faults.iter().filter(|fault| fault.kind == LOST).map(|fault| (fault.from, fault.to));
        Self { sent: sent(evidence), lost: lost.collect(), asynchronous, crashes, stayed }
    }

    /// Whether an event that was committed by then may be gone: it did not wait for the disk, the server crashed, and nothing
    /// stayed that was sent afterwards and acknowledged before the crash. A crash takes back an end of the log and no more.
    pub(super) fn excuses(&self, id: Uuid, committed: u64) -> bool {
        let later = self.stayed.partition_point(|(at, _)| *at <= committed);
        let first_stayed = self.stayed.get(later).map_or(u64::MAX, |(_, acknowledged)| *acknowledged);
        let crash = self.crashes.iter().find(|(_, to)| *to >= committed);
        self.asynchronous.contains(&id) && crash.is_some_and(|(from, _)| first_stayed >= *from)
    }
    /// Whether what was seen of an event at that time may be gone: the replica was lost, and nobody had been told before what
    /// became of the event, so that it may have been committed without the replica.
    pub(super) fn lacks_replica(&self, id: Uuid, seen: u64) -> bool {
        let certain = self.sent.get(&id).map_or(u64::MAX, |sent| sent.certain);
        self.lost.iter().any(|(from, to)| (*from..=*to).contains(&seen) && certain >= *from)
    }

    /// Whether an event that is not in the log may have been seen by a subscriber, whenever that was.
    pub(super) fn may_have_been_seen(&self, id: Uuid) -> bool {
        let Some(sent) = self.sent.get(&id) else { return false };
        let lost = self.lost.iter().any(|(from, to)| *to >= sent.at && sent.certain >= *from);
        lost || self.excuses(id, if sent.certain == u64::MAX { sent.at } else { sent.certain })
    }
}

/// What is known of an event by who sent it.
#[derive(Debug)]
struct Sent {
    at: u64,
    /// When its writer was told what became of it; never, if it was not.
    certain: u64,
}

fn sent(evidence: &Evidence) -> HashMap<Uuid, Sent> {
    let times = evidence.appends.iter().flat_map(|sending| {
        let certain = match sending.outcome {
            // Nobody ever could have seen it. What was refused may have been seen: it was sent again after it was gone.
            Some(Outcome::RolledBack) => 0,
            Some(Outcome::Stored { .. } | Outcome::Refused { .. }) => sending.ended_at.unwrap_or(u64::MAX),
            Some(Outcome::Unknown { .. }) | None => u64::MAX,
        };
        sending.events.iter().map(move |event| (event.id, Sent { at: sending.at, certain }))
    });
    times.collect()
}
