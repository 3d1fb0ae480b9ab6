//! The end of the run: all subscribers are where the log ends, in time, and nothing went wrong around them.

use super::RECOVERY;
use super::facts::Facts;
use super::finding::{Finding, count};
use crate::cast::ROLES;
use crate::evidence::Violation;

pub(super) fn check(facts: &Facts<'_>) -> Vec<Violation> {
    let mut found = checkpoints(facts);
    found.extend(caught_up(facts));
    let mut troubles = Finding::new("run");
    for trouble in &facts.evidence.troubles {
        troubles.line(|| trouble.clone());
    }
    found.extend(troubles.told(|n| format!("{} around the instances", count(n, "trouble"))));
    found
}

fn checkpoints(facts: &Facts<'_>) -> Vec<Violation> {
    let log = &facts.evidence.log;
    let end = log.last().map_or(0, |event| event.global_sequence);
    let (mut none, mut short, mut beyond) = (Finding::new("G16"), Finding::new("G26"), Finding::new("G21"));
    for role in &ROLES {
        let last = log.iter().rev().find(|event| role.wants(&event.event_type)).map(|event| event.global_sequence);
        match (facts.checkpoint(role.id), last) {
            (None, Some(last)) => none.line(|| format!("{}: the last event it wants is {last}", role.id)),
            // Who is known to be behind is told with the reason.
            (Some(at), Some(last)) if at < last && facts.evidence.caught_up.is_some() => {
                short.line(|| format!("{}: at {at}, and the last event it wants is {last}", role.id));
            }
            (Some(at), _) if at > end => beyond.line(|| format!("{}: at {at}, and the log ends at {end}", role.id)),
            _ => {}
        }
    }
    [
        none.told(|n| format!("{} without a checkpoint", count(n, "subscriber"))),
        beyond.told(|n| format!("{} beyond the end of the log", count(n, "subscriber"))),
        short.told(|n| format!("{} in front of the end, though it was seen to have caught up", count(n, "subscriber"))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn caught_up(facts: &Facts<'_>) -> Option<Violation> {
    let evidence = facts.evidence;
    let over = evidence.last_fault_over;
    let limit = RECOVERY / 1_000_000;
    let mut late = Finding::new("G26");
    match evidence.caught_up {
        Some(at) if at.saturating_sub(over) <= RECOVERY => return None,
        Some(at) => late.add(|| {
            let mut lines =
                vec![format!("the last fault was over {}, all were there {}", facts.time(over), facts.time(at))];
            lines.extend(evidence.behind.iter().cloned());
            lines
        }),
        None => late.add(|| {
            let mut lines = vec![format!("the last fault was over {}", facts.time(over))];
            lines.extend(evidence.behind.iter().cloned());
            lines
        }),
    }
    late.told(|_| format!("not all had caught up {limit} s after the last fault"))
}
