//! The log's model, explored to its end, and without each of its rules.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use highwater_models::log::{Keeping, Log, Reading, Rules, Size};
use highwater_models::{Explored, counterexample, explore};

/// Everything is reached, nothing is violated, and what should be possible is.
fn holds(size: Size, states: usize) {
    let explored = explore(Log { rules: Rules::default(), size, alike: true });
    println!("{size:?}: {} states", explored.states);
    assert_eq!(explored, Explored { states, failures: vec![] });
}

/// The checker finds a history that goes wrong, in the way that is expected.
fn fails_without(rule: &str) {
    let (model, property) = Log::without(rule).unwrap();
    let found = counterexample(model, property).expect("a history that goes wrong");
    assert!(!found.actions.is_empty(), "something has to happen first");
}

#[test]
fn holds_for_who_reads_everything_and_keeps_a_checkpoint() {
    holds(Log::SIZE, 5_196_796);
}

#[test]
fn holds_for_who_reads_everything_and_keeps_positions_elsewhere() {
    holds(Size { keeping: Keeping::Elsewhere, ..Log::SIZE }, 1_499_406);
}

#[test]
fn holds_for_who_reads_by_the_frontier_alone() {
    holds(Size { reading: Reading::Settled, crashes: 0, ..Log::SIZE }, 694_478);
}

#[test]
fn holds_for_who_reads_by_the_frontier_alone_and_keeps_a_checkpoint() {
    holds(Size { reading: Reading::Settled, numbers: 1, ..Log::SIZE }, 204_916);
}

#[test]
fn holds_for_who_reads_by_the_frontier_alone_and_keeps_positions_elsewhere() {
    holds(Size { reading: Reading::Settled, keeping: Keeping::Elsewhere, numbers: 1, ..Log::SIZE }, 130_840);
}

#[test]
fn holds_on_connections_that_others_use_too() {
    holds(Size { shared: true, numbers: 1, ..Log::SIZE }, 1_057_504);
}

#[test]
fn holds_for_two_readers() {
    holds(Size { writers: 2, numbers: 1, readers: 2, ..Log::SIZE }, 49_068);
}

#[test]
fn holds_where_frontiers_start_at_what_was_proved() {
    holds(Log::PROOFS, 1_397_380);
    holds(Size { reading: Reading::All, ..Log::PROOFS }, 773_700);
}

#[test]
fn settling_beyond_what_is_committed_harms_nobody_who_keeps_a_checkpoint() {
    let rules = Rules::default().without("settle_only_committed").unwrap();
    let size = Size { numbers: 1, ..Log::SIZE };
    assert_eq!(explore(Log { rules, size, alike: true }).failures, Vec::<&str>::new());
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
    lock_before_draw: fails_without_lock_before_draw,
    visible_before_unlock: fails_without_visible_before_unlock,
    look_at_sequence_first: fails_without_look_at_sequence_first,
    wait_for_holders: fails_without_wait_for_holders,
    floor_from_observation_before: fails_without_floor_from_observation_before,
    holder_keeps_its_floor: fails_without_holder_keeps_its_floor,
    newcomers_get_floors: fails_without_newcomers_get_floors,
    settle_only_committed: fails_without_settle_only_committed,
    contiguous_ends_at_a_hole: fails_without_contiguous_ends_at_a_hole,
    contiguous_page_moves_on: fails_without_contiguous_page_moves_on,
    page_read_after_holders: fails_without_page_read_after_holders,
    full_page_ends_at_its_last: fails_without_full_page_ends_at_its_last,
    frontier_dies_with_connection: fails_without_frontier_dies_with_connection,
    incarnation_voids_positions: fails_without_incarnation_voids_positions,
    identity_changes_with_every_recovery: fails_without_identity_changes_with_every_recovery,
    only_proof_starts_a_frontier: fails_without_only_proof_starts_a_frontier,
    proof_counts_in_its_life: fails_without_proof_counts_in_its_life,
    proof_continues_proof: fails_without_proof_continues_proof,
}
