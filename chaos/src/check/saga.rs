//! The saga: one answer for each question, and none for anything else.

use std::collections::HashMap;

use uuid::Uuid;

use super::facts::Facts;
use super::finding::{Finding, count};
use crate::cast::{Kind, ROLES};
use crate::evidence::{Logged, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Vec<Violation> {
    let log = &facts.evidence.log;
    let (mut twice, mut missing) = (Finding::new("G4"), Finding::new("G19"));
    let (mut gone, mut stray) = (Finding::new("G15"), Finding::new("G9"));
    let mut answers: HashMap<Uuid, &Logged> = HashMap::new();
    for event in log.iter().filter(|event| event.event_type == "Answered") {
        let Some(to) = event.answers else {
            stray.line(|| format!("{} answers nothing", facts.event(event)));
            continue;
        };
        match facts.find(to).map(|at| &log[at]) {
            // It was asked when the saga began to answer; the answer may have come after a crash took the question back.
            None if facts.taken_back.may_have_been_seen(to) => {}
            None => gone.line(|| format!("{} answers {to}", facts.event(event))),
            Some(asked) if asked.event_type != "Asked" => {
                stray.line(|| format!("{} answers {}", facts.event(event), facts.event(asked)));
            }
            Some(_) => {}
        }
        if let Some(before) = answers.insert(to, event) {
            twice.line(|| format!("{} and {} answer {to}", facts.event(before), facts.event(event)));
        }
    }
    for role in ROLES.iter().filter(|role| role.kind == Kind::Saga) {
        let duties = facts.duties(role);
        let asked = log.iter().filter(|event| event.event_type == "Asked" && duties.is_due(event));
        for event in asked.filter(|event| !answers.contains_key(&event.id)) {
            missing.line(|| facts.event(event) + &duties.fate(event));
        }
    }
    [
        gone.told(|n| format!("{} to what is not in the log", count(n, "answer"))),
        missing.told(|n| {
            format!("{} without an answer, though the saga's checkpoint has passed them", count(n, "question"))
        }),
        twice.told(|n| format!("{} given again", count(n, "answer"))),
        stray.told(|n| format!("{} to what is no question", count(n, "answer"))),
    ]
    .into_iter()
    .flatten()
    .collect()
}
