//! The suite can fail: backends that are broken on purpose, each in one way, and which cases reject them.
//!
//! Each case runs on one thread with a clock that stands still while anything can run. So it takes the same course
//! every time, and one that would wait for ever is found out at once; one that runs for ever, soon.
//!
//! A backend that gets the log or its wake-ups wrong is held against the cases about those. One that gets checkpoints,
//! transactions or dead letters wrong is held against those of the others that have to notice it.
//! Everything against everything would say little more and take four times as long. Sound backends have to pass all.
//!
//! A new broken backend is a fault and two lines in `list.rs`: which promise it breaks, which case has to notice.
//! Which other cases notice is seen by running it, and stands in `rejected_by.txt`.

mod drawn;
mod faults;
mod faulty;
mod list;
mod tidy;
mod written;

use highwater::transfer::TransferError;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic;
use std::sync::{Once, mpsc};
use std::time::Duration;

use chrono::DateTime;
use drawn::DrawnHarness;
use faults::transfer;
use faulty::{Fault, FaultyHarness};
use highwater::backend::{Checkpoints, Log, NewRecord, Requests};
use highwater::{Append, Claim, Error, MemoryEventStore};
use highwater_contract::{Case, Harness, Settings, cases, ignore_environment};
use uuid::Uuid;

/// How long a case may take by a clock that only moves while nothing happens.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long it may be at work by any other clock where that is expected of it, and where it is not.
const BUSY_MAX: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(40)];

thread_local! {
    /// Whether panics on this thread are expected, and nobody wants to read of them.
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

fn silence_expected_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !SILENT.get() {
                loud(info);
            }
        }));
    });
}

/// What is told apart: the contract of the log, and what delivery needs besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Log,
    Delivery,
}

impl Part {
    fn of<H>(case: &Case<H>) -> Self {
        const DELIVERY: [&str; 25] = [
            "checkpoints",
            "transactions",
            "dead_letters",
            "requests",
            "transfer",
            "leadership",
            "following",
            "resuming",
            "counting",
            "failing",
            "ordering",
            "replaying",
            "controlling",
            "viewing",
            "waiting",
            "rebuilding",
            "setting_up",
            "fencing",
            "instances",
            "spreading",
            "reporting",
            "steering",
            "removing",
            "leasing",
            "troubled",
        ];
        if DELIVERY.contains(&case.topic) { Self::Delivery } else { Self::Log }
    }
}

/// Runs something for so long at most, by a clock that never stands still.
async fn for_real<T>(limit: Duration, running: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let (over, is_over) = tokio::sync::oneshot::channel();
    // Ends when its sender is dropped, so nobody waits for it.
    let (_done, is_done) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if is_done.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _gone = over.send(());
        }
    });
    tokio::select! {
        outcome = running => outcome,
        Ok(()) = is_over => Err(format!("it was still at work after {limit:?}")),
    }
}

/// Those of these cases that reject a backend, each with the reason it gave.
fn rejecting<H: Harness>(
    tried: impl Fn(&Case<H>) -> bool,
    expected: impl Fn(&str) -> bool,
    harness: impl Fn() -> H,
) -> Vec<(&'static str, String)> {
    ignore_environment();
    silence_expected_panics();
    SILENT.set(true);
    let cases = cases::<H>().into_iter().filter(tried);
    let rejected = cases.filter_map(|case| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a test can make a runtime");
        let busy_max = if expected(case.name) { BUSY_MAX[0] } else { BUSY_MAX[1] };
        let outcome = runtime.block_on(for_real(busy_max, case.run(harness(), DEADLINE)));
        runtime.shutdown_background();
        outcome.err().map(|reason| (case.name, reason))
    });
    let rejected = rejected.collect();
    SILENT.set(false);
    rejected
}

/// A backend that is broken on purpose.
struct Broken {
    name: &'static str,
    part: Part,
    /// The guarantee it breaks, by its number in `docs/guarantees.md`.
    breaks: u8,
    /// The cases about that fault: they have to reject it, whatever the others do.
    caught_by: &'static [&'static str],
}

