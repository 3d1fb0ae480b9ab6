//! Dead letters: each is about an event of the log, and none is left open.

use std::collections::HashSet;

use super::facts::{Facts, is_open};
use super::finding::{Finding, count};
use crate::cast::{Kind, role};
use crate::evidence::{Letter, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Vec<Violation> {
    let log = &facts.evidence.log;
    let without: HashSet<(&str, u64)> =
        facts.evidence.letters.iter().filter(|letter| letter.state == "discarded").map(key).collect();
    let rows = facts.evidence.rows.iter().map(|row| (row.subscriber_id.as_str(), row.global_sequence));
    let taken_in: HashSet<(&str, u64)> =
        if without.is_empty() { HashSet::new() } else { rows.filter(|row| without.contains(row)).collect() };
    let (mut open, mut gone, mut undone) = (Finding::new("G24"), Finding::new("G15"), Finding::new("G24"));
    let mut unfounded = Finding::new("G22");
    for letter in &facts.evidence.letters {
        let event = facts.at(letter.global_sequence).map(|at| &log[at]);
        if event.is_none_or(|event| event.id != letter.event_id || event.stream_id != letter.stream_id) {
            gone.line(|| told(letter));
        }
        // Whoever is not shaky has no reason to fail but the database, and that is not the event's fault.
        if role(&letter.subscriber_id).is_some_and(|role| !role.shaky) {
            unfounded.line(|| told(letter));
        }
        if is_open(letter) && !facts.evidence.letters_left {
            open.line(|| told(letter));
        }
        // An effect may have come before the letter, from a leader that did not live to store it. A row may not; and only a
        // rebuild hands over anew what was done without.
        let id = letter.subscriber_id.as_str();
        let transactional = role(id).is_some_and(|role| role.kind == Kind::Transactional);
        let has_row = transactional && taken_in.contains(&key(letter));
        if letter.state == "discarded" && has_row && facts.rebuilds(id) == 0 {
            undone.line(|| told(letter));
        }
    }
    [
        gone.told(|n| format!("{} about events that are not in the log", count(n, "letter"))),
        unfounded.told(|n| format!("{} about events that nothing was wrong with", count(n, "letter"))),
        open.told(|n| format!("{} still open, though all were to be handed over again", count(n, "letter"))),
        undone.told(|n| format!("{} discarded, though the event was taken in", count(n, "letter"))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn key(letter: &Letter) -> (&str, u64) {
    (&letter.subscriber_id, letter.global_sequence)
}

fn told(letter: &Letter) -> String {
    let Letter { subscriber_id, global_sequence, event_id, stream_id, state, parks } = letter;
    let parks = if *parks { ", with others of the stream behind it" } else { "" };
    format!("{subscriber_id}: event {global_sequence}, {event_id} of stream {stream_id}: {state}{parks}")
}
