//! Subscribers with effects outside of transactions: everything at least once, in order, and after a takeover one batch
//! again at most.
//!
//! What went through a dead letter is left out of order and of repetition: it comes when an operator asks for it.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::RECOVERY;
use super::facts::{Facts, life};
use super::finding::{Finding, count};
use crate::cast::{Kind, ROLES, Role};
use crate::evidence::{Effect, Violation};
use crate::record::Life;

/// A life that has delivered nothing for so long, while another did, may have got leadership anew: in microseconds.
const PAUSE: u64 = 200_000;

/// An event that is not delivered in order: not wanted, or with a dead letter.
const NO_RANK: u32 = u32::MAX;

pub(super) fn check(facts: &Facts<'_>) -> Vec<Violation> {
    let mut effects: Vec<Vec<&Effect>> = vec![Vec::new(); ROLES.len()];
    for effect in &facts.evidence.effects {
        if let Some(of_role) = effects.get_mut(effect.role) {
            of_role.push(effect);
        }
    }
    let roles = ROLES.iter().zip(effects).filter(|(role, _)| role.kind != Kind::Transactional);
    roles.flat_map(|(role, effects)| Watch::new(facts, role).all(&effects)).collect()
}

/// Events that one life delivered one after the other.
struct Run {
    first: u64,
    since: u64,
    last_rank: u32,
    last_at: u64,
    /// How often another instance had begun to deliver by then.
    turn: u64,
    /// Events that had been delivered before.
    repeated: usize,
}

/// The latest delivery of an event.
#[derive(Clone, Copy)]
struct Delivered {
    at: u64,
    by: Life,
}

/// One subscriber's deliveries, by time.
struct Watch<'a> {
    facts: &'a Facts<'a>,
    role: &'static Role,
    /// Each event's place among those that are delivered in order.
    ranks: Vec<u32>,
    delivered: Vec<Option<Delivered>>,
    /// Delivered while the replica was lost: perhaps what is in the log, perhaps what was gone and came again with its number.
    perhaps: Vec<bool>,
    runs: HashMap<Life, Run>,
    /// Lives that have led once at most: what they deliver again they deliver in the same term.
    once: HashSet<Life>,
    speaker: Option<Life>,
    turn: u64,
    highest: Option<usize>,
    gone: Finding,
    unwanted: Finding,
    order: Finding,
    repeats: Finding,
    /// How many came again in all.
    repeated: u64,
    same_term: Finding,
}

impl<'a> Watch<'a> {
    fn new(facts: &'a Facts<'a>, role: &'static Role) -> Self {
        let (mut next, duties) = (0, facts.duties(role));
        let ranks = facts.evidence.log.iter().map(|event| {
            if !role.wants(&event.event_type) || duties.dead_letter(event.global_sequence).is_some() {
                return NO_RANK;
            }
            next += 1;
            next - 1
        });
        Self {
            facts,
            role,
            ranks: ranks.collect(),
            delivered: vec![None; facts.evidence.log.len()],
            perhaps: vec![false; facts.evidence.log.len()],
            runs: HashMap::new(),
            once: led_once(facts, role),
            speaker: None,
            turn: 0,
            highest: None,
            gone: Finding::new("G15"),
            unwanted: Finding::new("G8"),
            order: Finding::new("G19"),
            repeats: Finding::new("G29"),
            repeated: 0,
            same_term: Finding::new("G29"),
        }
    }

    fn all(mut self, effects: &[&Effect]) -> Vec<Violation> {
        for effect in effects {
            self.examine(effect);
        }
        self.told()
    }

