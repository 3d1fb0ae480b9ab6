//! A run in which everything went well: two instances, a takeover after a kill, dead letters replayed and one discarded, a
//! rebuild. Tests damage it.

use std::collections::{BTreeMap, HashMap, HashSet};

use uuid::Uuid;

use crate::cast::{Kind, ROLES, Role};
use crate::evidence::{Audited, DeadLetter, Done, Effect, Evidence, Logged, Row, Sample, Sending, Tally};
use crate::record::{How, Life, Outcome, Sent};

/// Who leads everything at first.
pub(crate) const OLD: Life = Life { instance: 1, life: 0 };
/// Who takes over when that one is killed.
pub(crate) const NEW: Life = Life { instance: 2, life: 0 };
/// When the run begins.
pub(crate) const START: u64 = 5_000_000_000;
/// How far apart appends are.
pub(crate) const STEP: u64 = 10_000;
/// How long no leader.
const GAP: u64 = 300_000;
const STREAMS: u128 = 12;

/// What is sent, in the order of the log, and what came of it.
fn sendings(appends: u64) -> Vec<(Sending, bool)> {
    let mut next = 0;
    let mut all = Vec::new();
    for append in 0..appends {
        let (how, events) = match append % 10 {
            3 => (How::Batch, 3),
            6 => (How::Streams, 2),
            9 => (How::Unit, 2),
            _ => (How::Single, 1),
        };
        let events: Vec<Sent> = (0..events)
            .map(|event| {
                next += 1;
                let stream = u128::from(append) + if how == How::Streams { event } else { 0 };
                let (id, stream_id) = (Uuid::from_u128(next << 64), Uuid::from_u128(stream % STREAMS + 1));
                // A stream that is never that long.
                let expected = (append % 20 == 11).then_some(1_000_000);
                Sent { id, stream_id, expected }
            })
            .collect();
        let (outcome, stored) = match append % 20 {
            5 => (None, true),
            8 => (Some(Outcome::Unknown { why: "the connection is gone".to_owned() }), append % 40 == 8),
            9 => (Some(Outcome::RolledBack), false),
            11 => (Some(Outcome::Refused { conflict: true, why: "a conflict".to_owned() }), false),
            _ => (Some(Outcome::Stored { last: 0, sendings: 1 + u32::from(append % 7 == 0) }), true),
        };
        let at = START + append * STEP;
        let ended_at = outcome.is_some().then_some(at + 2_000);
        all.push((Sending { by: NEW, append, how, events, at, outcome, ended_at }, stored));
    }
    all
}

/// The log that they make, with an answer behind each question, and holes.
fn log(sendings: &mut [(Sending, bool)]) -> Vec<Logged> {
    let mut log: Vec<Logged> = Vec::new();
    let mut versions = HashMap::new();
    let mut number = 0;
    let mut push = |log: &mut Vec<Logged>, id, stream_id, event_type: &str, answers| {
        number += if log.len().is_multiple_of(17) { 3 } else { 1 };
        let version = versions.entry(stream_id).or_insert(0);
        *version += 1;
        let (stream_version, event_type) = (*version, event_type.to_owned());
        log.push(Logged { global_sequence: number, id, stream_id, stream_version, event_type, answers });
        number
    };
    for (sending, _) in sendings.iter_mut().filter(|(_, stored)| *stored) {
        let mut places = Vec::new();
        for sent in &sending.events {
            let event_type = ["Noted", "Noted", "Marked", "Asked", "Noted"][log.len() % 5];
            places.push(push(&mut log, sent.id, sent.stream_id, event_type, None));
        }
        if let (Some(Outcome::Stored { last, .. }), Some(place)) = (&mut sending.outcome, places.last()) {
            *last = *place;
        }
        let asked: Vec<Uuid> = log[log.len() - places.len()..]
            .iter()
            .filter(|event| event.event_type == "Asked")
            .map(|event| event.id)
            .collect();
        for id in asked {
            let answer = Uuid::from_u128(id.as_u128() + 1);
            push(&mut log, answer, Uuid::from_u128(0xabc), "Answered", Some(id));
        }
    }
    log
}

