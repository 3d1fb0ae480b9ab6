//! Subscribers that fall behind: what every backend finds alike.

use std::time::Duration;

use chrono::Utc;

use super::Finding;
use crate::leadership::hold_of;
use crate::{Backend, Error, LeaderHold, LockHolder};

const TOPIC: &str = "subscribers";
const ANOTHER_LOG: &str =
    "events were removed, or the database was put together from two; restore a backup, or set its checkpoint";
/// A subscriber that is behind and has not moved for longer does not run, or cannot.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// How long the holder of a new lock may take until it leads.
const TAKEN_OVER_WITHIN: Duration = Duration::from_millis(500);

/// For backends: subscribers that fall behind because they have no leader, or because their leader makes no progress.
///
/// # Errors
/// When the store cannot be asked.
pub async fn diagnose_subscribers(store: &dyn Backend) -> Result<Vec<Finding>, Error> {
    let checkpoints = store.checkpoints().await?;
    let ids: Vec<String> = checkpoints.iter().map(|checkpoint| checkpoint.subscriber_id.clone()).collect();
    let (paused, head) = (store.paused(&ids).await?, store.head().await?);
    let (leaders, reports) = (store.leaders().await?, store.reports().await?);
    let mut findings = Vec::new();
    // A lease is not behind, whatever comes into the log.
    let subscribers: Vec<_> = checkpoints.iter().filter(|checkpoint| !checkpoint.is_lease()).collect();
    for checkpoint in &subscribers {
        let (id, at) = (&checkpoint.subscriber_id, checkpoint.global_sequence);
        if paused.contains(id) {
            let found = format!("{id:?} is paused, up to {} events behind", head.saturating_sub(at));
            findings.push(Finding::note(TOPIC, found, "resume() it when it is to continue"));
            continue;
        }
        let idle = (Utc::now() - checkpoint.updated_at).to_std().unwrap_or_default();
        let leader = leaders.iter().find(|leader| leader.subscriber_id == *id);
        let hold = hold_of(leader, reports.iter().find(|report| report.subscriber_id == *id));
        findings.extend(straggler(id, at, head, idle, hold));
        if let Some(event_id) = checkpoint.event_id.filter(|_| at <= head)
            && store.record(event_id).await?.is_none()
        {
            let found =
                format!("{id:?} stands at {at}, and event {event_id}, which it handled last, is not in the log");
            findings.push(Finding::bad(TOPIC, found, ANOTHER_LOG));
        }
    }
    findings.extend(denied(store, &ids).await?);
    if findings.is_empty() {
        let count = subscribers.len();
        findings.push(Finding::good(TOPIC, format!("all {count} subscribers are keeping up, paused, or led")));
    }
    Ok(findings)
}

/// Subscribers whose lock is held by a session that does not lead. An instance that takes over holds the lock for a moment
/// before it leads, so each finding is checked once more.
async fn denied(store: &dyn Backend, ids: &[String]) -> Result<Vec<Finding>, Error> {
    let mut holders = held_without_leading(store, ids.to_vec()).await?;
    if !holders.is_empty() {
        tokio::time::sleep(TAKEN_OVER_WITHIN).await;
        let ids = holders.iter().map(|holder| holder.subscriber_id.clone()).collect();
        let still = held_without_leading(store, ids).await?;
        holders.retain(|holder| still.contains(holder));
    }
    let finding = |holder: LockHolder| {
        let found = format!("{:?} cannot be led: {holder} has its lock and does not lead", holder.subscriber_id);
        Finding::bad(TOPIC, found, "see what that is, and end it if it is not an instance of yours")
    };
    Ok(holders.into_iter().map(finding).collect())
}

async fn held_without_leading(store: &dyn Backend, ids: Vec<String>) -> Result<Vec<LockHolder>, Error> {
    let mut holders = store.lock_holders(&ids).await?;
    // Queried afterwards: an instance that led when the locks were queried may have released since.
    let leaders = store.leaders().await?;
    holders.retain(|holder| {
        !leaders.iter().any(|it| it.subscriber_id == holder.subscriber_id && it.hold == LeaderHold::Held)
    });
    Ok(holders)
}

fn straggler(id: &str, at: u64, head: u64, idle: Duration, hold: LeaderHold) -> Option<Finding> {
    if at > head {
        let found = format!("{id:?} stands {} beyond the end of the log, and misses what comes next", at - head);
        return Some(Finding::bad(TOPIC, found, ANOTHER_LOG));
    }
    let (behind, stuck) = (head - at, idle > IDLE_MAX);
    let (why, advice) = match hold {
        _ if behind == 0 => return None,
        LeaderHold::Held if stuck => {
            ("its leader makes no progress", "see its state and health() where it is led: a handler may fail or hang")
        }
        LeaderHold::Unknown if stuck => (
            "it runs without coordination, if at all",
            "start the process that subscribes it, or remove() it if none does any more",
        ),
        LeaderHold::Gone => {
            ("no instance leads", "start an instance that subscribes it, or remove() it if none does any more")
        }
        _ => return None,
    };
    let found = format!("{id:?} is up to {behind} events behind, has not moved for {} s, and {why}", idle.as_secs());
    Some(Finding::warning(TOPIC, found, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_led_and_moves_may_be_behind() {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(90));
        assert!(straggler("s", 7, 7, long, LeaderHold::Gone).is_none());
        assert!(straggler("s", 0, 7, short, LeaderHold::Held).is_none());
        assert!(straggler("s", 0, 7, short, LeaderHold::Unknown).is_none());
        for hold in [LeaderHold::Held, LeaderHold::Unknown, LeaderHold::Gone] {
            assert!(straggler("s", 0, 7, long, hold).is_some(), "{hold:?}");
        }
        assert!(straggler("s", 8, 7, short, LeaderHold::Held).is_some());
    }
}
