//! A sound run passes; one that is damaged in one way is told by the promise that this breaks.

use uuid::Uuid;

use super::*;
use crate::cast::ROLES;
use crate::evidence::{Audited, Done, Effect, Letter, Logged, Sending};
use crate::record::{How, Life, Outcome, Sent};
use crate::sample::{self, NEW, OLD, START};

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

fn place(id: &str) -> usize {
    ROLES.iter().position(|role| role.id == id).unwrap()
}

/// An append that was acknowledged, with several events.
fn batch(evidence: &Evidence) -> Sending {
    let whole =
        |sending: &&Sending| matches!(sending.outcome, Some(Outcome::Stored { .. })) && sending.events.len() > 1;
    evidence.appends.iter().find(whole).unwrap().clone()
}

fn with_outcome(evidence: &mut Evidence, wanted: impl Fn(&Option<Outcome>) -> bool) -> &mut Sending {
    evidence.appends.iter_mut().find(|sending| wanted(&sending.outcome)).unwrap()
}

/// A plain event in the middle of the log of that type.
fn some(evidence: &Evidence, event_type: &str) -> Logged {
    evidence.log[100..].iter().find(|event| event.event_type == event_type).unwrap().clone()
}

fn server_fault(from: u64, to: u64) -> Done {
    let (kind, what) = ("crash".to_owned(), "the server was stopped".to_owned());
    Done { n: 9, kind, what, instance: None, server: true, from, to, failed: None }
}

#[test]
fn a_sound_run_passes() {
    let evidence = sample::evidence(APPENDS);
    assert_eq!(check(&evidence), []);
    // It is worth something: everything that is damaged below is there.
    assert!(evidence.log.len() > 400 && evidence.letters.len() > 10 && evidence.audit.len() > 100);
    assert!(evidence.effects.iter().any(|effect| effect.by == OLD) && evidence.rows.iter().any(|row| row.by == NEW));
}

#[test]
fn nothing_at_all_is_sound_but_for_catching_up() {
    let evidence = Evidence { caught_up: Some(0), ..Evidence::default() };
    assert_eq!(check(&evidence), []);
}