/// A subscriber's deliveries in order: the old leader up to the middle and some more, then the new one from the middle on.
fn deliveries(role: &Role, wanted: &[&Logged], dead_letters: &[DeadLetter], kill: u64) -> (Vec<Effect>, Vec<Audited>) {
    let place = ROLES.iter().position(|other| other.id == role.id).unwrap();
    let dead_lettered: HashSet<u64> = dead_letters.iter().map(|dead_letter| dead_letter.global_sequence).collect();
    let plain: Vec<&&Logged> = wanted.iter().filter(|event| !dead_lettered.contains(&event.global_sequence)).collect();
    let middle = plain.len() / 2;
    let ahead = (middle + role.batch.min(20)).min(plain.len());
    let spread = STEP / 2;
    let mut effects = Vec::new();
    let old = plain[..ahead].iter().enumerate().map(|(n, event)| (OLD, kill - (ahead - n) as u64 * spread, event));
    let new = plain[middle..].iter().enumerate().map(|(n, event)| (NEW, kill + GAP + n as u64 * spread, event));
    for (by, at, event) in old.chain(new) {
        effects.push(Effect { role: place, by, global_sequence: event.global_sequence, id: event.id, at });
    }
    let mut audit = vec![(1, 0, OLD)];
    let stored = plain[..middle].chunks(role.batch.div_ceil(2)).filter_map(|chunk| chunk.last());
    audit.extend(stored.map(|event| (1, event.global_sequence, OLD)));
    let at = audit.last().map_or(0, |write| write.1);
    audit.push((2, at.max(plain.get(middle.wrapping_sub(1)).map_or(0, |event| event.global_sequence)), NEW));
    let stored = plain[middle..].chunks(role.batch.div_ceil(2)).filter_map(|chunk| chunk.last());
    audit.extend(stored.map(|event| (2, event.global_sequence, NEW)));
    let audit = audit.into_iter().map(|(term, global_sequence, by)| Audited {
        n: 0,
        subscriber_id: role.id.to_owned(),
        term,
        global_sequence,
        by: Some(by),
    });
    (effects, audit.collect())
}

/// When the old leader is killed.
pub(crate) fn kill(events: usize) -> u64 {
    START + events as u64 * STEP
}

/// Dead letters of the shaky ones: a few replayed, one discarded; where streams park, all that is behind in the stream.
fn dead_letters(role: &Role, wanted: &[&Logged]) -> Vec<DeadLetter> {
    if !role.shaky || wanted.len() < 40 {
        return Vec::new();
    }
    let dead_letter = |event: &Logged, state: &str, parks| DeadLetter {
        subscriber_id: role.id.to_owned(),
        global_sequence: event.global_sequence,
        event_id: event.id,
        stream_id: event.stream_id,
        state: state.to_owned(),
        parks,
    };
    if role.id == "projection:parked" {
        let first = wanted[20];
        let behind = wanted[20..].iter().filter(|event| event.stream_id == first.stream_id);
        return behind.map(|event| dead_letter(event, "replayed", true)).collect();
    }
    vec![
        dead_letter(wanted[10], "replayed", false),
        dead_letter(wanted[30], "discarded", false),
        dead_letter(wanted[31], "replayed", false),
    ]
}

/// Everything about one subscriber.
fn subscribe(evidence: &mut Evidence, role: &Role, wanted: &[&Logged], kill: u64) {
    let dead_letters = dead_letters(role, wanted);
    let (mut effects, audit) = deliveries(role, wanted, &dead_letters, kill);
    let replayed = dead_letters.iter().filter(|dead_letter| dead_letter.state == "replayed");
    let late = effects.last().map_or(START, |effect| effect.at) + STEP;
    let role_at = ROLES.iter().position(|other| other.id == role.id).unwrap();
    effects.extend(replayed.enumerate().map(|(n, dead_letter)| {
        let (global_sequence, id) = (dead_letter.global_sequence, dead_letter.event_id);
        Effect { role: role_at, by: NEW, global_sequence, id, at: late + n as u64 * 1_000 }
    }));
    evidence.audit.extend(audit);
    if role.kind == Kind::Transactional {
        transact(evidence, role, wanted, &effects);
    } else {
        evidence.effects.extend(effects);
    }
    let last = wanted.last().map_or(0, |event| event.global_sequence);
    evidence.checkpoints.push((role.id.to_owned(), last));
    evidence.dead_letters.extend(dead_letters);
}

