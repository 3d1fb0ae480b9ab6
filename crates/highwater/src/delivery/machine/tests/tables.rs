//! What the machine does about tables that are not those of the code.

use super::*;

fn taken(policy: Policy, setup_version: Option<u32>) -> Machine {
    let mut machine = Machine::new(Policy { transactional: true, ..policy });
    machine.on_leading(&checkpoint(Term { number: 1, nonce: NONCE }));
    machine.on_taken(Inherited { global_sequence: 4, setup_version, begun: true, ..Inherited::default() });
    machine
}

fn written_for(version: u32) -> Policy {
    Policy { version: Some(version), ..policy() }
}

const ASKED: Now = Now { asked: true, ..NOW };

#[test]
fn tables_come_before_the_first_event_and_before_requests() {
    let mut machine = taken(written_for(1), None);
    for now in [NOW, ASKED] {
        assert_eq!(machine.step(now), Step::SetUp { anew: false });
    }
    assert!(machine.stays() && !machine.is_set_up() && machine.unfit().is_none());
    machine.on_asked_to_yield(true);
    assert_eq!(machine.step(NOW), Step::SetUp { anew: false }, "the next leader would have to do the same");
    machine.on_asked_to_yield(false);
    machine.on_intent(Intent::Pause);
    assert_eq!(machine.step(NOW), Step::Rest);
    machine.on_intent(Intent::Run);
    let failed = Error::Unavailable { action: "set up", source: "no room".into() };
    assert_eq!(machine.on_error(&failed, true), Reaction::Retry);
    assert_eq!(machine.step(NOW), Step::SetUp { anew: false }, "until it works");
    machine.on_set_up();
    assert_eq!((machine.step(NOW), machine.step(ASKED)), (Step::Read, Step::Serve));
}

#[test]
fn tables_that_are_there_cost_nothing() {
    assert_eq!(taken(written_for(3), Some(3)).step(NOW), Step::Read);
    assert_eq!(taken(policy(), None).step(NOW), Step::Read, "it has none");
}

#[test]
fn older_tables_halt_until_they_are_rebuilt() {
    let mut machine = taken(written_for(2), Some(1));
    assert_eq!((machine.step(NOW), machine.step(ASKED)), (Step::Rest, Step::Serve));
    let reason = machine.unfit().expect("it is halted for its tables").clone();
    assert!(reason.contains("highwater rebuild projection:orders --force"), "{reason}");
    assert!(
        matches!(machine.judge(), Verdict::Waits { .. }) && machine.leads(),
        "it leads on: it is the one that can be asked to rebuild"
    );
    machine.on_resumed();
    assert_eq!(machine.step(NOW), Step::Reread, "what is stored decides, and not who resumes it");
    machine.on_taken(Inherited { setup_version: Some(2), ..Inherited::default() });
    assert_eq!(machine.step(NOW), Step::Read);
}

#[test]
fn older_tables_are_rebuilt_where_that_is_chosen() {
    let machine = taken(Policy { rebuilds: true, ..written_for(2) }, Some(1));
    assert_eq!(machine.step(NOW), Step::SetUp { anew: true });
}

#[test]
fn tables_that_would_lack_events_are_not_made() {
    for (rebuilds, next) in [(false, Step::Rest), (true, Step::SetUp { anew: true })] {
        let mut machine = taken(Policy { rebuilds, ..written_for(1) }, None);
        assert_eq!(machine.step(NOW), Step::SetUp { anew: false }, "it may have none to make");
        assert!(machine.would_lack_events());
        machine.on_lacking_events();
        assert_eq!((machine.step(NOW), machine.unfit().is_some()), (next, !rebuilds));
    }
}

#[test]
fn newer_tables_are_left_to_newer_instances() {
    let mut machine = taken(Policy { rebuilds: true, ..written_for(1) }, Some(2));
    assert!(machine.unfit().is_some() && machine.is_behind(Some(2)));
    assert!(matches!(machine.judge(), Verdict::Leaves { fence: Some(_), .. }) && machine.fence().is_err());
    assert_eq!((machine.step(NOW), machine.step(ASKED)), (Step::Rest, Step::Rest), "the newer ones serve requests");
    machine.on_resumed();
    assert_eq!(machine.step(NOW), Step::Lead);
}

#[test]
fn a_halt_for_an_event_is_none_for_tables() {
    let mut machine = taken(Policy { on_failure: FailurePolicy::Halt, max_retries: 0, ..written_for(1) }, Some(1));
    machine.on_page(page(5..=6), 6);
    assert_eq!(machine.on_failed(1, false, "too bad"), Failed::Spent);
    assert!(machine.halted().is_some() && machine.unfit().is_none());
    machine.on_resumed();
    assert_eq!(machine.step(NOW), Step::Handle { count: 1 });
}
