//! A file holds one thing, and is short enough to be read as a whole.

use std::collections::BTreeSet;

use crate::source::RUST;

/// What a file of a program should have at most, and what none may have, tests included: each of those stands for itself.
const LINES: usize = 300;
const LINES_MAX: usize = 500;

/// Longer than [`LINES`], and to be split when they are next worked on.
const LONG: &[&str] = &[
    "bench/src/compare/stores/highwater.rs",
    "chaos/src/broken.rs",
    "chaos/src/run.rs",
    "chaos/src/schedule.rs",
    "crates/highwater-contract/src/delivery/following.rs",
    "crates/highwater-contract/src/delivery/instances.rs",
    "crates/highwater-contract/src/delivery/players.rs",
    "crates/highwater-contract/src/delivery/reporting.rs",
    "crates/highwater-contract/src/delivery/viewing.rs",
    "crates/highwater-contract/src/leadership.rs",
    "crates/highwater-contract/src/list.rs",
    "crates/highwater-contract/src/log/reading.rs",
    "crates/highwater-contract/src/support.rs",
    "crates/highwater-contract/src/transfer.rs",
    "crates/highwater-postgres/src/leadership/candidate.rs",
    "crates/highwater-postgres/src/leadership/session.rs",
    "crates/highwater-postgres/src/leadership/thread.rs",
    "crates/highwater-postgres/src/wakeups.rs",
    "crates/highwater-sqlite/src/gate.rs",
    "crates/highwater/src/append.rs",
    "crates/highwater/src/bus.rs",
    "crates/highwater/src/config.rs",
    "crates/highwater/src/delivery/driver.rs",
    "crates/highwater/src/delivery/machine.rs",
    "crates/highwater/src/delivery/status.rs",
    "crates/highwater/src/delivery/tail.rs",
    "crates/highwater/src/subscriber.rs",
    "crates/highwater/src/transfer/import.rs",
    "crates/highwater/src/transfer/line.rs",
    "models/src/leadership.rs",
    "models/src/leadership/instance.rs",
    "models/src/leadership/server.rs",
    "models/src/log.rs",
];

#[test]
fn files_are_short_and_the_long_ones_are_known() {
    let mut found = BTreeSet::new();
    for file in RUST.iter() {
        let lines = file.text.lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines: split it, {LINES_MAX} is the most", file.path);
        if lines > LINES && file.is_in_src() {
            found.insert(file.path.as_str());
        }
    }
    let listed: BTreeSet<&str> = LONG.iter().copied().collect();
    let grown: Vec<_> = found.difference(&listed).collect();
    assert!(grown.is_empty(), "more than {LINES} lines, so they have to be split: {grown:#?}");
    let shrunk: Vec<_> = listed.difference(&found).collect();
    assert!(shrunk.is_empty(), "short now, or gone, so take them off the list: {shrunk:#?}");
}
