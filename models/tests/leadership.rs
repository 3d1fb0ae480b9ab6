//! The model of leadership, explored to its end, and without each of its rules.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use highwater_models::leadership::{Handling, Leadership, Locks, Rules, Size};
use highwater_models::{Explored, counterexample, explore};

/// Everything is reached, nothing is violated, and what should be possible is.
fn holds(size: Size, states: usize) {
    let explored = explore(Leadership { rules: Rules::default(), size, alike: true });
    println!("{size:?}: {} states", explored.states);
    assert_eq!(explored, Explored { states, failures: vec![] });
}

/// The checker finds a history that goes wrong, in the way that is expected.
fn fails_without(rule: &str) {
    let (model, property) = Leadership::without(rule).unwrap();
    let found = counterexample(model, property).expect("a history that goes wrong");
    assert!(!found.actions.is_empty(), "something has to happen first");
}

#[test]
fn holds_for_two_instances_that_handle_one_by_one() {
    holds(Leadership::SIZE, 195_172);
}

#[test]
fn holds_for_three_instances_that_handle_one_by_one_and_four_faults() {
    holds(Size { instances: 3, faults: Some(4), ..Leadership::SIZE }, 460_581);
}

#[test]
fn holds_for_three_instances_that_handle_within_transactions() {
    holds(Size { instances: 3, handling: Handling::Within, ..Leadership::SIZE }, 213_107);
}

#[test]
fn holds_for_two_instances_whose_locks_are_on_files() {
    holds(Size { locks: Locks::Files, ..Leadership::SIZE }, 201_795);
}

#[test]
fn holds_for_three_instances_whose_locks_are_on_files_and_that_handle_within_transactions() {
    holds(Size { locks: Locks::Files, instances: 3, handling: Handling::Within, ..Leadership::SIZE }, 239_913);
}

#[test]
fn holds_where_the_server_recovers_and_events_are_handled_one_by_one() {
    holds(Size { recoveries: true, faults: Some(3), ..Leadership::SIZE }, 46_609);
}

#[test]
fn holds_where_the_server_recovers_and_events_are_handled_within_transactions() {
    holds(Size { recoveries: true, handling: Handling::Within, ..Leadership::SIZE }, 25_084);
}

#[test]
fn the_life_of_the_server_and_what_is_found_stored_stand_in_for_each_other() {
    for rule in ["life_is_checked", "less_than_stored_interrupts"] {
        let rules = Rules::default().without(rule).unwrap();
        let size = Size { handling: Handling::Within, recoveries: true, ..Leadership::SIZE };
        assert_eq!(explore(Leadership { rules, size, alike: true }).failures, Vec::<&str>::new(), "{rule}");
    }
}

#[test]
fn the_lock_of_the_checkpoint_and_the_check_of_where_it_was_stand_in_for_each_other() {
    for rule in ["begin_locks_the_checkpoint", "advance_from_is_checked"] {
        let rules = Rules::default().without(rule).unwrap();
        let size = Size { handling: Handling::Within, ..Leadership::SIZE };
        assert_eq!(explore(Leadership { rules, size, alike: true }).failures, Vec::<&str>::new(), "{rule}");
    }
}

macro_rules! fails_without {
    ($($rule:ident: $test:ident,)*) => {
        $(
            #[test]
            fn $test() {
                fails_without(stringify!($rule));
            }
        )*

        #[test]
        fn every_rule_is_left_out_once() {
            assert_eq!(Rules::NAMES, [$(stringify!($rule),)*]);
        }
    };
}

fails_without! {
    term_is_checked: fails_without_term_is_checked,
    lock_before_term: fails_without_lock_before_term,
    taking_runs_to_its_end: fails_without_taking_runs_to_its_end,
    checkpoint_comes_with_the_term: fails_without_checkpoint_comes_with_the_term,
    never_moves_back: fails_without_never_moves_back,
    handle_before_checkpoint: fails_without_handle_before_checkpoint,
    bury_in_one_transaction: fails_without_bury_in_one_transaction,
    effects_with_the_checkpoint: fails_without_effects_with_the_checkpoint,
    begin_locks_the_checkpoint: fails_without_begin_locks_the_checkpoint,
    advance_from_is_checked: fails_without_advance_from_is_checked,
    begin_tells_what_is_true: fails_without_begin_tells_what_is_true,
    fenced_stands_back: fails_without_fenced_stands_back,
    silent_sessions_end: fails_without_silent_sessions_end,
    frozen_transactions_end: fails_without_frozen_transactions_end,
    silent_holders_are_replaced: fails_without_silent_holders_are_replaced,
    life_is_checked: fails_without_life_is_checked,
    less_than_stored_interrupts: fails_without_less_than_stored_interrupts,
}