    fn examine(&mut self, effect: &Effect) {
        let (facts, log) = (self.facts, &self.facts.evidence.log);
        let lacks_replica = facts.taken_back.lacks_replica(effect.id, effect.at);
        let Some(at) = facts.at(effect.global_sequence).filter(|at| log[*at].id == effect.id) else {
            // It was committed when it was delivered.
            if lacks_replica || facts.taken_back.excuses(effect.id, effect.at) {
                return;
            }
            self.gone.add(|| {
                let mut lines = vec![format!("{}: {}", told(facts, effect), effect.id)];
                lines.extend(facts.faults_during(effect.at, effect.at + RECOVERY));
                lines
            });
            return;
        };
        if !self.role.wants(&log[at].event_type) {
            self.unwanted.line(|| format!("{}: {}", told(facts, effect), facts.event(&log[at])));
        }
        if lacks_replica {
            return self.perhaps[at] = true;
        }
        let before = self.delivered[at].replace(Delivered { at: effect.at, by: effect.by });
        if self.ranks[at] == NO_RANK {
            return;
        }
        match before {
            None if self.perhaps[at] => self.highest = self.highest.max(Some(at)),
            None => self.first(effect, at),
            Some(before) => self.again_in_term(effect, at, before),
        }
        self.follow(effect, at, before);
    }

    /// A leader begins behind what was delivered, so that first deliveries are in order, whichever instance makes them.
    fn first(&mut self, effect: &Effect, at: usize) {
        let facts = self.facts;
        match self.highest.filter(|highest| *highest > at) {
            Some(highest) => self.order.add(|| {
                let beyond = facts.evidence.log[highest].global_sequence;
                let from = self.delivered[highest].map_or(effect.at, |delivered| delivered.at);
                let mut lines = vec![format!("{}, for the first time, after {beyond}", told(facts, effect))];
                lines.extend(facts.faults_during(from.min(effect.at), effect.at));
                lines
            }),
            None => self.highest = Some(at),
        }
    }

    /// Without a takeover and without a fault nothing comes twice, but for an attempt that failed and is made again.
    fn again_in_term(&mut self, effect: &Effect, at: usize, before: Delivered) {
        let retried = self.runs.get(&effect.by).is_some_and(|run| run.last_rank == self.ranks[at]);
        let alone = before.by == effect.by && self.once.contains(&effect.by);
        if alone && !retried && !self.facts.faults.touch(before.at.saturating_sub(RECOVERY), effect.at) {
            let facts = self.facts;
            self.same_term.line(|| format!("{}, as {} before", told(facts, effect), facts.time(before.at)));
        }
    }

    /// A takeover brings one batch again at most. Who was overtaken without knowing may still hand over its own.
    fn follow(&mut self, effect: &Effect, at: usize, before: Option<Delivered>) {
        if self.speaker.replace(effect.by) != Some(effect.by) {
            self.turn += 1;
        }
        let (facts, rank) = (self.facts, self.ranks[at]);
        let last = self.runs.get(&effect.by).map(|run| (run.last_rank, run.last_at, run.turn));
        let continues = last.is_some_and(|(last, last_at, turn)| {
            let overtaken = turn != self.turn && effect.at.saturating_sub(last_at) > PAUSE;
            rank == last || rank == last + 1 && !overtaken
        });
        if !continues {
            let new = Run {
                first: effect.global_sequence,
                since: effect.at,
                last_rank: rank,
                last_at: 0,
                turn: 0,
                repeated: 0,
            };
            self.runs.insert(effect.by, new);
        }
        let Some(run) = self.runs.get_mut(&effect.by) else { return };
        (run.last_rank, run.last_at, run.turn) = (rank, effect.at, self.turn);
        // An attempt that failed is made again, whichever instance leads.
        let retried = continues && last.is_some_and(|(last, ..)| last == rank);
        let Some(before) = before.filter(|_| !retried) else { return };
        // A crash of the server may take back what only carried a checkpoint.
        if self.facts.server_faults.touch(before.at, effect.at) {
            return;
        }
        run.repeated += 1;
        self.repeated += 1;
        if run.repeated == self.role.batch + 1 {
            self.repeats.add(|| {
                let since = facts.time(run.since);
                let mut lines = vec![
                    format!("events from {} on, {since}, up to {}", run.first, told(facts, effect)),
                    format!(
                        "  event {} before: {} by {}",
                        effect.global_sequence,
                        facts.time(before.at),
                        life(before.by)
                    ),
                ];
                lines.extend(facts.faults_during(before.at, effect.at));
                lines
            });
        }
    }

