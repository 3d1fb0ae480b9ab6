//! What all checks look things up in.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::spans::Spans;
use super::taken_back::TakenBack;
use crate::cast::{Kind, Role, role};
use crate::evidence::{DeadLetter, Evidence, Logged};
use crate::record::Life;

/// Faults that are named beside a case.
const FAULTS_SHOWN_MAX: usize = 3;

/// The evidence, with its indexes.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) evidence: &'a Evidence,
    /// The first time that anything happened.
    start: u64,
    ids: HashMap<Uuid, usize>,
    places: HashMap<u64, usize>,
    /// Where the last one was found: mostly the next one is asked for.
    last: Cell<usize>,
    checkpoints: HashMap<&'a str, u64>,
    dead_letters: HashMap<&'a str, HashMap<u64, &'a DeadLetter>>,
    rebuilt: HashMap<&'a str, u64>,
    /// Every fault.
    pub(super) faults: Spans,
    /// Those that concerned the whole database.
    pub(super) server_faults: Spans,
    pub(super) taken_back: TakenBack,
}

impl<'a> Facts<'a> {
    pub(super) fn new(evidence: &'a Evidence) -> Self {
        let mut ids = HashMap::with_capacity(evidence.log.len());
        let mut places = HashMap::with_capacity(evidence.log.len());
        for (at, event) in evidence.log.iter().enumerate() {
            ids.entry(event.id).or_insert(at);
            places.entry(event.global_sequence).or_insert(at);
        }
        let mut dead_letters: HashMap<&str, HashMap<u64, &DeadLetter>> = HashMap::new();
        for dead_letter in &evidence.dead_letters {
            dead_letters
                .entry(&dead_letter.subscriber_id)
                .or_default()
                .insert(dead_letter.global_sequence, dead_letter);
        }
        let server = evidence.faults.iter().filter(|fault| fault.server);
        let taken_back = TakenBack::new(evidence, |id| ids.contains_key(&id));
        Self {
            evidence,
            start: start(evidence),
            taken_back,
            ids,
            places,
            last: Cell::new(0),
            checkpoints: evidence.checkpoints.iter().map(|(id, at)| (id.as_str(), *at)).collect(),
            dead_letters,
            rebuilt: rebuilds(evidence),
            faults: Spans::new(evidence.faults.iter().map(|fault| (fault.from, fault.to))),
            server_faults: Spans::new(server.map(|fault| (fault.from, fault.to))),
        }
    }

    /// Where in the log's list the event of that id stands.
    pub(super) fn find(&self, id: Uuid) -> Option<usize> {
        self.ids.get(&id).copied()
    }

    /// Where in the log's list the event of that number stands.
    pub(super) fn at(&self, global_sequence: u64) -> Option<usize> {
        let next = self.last.get() + 1;
        let is_next = self.evidence.log.get(next).is_some_and(|event| event.global_sequence == global_sequence);
        let found = if is_next { Some(next) } else { self.places.get(&global_sequence).copied() };
        self.last.set(found.unwrap_or(next - 1));
        found
    }

    /// Where a subscriber is at the end.
    pub(super) fn checkpoint(&self, subscriber_id: &str) -> Option<u64> {
        self.checkpoints.get(subscriber_id).copied()
    }

