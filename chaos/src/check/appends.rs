//! What writers sent and were told, against what is in the log.

use std::collections::HashMap;

use uuid::Uuid;

use super::facts::{Facts, life};
use super::finding::{Finding, count};
use crate::evidence::{Logged, Sending, Violation};
use crate::record::Outcome;

pub(super) fn check(facts: &Facts<'_>) -> Vec<Violation> {
    let mut found = AppendFindings::new();
    // Whether any sender of it may have stored it.
    let mut sent: HashMap<Uuid, bool> = HashMap::with_capacity(facts.evidence.log.len());
    for sending in &facts.evidence.appends {
        let stays_out = matches!(sending.outcome, Some(Outcome::Refused { .. } | Outcome::RolledBack));
        for event in &sending.events {
            *sent.entry(event.id).or_insert(false) |= !stays_out;
        }
    }
    for sending in &facts.evidence.appends {
        found.look_at(facts, sending, &sent);
    }
    for event in &facts.evidence.log {
        if event.event_type != "Answered" && !sent.contains_key(&event.id) {
            found.unsent.line(|| facts.event(event));
        }
    }
    found.told()
}

struct AppendFindings {
    lost: Finding,
    parts: Finding,
    streams: Finding,
    order: Finding,
    answers: Finding,
    refused: Finding,
    taken_back: Finding,
    elsewhere: Finding,
    unfounded: Finding,
    unsent: Finding,
}

impl AppendFindings {
    fn new() -> Self {
        let finding = Finding::new;
        Self {
            lost: finding("G15"),
            parts: finding("G1"),
            streams: finding("G10"),
            order: finding("G5"),
            answers: finding("G4"),
            refused: finding("G11"),
            taken_back: finding("G1"),
            elsewhere: finding("G2"),
            unfounded: finding("G2"),
            unsent: finding("G9"),
        }
    }

    fn look_at(&mut self, facts: &Facts<'_>, sending: &Sending, sent: &HashMap<Uuid, bool>) {
        let log = &facts.evidence.log;
        let stored: Vec<Option<&Logged>> =
            sending.events.iter().map(|event| facts.find(event.id).map(|at| &log[at])).collect();
        let expects = sending.events.iter().any(|event| event.expected.is_some());
        if matches!(sending.outcome, Some(Outcome::Refused { conflict, .. }) if !conflict || !expects) {
            self.unfounded.add(|| told(facts, sending, "there was no conflict that it could have met"));
        }
        match &sending.outcome {
            Some(Outcome::Refused { .. } | Outcome::RolledBack) => {
                // Another append may have sent the same event, and stored it.
                let there = stored.iter().flatten().find(|event| sent.get(&event.id) != Some(&true));
                if let Some(event) = there {
                    let refused = matches!(sending.outcome, Some(Outcome::Refused { .. }));
                    let finding = if refused { &mut self.refused } else { &mut self.taken_back };
                    finding.add(|| told(facts, sending, &facts.event(event)));
                }
                return;
            }
            Some(Outcome::Stored { last, .. }) => {
                let place = stored.last().copied().flatten().map(|event| event.global_sequence);
                let committed = sending.ended_at.unwrap_or(sending.at);
                if stored.iter().all(Option::is_none) {
                    if sending.events.iter().all(|event| facts.taken_back.excuses(event.id, committed)) {
                        return;
                    }
                    self.lost.add(|| told(facts, sending, "nothing of it is in the log"));
                } else if place.is_some_and(|place| place != *last) {
                    let what = format!("it was told {last} for its last event, which is at {}", place.unwrap_or(0));
                    self.answers.add(|| told(facts, sending, &what));
                }
            }
            Some(Outcome::Unknown { .. }) | None => {}
        }
        let there = stored.iter().flatten().count();
        if there > 0 && there < stored.len() {
            let what = format!("{there} of {} are in the log", count(stored.len() as u64, "event"));
            self.parts.add(|| told(facts, sending, &what));
        }
        let pairs = sending.events.iter().zip(&stored).filter_map(|(sent, stored)| stored.map(|stored| (sent, stored)));
        for (sent, stored) in pairs {
            if let Some(expected) = sent.expected.filter(|expected| stored.stream_version != expected + 1) {
                let what = format!("it expected the stream at {expected}, and is {}", facts.event(stored));
                self.elsewhere.add(|| told(facts, sending, &what));
            }
            if sent.stream_id != stored.stream_id {
                let what = format!("it was for stream {}, and is {}", sent.stream_id, facts.event(stored));
                self.streams.add(|| told(facts, sending, &what));
            }
        }
        let places: Vec<&Logged> = stored.into_iter().flatten().collect();
        if let Some(pair) = places.windows(2).find(|pair| pair[0].global_sequence >= pair[1].global_sequence) {
            let what = format!("{} was sent before {}", facts.event(pair[0]), facts.event(pair[1]));
            self.order.add(|| told(facts, sending, &what));
        }
    }

    fn told(self) -> Vec<Violation> {
        let appends = |n| count(n, "append");
        [
            self.lost.told(|n| format!("{} acknowledged and not in the log", was(n))),
            self.parts.told(|n| format!("{} stored in part", was(n))),
            self.streams.told(|n| format!("{} in another stream than was asked for", is(n))),
            self.order.told(|n| format!("the events of {} are not in the order they were sent in", appends(n))),
            self.answers.told(|n| format!("{} told another place than the log has", was(n))),
            self.refused.told(|n| format!("{} refused and yet in the log", was(n))),
            self.taken_back.told(|n| format!("{} rolled back and yet in the log", was(n))),
            self.elsewhere.told(|n| format!("{} stored though the stream was not where it was expected", was(n))),
            self.unfounded.told(|n| format!("{} refused without a reason", was(n))),
            self.unsent.told(|n| format!("{} in the log that nobody sent", is(n))),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn was(number: u64) -> String {
    format!("{} {}", count(number, "append"), if number == 1 { "was" } else { "were" })
}

fn is(number: u64) -> String {
    format!("{} {}", count(number, "event"), if number == 1 { "is" } else { "are" })
}

/// An append, what is wrong with it, and what happened meanwhile.
fn told(facts: &Facts<'_>, sending: &Sending, what: &str) -> Vec<String> {
    let Sending { by, append, how, events, at, outcome, ended_at } = sending;
    let outcome = match outcome {
        Some(Outcome::Stored { last, sendings }) => {
            format!("acknowledged at {last} after {}", count(u64::from(*sendings), "sending"))
        }
        Some(Outcome::Refused { why, .. }) => format!("refused ({why})"),
        Some(Outcome::RolledBack) => "rolled back".to_owned(),
        Some(Outcome::Unknown { why }) => format!("given up ({why})"),
        None => "never answered".to_owned(),
    };
    let ended = ended_at.map_or_else(|| outcome.clone(), |at| format!("{outcome} {}", facts.time(at)));
    let first = events.first().map_or_else(String::new, |event| format!(" from {}", event.id));
    let events = count(events.len() as u64, "event");
    let head = format!(
        "append {append} of {} ({how:?}, {events}{first}), sent {}, {ended}: {what}",
        life(*by),
        facts.time(*at)
    );
    let mut lines = vec![head];
    lines.extend(facts.faults_during(*at, ended_at.unwrap_or(*at)));
    lines
}
