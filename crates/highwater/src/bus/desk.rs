//! Where pauses and requests arrive, from this process and from others: one look for all subscribers of a bus.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;

use super::Inner;
use crate::Error;

/// How often resolved dead letters are checked for those that have been kept long enough.
const PURGE_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Polls until the bus is shut down: also when no handle to it is left.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut purged: Option<Instant> = None;
    let mut troubled = false;
    loop {
        match look(&inner).await {
            Ok(()) => troubled = false,
            // The subscribers log it as well; here it would be logged every second.
            Err(error) if !troubled => {
                troubled = true;
                tracing::warn!(%error, "cannot look for requests and pauses; retrying");
            }
            Err(_) => {}
        }
        if !troubled && purged.is_none_or(|purged| purged.elapsed() >= PURGE_INTERVAL) {
            purged = Some(Instant::now());
            if let Err(error) = purge(&inner).await {
                tracing::warn!(%error, "cannot delete resolved dead letters; retrying in an hour");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(inner.config.poll_interval) => {}
            () = inner.nudge.notified() => {}
        }
    }
}

async fn look(inner: &Inner) -> Result<(), Error> {
    let ids = inner.ids();
    if ids.is_empty() {
        return Ok(());
    }
    let backend = &inner.shared.backend;
    // Before the query: a subscriber that is paused or resumed here meanwhile is newer than the answer.
    let touched: HashMap<String, u64> =
        (ids.iter()).filter_map(|id| Some((id.clone(), inner.entry(id)?.control.borrow().touched))).collect();
    let paused = backend.paused(&ids).await?;
    let requests = backend.open_requests(&ids).await?;
    for id in ids {
        let Some(entry) = inner.entry(&id) else { continue };
        let paused = paused.contains(&id);
        let mine: Vec<_> = requests.iter().filter(|request| request.subscriber_id == id).cloned().collect();
        entry.control.send_if_modified(|control| {
            let current = touched.get(&id) == Some(&control.touched);
            let paused = if current { paused } else { control.paused };
            let same = control.paused == paused && control.requests == mine;
            (control.paused, control.requests) = (paused, mine);
            !same
        });
    }
    Ok(())
}

async fn purge(inner: &Inner) -> Result<(), Error> {
    for id in inner.ids() {
        let Some(entry) = inner.entry(&id) else { continue };
        let Ok(retention) = chrono::TimeDelta::from_std(entry.config.dead_letter_retention) else { continue };
        let count = inner.shared.backend.purge_letters(&id, Utc::now() - retention).await?;
        if count > 0 {
            tracing::info!(subscriber_id = id, count, "deleted dead letters that were resolved long ago");
        }
    }
    Ok(())
}