#[test]
fn an_acknowledged_append_that_is_gone_is_found() {
    assert_eq!(
        broken(|evidence| {
            let (id, stream_id, at) = (Uuid::from_u128(7), Uuid::from_u128(8), START);
            let (events, outcome) = (vec![Sent { id, stream_id }], Some(Outcome::Stored { last: 7, sendings: 1 }));
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
        [(Outcome::RolledBack, "G1"), (Outcome::Refused { why: "a conflict".to_owned() }, "G11")]
    {
        let found = broken(|evidence| {
            let sending = with_outcome(evidence, |outcome| matches!(outcome, Some(Outcome::Stored { .. })));
            sending.outcome = Some(outcome);
        });
        assert_eq!(found, guarantee);
    }
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

/// Damage to the rows of one subscriber.
fn rows(id: &'static str, damage: impl FnOnce(&mut Evidence, Vec<usize>)) -> String {
    broken(|evidence| {
        let rows = evidence.rows.iter().enumerate().filter(|(_, row)| row.subscriber_id == id).map(|(at, _)| at);
        let rows = rows.collect();
        damage(evidence, rows);
    })
}

#[test]
fn an_event_that_a_transaction_took_in_twice_or_never_is_found() {
    let twice = |evidence: &mut Evidence, rows: Vec<usize>| {
        let mut row = evidence.rows[*rows.last().unwrap()].clone();
        row.n = 1_000_000;
        evidence.rows.push(row);
    };
    assert_eq!(rows("projection:tally", twice), "G20");
    let never = |evidence: &mut Evidence, rows: Vec<usize>| drop(evidence.rows.remove(rows[50]));
    assert_eq!(rows("projection:tally", never), "G20");
    assert_eq!(rows("projection:rebuilt", never), "G20");
    assert_eq!(rows("projection:shaky", never), "G21");
    // Said to be replayed, and never taken in.
    let replayed = |evidence: &mut Evidence, rows: Vec<usize>| drop(evidence.rows.remove(*rows.last().unwrap()));
    assert_eq!(rows("projection:shaky", replayed), "G24");
}

#[test]
fn rows_that_are_out_of_order_are_found() {
    let swap = |evidence: &mut Evidence, rows: Vec<usize>| {
        let (one, other) = (rows[60], rows[61]);
        let first = evidence.rows[one].global_sequence;
        evidence.rows[one].global_sequence = evidence.rows[other].global_sequence;
        evidence.rows[other].global_sequence = first;
    };
    assert_eq!(rows("projection:tally", swap), "G19");
    // Replayed letters come in any order, but for streams that park.
    let swap_last = |evidence: &mut Evidence, rows: Vec<usize>| {
        let at = rows.len() - 2;
        swap(evidence, [vec![0; 60], rows[at..].to_vec()].concat());
    };
    assert_eq!(rows("projection:shaky", swap_last), "nothing");
    assert_eq!(rows("projection:parked", swap_last), "G23");
}

#[test]
fn a_row_of_what_is_not_in_the_log_is_found() {
    let gone = |evidence: &mut Evidence, rows: Vec<usize>| {
        let mut row = evidence.rows[*rows.last().unwrap()].clone();
        row.global_sequence += 1_000_000;
        evidence.rows.push(row);
    };
    assert_eq!(rows("projection:tally", gone), "G15");
}

#[test]
fn a_tally_that_is_wrong_is_found() {
    assert_eq!(broken(|evidence| evidence.tallies[0].events += 1), "G20");
    assert_eq!(broken(|evidence| evidence.tallies[0].last_version -= 1), "G20");
    assert_eq!(broken(|evidence| drop(evidence.tallies.remove(0))), "G20");
    assert_eq!(broken(|evidence| evidence.tallies[0].stream_id = Uuid::from_u128(77)), "G20");
}

#[test]
fn terms_that_go_back_or_are_shared_are_found() {
    let back = |evidence: &mut Evidence, rows: Vec<usize>| {
        let last = *rows.last().unwrap();
        (evidence.rows[last].term, evidence.rows[last].by) = (1, OLD);
    };
    assert_eq!(rows("projection:tally", back), "G17");
    let shared = |evidence: &mut Evidence, rows: Vec<usize>| evidence.rows[*rows.last().unwrap()].by = OLD;
    assert_eq!(rows("projection:tally", shared), "G17");
    let last_of =
        |evidence: &Evidence, id: &str| evidence.audit.iter().rposition(|write| write.subscriber_id == id).unwrap();
    assert_eq!(
        broken(|evidence| {
            let mut late = evidence.audit[last_of(evidence, "projection:effects")].clone();
            (late.term, late.by) = (1, Some(OLD));
            evidence.audit.push(late);
        }),
        "G17"
    );
    assert_eq!(
        broken(|evidence| {
            let last = last_of(evidence, "projection:effects");
            evidence.audit[last].by = Some(Life { instance: 3, life: 0 });
        }),
        "G17"
    );
}

#[test]
fn a_checkpoint_that_goes_back_is_found_unless_it_was_a_rebuild() {
    let back = |id: &'static str, term: u64, to: u64| {
        broken(move |evidence| {
            let subscriber_id = id.to_owned();
            evidence.audit.push(Audited { n: 1_000_000, subscriber_id, term, global_sequence: to, by: None });
        })
    };
    assert_eq!(back("projection:tally", 2, 5), "G16");
    assert_eq!(back("projection:tally", 9, 5), "G16");
    assert_eq!(back("projection:tally", 9, 0), "nothing");
    assert_eq!(back("projection:effects", 9, 0), "G16");
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
fn letters_that_are_open_or_about_nothing_are_found() {
    let damaged = |damage: fn(&mut Letter)| {
        broken(move |evidence| {
            let letter = evidence.letters.iter_mut().find(|letter| letter.state == "replayed").unwrap();
            damage(letter);
        })
    };
    assert_eq!(damaged(|letter| letter.state = "dead".to_owned()), "G24");
    assert_eq!(damaged(|letter| letter.state = "parked".to_owned()), "G24");
    assert_eq!(damaged(|letter| letter.state = "discarded".to_owned()), "G24");
    assert_eq!(damaged(|letter| letter.event_id = Uuid::from_u128(3)), "G15");
}

#[test]
fn an_event_without_a_row_and_without_a_letter_is_found() {
    assert_eq!(broken(|evidence| evidence.letters.retain(|letter| letter.state != "discarded")), "G21");
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
    assert_eq!(all.evidence.len(), 6);
    assert_eq!(all.evidence[5], format!("… and {} more", evidence.log.len() - 5));
}
