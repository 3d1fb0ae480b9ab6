//! A run made by hand, with everything that can come: for tests.

use std::collections::BTreeMap;

use driver::About;

use super::results::{Calls, Contestant, Goal, Kind, Machine, Ratio, Results, Row, Scenario};

pub(crate) const HOSTILE: &str = "<script>alert(1)</script>";

pub(crate) fn results() -> Results {
    Results {
        date: "2026-11-15T17:00:00Z".to_owned(),
        commit: "a7539d7+".to_owned(),
        quick: false,
        seconds: 2_723.4,
        complete: true,
        machine: Machine {
            processor: "Some Processor & Sons @ 3.00GHz".to_owned(),
            cores: 2,
            memory_gigabytes: 7.8,
            kernel: "Linux 6.1.0".to_owned(),
            postgres: "PostgreSQL 15.18 (Debian)".to_owned(),
            settings: BTreeMap::from([
                ("fsync".to_owned(), "on".to_owned()),
                ("max_wal_size".to_owned(), "32GB".to_owned()),
            ]),
            commit_micros: (512.0, 547.5),
        },
        contestants: contestants(),
        scenarios: vec![appending(), latency(), growth(), correctness()],
        ratios: ratios(),
    }
}

fn contestants() -> Vec<Contestant> {
    let contestant =
        |id: &str, kind| Contestant { id: id.to_owned(), kind, about: Some(about(id)), not_measured: None };
    let mut all = vec![
        contestant("highwater", Kind::Highwater),
        contestant("highwater-execute", Kind::Highwater),
        contestant("raw-tokio-postgres", Kind::Raw),
        contestant("other-store", Kind::Peer),
        contestant(HOSTILE, Kind::Peer),
    ];
    let why = Some("error: no such <package> | found".to_owned());
    all.push(Contestant { id: "absent".to_owned(), kind: Kind::Peer, about: None, not_measured: why });
    all
}

fn about(id: &str) -> About {
    About {
        name: id.to_owned(),
        versions: format!("{id} 1.2.3, sqlx 0.9.0"),
        page: if id == HOSTILE {
            "javascript:alert(1)".to_owned()
        } else {
            "https://docs.rs/some/page?a=1&b=2".to_owned()
        },
        documented: "as its first page has it".to_owned(),
        fastest: (id == "other-store").then(|| "a pool of 32 connections".to_owned()),
        no_follower: id.starts_with("raw").then(|| "a driver delivers nothing".to_owned()),
        no_failover: None,
        tables: vec!["events".to_owned()],
        notes: vec!["reads \"bytes\"".to_owned()],
        objection: "it is <slow> here".to_owned(),
        ..About::default()
    }
}

pub(crate) fn row(case: &str, contestant: &str, unit: &str, samples: &[f64]) -> Row {
    Row {
        case: case.to_owned(),
        contestant: contestant.to_owned(),
        unit: unit.to_owned(),
        higher_is_better: unit == "events/s",
        // As many digits as survive a file.
        samples: samples.iter().map(|figure| (figure * 1_000.0).round() / 1_000.0).collect(),
        note: None,
        distribution: Vec::new(),
        at: None,
        calls: Calls::default(),
    }
}

fn scenario(id: &str, title: &str, rows: Vec<Row>) -> Scenario {
    let sizes = "5 rounds of 3 s".to_owned();
    Scenario { id: id.to_owned(), title: title.to_owned(), sizes, rows }
}

fn appending() -> Scenario {
    let mut rows = Vec::new();
    for (callers, part) in [("1 caller", 0.2), ("8 callers", 0.6), ("32 callers", 1.0), ("256 callers", 1.4)] {
        let figures = [
            ("highwater", [48_000.0, 50_000.0, 51_000.0]),
            ("highwater-execute", [58_000.0, 61_000.0, 66_000.0]),
            ("raw-tokio-postgres", [17_000.0, 17_500.0, 19_000.0]),
            ("other-store", [1_900.0, 2_000.0, 2_100.0]),
        ];
        for (who, samples) in figures {
            rows.push(row(callers, who, "events/s", &samples.map(|figure| figure * part)));
        }
        let mut none = row(callers, HOSTILE, "events/s", &[]);
        none.note = Some("stores one at a time, <b>always</b>".to_owned());
        rows.push(none);
    }
    scenario("A", "Append one event to a new stream", rows)
}

