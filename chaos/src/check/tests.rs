//! A sound run passes; one that is damaged in one way is told by the promise that this breaks.

mod effects;
mod hints;
mod log;
mod rows;
mod taken_back;

use uuid::Uuid;

use super::{Evidence, RECOVERY, check};
use crate::evidence::{DeadLetter, Logged};
use crate::sample::{self, NEW, OLD};

const APPENDS: u64 = 400;

/// What is broken first after some damage.
fn broken(damage: impl FnOnce(&mut Evidence)) -> String {
    let mut evidence = sample::evidence(APPENDS);
    damage(&mut evidence);
    let violations = check(&evidence);
    let Some(first) = violations.first() else { return "nothing".to_owned() };
    assert!(!first.evidence.is_empty() && !first.what.is_empty());
    first.guarantee.clone()
}

#[test]
fn a_sound_run_passes() {
    let evidence = sample::evidence(APPENDS);
    assert_eq!(check(&evidence), []);
    // It is worth something: everything that is damaged below is there.
    assert!(evidence.log.len() > 400 && evidence.dead_letters.len() > 10 && evidence.audit.len() > 100);
    assert!(evidence.effects.iter().any(|effect| effect.by == OLD) && evidence.rows.iter().any(|row| row.by == NEW));
}

#[test]
fn nothing_at_all_is_sound_but_for_catching_up() {
    let evidence = Evidence { caught_up: Some(0), ..Evidence::default() };
    assert_eq!(check(&evidence), []);
}

#[test]
fn questions_without_an_answer_or_with_two_are_found() {
    let damaged = |damage: fn(&mut Logged)| {
        broken(move |evidence| {
            let answer = evidence.log.iter_mut().filter(|event| event.event_type == "Answered").nth(3).unwrap();
            damage(answer);
        })
    };
    // The answer is to something else then, which is told first.
    assert_eq!(damaged(|answer| answer.answers = Some(Uuid::from_u128(3))), "G15");
    assert_eq!(damaged(|answer| answer.answers = None), "G19");
    let twice = |evidence: &mut Evidence| {
        let answers: Vec<usize> = (0..evidence.log.len()).filter(|at| evidence.log[*at].answers.is_some()).collect();
        let asked = evidence.log.iter_mut().find(|event| event.event_type == "Asked").unwrap();
        let other = asked.id;
        evidence.log[answers[4]].answers = Some(other);
        // The one that lost its answer was no question.
        let lost = Uuid::from_u128(evidence.log[answers[4]].id.as_u128() - 1);
        evidence.log.iter_mut().find(|event| event.id == lost).unwrap().event_type = "Noted".to_owned();
    };
    assert_eq!(broken(twice), "G4");
    let stray = |evidence: &mut Evidence| {
        evidence.log.iter_mut().find(|event| event.event_type == "Asked").unwrap().event_type = "Noted".to_owned();
    };
    assert_eq!(broken(stray), "G9");
}

#[test]
fn dead_letters_that_are_open_or_about_nothing_are_found() {
    let damaged = |damage: fn(&mut DeadLetter)| {
        broken(move |evidence| {
            let dead_letter =
                evidence.dead_letters.iter_mut().find(|dead_letter| dead_letter.state == "replayed").unwrap();
            damage(dead_letter);
        })
    };
    assert_eq!(damaged(|dead_letter| dead_letter.state = "dead".to_owned()), "G24");
    assert_eq!(damaged(|dead_letter| dead_letter.state = "parked".to_owned()), "G24");
    assert_eq!(damaged(|dead_letter| dead_letter.state = "discarded".to_owned()), "G24");
    assert_eq!(damaged(|dead_letter| dead_letter.event_id = Uuid::from_u128(3)), "G15");
}

#[test]
fn a_dead_letter_of_one_who_has_no_reason_to_fail_is_found() {
    assert_eq!(
        broken(|evidence| {
            let dead_letter =
                evidence.dead_letters.iter().find(|dead_letter| dead_letter.state == "replayed").unwrap().clone();
            evidence.dead_letters.push(DeadLetter { subscriber_id: "projection:effects".to_owned(), ..dead_letter });
        }),
        "G22"
    );
}

#[test]
fn an_event_without_a_row_and_without_a_dead_letter_is_found() {
    assert_eq!(broken(|evidence| evidence.dead_letters.retain(|dead_letter| dead_letter.state != "discarded")), "G21");
}

#[test]
fn checkpoints_that_are_missing_short_or_too_far_are_found() {
    assert_eq!(broken(|evidence| drop(evidence.checkpoints.pop())), "G16");
    assert_eq!(broken(|evidence| evidence.checkpoints[4].1 += 1), "G21");
    // Nothing is missing that the checkpoint has not passed.
    assert_eq!(
        broken(|evidence| {
            evidence.checkpoints[4].1 -= 2;
            evidence.effects.retain(|effect| effect.role != 4 || effect.global_sequence <= evidence.checkpoints[4].1);
        }),
        "G26"
    );
}

#[test]
fn who_does_not_catch_up_in_time_is_told_with_the_reason() {
    let mut evidence = sample::evidence(APPENDS);
    evidence.behind = vec!["saga:answers: 12 events behind, halted".to_owned()];
    evidence.caught_up = None;
    let violations = check(&evidence);
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].guarantee, "G26");
    assert!(violations[0].evidence[1].contains("halted"));
    evidence.caught_up = Some(evidence.last_fault_over + RECOVERY);
    assert_eq!(check(&evidence), []);
    evidence.caught_up = Some(evidence.last_fault_over + RECOVERY + 1);
    assert_eq!(check(&evidence)[0].guarantee, "G26");
}

#[test]
fn troubles_are_told() {
    assert_eq!(broken(|evidence| evidence.troubles.push("instance 2 ended with 101".to_owned())), "run");
}

#[test]
fn the_first_cases_are_shown_and_the_others_counted() {
    let mut evidence = sample::evidence(APPENDS);
    evidence.effects.clear();
    let violations = check(&evidence);
    let all = violations.iter().find(|violation| violation.what.starts_with("projection:effects")).unwrap();
    assert_eq!(all.evidence.len(), 2 * 5 + 1);
    assert_eq!(all.evidence[10], format!("… and {} more", evidence.log.len() - 5));
}

#[test]
fn what_is_missing_is_told_with_what_happened_around_it() {
    let mut evidence = sample::evidence(APPENDS);
    let (role, killed) = (4, sample::kill(evidence.log.len()));
    let mine = |effect: &&crate::evidence::Effect| effect.role == role && effect.by == NEW;
    let first_new = evidence.effects.iter().find(mine).unwrap().global_sequence;
    evidence.effects.retain(|effect| effect.role != role || effect.global_sequence != first_new);
    let violations = check(&evidence);
    assert_eq!(violations[0].guarantee, "G19");
    let lines = &violations[0].evidence;
    assert!(lines[0].starts_with(&format!("event {first_new}: ")), "{lines:?}");
    assert!(lines[1].contains("by instance 1 in life 0, the one after +"), "{lines:?}");
    let fault = format!("  during fault 0, kill, +{:.3} s", (killed - sample::START) as f64 / 1e6);
    assert!(lines[2].starts_with(&fault), "{lines:?}");
}
