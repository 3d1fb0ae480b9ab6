//! Transactional subscribers: each event once, in order, and tallies as the log says.

use std::collections::{BTreeMap, HashMap};

use highwater::FailurePolicy;
use uuid::Uuid;

use super::facts::{Facts, life};
use super::finding::{Finding, count};
use crate::cast::{Kind, ROLES, Role};
use crate::evidence::{Row, Tally, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Vec<Violation> {
    let mut rows: HashMap<&str, Vec<&Row>> = HashMap::new();
    for row in &facts.evidence.rows {
        rows.entry(&row.subscriber_id).or_default().push(row);
    }
    let mut tallies: HashMap<&str, Vec<&Tally>> = HashMap::new();
    for tally in &facts.evidence.tallies {
        tallies.entry(&tally.subscriber_id).or_default().push(tally);
    }
    let roles = ROLES.iter().filter(|role| role.kind == Kind::Transactional);
    let told = roles.flat_map(|role| {
        let rows = rows.remove(role.id).unwrap_or_default();
        let first = first_rows(facts, &rows);
        let mut found = handled(facts, role, &rows, &first);
        found.extend(in_order(facts, role, &rows));
        found.extend(tallied(facts, role, &first, &tallies.remove(role.id).unwrap_or_default()));
        found
    });
    told.collect()
}

/// For each event of the log the first of its rows.
fn first_rows<'a>(facts: &Facts<'_>, rows: &[&'a Row]) -> Vec<Option<&'a Row>> {
    let mut first: Vec<Option<&Row>> = vec![None; facts.evidence.log.len()];
    for row in rows {
        if let Some(at) = facts.at(row.global_sequence) {
            first[at].get_or_insert(row);
        }
    }
    first
}

/// Each event that had to be handled has one row; nothing else has any.
fn handled(facts: &Facts<'_>, role: &'static Role, rows: &[&Row], first: &[Option<&Row>]) -> Vec<Violation> {
    let (log, duties) = (&facts.evidence.log, facts.duties(role));
    let (mut gone, mut unwanted, mut twice) = (Finding::new("G15"), Finding::new("G8"), Finding::new("G20"));
    let mut missing: BTreeMap<&str, Finding> = BTreeMap::new();
    for row in rows {
        let Some(at) = facts.at(row.global_sequence) else {
            gone.line(|| told(row));
            continue;
        };
        if !role.wants(&log[at].event_type) {
            unwanted.line(|| format!("{}: {}", told(row), facts.event(&log[at])));
        }
        if let Some(before) = first[at].filter(|first| first.n != row.n) {
            twice.line(|| format!("{}, and {}", told(before), told(row)));
        }
    }
    for (at, event) in log.iter().enumerate() {
        if first[at].is_none() && duties.is_due(event) {
            let promise = duties.missing(event);
            missing.entry(promise).or_insert_with(|| Finding::new(promise)).add(|| {
                let near = |row: Option<&&Row>| row.map_or("none".to_owned(), |row| told(row));
                let before = near(first[..at].iter().rev().flatten().next());
                let after = near(first[at + 1..].iter().flatten().next());
                let around = format!("  around it: {before}; {after}");
                vec![facts.event(event) + &duties.fate(event), around]
            });
        }
    }
    let id = role.id;
    let gone = gone.told(|n| format!("{id}: {} of events that are not in the log", count(n, "row")));
    let unwanted = unwanted.told(|n| format!("{id}: {} of events that it does not want", count(n, "row")));
    let twice = twice.told(|n| format!("{id}: {} handled again", count(n, "event")));
    let missing = missing.into_values().filter_map(|finding| {
        finding.told(|n| format!("{id}: {} not handled, though its checkpoint has passed them", count(n, "event")))
    });
    [gone].into_iter().flatten().chain(missing).chain([twice, unwanted].into_iter().flatten()).collect()
}

/// In the order of the log, but for what went through a dead letter; within a stream without exception where it parks.
fn in_order(facts: &Facts<'_>, role: &'static Role, rows: &[&Row]) -> Vec<Violation> {
    let duties = facts.duties(role);
    let (mut order, mut streams) = (Finding::new("G19"), Finding::new("G23"));
    let mut before: Option<&Row> = None;
    let mut parked: HashMap<Uuid, &Row> = HashMap::new();
    for row in rows {
        if role.policy == FailurePolicy::ParkStream
            && let Some(at) = facts.at(row.global_sequence)
        {
            let stream_id = facts.evidence.log[at].stream_id;
            let last = parked.insert(stream_id, row).filter(|last| last.global_sequence > row.global_sequence);
            if let Some(last) = last {
                streams.line(|| format!("stream {stream_id}: {}, then {}", told(last), told(row)));
            }
        }
        if duties.dead_letter(row.global_sequence).is_some() {
            continue;
        }
        if let Some(last) = before.filter(|last| last.global_sequence > row.global_sequence) {
            order.line(|| format!("{}, then {}", told(last), told(row)));
        }
        before = Some(row);
    }
    let streams =
        streams.told(|n| format!("{}: the order inside a stream was not kept, {}", role.id, count(n, "time")));
    let order =
        order.told(|n| format!("{}: events were not handled in the order of the log, {}", role.id, count(n, "time")));
    [streams, order].into_iter().flatten().collect()
}

/// What the log makes of one stream.
#[derive(Default)]
struct Replayed {
    events: u64,
    versions: u64,
    last_version: u64,
    /// A dead letter was written: what was handled last need not be the last event.
    dead_lettered: bool,
}

fn tallied(facts: &Facts<'_>, role: &'static Role, first: &[Option<&Row>], tallies: &[&Tally]) -> Option<Violation> {
    let duties = facts.duties(role);
    let mut replayed: BTreeMap<Uuid, Replayed> = BTreeMap::new();
    for (event, row) in facts.evidence.log.iter().zip(first) {
        if duties.dead_letter(event.global_sequence).is_some() {
            replayed.entry(event.stream_id).or_default().dead_lettered = true;
        }
        // What was discarded, and came anew with a rebuild, has a row.
        if row.is_some() || duties.is_due(event) {
            let stream = replayed.entry(event.stream_id).or_default();
            stream.events += 1;
            stream.versions += event.stream_version;
            stream.last_version = event.stream_version;
        }
    }
    let mut finding = Finding::new("G20");
    let mut seen: HashMap<Uuid, &Tally> = HashMap::with_capacity(tallies.len());
    for tally in tallies {
        if seen.insert(tally.stream_id, tally).is_some() || !replayed.contains_key(&tally.stream_id) {
            finding.line(|| format!("stream {}: a tally that should not be there", tally.stream_id));
        }
    }
    for (stream_id, wanted) in &replayed {
        let found = seen.get(stream_id).map_or((0, 0, 0), |tally| (tally.events, tally.versions, tally.last_version));
        let last_counts = !wanted.dead_lettered;
        if (found.0, found.1) != (wanted.events, wanted.versions) || last_counts && found.2 != wanted.last_version {
            let wanted = (wanted.events, wanted.versions, wanted.last_version);
            finding.line(|| {
                format!("stream {stream_id}: {} in the tally, {} in the log", figures(found), figures(wanted))
            });
        }
    }
    finding.told(|n| {
        format!("{}: the read model of {} is not what a replay of the log gives", role.id, count(n, "stream"))
    })
}

fn figures((events, versions, last): (u64, u64, u64)) -> String {
    format!("{} with versions that sum to {versions}, the last {last},", count(events, "event"))
}

fn told(row: &Row) -> String {
    format!("row {}: event {} with term {} by {}", row.n, row.global_sequence, row.term, life(row.by))
}
