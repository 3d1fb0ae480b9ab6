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