fn latency() -> Scenario {
    let mut rows = Vec::new();
    for (who, factor) in [("highwater", 1.0), ("highwater-execute", 0.8), ("other-store", 30.0), (HOSTILE, 90.0)] {
        let distribution = [(0.5, 1_100.0), (0.9, 1_500.0), (0.99, 2_400.0), (0.999, 5_200.0), (1.0, 9_000.0)]
            .map(|(p, t)| (p, f64::round(t * factor)));
        let mut p50 = row("p50 at 100 events/s", who, "ms", &[1.1 * factor, 1.2 * factor, 1.0 * factor]);
        p50.distribution = distribution.to_vec();
        rows.push(p50);
        rows.push(row("p99 at 100 events/s", who, "ms", &[2.4 * factor, 2.9 * factor, 2.2 * factor]));
    }
    rows.sort_by(|a, b| a.case.cmp(&b.case));
    scenario("E", "Live latency", rows)
}

fn growth() -> Scenario {
    let mut rows = Vec::new();
    let mut at = |case: String, who: &str, unit: &str, at: f64, figure: f64| {
        let samples = [figure * 0.95, figure, figure * 1.1];
        rows.push(Row { at: Some(at), ..row(&case, who, unit, &samples) });
    };
    for (events, name) in [(1e5, "100k"), (1e6, "1M"), (5e6, "5M")] {
        for (who, rate) in [("highwater", 50_000.0), ("raw-tokio-postgres", 17_000.0), ("other-store", 2_000.0)] {
            at(format!("append at {name} events"), who, "events/s", events, rate * (1.1 - events / 2e7));
            at("index".to_owned(), who, "bytes/event", events, 180.0 + rate / 1e3);
        }
    }
    for processes in [1.0, 2.0, 4.0, 8.0] {
        let case = format!("append, {processes} process{}", if processes > 1.0 { "es" } else { "" });
        at(case.clone(), "highwater", "events/s", processes, 30_000.0 * (1.0 + processes.ln()));
        at(case, "other-store", "events/s", processes, 2_000.0);
    }
    scenario("H", "Growth", rows)
}

fn correctness() -> Scenario {
    let mut rows = Vec::new();
    for case in ["lost", "out of order", "doubled"] {
        rows.push(row(case, "highwater", "events", &[0.0, 0.0, 0.0]));
        rows.push(row(case, "highwater-execute", "events", &[0.0, 0.0, 0.0]));
        rows.push(row(case, "other-store", "events", &[0.0, 0.0, 0.0]));
        let lost = if case == "lost" { 55.0 } else { 0.0 };
        rows.push(row(case, HOSTILE, "events", &[0.0, 0.0, lost]));
    }
    scenario("G", "Nothing lost, nothing out of order, nothing twice", rows)
}

fn ratios() -> Vec<Ratio> {
    let ratio = |name: &str, value: Option<f64>, goal| Ratio {
        name: name.to_owned(),
        value,
        lowest: value.map(|value| (value * 900.0).round() / 1_000.0),
        highest: value.map(|value| (value * 1_200.0).round() / 1_000.0),
        against: "other-store".to_owned(),
        goal,
        noise: None,
    };
    vec![
        ratio("a32_vs_best_peer", Some(25.123_456), Some(Goal::AtLeast(1.0))),
        ratio("a1_vs_raw", Some(0.612), Some(Goal::AtLeast(0.9))),
        ratio("e100_p50_vs_best_peer", None, Some(Goal::AtMost(1.0))),
        ratio("h_processes", Some(2.0), None),
    ]
}
