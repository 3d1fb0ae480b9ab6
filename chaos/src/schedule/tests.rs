//! What is drawn from a seed.

use super::*;

#[test]
fn the_same_seed_gives_the_same_schedule() {
    let draw = |seed| Schedule::draw(seed, Store::Postgres, 5.0, &[]);
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
}

#[test]
fn every_kind_is_drawn_and_no_other() {
    for store in [Store::Postgres, Store::Sqlite] {
        let schedule = Schedule::draw(1, store, 120.0, &[]);
        let drawn = |kind: &str| schedule.steps.iter().flat_map(|step| &step.faults).any(|f| f.kind() == kind);
        let kinds = kinds(store);
        assert!(kinds.iter().all(|(kind, _)| drawn(kind)), "{store:?}");
        let known = |fault: &Fault| kinds.iter().any(|(kind, _)| *kind == fault.kind());
        assert!(schedule.steps.iter().flat_map(|step| &step.faults).all(known), "{store:?}");
        assert!(schedule.steps.iter().any(|step| step.faults.len() == 2), "pairs");
    }
}

#[test]
fn only_what_was_asked_for_is_drawn() {
    let only = ["kill".to_owned(), "freeze".to_owned()];
    let schedule = Schedule::draw(3, Store::Postgres, 10.0, &only);
    assert!(schedule.steps.iter().flat_map(|step| &step.faults).all(|f| only.contains(&f.kind().to_owned())));
    assert!(schedule.faults() > 50, "{}", schedule.faults());
}
