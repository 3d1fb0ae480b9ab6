//! Effects outside of transactions.

use super::*;
use crate::cast::ROLES;
use crate::evidence::{Done, Effect};
use crate::sample::START;

fn place(id: &str) -> usize {
    ROLES.iter().position(|role| role.id == id).unwrap()
}

/// A plain event in the middle of the log of that type.
fn some(evidence: &Evidence, event_type: &str) -> Logged {
    evidence.log[100..].iter().find(|event| event.event_type == event_type).unwrap().clone()
}

fn server_fault(from: u64, to: u64) -> Done {
    let (kind, what) = ("crash".to_owned(), "the server was stopped".to_owned());
    Done { n: 9, kind, what, instance: None, server: true, crash: true, from, to, failed: None }
}

#[test]
fn an_effect_that_never_happened_is_found() {
    let without = |id: &'static str| {
        broken(move |evidence| {
            let (role, event) = (place(id), some(evidence, "Marked"));
            evidence.effects.retain(|effect| effect.role != role || effect.id != event.id);
        })
    };
    assert_eq!(without("projection:effects"), "G19");
    assert_eq!(without("projection:marked"), "G19");
    assert_eq!(without("projection:shaky-effects"), "G21");
}

#[test]
fn an_effect_out_of_order_is_found() {
    assert_eq!(
        broken(|evidence| {
            let role = place("projection:effects");
            let (at, event) = (evidence.effects.len() / 2, some(evidence, "Marked"));
            let later = evidence.effects[at..].iter().find(|effect| effect.role == role).unwrap().at;
            let late = Effect { role, by: OLD, global_sequence: event.global_sequence, id: event.id, at: later };
            evidence.effects.retain(|effect| effect.role != role || effect.id != event.id);
            evidence.effects.push(late);
            evidence.effects.sort_by_key(|effect| effect.at);
        }),
        "G19"
    );
}

/// Each batch is small enough by itself.
#[test]
fn an_engine_that_delivers_everything_twice_is_found() {
    assert_eq!(
        broken(|evidence| {
            let role = place("projection:effects");
            let (own, others): (Vec<Effect>, Vec<Effect>) =
                evidence.effects.drain(..).partition(|effect| effect.role == role);
            let again = |chunk: &[Effect]| {
                let end = chunk.last().unwrap().at;
                let late = |(n, effect): (usize, &Effect)| Effect { at: end + 1 + n as u64, ..effect.clone() };
                [chunk.to_vec(), chunk.iter().enumerate().map(late).collect()].concat()
            };
            evidence.effects = own.chunks(20).flat_map(again).chain(others).collect();
            evidence.effects.sort_by_key(|effect| effect.at);
        }),
        "G29"
    );
}

#[test]
fn an_effect_of_what_is_not_in_the_log_is_found() {
    assert_eq!(broken(|evidence| evidence.effects[40].id = Uuid::from_u128(5)), "G15");
}

#[test]
fn an_effect_that_was_not_wanted_is_found() {
    assert_eq!(
        broken(|evidence| {
            let event = some(evidence, "Noted");
            let (role, at) = (place("projection:marked"), START);
            let effect = Effect { role, by: OLD, global_sequence: event.global_sequence, id: event.id, at };
            evidence.effects.insert(0, effect);
        }),
        "G8"
    );
}

/// The new leader of the plain effects begins so many events before where the old one ended.
fn take_over(evidence: &mut Evidence, again: usize) {
    let role = place("projection:effects");
    let by = |life| move |effect: &&Effect| effect.role == role && effect.by == life;
    let old: Vec<Effect> = evidence.effects.iter().filter(by(OLD)).cloned().collect();
    let first = evidence.effects.iter().filter(by(NEW)).map(|effect| effect.at).min().unwrap();
    // Twenty come again as it is.
    let more = &old[old.len() - again..old.len() - 20];
    let count = more.len() as u64;
    evidence.effects.extend(more.iter().zip(0..).map(|(effect, n)| Effect {
        by: NEW,
        at: first - (count - n) * 1_000,
        ..effect.clone()
    }));
    evidence.effects.sort_by_key(|effect| effect.at);
}

#[test]
fn more_than_a_batch_after_a_takeover_is_found_unless_the_server_crashed() {
    assert_eq!(broken(|evidence| take_over(evidence, 50)), "nothing");
    assert_eq!(broken(|evidence| take_over(evidence, 51)), "G29");
    assert_eq!(broken(|evidence| take_over(evidence, 100)), "G29");
    let crashed = |evidence: &mut Evidence| {
        take_over(evidence, 100);
        let killed = sample::kill(evidence.log.len());
        evidence.faults.push(server_fault(killed + 10_000, killed + 20_000));
    };
    assert_eq!(broken(crashed), "nothing");
    let crashed_later = |evidence: &mut Evidence| {
        take_over(evidence, 100);
        let killed = sample::kill(evidence.log.len());
        evidence.faults.push(server_fault(killed + 9_000_000, killed + 9_100_000));
    };
    assert_eq!(broken(crashed_later), "G29");
}

#[test]
fn who_was_overtaken_may_still_hand_over_its_batch_and_no_more() {
    let frozen = |count: usize| {
        broken(move |evidence| {
            let role = place("projection:effects");
            let last = evidence.effects.iter().rfind(|effect| effect.role == role && effect.by == OLD);
            let last = last.unwrap().global_sequence;
            let next = evidence.log.iter().filter(|event| event.global_sequence > last).take(count);
            // The new leader has delivered all of these by then.
            let at = sample::kill(evidence.log.len()) + 1_500_000;
            let late: Vec<Effect> = next
                .zip(0..)
                .map(|(event, n)| {
                    let (global_sequence, id) = (event.global_sequence, event.id);
                    Effect { role, by: OLD, global_sequence, id, at: at + n * 10 }
                })
                .collect();
            evidence.effects.extend(late);
            evidence.effects.sort_by_key(|effect| effect.at);
        })
    };
    assert_eq!(frozen(30), "nothing");
    assert_eq!(frozen(51), "G29");
}

#[test]
fn what_comes_again_without_a_takeover_or_a_fault_is_found() {
    let again = |after: u64| {
        broken(move |evidence| {
            let role = place("projection:effects");
            let new = |effect: &&Effect| effect.role == role && effect.by == NEW;
            let mine: Vec<Effect> = evidence.effects.iter().filter(new).cloned().collect();
            let last = &mine[mine.len() - 10..];
            for effect in evidence.effects.iter_mut().filter(|effect| last.contains(effect)) {
                effect.at += after;
            }
            evidence.effects.push(Effect { at: last[9].at + after + 50_000, ..last[0].clone() });
            evidence.effects.sort_by_key(|effect| effect.at);
        })
    };
    assert_eq!(again(40_000_000), "G29");
    // Soon after a fault that may be its work.
    assert_eq!(again(0), "nothing");
}

#[test]
fn an_attempt_that_is_made_again_is_no_delivery_again() {
    assert_eq!(
        broken(|evidence| {
            let role = place("saga:answers");
            let at = evidence.effects.iter().rposition(|effect| effect.role == role).unwrap();
            let last = evidence.effects[at].clone();
            evidence.effects.push(Effect { at: last.at + 90_000_000, ..last });
        }),
        "nothing"
    );
}
