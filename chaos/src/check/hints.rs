//! Hints are never needed, and never obeyed: forged ones keep no standby from taking over.

use super::facts::Facts;
use super::finding::{Finding, count};
use crate::evidence::{Sample, Violation};

/// How long nobody may have led while nothing else was wrong: twice the time after which one who is not heard is replaced.
/// In microseconds.
const STANDSTILL_MAX: u64 = 10_000_000;

pub(super) fn check(facts: &Facts<'_>) -> Vec<Violation> {
    let faults = &facts.evidence.faults;
    let mut still = Finding::new("G28");
    for forged in faults.iter().filter(|fault| fault.kind == "forged-hints" && fault.failed.is_none()) {
        let others =
            faults.iter().filter(|other| other.n != forged.n && other.from <= forged.to && other.to >= forged.from);
        let alone_from = others.map(|other| other.to).fold(forged.from, u64::max);
        if forged.to.saturating_sub(alone_from) < STANDSTILL_MAX {
            continue;
        }
        let seen = |sample: &&Sample| (alone_from..=forged.to).contains(&sample.at) && sample.head.is_some();
        let samples: Vec<&Sample> = facts.evidence.samples.iter().filter(seen).collect();
        let Some((first, last)) = samples.first().zip(samples.last()) else { continue };
        for (id, at, _) in &first.subscribers {
            let stands = last.subscribers.iter().any(|(other, later, _)| other == id && later == at);
            if stands && first.head.is_some_and(|head| head > *at) && last.at - first.at >= STANDSTILL_MAX / 2 {
                still.add(|| {
                    let (from, to) = (facts.time(first.at), facts.time(last.at));
                    let mut lines = vec![format!("{id} stood at {at} from {from} to {to}, and there was more to do")];
                    lines.extend(facts.faults_during(forged.from, forged.to));
                    lines
                });
            }
        }
    }
    let told = still.told(|n| format!("{} stood still while hints were forged", count(n, "subscriber")));
    told.into_iter().collect()
}