/// The same deliveries as rows: what the old leader did beyond its checkpoint was rolled back.
fn transact(evidence: &mut Evidence, role: &Role, wanted: &[&Logged], effects: &[Effect]) {
    let rebuilt = role.id == "projection:rebuilt";
    let taken_over: Vec<u64> =
        effects.iter().filter(|effect| effect.by == NEW).map(|effect| effect.global_sequence).collect();
    let first_new = taken_over.first().copied().unwrap_or(u64::MAX);
    let row = |effect: &Effect, term| Row {
        n: 0,
        subscriber_id: role.id.to_owned(),
        global_sequence: effect.global_sequence,
        term,
        by: effect.by,
    };
    if rebuilt {
        let last = wanted.last().map_or(0, |event| event.global_sequence);
        for global_sequence in [0, last] {
            let subscriber_id = role.id.to_owned();
            evidence.audit.push(Audited { n: 0, subscriber_id, term: 3, global_sequence, by: Some(NEW) });
        }
        evidence.rows.extend(wanted.iter().map(|event| Row {
            n: 0,
            subscriber_id: role.id.to_owned(),
            global_sequence: event.global_sequence,
            term: 3,
            by: NEW,
        }));
    } else {
        let old = effects.iter().filter(|effect| effect.by == OLD && effect.global_sequence < first_new);
        evidence.rows.extend(old.map(|effect| row(effect, 1)));
        let new = effects.iter().filter(|effect| effect.by == NEW);
        evidence.rows.extend(new.map(|effect| row(effect, 2)));
    }
    let mut streams: BTreeMap<Uuid, Vec<u64>> = BTreeMap::new();
    let places: HashMap<u64, &&Logged> = wanted.iter().map(|event| (event.global_sequence, event)).collect();
    for row in evidence.rows.iter().filter(|row| row.subscriber_id == role.id) {
        let event = places[&row.global_sequence];
        streams.entry(event.stream_id).or_default().push(event.stream_version);
    }
    evidence.tallies.extend(streams.into_iter().map(|(stream_id, versions)| Tally {
        subscriber_id: role.id.to_owned(),
        stream_id,
        events: versions.len() as u64,
        versions: versions.iter().sum(),
        last_version: versions.last().copied().unwrap_or(0),
    }));
}

/// A run of so many appends.
pub(crate) fn evidence(appends: u64) -> Evidence {
    let mut sendings = sendings(appends);
    let log = log(&mut sendings);
    let mut evidence =
        Evidence { appends: sendings.into_iter().map(|(sending, _)| sending).collect(), ..Evidence::default() };
    for role in &ROLES {
        let wanted: Vec<&Logged> = log.iter().filter(|event| role.wants(&event.event_type)).collect();
        subscribe(&mut evidence, role, &wanted, kill(log.len()));
    }
    evidence.effects.sort_by_key(|effect| effect.at);
    for (row, n) in evidence.rows.iter_mut().zip(1..) {
        row.n = n;
    }
    for (write, n) in evidence.audit.iter_mut().zip(1..) {
        write.n = n;
    }
    let killed = kill(log.len());
    let fault = |n, kind: &str, instance, from, to| Done {
        n,
        kind: kind.to_owned(),
        what: format!("{kind} <instance> {instance:?}"),
        instance,
        server: false,
        crash: false,
        from,
        to,
        failed: None,
    };
    evidence.faults = vec![
        fault(0, "kill", Some(1), killed, killed + 500_000),
        fault(1, "rebuild", None, killed + 600_000, killed + 700_000),
    ];
    evidence.last_fault_over = killed + 700_000;
    evidence.caught_up = Some(killed + 2_000_000);
    evidence.samples = samples(&log, killed);
    evidence.log = log;
    evidence
}

fn samples(log: &[Logged], killed: u64) -> Vec<Sample> {
    let end = log.last().map_or(0, |event| event.global_sequence);
    let (from, to) = (START, killed + 2_500_000);
    (from..to)
        .step_by(250_000)
        .map(|at| {
            let part = (at - from) as f64 / (to - from) as f64;
            let head = (end as f64 * part) as u64;
            let leader = if at < killed { Some(1) } else { (at > killed + GAP).then_some(2) };
            let subscribers = ROLES.iter().map(|role| (role.id.to_owned(), head * 9 / 10, leader)).collect();
            let down = at > killed && at < killed + GAP;
            Sample { at, head: (!down).then_some(head), acknowledged: head / 2, subscribers }
        })
        .collect()
}
