//! The log's model, explored to its end, and without each of its rules.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use highwater_models::log::{
    GETS_ON_AMONG_OTHERS, GETS_TO_THE_END, Keeping, Log, NO_EVENT_SKIPPED, Reading, Rules, Size,
};
use highwater_models::{Explored, counterexample, explore};

const SIZE: Size = Size {
    writers: 3,
    numbers: 2,
    readers: 1,
    crashes: 1,
    page: 2,
    reading: Reading::All,
    keeping: Keeping::Checkpoint,
};

/// Everything was reached, nothing is violated, and what should be possible is.
fn holds(size: Size, states: usize) {
    let explored = explore(Log { rules: Rules::default(), size });
    println!("{size:?}: {} states", explored.states);
    assert_eq!(explored, Explored { states, failures: vec![] });
}

/// Without a rule, or several, the checker finds a history that violates a property.
fn fails(without: &[&str], size: Size, property: &str) {
    let rules = without.iter().fold(Rules::default(), |rules, name| rules.without(name).unwrap());
    let found = counterexample(Log { rules, size }).expect("a history that goes wrong");
    assert_eq!(found.property, property);
    assert!(!found.path.into_actions().is_empty(), "something has to happen first");
}

#[test]
fn holds_for_positions_in_the_database() {
    holds(SIZE, 3_564_509);
}

#[test]
fn fails_without_lock_before_draw() {
    fails(&["lock_before_draw"], SIZE, NO_EVENT_SKIPPED);
}

#[test]
fn fails_without_visible_before_unlock() {
    fails(&["visible_before_unlock"], SIZE, NO_EVENT_SKIPPED);
}

#[test]
fn fails_without_look_at_sequence_first() {
    fails(&["look_at_sequence_first"], SIZE, NO_EVENT_SKIPPED);
}

#[test]
fn fails_without_wait_for_holders() {
    fails(&["wait_for_holders"], SIZE, NO_EVENT_SKIPPED);
}

#[test]
fn fails_without_floor_from_observation_before() {
    fails(&["floor_from_observation_before"], SIZE, NO_EVENT_SKIPPED);
}

#[test]
fn fails_without_holder_keeps_its_floor() {
    fails(&["holder_keeps_its_floor"], SIZE, NO_EVENT_SKIPPED);
}

#[test]
fn fails_without_newcomers_get_floors() {
    fails(&["newcomers_get_floors"], SIZE, NO_EVENT_SKIPPED);
}

#[test]
fn fails_without_settle_only_committed() {
    fails(&["settle_only_committed"], SIZE, NO_EVENT_SKIPPED);
}

#[test]
fn fails_without_contiguous_ends_at_a_hole() {
    fails(&["contiguous_ends_at_a_hole"], SIZE, NO_EVENT_SKIPPED);
}

#[test]
fn fails_without_page_read_after_holders() {
    fails(&["page_read_after_holders"], SIZE, NO_EVENT_SKIPPED);
}

#[test]
fn fails_without_full_page_ends_at_its_last() {
    fails(&["full_page_ends_at_its_last"], SIZE, NO_EVENT_SKIPPED);
}

#[test]
fn fails_without_frontier_dies_with_connection() {
    fails(&["frontier_dies_with_connection"], SIZE, NO_EVENT_SKIPPED);
}

#[test]
fn fails_without_incarnation_voids_positions() {
    fails(&["incarnation_voids_positions"], SIZE, NO_EVENT_SKIPPED);
}
