use highwater_pages::balanced;

use super::*;
use crate::evidence::{Done, Sample};
use crate::sample;
use crate::summary::Setting;

fn render(evidence: &Evidence, violations: &[Violation]) -> String {
    let setting = Setting { seed: 7, backend: "postgres <16>".to_owned(), instances: 2 };
    page(7, evidence, &Summary::new(setting, evidence, violations), violations)
}

fn violation() -> Violation {
    Violation {
        guarantee: "G19".to_owned(),
        what: "projection:effects: 1 event never delivered".to_owned(),
        evidence: vec!["event 7: <script>alert(1)</script>".to_owned(), "  during fault 0, kill".to_owned()],
    }
}

#[test]
fn the_page_is_well_formed_and_complete() {
    let page = render(&sample::evidence(400), &[]);
    assert!(balanced(&page).unwrap() > 200);
    for part in [
        "Every promise held",
        "projection:parked",
        "kill &lt;instance&gt;",
        "instance 2 leads",
        "no answer from",
        "--seed 7",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn what_is_broken_stands_first_with_its_evidence() {
    let page = render(&sample::evidence(400), &[violation(), Violation { guarantee: "G24".to_owned(), ..violation() }]);
    balanced(&page).unwrap();
    let at = |needle: &str| page.find(needle).unwrap_or_else(|| panic!("no {needle}"));
    assert!(at("2 promises broken") < at("G19") && at("G19") < at("G24") && at("G24") < at("<svg"));
    assert!(at("during fault 0, kill") < at("1 more"));
}

#[test]
fn nothing_is_fetched_and_nothing_runs() {
    let page = render(&sample::evidence(400), &[violation()]);
    for needle in ["<script", "<link", "@import", "url(", "src=", "href=", "http", "<instance>", "<16>"] {
        assert!(!page.contains(needle), "{needle}");
    }
}

#[test]
fn a_run_without_anything_is_a_page_too() {
    let page = render(&Evidence::default(), &[]);
    balanced(&page).unwrap();
    assert!(!page.contains("NaN"));
}

#[test]
fn a_long_run_makes_no_large_page() {
    let page = render(&long(), &[]);
    balanced(&page).unwrap();
    assert!(page.len() < 700_000, "{}", page.len());
}

/// Ten minutes with a sample every 250 ms, and 500 faults.
fn long() -> Evidence {
    let mut evidence = sample::evidence(4_000);
    let kinds =
        ["kill", "freeze", "cut", "crash", "promote", "clock", "disk full", "terminate lock", "graceful restart"];
    let start = sample::START;
    let fault = |n: usize| {
        let from = start + n as u64 * 1_150_000;
        let kind = kinds[(n * n + n / 3) % kinds.len()];
        let server = ["crash", "promote", "disk full"].contains(&kind);
        let failed = n.is_multiple_of(41).then(|| "there was no replica".to_owned());
        let (instance, what) = ((!server).then_some(n as u32 % 4 + 1), format!("{kind} of something & <more>"));
        Done {
            n,
            kind: kind.to_owned(),
            what,
            instance,
            server,
            crash: server,
            from,
            to: from + 400_000 + n as u64 % 7 * 900_000,
            failed,
        }
    };
    evidence.faults = (0..500).map(fault).collect();
    let down =
        |at: u64| evidence.faults.iter().any(|fault| fault.server && fault.from <= at && at < fault.from + 500_000);
    let sample = |n: u64| {
        let at = start + n * 250_000;
        let head = n * 100;
        let lag = |role: usize| ((n / 3 + role as u64 * 17) % 97).pow(2) / 40;
        let leader = |role: usize| {
            (!(n / 4 + role as u64).is_multiple_of(23)).then_some(((n / 60 + role as u64) % 4) as u32 + 1)
        };
        let subscribers = crate::cast::ROLES.iter().enumerate();
        let subscribers = subscribers.map(|(at, role)| (role.id.to_owned(), head.saturating_sub(lag(at)), leader(at)));
        Sample { at, head: (!down(at)).then_some(head), acknowledged: head, subscribers: subscribers.collect() }
    };
    let samples = (0..2_400).map(sample).collect();
    for (append, n) in evidence.appends.iter_mut().zip(0..) {
        append.at = start + n * 150_000;
        append.ended_at = append.outcome.is_some().then_some(append.at + n % 13 * 60_000);
    }
    evidence.samples = samples;
    evidence.last_fault_over = start + 580_000_000;
    evidence.caught_up = Some(start + 584_000_000);
    evidence
}
