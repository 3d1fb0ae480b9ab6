//! What becomes of the term, of the life of the server, and of what was remembered.

use super::*;

pub(super) fn fenced(term: Option<u64>) -> Error {
    Error::Fenced { subscriber_id: "projection:orders".to_owned(), term }
}

#[test]
fn what_an_error_means_depends_on_what_was_being_done() {
    let interrupted = || Error::Interrupted { reason: "another life of the server".to_owned() };
    let unknown = || Error::UnknownOutcome { source: "the connection is gone".into() };
    let unavailable = || Error::Unavailable { action: "answer", source: "away".into() };
    for exclusive in [true, false] {
        for (error, reaction) in [
            (fenced(Some(2)), Reaction::Reread),
            (fenced(None), Reaction::StartAgain),
            (interrupted(), Reaction::Reread),
            (unknown(), Reaction::Reread),
            (unavailable(), Reaction::Retry),
        ] {
            let mut machine = running(policy());
            machine.on_page(page(1..=4), 4);
            assert_eq!(machine.on_error(&error, exclusive), reaction, "{error}");
            assert_eq!(machine.is_taking(), reaction != Reaction::Retry, "{error}");
        }
        // It has looked, and the term is another's.
        let mut machine = Machine::new(policy());
        let reaction = if exclusive { Reaction::StandBack } else { Reaction::Halt };
        assert_eq!(machine.on_error(&fenced(Some(2)), exclusive), reaction);
        assert_eq!(machine.halted().is_some(), !exclusive);
    }
}

#[test]
fn who_is_fenced_stores_nothing_any_more() {
    let mut machine = running(Policy { batch: 100, ..policy() });
    machine.on_page(page(1..=4), 4);
    machine.on_handled(2);
    assert_eq!(machine.on_error(&Error::Interrupted { reason: String::new() }, false), Reaction::Reread);
    assert_eq!(machine.on_error(&fenced(Some(2)), false), Reaction::Halt);
    assert_eq!((machine.step(NOW), machine.handled()), (Step::Rest, 0));
    assert_eq!(machine.step(Now { asked: true, ..NOW }), Step::Rest, "requests are for the new leader");
    machine.on_resumed();
    assert_eq!(machine.step(NOW), Step::Lead, "it is to lead again, from what the other one has stored");
}

const OWN: Term = Term { number: 1, nonce: NONCE };

#[test]
fn an_own_term_that_took_effect_late_is_led_with_and_another_ones_is_not() {
    let late = Term { number: 4, ..OWN };
    let other = Term { number: 2, nonce: Uuid::from_u128(8) };
    for (found, expected) in [(Some(OWN), Ok(1)), (Some(late), Ok(4)), (Some(other), Err(Some(2))), (None, Err(None))] {
        let mut machine = running(policy());
        machine.on_interrupted();
        let answer = machine.on_reread(found.map(checkpoint).as_ref());
        let answer = match answer {
            Ok(()) => Ok(machine.term().unwrap_or_default()),
            Err(Error::Fenced { term, .. }) => Err(term),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(answer, expected, "{found:?}");
    }
}

#[test]
fn without_a_term_nothing_is_written_or_read() {
    let mut machine = running(policy());
    assert!(machine.leads() && machine.check_life(Some(1)).is_ok());
    machine.on_not_leading();
    assert!(
        !machine.leads() && machine.stands_by() && machine.fence().is_err() && machine.check_life(Some(1)).is_err()
    );
    assert_eq!(machine.step(NOW), Step::Lead);
}

#[test]
fn what_was_read_in_another_life_of_the_server_is_void() {
    let machine = running(policy());
    for incarnation in [Some(2), None] {
        assert!(matches!(machine.check_life(incarnation), Err(Error::Interrupted { .. })), "{incarnation:?}");
    }
}

#[test]
fn a_checkpoint_of_another_log_is_damaged() {
    let machine = running(policy());
    assert!(machine.check_log(5, 5, None).is_ok());
    for (head, gone, says) in [(4, None, "the log ends at 4"), (9, Some(Uuid::nil()), "is not in the log")] {
        let error = machine.check_log(5, head, gone).unwrap_err();
        assert!(matches!(&error, Error::Damaged { source, .. } if source.to_string().contains(says)), "{error}");
        assert!(Machine::ends_request(&error));
    }
}
