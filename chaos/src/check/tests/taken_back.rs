//! What a crash may take back, and what it may not.

use super::*;
use crate::evidence::{Done, Effect, Sending};
use crate::record::{How, Outcome, Sent};
use crate::sample::{START, STEP};

/// Right after the answer to append 100, which waited for the disk.
const SENT: u64 = START + 100 * STEP + 3_000;
/// Before append 101 is answered.
const CRASH: u64 = START + 101 * STEP + 1_000;

/// What is broken first when an append that was acknowledged is not in the log, although it was delivered.
fn gone(how: How, crashed: Option<u64>, delivered: Option<u64>) -> String {
    broken(|evidence| {
        let (id, stream_id, at) = (Uuid::from_u128(7), Uuid::from_u128(8), SENT);
        // The number was given out again.
        let last = evidence.log[100].global_sequence;
        let (events, outcome) = (vec![Sent { id, stream_id, expected: None }], Outcome::Stored { last, sendings: 1 });
        let (outcome, ended_at) = (Some(outcome), Some(at + 1));
        evidence.appends.push(Sending { by: OLD, append: 900, how, events, at, outcome, ended_at });
        if let Some(at) = delivered {
            let role = crate::cast::ROLES.iter().position(|role| role.id == "projection:effects").unwrap();
            evidence.effects.push(Effect { role, by: OLD, global_sequence: last, id, at });
            evidence.effects.sort_by_key(|effect| effect.at);
        }
        let (kind, what) = ("kill-backend".to_owned(), "a backend was killed".to_owned());
        let done = |from| Done {
            n: 9,
            kind,
            what,
            instance: None,
            server: true,
            crash: true,
            from,
            to: from + 1_000_000,
            failed: None,
        };
        evidence.faults.extend(crashed.map(done));
    })
}

#[test]
fn what_did_not_wait_for_the_disk_may_be_gone_after_a_crash() {
    assert_eq!(gone(How::Asynchronous, Some(CRASH), None), "nothing");
    assert_eq!(gone(How::Asynchronous, Some(CRASH), Some(SENT + 500)), "nothing");
}

#[test]
fn nothing_else_may_be_gone() {
    assert_eq!(gone(How::Single, Some(CRASH), None), "G15");
    assert_eq!(gone(How::Asynchronous, None, None), "G15");
    assert_eq!(gone(How::Asynchronous, Some(SENT - 2_000_000), None), "G15", "the crash was over by then");
}

#[test]
fn a_crash_takes_back_an_end_and_no_more() {
    // Append 101 was sent afterwards, answered before the crash, and is there.
    assert_eq!(gone(How::Asynchronous, Some(START + 103 * STEP), None), "G15");
}

#[test]
fn what_is_gone_is_not_delivered_after_the_crash() {
    assert_eq!(gone(How::Asynchronous, Some(CRASH), Some(CRASH + 1_000_001)), "G15");
}

/// The replica is lost in these seconds, in which event 7 of stream 8 is delivered, at this time and with this number.
fn lose_replica(evidence: &mut Evidence, delivered: u64, global_sequence: u64) {
    evidence.faults.push(lost());
    let role = crate::cast::ROLES.iter().position(|role| role.id == "projection:effects").unwrap();
    evidence.effects.push(Effect { role, by: OLD, global_sequence, id: Uuid::from_u128(7), at: delivered });
    evidence.effects.sort_by_key(|effect| effect.at);
}

fn lost() -> Done {
    let (kind, what) = ("lose-replica".to_owned(), "the replica was stopped".to_owned());
    Done { n: 9, kind, what, instance: None, server: true, crash: true, from: LOST, to: PROMOTED, failed: None }
}

/// When the replica was lost, and when it was promoted.
const LOST: u64 = SENT - 1_000;
const PROMOTED: u64 = SENT + 1_000_000;

/// An append of event 7 to stream 8, with what came of it.
fn send(evidence: &mut Evidence, outcome: Option<Outcome>, ended_at: Option<u64>) {
    let events = vec![Sent { id: Uuid::from_u128(7), stream_id: Uuid::from_u128(8), expected: None }];
    evidence.appends.push(Sending { by: OLD, append: 900, how: How::Single, events, at: SENT, outcome, ended_at });
}

#[test]
fn what_no_replica_had_may_be_gone_and_is_not_delivered_afterwards() {
    let gone = |delivered: u64| {
        broken(|evidence| {
            send(evidence, None, None);
            let last = evidence.log[100].global_sequence;
            lose_replica(evidence, delivered, last);
        })
    };
    assert_eq!(gone(SENT + 500), "nothing");
    assert_eq!(gone(PROMOTED + 1), "G15");
    assert_eq!(gone(LOST - 1), "G15", "nothing was lost by then");
}

#[test]
fn what_was_acknowledged_is_there_also_when_its_replica_was_lost() {
    assert_eq!(
        broken(|evidence| {
            let last = evidence.log[100].global_sequence;
            send(evidence, Some(Outcome::Stored { last, sendings: 2 }), Some(SENT + 700));
            lose_replica(evidence, SENT + 500, last);
        }),
        "G15"
    );
}

#[test]
fn what_was_acknowledged_before_the_replica_was_lost_is_not_delivered_and_gone() {
    let first = |ended_at: u64| {
        let mut evidence = crate::sample::evidence(super::APPENDS);
        let last = evidence.log[100].global_sequence;
        send(&mut evidence, Some(Outcome::Stored { last, sendings: 1 }), Some(ended_at));
        lose_replica(&mut evidence, SENT + 500, last);
        let told = super::check(&evidence);
        told.iter().any(|violation| violation.what.starts_with("projection:effects"))
    };
    assert!(first(LOST - 1));
    assert!(!first(LOST), "it may have been acknowledged without a replica, and that is told already");
}

#[test]
fn what_was_gone_and_came_again_with_its_number_may_be_delivered_out_of_order() {
    // The last event is delivered before all others by one who saw it with the number that it was given again.
    let early = |at: u64| {
        broken(|evidence| {
            let last = evidence.log.last().unwrap().clone();
            for sending in &mut evidence.appends {
                if sending.events.iter().any(|event| event.id == last.id) {
                    (sending.at, sending.outcome, sending.ended_at) = (LOST, None, None);
                }
            }
            lose_replica(evidence, at, last.global_sequence);
            let mine = evidence.effects.iter_mut().find(|effect| effect.id == Uuid::from_u128(7)).unwrap();
            mine.id = last.id;
        })
    };
    assert_eq!(early(SENT + 500), "nothing");
    assert_eq!(early(PROMOTED + 1), "G19");
}

#[test]
fn the_answer_to_a_question_that_no_replica_had_may_have_come_after_it_was_gone() {
    let answered = |outcome: Option<Outcome>| {
        broken(|evidence| {
            let ended_at = outcome.is_some().then_some(SENT + 700);
            send(evidence, outcome, ended_at);
            evidence.faults.push(lost());
            // An answer to it instead of to another question, which is none then.
            let answer = evidence.log.iter_mut().rfind(|event| event.answers.is_some()).unwrap();
            let asked = answer.answers.replace(Uuid::from_u128(7)).unwrap();
            evidence.log.iter_mut().find(|event| event.id == asked).unwrap().event_type = "Noted".to_owned();
        })
    };
    assert_eq!(answered(None), "nothing");
    assert_eq!(answered(Some(Outcome::RolledBack)), "G15");
}
