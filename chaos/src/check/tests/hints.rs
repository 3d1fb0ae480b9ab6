//! Forged hints.

use super::*;
use crate::evidence::Done;

/// What is broken when a subscriber stood still for so long while hints were forged; with another fault until then, if any.
fn stood_still(micros: u64, other_until: Option<u64>) -> String {
    broken(|evidence| {
        let from = evidence.samples[0].at;
        let fault = |n, kind: &str, to| {
            let (kind, what) = (kind.to_owned(), String::new());
            Done { n, kind, what, instance: None, server: false, crash: false, from, to, failed: None }
        };
        evidence.faults = vec![fault(0, "forged-hints", from + micros)];
        evidence.faults.extend(other_until.map(|until| fault(1, "kill", from + until)));
        // As if time went by more slowly: the run is a few seconds long.
        for (sample, n) in evidence.samples.iter_mut().zip(0..) {
            (sample.at, sample.head) = (from + n * 1_000_000, Some(1_000 + n));
            sample.subscribers.iter_mut().for_each(|subscriber| subscriber.1 = 900 + n);
            sample.subscribers[2].1 = 900;
        }
        assert!(evidence.samples.len() > 20);
    })
}

#[test]
fn who_stands_still_while_hints_are_forged_is_found() {
    assert_eq!(stood_still(15_000_000, None), "G28");
    assert_eq!(stood_still(15_000_000, Some(2_000_000)), "G28");
}

#[test]
fn another_fault_and_a_short_time_are_an_excuse() {
    assert_eq!(stood_still(9_000_000, None), "nothing");
    assert_eq!(stood_still(15_000_000, Some(6_000_000)), "nothing");
}
