//! What waits for somebody: a filling, letters, and subscribers that nobody processes for.

use std::time::Duration;

use highwater::{DeadLetters, Error, Finding, LeaderHold, Leadership, LetterQuery};

use crate::error::failed;
use crate::row::now;
use crate::sql;
use crate::store::SqliteEventStore;
use crate::transfer::unfinished;

/// Whoever is behind and has not moved for longer does not run, or cannot.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// A filling that is not finished keeps everybody from writing, and what is there is not everything.
pub(super) async fn filling(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "filling";
    Ok(vec![match unfinished(&store.inner.pool).await? {
        None => Finding::good(TOPIC, "none is under way"),
        Some(unfinished) => Finding::bad(
            TOPIC,
            format!(
                "it is being filled from {:?} since {}, has got to {}, and takes nothing else",
                unfinished.source, unfinished.since, unfinished.filled_to
            ),
            "let it end; if it was interrupted, copy or import the same again, or abandon() it",
        ),
    }])
}

/// Dead letters that nobody has dealt with.
pub(super) async fn letters(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "dead letters";
    Ok(vec![match store.count_letters(&LetterQuery::default()).await? {
        0 => Finding::good(TOPIC, "none waits for anybody"),
        count => {
            let found = format!("{count} wait to be replayed or discarded");
            Finding::warning(TOPIC, found, "list them, mend the handler, then replay or discard them")
        }
    }])
}

/// Subscribers that fall behind because nobody processes for them.
pub(super) async fn subscribers(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "subscribers";
    let leaders = store.leaders().await?;
    let subscribers: Vec<(String, i64, i64, bool)> = sqlx::query_as(sql::diagnose_subscribers)
        .fetch_all(&store.inner.pool)
        .await
        .map_err(|e| failed("see how far subscribers are", e))?;
    let count = subscribers.len();
    let mut findings = Vec::new();
    for (id, behind, updated_at, paused) in subscribers {
        let hold = leaders.iter().find(|leader| leader.subscriber_id == id).map(|leader| leader.hold);
        let idle = Duration::from_micros(u64::try_from(now() - updated_at).unwrap_or(0));
        let finding = match paused {
            true => {
                let found = format!("{id:?} is paused, up to {} events behind", behind.max(0));
                Some(Finding::note(TOPIC, found, "resume() it when it is to go on"))
            }
            false => behind_with(&id, behind, idle, hold),
        };
        findings.extend(finding);
    }
    if findings.is_empty() {
        findings.push(Finding::good(TOPIC, format!("none of {count} falls behind unnoticed")));
    }
    Ok(findings)
}

fn behind_with(id: &str, behind: i64, idle: Duration, hold: Option<LeaderHold>) -> Option<Finding> {
    if behind == 0 {
        return None;
    }
    if behind < 0 {
        let found = format!("{id:?} stands {} beyond the end of the log, and misses what comes next", -behind);
        let advice =
            "events were removed, or the file was put together from two; restore a backup, or set its checkpoint";
        return Some(Finding::bad("subscribers", found, advice));
    }
    let stuck = idle > IDLE_MAX;
    let (why, advice) = match hold {
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
        _ => return None,
    };
    let found = format!("{id:?} is up to {behind} events behind, has not moved for {} s, and {why}", idle.as_secs());
    Some(Finding::warning("subscribers", found, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_led_and_moves_may_be_behind() {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(90));
        assert!(behind_with("s", 0, long, None).is_none());
        assert!(behind_with("s", 7, short, Some(LeaderHold::Held)).is_none());
        assert!(behind_with("s", 7, short, Some(LeaderHold::Unknown)).is_none());
        for hold in [Some(LeaderHold::Held), Some(LeaderHold::Unknown), Some(LeaderHold::Gone), None] {
            assert!(behind_with("s", 7, long, hold).is_some(), "{hold:?}");
        }
        assert!(behind_with("s", -1, short, Some(LeaderHold::Held)).is_some());
    }
}