fn assert_rejected<H: Harness>(name: &str, harness: impl Fn() -> H) {
    let broken = list::BROKEN.iter().find(|broken| broken.name == name);
    let Broken { part, breaks, caught_by, .. } = broken.expect("it is in the list");
    let seen_before = written::read().remove(name).unwrap_or_default();
    // Which cases of delivery notice depends on what tasks do at the same time: only those that always do are asked.
    let expected = |case: &str| caught_by.contains(&case) || seen_before.contains(case);
    let asked = |case: &Case<H>| Part::of(case) == *part && (*part == Part::Log || expected(case.name));
    let rejecting = rejecting(asked, expected, harness);
    let seen: BTreeSet<String> = rejecting.iter().map(|(case, _)| (*case).to_owned()).collect();
    let missed: Vec<_> = caught_by.iter().filter(|case| !seen.contains(**case)).collect();
    assert!(missed.is_empty(), "{name} breaks G{breaks}, and gets past {missed:?}");
    if written::blessing() {
        return written::write(|written| drop(written.insert(name.to_owned(), seen)));
    }
    if seen != seen_before {
        let reasons: Vec<String> = rejecting.iter().map(|(case, reason)| format!("{case}: {reason}")).collect();
        panic!(
            "{name} (G{breaks}) is rejected by other cases than written down.\nNot any more by {:?}\nNow also by {:?}\n\
             If that is right, write it down: {}\n{}",
            Vec::from_iter(seen_before.difference(&seen)),
            Vec::from_iter(seen.difference(&seen_before)),
            written::HOW,
            reasons.join("\n")
        );
    }
}

fn assert_accepted<H: Harness>(harness: impl Fn() -> H) {
    let rejecting = rejecting(|_| true, |_| false, harness);
    assert!(rejecting.is_empty(), "a sound backend is rejected: {rejecting:#?}");
}

/// No fault at all.
struct Nothing;

impl Fault for Nothing {}

#[test]
fn the_memory_backend_is_accepted_through_the_wrapper() {
    assert_accepted(|| FaultyHarness::new(Nothing));
}

#[test]
fn a_backend_that_draws_numbers_before_it_commits_is_accepted() {
    assert_accepted(|| DrawnHarness(None));
}

#[tokio::test]
async fn a_copy_that_differs_is_found_out_and_stays_locked() {
    let source = MemoryEventStore::new();
    let record = |data: &str| NewRecord {
        id: Uuid::now_v7(),
        stream_id: Uuid::nil(),
        stream_name: None,
        event_type: "Noted".to_owned(),
        schema_version: 1,
        data: data.to_owned(),
        metadata: r#"{"actor":"anna"}"#.to_owned(),
        created_at: DateTime::UNIX_EPOCH,
    };
    let noted = Append::to(Uuid::nil()).record(record("1")).record(record("2"));
    source.append(&noted).await.expect("memory takes it");
    source.take_over(&Claim::of("projection:orders")).await.expect("memory takes it");
    source.set_paused("projection:orders", true).await.expect("memory takes it");
    for (fault, named) in [
        (transfer::Fills::records(transfer::without_metadata), "event"),
        (transfer::Fills::records(transfer::half), "event"),
        (transfer::Fills::checkpoints(transfer::not_paused), "the checkpoint of \"projection:orders\""),
    ] {
        let copy = FaultyHarness::new(fault).fresh(Settings::default()).await;
        match highwater::transfer::copy(&source, "memory", &copy, |_| ()).await {
            Err(Error::Transfer(TransferError::CopyDiffers { difference })) => {
                assert!(difference.starts_with(named), "{difference}")
            }
            other => panic!("the copy differs, which must be said: {other:?}"),
        }
        let refused = copy.append(&noted).await;
        assert!(matches!(refused, Err(Error::BeingFilled { .. })), "nobody gets to work on it: {refused:?}");
    }
}
