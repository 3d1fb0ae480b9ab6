//! The contract of looking at oneself: what is said is of use, and looking leaves no trace.

use std::sync::Arc;

use highwater::backend::{Backend, Checkpoints, Diagnose, Finding, Log, Severity};

use crate::support::{deposits, everything, new_stream, store, within};
use crate::{Harness, Settings};

async fn findings<D: Diagnose>(store: &D) -> Vec<Finding> {
    within("findings", store.diagnose()).await.expect("a store that works can say how it is")
}

pub(crate) async fn a_healthy_store_has_nothing_bad_about_it_and_nothing_planned<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    store(&log, &deposits(new_stream(), 3)).await;
    let bad: Vec<_> = findings(&log).await.into_iter().filter(|finding| finding.severity == Severity::Bad).collect();
    assert!(bad.is_empty(), "nothing is wrong, and yet: {bad:?}");
    log.initialize().await.expect("a store can be initialized again");
    let planned = within("what is planned", log.planned()).await.expect("a store knows what it would do");
    assert!(planned.is_empty(), "initializing has just been done, and would do more: {planned:?}");
}

pub(crate) async fn what_is_not_good_says_what_to_do<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    // Whatever a backend thinks of a writer that is open.
    let open = harness.begin(&log, deposits(new_stream(), 1)).await.expect("an append can be begun");
    let first = findings(&log).await;
    assert!(!first.is_empty(), "there is always something to say");
    for finding in &first {
        let advised = finding.advice.as_ref().is_some_and(|advice| !advice.is_empty());
        assert!(advised || finding.severity == Severity::Good, "{finding} does not say what to do");
        assert!(!finding.topic.is_empty() && !finding.found.is_empty(), "{finding:?} says nothing");
    }
    let topics = |findings: &[Finding]| findings.iter().map(|finding| finding.topic).collect::<Vec<_>>();
    let second = findings(&log).await;
    // Between two looks something may have come or gone. What is looked at, and in which order, stays.
    let (mut once, mut again) = (topics(&first), topics(&second));
    once.dedup();
    again.dedup();
    assert_eq!(once, again, "findings come in another order every time");
    open.rollback().await.expect("an open append can be rolled back");
}

pub(crate) async fn looking_changes_nothing_and_waits_for_nobody<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    store(&log, &deposits(new_stream(), 2)).await;
    let before = (everything(&log).await, log.checkpoints().await.expect("checkpoints can be read"));
    let open = harness.begin(&log, deposits(new_stream(), 1)).await.expect("an append can be begun");
    findings(&log).await;
    within("what is planned", log.planned()).await.expect("a store knows what it would do");
    open.rollback().await.expect("an open append can be rolled back");
    let after = (everything(&log).await, log.checkpoints().await.expect("checkpoints can be read"));
    assert_eq!(before, after, "looking has left something behind");
    assert_eq!(log.head().await.expect("a log has a head"), 2, "the head is where it was");
}
