use super::super::sample;
use super::*;

fn rows<'a>(results: &'a mut Results, id: &str) -> &'a mut Vec<Row> {
    &mut results.scenarios.iter_mut().find(|scenario| scenario.id == id).unwrap().rows
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let results = sample::results();
    let comparison = compare(&results, &results);
    assert!(comparison.changes.is_empty() && comparison.warnings.is_empty(), "{comparison:?}");
    assert!(comparison.compared > 40);
}

#[test]
fn a_slower_machine_is_no_change_where_there_is_a_raw_row() {
    let (before, mut now) = (sample::results(), sample::results());
    for row in rows(&mut now, "A") {
        row.samples.iter_mut().for_each(|figure| *figure /= 2.0);
    }
    let comparison = compare(&now, &before);
    assert!(comparison.changes.iter().all(|change| change.contestant == "raw-tokio-postgres"), "{comparison:?}");
    assert!(comparison.changes.iter().all(|change| change.against.is_none() && !change.better));
}

#[test]
fn changes_beyond_both_spreads_are_told_the_largest_first() {
    let (before, mut now) = (sample::results(), sample::results());
    for row in rows(&mut now, "A").iter_mut().filter(|row| row.case == "32 callers") {
        let factor = match row.contestant.as_str() {
            "highwater" => 1.5,
            "other-store" => 0.1,
            // Within the spread of both.
            "highwater-execute" => 1.02,
            _ => 1.0,
        };
        row.samples.iter_mut().for_each(|figure| *figure *= factor);
    }
    let comparison = compare(&now, &before);
    let told: Vec<_> = comparison.changes.iter().map(|change| (change.contestant.as_str(), change.better)).collect();
    assert_eq!(told, [("other-store", false), ("highwater", true)]);
    assert_eq!(comparison.changes[0].against.as_deref(), Some("raw-tokio-postgres"));
    assert_eq!(comparison.changes[1].text(), "+50%");
    assert_eq!(comparison.changes[0].basis(), "of raw-tokio-postgres");
}

#[test]
fn less_latency_is_better() {
    let (before, mut now) = (sample::results(), sample::results());
    for row in rows(&mut now, "E").iter_mut().filter(|row| row.contestant == "highwater") {
        row.samples.iter_mut().for_each(|figure| *figure /= 3.0);
    }
    let comparison = compare(&now, &before);
    assert_eq!(comparison.changes.len(), 2);
    assert!(comparison.changes.iter().all(|change| change.better && change.basis() == "ms, absolute"));
}

#[test]
fn one_lost_event_in_one_round_is_a_change() {
    let (before, mut now) = (sample::results(), sample::results());
    let row = rows(&mut now, "G").iter_mut().find(|row| row.contestant == "highwater").unwrap();
    row.samples = vec![0.0, 1.0, 0.0];
    let faster = rows(&mut now, "A").iter_mut().find(|row| row.contestant == "highwater").unwrap();
    faster.samples.iter_mut().for_each(|figure| *figure *= 100.0);
    let comparison = compare(&now, &before);
    assert_eq!(comparison.changes.len(), 2);
    assert_eq!(comparison.changes[0].scenario, "G");
    assert!(!comparison.changes[0].better);
    assert_eq!(comparison.changes[0].text(), "from 0");
    assert_eq!(comparison.changes[0].now.text(), "0 (0–1)");
    assert!(compare(&before, &now).changes[0].better);
}

#[test]
fn another_machine_is_warned_of() {
    let (mut before, now) = (sample::results(), sample::results());
    before.quick = true;
    before.machine.cores = 64;
    before.machine.settings.clear();
    let warnings = compare(&now, &before).warnings;
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings.contains(&"another number of cores: 64 then, 2 now".to_owned()), "{warnings:?}");
}
