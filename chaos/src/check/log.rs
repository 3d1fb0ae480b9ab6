//! The log by itself: numbers, ids, versions.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::facts::Facts;
use super::finding::{Finding, count};
use crate::evidence::{Logged, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Vec<Violation> {
    let log = &facts.evidence.log;
    let (mut numbers, mut ids) = (Finding::new("G5"), Finding::new("G4"));
    for pair in log.windows(2) {
        if pair[0].global_sequence >= pair[1].global_sequence {
            numbers.line(|| format!("{} stands before {}", facts.event(&pair[0]), facts.event(&pair[1])));
        }
    }
    for (at, event) in log.iter().enumerate() {
        let first = facts.find(event.id).unwrap_or(at);
        if first != at {
            ids.line(|| format!("{} and {}", facts.event(&log[first]), facts.event(event)));
        }
    }
    let numbers =
        numbers.told(|n| format!("{} of the log not above the one before", plural(n, "number is", "numbers are")));
    let ids =
        ids.told(|n| format!("{} in the log with an id that was there before", plural(n, "event is", "events are")));
    [numbers, ids].into_iter().flatten().chain(versions(facts)).collect()
}

/// By number, the versions of each stream have to be 1, 2, 3 …
fn versions(facts: &Facts<'_>) -> Vec<Violation> {
    let log = &facts.evidence.log;
    let mut last: HashMap<Uuid, u64> = HashMap::new();
    let mut bad: BTreeMap<Uuid, Vec<&Logged>> = BTreeMap::new();
    for event in log {
        let last = last.entry(event.stream_id).or_insert(0);
        if event.stream_version != *last + 1 {
            bad.insert(event.stream_id, Vec::new());
        }
        *last = event.stream_version;
    }
    if bad.is_empty() {
        return Vec::new();
    }
    for event in log {
        if let Some(events) = bad.get_mut(&event.stream_id) {
            events.push(event);
        }
    }
    let (mut holes, mut orders) = (Finding::new("G3"), Finding::new("G5"));
    for (stream_id, events) in &bad {
        let mut versions: Vec<u64> = events.iter().map(|event| event.stream_version).collect();
        versions.sort_unstable();
        let contiguous = versions.iter().zip(1..).all(|(version, wanted)| *version == wanted);
        let finding = if contiguous { &mut orders } else { &mut holes };
        finding.line(|| {
            let wrong = events.iter().zip(1..).find(|(event, wanted)| event.stream_version != *wanted);
            let wrong = wrong.map_or_else(String::new, |(event, wanted)| {
                format!(": version {wanted} is expected where {} stands", facts.event(event))
            });
            format!("stream {stream_id} of {}{wrong}", count(events.len() as u64, "event"))
        });
    }
    let holes = holes.told(|n| format!("the versions of {} are not 1, 2, 3 …", count(n, "stream")));
    let orders = orders.told(|n| format!("the two orders of {} do not agree", count(n, "stream")));
    [holes, orders].into_iter().flatten().collect()
}

fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
