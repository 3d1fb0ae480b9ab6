use super::*;
use crate::sample;

fn setting() -> Setting {
    Setting { seed: 7, backend: "postgres".to_owned(), instances: 2 }
}

#[test]
fn a_run_is_told_in_figures() {
    let evidence = sample::evidence(400);
    let summary = Summary::new(setting(), &evidence, &[]);
    assert_eq!(summary.events, evidence.log.len() as u64);
    assert!(summary.acknowledged < summary.appends && summary.acknowledged > 300);
    assert_eq!(summary.faults["kill"], Faults { count: 1, failed: 0 });
    // Four subscribers repeat twenty, the saga too, and one with a batch of one.
    assert_eq!(summary.delivered_twice, 20 * 5 + 1);
    assert_eq!((summary.dead_letters["discarded"], summary.rebuilds), (2, 1));
    assert!((summary.caught_up_seconds.unwrap() - 1.3).abs() < 1e-9);
    let takeovers = summary.takeovers["kill"];
    assert_eq!(takeovers.count, 5);
    assert!((takeovers.median - 0.3).abs() < 1e-9 && takeovers.max >= takeovers.p99);
    assert!(!summary.takeovers.contains_key("rebuild"));
}

#[test]
fn a_run_without_anything_has_figures_too() {
    let summary = Summary::new(setting(), &Evidence::default(), &[]);
    assert_eq!((summary.events, summary.appends_per_second, summary.load_held), (0, 0.0, 0.0));
    assert!(summary.to_string().contains("takeovers  none"));
}

#[test]
fn the_text_and_the_file_say_the_same() {
    let summary = Summary::new(setting(), &sample::evidence(400), &[]);
    let text = summary.to_string();
    for part in
        ["seed 7, postgres, 2 instances", "every promise held", "kill 1", "median 0.30 s", "after 1.3 s", "rebuilds"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = serde_json::to_string(&summary).unwrap();
    assert!(json.starts_with("{\"seed\":7,"));
    assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
}

#[test]
fn a_leader_that_continues_by_itself_was_not_taken_over() {
    let mut evidence = sample::evidence(400);
    for effect in &mut evidence.effects {
        effect.by = sample::OLD;
    }
    assert!(Summary::new(setting(), &evidence, &[]).takeovers.is_empty());
}
