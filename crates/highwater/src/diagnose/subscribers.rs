//! Subscribers that fall behind: what every backend finds alike.

use std::time::Duration;

use chrono::Utc;

use super::Finding;
use crate::{Checkpoints, Error, LeaderHold, Leadership, Log};

const TOPIC: &str = "subscribers";
/// Whoever is behind and has not moved for longer does not run, or cannot.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// For backends: who falls behind because nobody processes for them, or because whoever does does not get on.
///
/// # Errors
/// When the store cannot be asked.
pub async fn diagnose_subscribers(store: &(impl Log + Checkpoints + Leadership)) -> Result<Vec<Finding>, Error> {
    let checkpoints = store.checkpoints().await?;
    let ids: Vec<String> = checkpoints.iter().map(|checkpoint| checkpoint.subscriber_id.clone()).collect();
    let (paused, leaders, head) = (store.paused(&ids).await?, store.leaders().await?, store.head().await?);
    let mut findings = Vec::new();
    for checkpoint in &checkpoints {
        let (id, at) = (&checkpoint.subscriber_id, checkpoint.global_sequence);
        if paused.contains(id) {
            let found = format!("{id:?} is paused, up to {} events behind", head.saturating_sub(at));
            findings.push(Finding::note(TOPIC, found, "resume() it when it is to go on"));
            continue;
        }
        let idle = (Utc::now() - checkpoint.updated_at).to_std().unwrap_or_default();
        let hold = leaders.iter().find(|leader| leader.subscriber_id == *id).map(|leader| leader.hold);
        findings.extend(straggler(id, at, head, idle, hold));
    }
    if findings.is_empty() {
        let count = checkpoints.len();
        findings.push(Finding::good(TOPIC, format!("none of {count} falls behind unnoticed")));
    }
    Ok(findings)
}

fn straggler(id: &str, at: u64, head: u64, idle: Duration, hold: Option<LeaderHold>) -> Option<Finding> {
    if at > head {
        let found = format!("{id:?} stands {} beyond the end of the log, and misses what comes next", at - head);
        let advice =
            "events were removed, or the database was put together from two; restore a backup, or set its checkpoint";
        return Some(Finding::bad(TOPIC, found, advice));
    }
    let (behind, stuck) = (head - at, idle > IDLE_MAX);
    let (why, advice) = match hold {
        _ if behind == 0 => return None,
        Some(LeaderHold::Held) if stuck => {
            ("its leader does not get on", "see its state and health() where it is led: a handler may fail or hang")
        }
        Some(LeaderHold::Unknown) if stuck => (
            "it runs without coordination, if at all",
            "start whoever subscribes it, or delete its checkpoint if nobody does any more",
        ),
        Some(LeaderHold::Gone) | None => {
            ("nobody leads", "start an instance that subscribes it, or delete its checkpoint if nobody does any more")
        }
        Some(_) => return None,
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
        assert!(straggler("s", 7, 7, long, None).is_none());
        assert!(straggler("s", 0, 7, short, Some(LeaderHold::Held)).is_none());
        assert!(straggler("s", 0, 7, short, Some(LeaderHold::Unknown)).is_none());
        for hold in [Some(LeaderHold::Held), Some(LeaderHold::Unknown), Some(LeaderHold::Gone), None] {
            assert!(straggler("s", 0, 7, long, hold).is_some(), "{hold:?}");
        }
        assert!(straggler("s", 8, 7, short, Some(LeaderHold::Held)).is_some());
    }
}
