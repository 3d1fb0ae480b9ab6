//! The log, and what was sent.

use super::*;
use crate::evidence::Sending;
use crate::record::{How, Outcome, Sent};
use crate::sample::START;

/// An append that was acknowledged, with several events.
fn batch(evidence: &Evidence) -> Sending {
    let whole =
        |sending: &&Sending| matches!(sending.outcome, Some(Outcome::Stored { .. })) && sending.events.len() > 1;
    evidence.appends.iter().find(whole).unwrap().clone()
}

fn with_outcome(evidence: &mut Evidence, wanted: impl Fn(&Option<Outcome>) -> bool) -> &mut Sending {
    evidence.appends.iter_mut().find(|sending| wanted(&sending.outcome)).unwrap()
}

#[test]
fn an_acknowledged_append_that_is_gone_is_found() {
    assert_eq!(
        broken(|evidence| {
            let (id, stream_id, at) = (Uuid::from_u128(7), Uuid::from_u128(8), START);
            let (events, outcome) =
                (vec![Sent { id, stream_id, expected: None }], Some(Outcome::Stored { last: 7, sendings: 1 }));
            let ended_at = Some(at + 1);
            evidence.appends.push(Sending { by: OLD, append: 900, how: How::Single, events, at, outcome, ended_at });
        }),
        "G15"
    );
}

#[test]
fn an_append_that_is_there_in_part_is_found() {
    for acknowledged in [true, false] {
        let guarantee = broken(|evidence| {
            let mut sending = batch(evidence);
            let stored = sending.events[0].clone();
            sending.events = vec![Sent { id: Uuid::from_u128(7), ..stored.clone() }, stored];
            if !acknowledged {
                sending.outcome = None;
            } else if let Some(Outcome::Stored { last, .. }) = &mut sending.outcome {
                *last = evidence.log.iter().find(|event| event.id == sending.events[1].id).unwrap().global_sequence;
            }
            evidence.appends.push(sending);
        });
        assert_eq!(guarantee, "G1", "acknowledged: {acknowledged}");
    }
}

#[test]
fn an_append_that_is_there_twice_is_found() {
    assert_eq!(
        broken(|evidence| {
            let mut last = evidence.log.last().unwrap().clone();
            last.id = evidence.log[3].id;
            last.global_sequence += 1;
            last.stream_version += 1;
            evidence.log.push(last);
        }),
        "G4"
    );
}

#[test]
fn an_append_whose_place_is_another_is_found() {
    assert_eq!(
        broken(|evidence| {
            let sending = with_outcome(evidence, |outcome| matches!(outcome, Some(Outcome::Stored { .. })));
            if let Some(Outcome::Stored { last, .. }) = &mut sending.outcome {
                *last += 1;
            }
        }),
        "G4"
    );
}

#[test]
fn an_append_in_another_stream_or_order_is_found() {
    let stream = |evidence: &mut Evidence| {
        let sending = with_outcome(evidence, |outcome| matches!(outcome, Some(Outcome::Stored { .. })));
        sending.events[0].stream_id = Uuid::from_u128(99);
    };
    assert_eq!(broken(stream), "G10");
    let order = |evidence: &mut Evidence| {
        let mut sending = batch(evidence);
        sending.outcome = None;
        sending.events.reverse();
        evidence.appends.push(sending);
    };
    assert_eq!(broken(order), "G5");
}

#[test]
fn what_was_refused_or_rolled_back_and_is_there_is_found() {
    for (outcome, guarantee) in
        [(Outcome::RolledBack, "G1"), (Outcome::Refused { conflict: true, why: "a conflict".to_owned() }, "G11")]
    {
        let found = broken(|evidence| {
            let sending = with_outcome(evidence, |outcome| matches!(outcome, Some(Outcome::Stored { .. })));
            sending.outcome = Some(outcome);
        });
        assert_eq!(found, guarantee);
    }
}

#[test]
fn an_expectation_that_does_not_hold_is_found() {
    let elsewhere = |evidence: &mut Evidence| {
        let sending = with_outcome(evidence, |outcome| matches!(outcome, Some(Outcome::Stored { .. })));
        sending.events[0].expected = Some(77);
    };
    assert_eq!(broken(elsewhere), "G2");
}

#[test]
fn a_refusal_without_a_reason_is_found() {
    let refused = |outcome: &Option<Outcome>| matches!(outcome, Some(Outcome::Refused { .. }));
    let without_expectation = |evidence: &mut Evidence| {
        with_outcome(evidence, refused).events.iter_mut().for_each(|event| event.expected = None);
    };
    assert_eq!(broken(without_expectation), "G2");
    let otherwise = |evidence: &mut Evidence| {
        let why = "damaged: cannot append".to_owned();
        with_outcome(evidence, refused).outcome = Some(Outcome::Refused { conflict: false, why });
    };
    assert_eq!(broken(otherwise), "G2");
}

#[test]
fn what_nobody_sent_is_found() {
    assert_eq!(
        broken(|evidence| {
            let sent = evidence.log[0].id;
            evidence.appends.retain(|sending| sending.events.iter().all(|event| event.id != sent));
        }),
        "G9"
    );
}

#[test]
fn versions_with_a_hole_and_orders_that_disagree_are_found() {
    let hole = |evidence: &mut Evidence| {
        let last = evidence.log.last_mut().unwrap();
        last.stream_version += 1;
    };
    assert_eq!(broken(hole), "G3");
    let swapped = |evidence: &mut Evidence| {
        let first = evidence.log[0].clone();
        let at = evidence.log.iter().rposition(|event| event.stream_id == first.stream_id).unwrap();
        evidence.log[0].stream_version = evidence.log[at].stream_version;
        evidence.log[at].stream_version = first.stream_version;
    };
    assert_eq!(broken(swapped), "G5");
    assert_eq!(broken(|evidence| evidence.log[1].global_sequence = evidence.log[0].global_sequence), "G5");
}
