//! The machine by itself.

mod lives;
mod tables;
mod term;
mod world;

use chrono::DateTime;

use super::*;
use crate::{Checkpoint, Error, Term};

/// By which this subscriber knows its own terms.
const NONCE: Uuid = Uuid::from_u128(7);

fn policy() -> Policy {
    Policy {
        on_failure: FailurePolicy::DeadLetter,
        max_retries: 2,
        batch: 1,
        batch_time: Duration::from_secs(1),
        transactional: false,
        parked_per_stream_max: 100,
        parked_max: 1_000,
        subscriber_id: "projection:orders".into(),
        version: None,
        rebuilds: false,
        nonce: NONCE,
    }
}

fn record(global_sequence: u64, stream: u128) -> Record {
    Record {
        id: Uuid::from_u128(u128::from(global_sequence)),
        stream_id: Uuid::from_u128(stream),
        stream_name: None,
        stream_version: 1,
        global_sequence,
        event_type: "Noted".to_owned(),
        schema_version: 1,
        data: "null".to_owned(),
        metadata: "{}".to_owned(),
        created_at: DateTime::UNIX_EPOCH,
    }
}

fn page(sequences: impl IntoIterator<Item = u64>) -> Arc<Vec<Record>> {
    Arc::new(sequences.into_iter().map(|sequence| record(sequence, 1)).collect())
}

fn running(policy: Policy) -> Machine {
    let mut machine = Machine::new(policy);
    assert_eq!(machine.step(Now::default()), Step::Lead);
    machine.on_leading(&checkpoint(Term { number: 1, nonce: NONCE }));
    machine.on_taken(Inherited::default());
    machine
}

fn checkpoint(term: Term) -> Checkpoint {
    Checkpoint {
        subscriber_id: "projection:orders".to_owned(),
        global_sequence: 0,
        event_id: None,
        updated_at: DateTime::UNIX_EPOCH,
        term,
        incarnation: 1,
        setup_version: None,
    }
}

const NOW: Now = Now { overdue: false, more: false, asked: false };

#[test]
fn synchronous_means_a_checkpoint_after_every_event() {
    let mut machine = running(policy());
    assert_eq!(machine.step(NOW), Step::Read);
    machine.on_page(page(1..=2), 5);
    for expected in [1, 5] {
        assert_eq!(machine.step(NOW), Step::Handle { count: 1 });
        machine.on_handled(1);
        assert_eq!(machine.step(NOW), Step::Store);
        assert_eq!(machine.on_storing().0, expected, "the end of a page takes the position along");
        machine.on_stored(true);
    }
    assert_eq!(machine.step(NOW), Step::Read);
}

#[test]
fn a_batch_is_stored_while_its_other_half_is_handled_and_never_exceeded() {
    let mut machine = running(Policy { batch: 10, ..policy() });
    machine.on_page(page(1..=100), 100);
    assert_eq!(machine.step(NOW), Step::Handle { count: 5 });
    machine.on_handled(5);
    assert_eq!(machine.step(NOW), Step::Store);
    machine.on_storing();
    assert_eq!(machine.step(NOW), Step::Handle { count: 5 });
    machine.on_handled(5);
    assert_eq!(machine.step(NOW), Step::AwaitStore, "ten events are not in the checkpoint: no more before it arrives");
    machine.on_stored(true);
    assert_eq!(machine.stored(), 5);
    assert_eq!(machine.step(NOW), Step::Store);
}

#[test]
fn running_out_of_events_stores_the_checkpoint_at_once() {
    let mut machine = running(Policy { batch: 1_000, ..policy() });
    machine.on_page(page(1..=3), 3);
    machine.on_handled(3);
    assert_eq!(machine.step(Now { more: true, ..NOW }), Step::Read, "there is more to do, and it fits into the batch");
    assert_eq!(machine.step(NOW), Step::Store);
}

#[test]
fn a_position_that_only_moved_past_others_events_is_stored_when_it_is_overdue() {
    let mut machine = running(policy());
    machine.on_page(page([]), 40);
    assert_eq!((machine.handled(), machine.step(NOW)), (40, Step::Read));
    assert_eq!(machine.step(Now { overdue: true, ..NOW }), Step::Store);
}

