//! Dead letters: each is about an event of the log, and none is left open.

use std::collections::HashSet;

use super::facts::{Facts, is_open};
use super::finding::{Finding, count};
use crate::cast::{Kind, role};
use crate::evidence::{DeadLetter, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Vec<Violation> {
    let log = &facts.evidence.log;
    let without: HashSet<(&str, u64)> =
        facts.evidence.dead_letters.iter().filter(|dead_letter| dead_letter.state == "discarded").map(key).collect();
    let rows = facts.evidence.rows.iter().map(|row| (row.subscriber_id.as_str(), row.global_sequence));
    let handled: HashSet<(&str, u64)> =
        if without.is_empty() { HashSet::new() } else { rows.filter(|row| without.contains(row)).collect() };
    let (mut open, mut gone, mut undone) = (Finding::new("G24"), Finding::new("G15"), Finding::new("G24"));
    let mut unfounded = Finding::new("G22");
    for dead_letter in &facts.evidence.dead_letters {
        let event = facts.at(dead_letter.global_sequence).map(|at| &log[at]);
        if event.is_none_or(|event| event.id != dead_letter.event_id || event.stream_id != dead_letter.stream_id) {
            gone.line(|| told(dead_letter));
        }
        // A subscriber that is not shaky has no reason to fail but the database, and that is not the event's fault.
        if role(&dead_letter.subscriber_id).is_some_and(|role| !role.shaky) {
            unfounded.line(|| told(dead_letter));
        }
        if is_open(dead_letter) && !facts.evidence.dead_letters_left {
            open.line(|| told(dead_letter));
        }
        // An effect may have come before the dead letter, from a leader that did not live to store it. A row may not; and
        // only a rebuild hands over anew what was discarded.
        let id = dead_letter.subscriber_id.as_str();
        let transactional = role(id).is_some_and(|role| role.kind == Kind::Transactional);
        let has_row = transactional && handled.contains(&key(dead_letter));
        if dead_letter.state == "discarded" && has_row && facts.rebuilds(id) == 0 {
            undone.line(|| told(dead_letter));
        }
    }
    [
        gone.told(|n| format!("{} about events that are not in the log", count(n, "dead letter"))),
        unfounded.told(|n| format!("{} about events that nothing was wrong with", count(n, "dead letter"))),
        open.told(|n| format!("{} still open, though all were to be handed over again", count(n, "dead letter"))),
        undone.told(|n| format!("{} discarded, though the event was handled", count(n, "dead letter"))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn key(dead_letter: &DeadLetter) -> (&str, u64) {
    (&dead_letter.subscriber_id, dead_letter.global_sequence)
}

fn told(dead_letter: &DeadLetter) -> String {
    let DeadLetter { subscriber_id, global_sequence, event_id, stream_id, state, parks } = dead_letter;
    let parks = if *parks { ", with others of the stream behind it" } else { "" };
    format!("{subscriber_id}: event {global_sequence}, {event_id} of stream {stream_id}: {state}{parks}")
}
