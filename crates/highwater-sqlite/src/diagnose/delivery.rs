//! What waits for an operator: a filling, dead letters, and instances that hang.

use highwater::Error;
use highwater::backend::{DeadLetterQuery, DeadLetters, Finding, Unfinished};

use crate::holder;
use crate::leadership::Folder;
use crate::store::SqliteEventStore;
use crate::transfer::unfinished;

/// An unfinished filling blocks all other writers, and the store is incomplete.
pub(super) async fn filling(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    Ok(vec![Unfinished::finding(unfinished(&store.inner.pool).await?.as_ref())])
}

/// Open dead letters.
pub(super) async fn dead_letters(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "dead letters";
    Ok(vec![match store.count_dead_letters(&DeadLetterQuery::default()).await? {
        0 => Finding::good(TOPIC, "none waits for an operator"),
        count => {
            let found = format!("{count} wait to be replayed or discarded");
            Finding::warning(TOPIC, found, "list them, fix the handler, then replay or discard them")
        }
    }])
}

/// Instances whose processes are there and that give no signs of life.
pub(super) async fn instances(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "instances";
    let alive = Folder::beside(&store.inner.path).alive()?;
    let silent = alive.values().flatten().filter(|sign| sign.age() > sign.bound);
    let mut findings: Vec<_> = silent
        .map(|sign| {
            let (pid, age, stopped) = (sign.pid, sign.age(), holder::is_stopped(sign.pid));
            let why = if stopped { "it is stopped" } else { "it hangs, or does not get to run" };
            let found = format!("the instance in process {pid} has given no sign of life for {age:.0?}: {why}");
            let advice = format!(
                "continue it (kill -CONT {pid}) or end it (kill -KILL {pid}); until then it leads what no other instance wants"
            );
            Finding::warning(TOPIC, found, advice)
        })
        .collect();
    if findings.is_empty() {
        findings.push(Finding::good(TOPIC, "all that are there give signs of life"));
    }
    findings.sort_by(|a, b| a.found.cmp(&b.found));
    Ok(findings)
}