#[test]
fn an_event_is_tried_max_retries_times_again_and_then_buried() {
    let mut machine = running(policy());
    machine.on_page(page(1..=2), 2);
    for failures in 1..=2 {
        assert_eq!(machine.on_failed(1, false, "no"), Failed::Retry { failures });
        assert_eq!(machine.step(NOW), Step::Sleep);
        machine.on_due();
        assert_eq!(machine.step(NOW), Step::Handle { count: 1 });
    }
    assert_eq!(machine.on_failed(1, false, "no"), Failed::Spent);
    assert_eq!(machine.step(NOW), Step::Bury { park: false });
    machine.on_buried(0);
    assert_eq!((machine.handled(), machine.stored()), (1, 1));
    assert_eq!(machine.step(NOW), Step::Handle { count: 1 });
}

#[test]
fn what_was_handled_before_a_failure_is_stored_before_it_waits() {
    let mut machine = running(Policy { batch: 100, ..policy() });
    machine.on_page(page(1..=9), 9);
    machine.on_handled(3);
    machine.on_failed(1, false, "no");
    assert_eq!(machine.step(NOW), Step::Store);
    machine.on_storing();
    assert_eq!(machine.step(NOW), Step::Sleep);
}

#[test]
fn a_permanent_failure_is_not_retried() {
    let mut machine = running(policy());
    machine.on_page(page(1..=2), 2);
    assert_eq!(machine.on_failed(1, true, "never"), Failed::Spent);
    assert_eq!(machine.step(NOW), Step::Bury { park: false });
}

#[test]
fn a_dead_letter_that_cannot_be_written_leaves_the_event_to_be_handled_again() {
    let mut machine = running(policy());
    machine.on_page(page(1..=2), 2);
    machine.on_failed(1, true, "never");
    machine.on_bury_failed();
    assert_eq!(machine.step(NOW), Step::Sleep, "no faster than any other retry");
    machine.on_due();
    assert_eq!((machine.handled(), machine.step(NOW)), (0, Step::Handle { count: 1 }));
}

#[test]
fn a_batch_that_failed_is_redone_one_by_one_and_no_more_than_that() {
    let mut machine = running(Policy { batch: 3, transactional: true, ..policy() });
    machine.on_page(page(1..=6), 6);
    assert_eq!(machine.step(NOW), Step::Handle { count: 3 });
    assert_eq!(machine.on_failed(3, true, "no"), Failed::Together, "whichever it was");
    for _ in 0..3 {
        assert_eq!(machine.step(NOW), Step::Handle { count: 1 });
        machine.on_committed(1);
    }
    assert_eq!(machine.step(NOW), Step::Handle { count: 3 });
}

#[test]
fn events_behind_a_parked_one_are_parked_and_those_of_other_streams_are_not() {
    let mut machine = running(Policy { on_failure: FailurePolicy::ParkStream, batch: 10, ..policy() });
    let records = [(1, 7), (2, 8), (3, 7), (4, 8)].map(|(sequence, stream)| record(sequence, stream));
    machine.on_page(Arc::new(records.into()), 4);
    machine.on_failed(1, true, "no");
    assert_eq!(machine.step(NOW), Step::Bury { park: true });
    machine.on_buried(1);
    assert_eq!(machine.step(NOW), Step::Handle { count: 1 });
    machine.on_handled(1);
    assert_eq!(machine.step(NOW), Step::Park);
    machine.on_buried(2);
    assert_eq!(machine.step(NOW), Step::Handle { count: 1 });
    machine.on_parked_left(Uuid::from_u128(7), 0);
    machine.on_handled(1);
    machine.on_page(Arc::new(vec![record(5, 7)]), 5);
    machine.on_storing();
    machine.on_stored(true);
    assert_eq!(machine.step(NOW), Step::Handle { count: 1 }, "its stream was unparked");
}

#[test]
fn more_parked_events_than_allowed_halt_it() {
    let mut machine = running(Policy { on_failure: FailurePolicy::ParkStream, parked_per_stream_max: 1, ..policy() });
    machine.on_page(page(1..=3), 3);
    machine.on_failed(1, true, "no");
    assert!(machine.may_park());
    machine.on_buried(1);
    assert_eq!(machine.step(NOW), Step::Park);
    assert!(!machine.may_park());
    assert_eq!(machine.step(NOW), Step::Rest);
    assert!(machine.halted().is_some_and(|reason| reason.contains("parked_per_stream_max")));
}

