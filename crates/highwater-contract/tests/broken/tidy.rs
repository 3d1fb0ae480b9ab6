//! The promises, the cases and the broken backends belong together, and stay so.

use std::collections::BTreeSet;
use std::path::Path;

use highwater_contract::{Case, MemoryHarness, cases};

use crate::Broken;
use crate::list::BROKEN;
use crate::written::{self, HOW};

/// The numbers of `docs/guarantees.md`, as it has them: `**G1. …**`.
fn guarantees() -> BTreeSet<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guarantees.md");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let numbers = text.lines().filter_map(|line| line.strip_prefix("**G")?.split_once('.')?.0.parse().ok());
    numbers.collect()
}

fn all_cases() -> Vec<Case<MemoryHarness>> {
    cases()
}

#[test]
fn the_guarantees_are_numbered_without_a_hole() {
    let guarantees = guarantees();
    assert!(!guarantees.is_empty(), "docs/guarantees.md has numbered promises");
    assert_eq!(guarantees.iter().copied().collect::<Vec<_>>(), (1..=guarantees.len() as u8).collect::<Vec<_>>());
}

#[test]
fn every_guarantee_has_a_case_and_every_case_a_guarantee() {
    let mut without_a_case = guarantees();
    for case in all_cases() {
        assert!(!case.guarantees.is_empty(), "{} checks no guarantee", case.name);
        for guarantee in case.guarantees {
            assert!(guarantees().contains(guarantee), "{} cites G{guarantee}, which does not exist", case.name);
            without_a_case.remove(guarantee);
        }
    }
    assert!(without_a_case.is_empty(), "no case checks {without_a_case:?}");
}

#[test]
fn every_guarantee_is_broken_by_a_backend_that_its_cases_reject() {
    let cases = all_cases();
    let mut unbroken = guarantees();
    for Broken { name, breaks, caught_by, .. } in BROKEN {
        // A case that checks nearly everything says little about anything, so those do not count.
        let cites = |case: &&Case<_>| case.guarantees.len() <= 3 && case.guarantees.contains(breaks);
        let rejecting = cases.iter().filter(|case| caught_by.contains(&case.name)).find(cites);
        assert!(rejecting.is_some(), "{name} breaks G{breaks}, but no case for that rejects it");
        unbroken.remove(breaks);
    }
    assert!(unbroken.is_empty(), "no broken backend breaks {unbroken:?}");
}

/// Cases about code that stands above the contract and is the same for all: a backend can hardly get these wrong. That an
/// observer appends is to the backend one append more, and the broken backends that are held against the cases of delivery
/// append as they should. That a subscriber hangs is known here without asking the backend anything but where the log ends. What a view does with an
/// event it cannot fold, and with a bus that ends, it does by itself.
const ABOVE_THE_CONTRACT: [&str; 9] = [
    "types_the_reader_does_not_know_are_an_error_in_a_stream_and_skipped_in_the_log",
    "a_payload_that_does_not_fit_is_an_error",
    "versions_that_do_not_follow_each_other_are_refused",
    "a_decision_for_nothing_stores_nothing",
    "an_observer_may_append_while_it_handles",
    "health_names_who_does_not_even_begin",
    "a_view_that_cannot_fold_says_so",
    "a_view_that_skips_failures_continues_and_counts_them",
    "a_view_ends_with_its_bus",
];

#[test]
fn every_case_rejects_some_broken_backend() {
    let written = written::read();
    let rejects = |case: &str| written.values().any(|cases| cases.contains(case));
    let idle = all_cases().into_iter().map(|case| case.name).filter(|case| !rejects(case));
    assert_eq!(idle.collect::<BTreeSet<_>>(), BTreeSet::from(ABOVE_THE_CONTRACT), "cases that reject nobody");
}

#[test]
fn names_are_unique_and_what_is_written_down_exists() {
    let cases = all_cases();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len(), "two cases have the same name");
    let listed = BROKEN.iter().flat_map(|broken| broken.caught_by).copied();
    let written = written::read();
    for case in listed.chain(written.values().flatten().map(String::as_str)) {
        assert!(names.contains(case), "{case} is said to reject a broken backend, and does not exist");
    }
}

#[test]
fn what_is_written_down_is_about_these_backends() {
    let backends: BTreeSet<&str> = BROKEN.iter().map(|broken| broken.name).collect();
    assert_eq!(backends.len(), BROKEN.len(), "two broken backends have the same name");
    if written::blessing() {
        written::write(|written| written.retain(|backend, _| backends.contains(backend.as_str())));
        return;
    }
    let written = written::read();
    let written: BTreeSet<&str> = written.keys().map(String::as_str).collect();
    assert_eq!(written, backends, "as it is now it is written down by: {HOW}");
}