    /// What one subscriber had to do.
    pub(super) fn duties(&self, role: &'a Role) -> Duties<'_> {
        let (dead_letters, checkpoint) = (self.dead_letters.get(role.id), self.checkpoint(role.id));
        Duties { role, dead_letters, checkpoint: checkpoint.unwrap_or(0) }
    }

    /// How often another instance, or the same one anew, resumed for a subscriber.
    pub(super) fn takeovers(&self, subscriber_id: &str) -> u64 {
        let writes = self.evidence.audit.iter().filter(|write| write.subscriber_id == subscriber_id);
        let terms: HashSet<u64> = writes.map(|write| write.term).collect();
        (terms.len() as u64).saturating_sub(1)
    }

    /// How often a subscriber was rebuilt.
    pub(super) fn rebuilds(&self, subscriber_id: &str) -> u64 {
        self.rebuilt.get(subscriber_id).copied().unwrap_or(0)
    }

    pub(super) fn event(&self, event: &Logged) -> String {
        let Logged { global_sequence, id, stream_id, stream_version, event_type, .. } = event;
        format!("event {global_sequence}: {event_type} {id}, version {stream_version} of stream {stream_id}")
    }

    /// A time, from the start of the run.
    pub(super) fn time(&self, at: u64) -> String {
        format!("+{:.3} s", at.saturating_sub(self.start) as f64 / 1e6)
    }

    /// The faults of a time, a line each.
    pub(super) fn faults_during(&self, from: u64, to: u64) -> Vec<String> {
        let overlapping = self.evidence.faults.iter().filter(|fault| fault.from <= to && fault.to >= from);
        overlapping
            .take(FAULTS_SHOWN_MAX)
            .map(|fault| {
                let (from, to) = (self.time(fault.from), self.time(fault.to));
                format!("  during fault {}, {}, {from} to {to}: {}", fault.n, fault.kind, fault.what)
            })
            .collect()
    }
}

/// What one subscriber had to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Duties<'a> {
    role: &'a Role,
    dead_letters: Option<&'a HashMap<u64, &'a DeadLetter>>,
    /// 0 without one: then it had to do nothing yet.
    checkpoint: u64,
}

impl<'a> Duties<'a> {
    /// Its dead letter about an event.
    pub(super) fn dead_letter(&self, global_sequence: u64) -> Option<&'a DeadLetter> {
        self.dead_letters?.get(&global_sequence).copied()
    }

    /// Whether it had to handle an event by itself: it is wanted, the checkpoint has passed it, and it is neither waiting
    /// in a dead letter nor discarded.
    pub(super) fn is_due(&self, event: &Logged) -> bool {
        event.global_sequence <= self.checkpoint
            && self.role.wants(&event.event_type)
            && self
                .dead_letter(event.global_sequence)
                .is_none_or(|dead_letter| dead_letter.state != "discarded" && !is_open(dead_letter))
    }

    /// The promise that is broken when it has not handled what it had to.
    pub(super) fn missing(&self, event: &Logged) -> &'static str {
        match self.dead_letter(event.global_sequence) {
            Some(_) => "G24",
            None if self.role.shaky => "G21",
            None if self.role.kind == Kind::Transactional => "G20",
            None => "G19",
        }
    }

    /// What became of the dead letter about an event, to be added to what is said of it.
    pub(super) fn fate(&self, event: &Logged) -> String {
        let dead_letter = self.dead_letter(event.global_sequence);
        dead_letter.map_or_else(String::new, |dead_letter| format!("; its dead letter is {}", dead_letter.state))
    }
}

pub(super) fn life(life: Life) -> String {
    format!("instance {} in life {}", life.instance, life.life)
}

/// Whether something is still to be done with a dead letter.
pub(super) fn is_open(dead_letter: &DeadLetter) -> bool {
    dead_letter.state == "dead" || dead_letter.state == "parked"
}

fn start(evidence: &Evidence) -> u64 {
    let firsts = [
        evidence.samples.iter().map(|sample| sample.at).min(),
        evidence.appends.iter().map(|append| append.at).min(),
        evidence.effects.iter().map(|effect| effect.at).min(),
        evidence.faults.iter().map(|fault| fault.from).min(),
    ];
    firsts.into_iter().flatten().min().unwrap_or(0)
}

/// A rebuild is where a checkpoint goes back to where its subscriber began, with a higher term. Effects cannot be taken
/// back, so who has them is not rebuilt.
pub(crate) fn rebuilds(evidence: &Evidence) -> HashMap<&str, u64> {
    let mut before: HashMap<&str, (u64, u64, u64)> = HashMap::new();
    let mut rebuilds = HashMap::new();
    for write in &evidence.audit {
        let here = (write.global_sequence, write.term, write.global_sequence);
        let (start, term, at) = before.entry(&write.subscriber_id).or_insert(here);
        let transactional = role(&write.subscriber_id).is_none_or(|role| role.kind == Kind::Transactional);
        if transactional && write.term > *term && write.global_sequence < *at && write.global_sequence == *start {
            *rebuilds.entry(write.subscriber_id.as_str()).or_insert(0) += 1;
        }
        (*term, *at) = (write.term, write.global_sequence);
    }
    rebuilds
}