#[test]
fn to_halt_is_to_stop_in_front_of_the_event_and_to_resume_is_to_try_it_again() {
    let mut machine = running(Policy { on_failure: FailurePolicy::Halt, max_retries: 0, ..policy() });
    machine.on_page(page(1..=2), 2);
    assert_eq!(machine.on_failed(1, false, "no"), Failed::Spent);
    assert_eq!((machine.step(NOW), machine.handled()), (Step::Rest, 0));
    machine.on_resumed();
    assert_eq!(machine.step(NOW), Step::Handle { count: 1 });
}

#[test]
fn what_was_done_is_stored_before_it_pauses_and_before_it_ends() {
    for (intent, then) in [(Intent::Pause, Step::Rest), (Intent::Stop, Step::End)] {
        let mut machine = running(Policy { batch: 100, ..policy() });
        machine.on_page(page(1..=9), 9);
        machine.on_handled(3);
        machine.on_intent(intent);
        assert_eq!(machine.step(NOW), Step::Store);
        machine.on_storing();
        assert_eq!(machine.step(NOW), Step::AwaitStore);
        machine.on_stored(true);
        assert_eq!((machine.step(NOW), machine.stored()), (then, 3));
    }
}

#[test]
fn a_checkpoint_in_flight_is_awaited_before_one_travels_in_a_transaction() {
    let mut machine = running(Policy { transactional: true, ..policy() });
    machine.on_page(page([]), 10);
    machine.on_storing();
    machine.on_page(page([11]), 11);
    assert_eq!(machine.step(NOW), Step::AwaitStore);
    machine.on_stored(true);
    assert_eq!(machine.step(NOW), Step::Handle { count: 1 });
}

#[test]
fn what_was_asked_is_done_between_events_and_also_while_one_waits_for_its_retry() {
    let asked = Now { asked: true, ..NOW };
    let mut machine = running(policy());
    machine.on_page(page(1..=2), 2);
    assert_eq!(machine.step(asked), Step::Serve);
    machine.on_failed(1, false, "no");
    assert_eq!(machine.step(asked), Step::Serve);
    assert_eq!(machine.step(NOW), Step::Sleep);
    machine.on_due();
    assert_eq!(machine.step(asked), Step::Handle { count: 1 });
}

#[test]
fn after_an_interruption_nothing_that_was_remembered_counts() {
    let mut machine = running(Policy { batch: 100, ..policy() });
    machine.on_page(page(1..=9), 9);
    machine.on_handled(5);
    machine.on_interrupted();
    assert_eq!(machine.step(NOW), Step::Reread);
    machine.on_taken(Inherited { global_sequence: 2, ..Inherited::default() });
    assert_eq!((machine.handled(), machine.stored(), machine.step(NOW)), (2, 2, Step::Read));
}

#[test]
fn what_turns_out_to_be_done_moves_on_and_the_rest_of_the_page_is_stored_in_its_time() {
    let mut machine = running(Policy { transactional: true, batch: 10, ..policy() });
    machine.on_page(page(1..=3), 9);
    machine.on_found(3, 3);
    assert_eq!((machine.handled(), machine.stored(), machine.step(NOW)), (9, 3, Step::Read));
    assert_eq!(machine.step(Now { overdue: true, ..NOW }), Step::Store);
}

#[test]
fn a_transaction_that_begins_below_what_is_believed_stored_does_not_continue_it() {
    let mut machine = running(Policy { transactional: true, batch: 10, ..policy() });
    machine.on_page(page(1..=9), 9);
    machine.on_committed(6);
    assert!(machine.continues_from(6) && machine.continues_from(7), "a lost answer may have stored more");
    assert!(!machine.continues_from(5));
}

#[test]
fn a_page_that_overlaps_what_was_handled_is_taken_from_where_it_continues() {
    let mut machine = running(Policy { batch: 100, ..policy() });
    machine.on_page(page(1..=4), 4);
    machine.on_handled(4);
    machine.on_page(page(3..=6), 6);
    assert_eq!(machine.front(9).1, 2..4);
}