    /// In all: one batch for each takeover, and for each time that the store could not be reached.
    fn too_many(&self) -> Option<Violation> {
        let (role, occasions) =
            (self.role, self.facts.takeovers(self.role.id) + self.facts.evidence.faults.len() as u64);
        let allowed = occasions * role.batch as u64;
        if self.repeated <= allowed {
            return None;
        }
        let mut finding = Finding::new("G29");
        finding.line(|| {
            format!("{} came again, and {occasions} takeovers and faults account for {allowed}", self.repeated)
        });
        finding.told(|_| format!("{}: more came again than takeovers and faults account for", role.id))
    }

    fn told(self) -> Vec<Violation> {
        let (facts, role, id) = (self.facts, self.role, self.role.id);
        let too_many = self.too_many();
        let duties = facts.duties(role);
        let mut missing: BTreeMap<&str, Finding> = BTreeMap::new();
        for (at, event) in facts.evidence.log.iter().enumerate() {
            if self.delivered[at].is_none() && !self.perhaps[at] && duties.is_due(event) {
                let promise = duties.missing(event);
                let finding = missing.entry(promise).or_insert_with(|| Finding::new(promise));
                finding.add(|| {
                    let mut lines = vec![facts.event(event) + &duties.fate(event)];
                    lines.extend(neighbours(facts, &self.delivered, at));
                    lines
                });
            }
        }
        let missing = missing.into_values().filter_map(|finding| {
            finding
                .told(|n| format!("{id}: {} never delivered, though its checkpoint has passed them", count(n, "event")))
        });
        let gone = self.gone.told(|n| format!("{id}: {} of events that are not in the log", count(n, "effect")));
        let others = [
            self.order.told(|n| format!("{id}: {} delivered out of order", count(n, "event"))),
            self.repeats.told(|n| {
                format!("{id}: more than {} came again, {}", count(role.batch as u64, "event"), count(n, "time"))
            }),
            too_many,
            self.same_term.told(|n| format!("{id}: {} again without a takeover or a fault", count(n, "event"))),
            self.unwanted.told(|n| format!("{id}: {} of events that it does not want", count(n, "effect"))),
        ];
        gone.into_iter().chain(missing).chain(others.into_iter().flatten()).collect()
    }
}

/// When the events around one that is missing were delivered last, and what happened between.
fn neighbours(facts: &Facts<'_>, delivered: &[Option<Delivered>], at: usize) -> Vec<String> {
    let before = delivered[..at].iter().rev().flatten().next();
    let after = delivered[at + 1..].iter().flatten().next();
    let told = |delivered: &Delivered| format!("{} by {}", facts.time(delivered.at), life(delivered.by));
    let line = match (before, after) {
        (Some(before), Some(after)) => format!("  the one before {}, the one after {}", told(before), told(after)),
        (Some(before), None) => format!("  the one before {}, none after", told(before)),
        (None, Some(after)) => format!("  none before, the one after {}", told(after)),
        (None, None) => "  nothing was ever delivered".to_owned(),
    };
    let mut times: Vec<u64> = before.into_iter().chain(after).map(|delivered| delivered.at).collect();
    times.sort_unstable();
    let faults = times.first().zip(times.last()).map(|(from, to)| facts.faults_during(*from, *to));
    [line].into_iter().chain(faults.unwrap_or_default()).collect()
}

/// Lives that have led once at most.
fn led_once(facts: &Facts<'_>, role: &'static Role) -> HashSet<Life> {
    let mut terms: HashMap<Life, HashSet<u64>> = HashMap::new();
    for write in facts.evidence.audit.iter().filter(|write| write.subscriber_id == role.id) {
        if let Some(by) = write.by {
            terms.entry(by).or_default().insert(write.term);
        }
    }
    terms.into_iter().filter(|(_, terms)| terms.len() == 1).map(|(life, _)| life).collect()
}

fn told(facts: &Facts<'_>, effect: &Effect) -> String {
    format!("event {} {} by {}", effect.global_sequence, facts.time(effect.at), life(effect.by))
}
