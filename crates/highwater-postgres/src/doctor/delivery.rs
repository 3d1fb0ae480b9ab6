//! What waits for somebody: letters, and subscribers that nobody processes for.

use highwater::{Error, Finding, LeaderHold, Leadership, ReliableDeliveryConfig};
use sqlx::Row;

use super::words;
use crate::error::failed;
use crate::store::PgEventStore;

/// Whoever is behind and has not moved for longer does not run, or cannot.
const IDLE_SECONDS_MAX: f64 = 60.0;

/// Dead letters that nobody has dealt with, and what is left of those that somebody has.
pub(super) async fn letters(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "dead letters";
    let read_failed = |e| failed("count dead letters", e);
    let retention = ReliableDeliveryConfig::default().dead_letter_retention;
    let before = chrono::Utc::now() - retention;
    let asking = sqlx::query(store.inner.sql.doctor_letters.clone()).bind(before);
    let row = asking.fetch_one(&store.inner.pool).await.map_err(read_failed)?;
    let count = |column| row.try_get::<i64, _>(column).map_err(read_failed);
    let (dead, parked) = (count("dead")?, count("parked")?);
    let (resolved, finished) = (count("resolved")?, count("finished")?);
    let mut findings = Vec::new();
    if dead + parked > 0 {
        let found = format!("{dead} wait to be replayed or discarded, and {parked} are parked behind them");
        findings.push(Finding::warning(TOPIC, found, "list them, mend the handler, then replay or discard them"));
    }
    if resolved + finished > 0 {
        let days = words::seconds(retention.as_secs_f64());
        let found = format!("{resolved} resolved letters and {finished} finished requests are older than {days}");
        let advice =
            "whoever processes for their subscribers deletes them; for subscribers that are gone, purge_letters()";
        findings.push(Finding::note(TOPIC, found, advice));
    }
    if findings.is_empty() {
        findings.push(Finding::good(TOPIC, "none waits for anybody"));
    }
    Ok(findings)
}

/// Subscribers that fall behind because nobody processes for them.
pub(super) async fn subscribers(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "subscribers";
    let read_failed = |e| failed("see how far subscribers are", e);
    let leaders = store.leaders().await?;
    let rows = sqlx::query(store.inner.sql.doctor_subscribers.clone())
        .fetch_all(&store.inner.pool)
        .await
        .map_err(read_failed)?;
    let count = rows.len();
    let mut findings = Vec::new();
    for row in rows {
        let id: String = row.try_get("subscriber_id").map_err(read_failed)?;
        let behind: i64 = row.try_get("behind").map_err(read_failed)?;
        let idle: f64 = row.try_get("idle").map_err(read_failed)?;
        if row.try_get("paused").map_err(read_failed)? {
            let found = format!("{id:?} is paused, up to {behind} events behind");
            findings.push(Finding::note(TOPIC, found, "resume() it when it is to go on"));
            continue;
        }
        let leader = leaders.iter().find(|leader| leader.subscriber_id == id);
        findings.extend(behind_with(&id, behind, idle, leader.map(|leader| leader.hold)));
    }
    if findings.is_empty() {
        findings.push(Finding::good(TOPIC, format!("none of {count} falls behind unnoticed")));
    }
    Ok(findings)
}

fn behind_with(id: &str, behind: i64, idle: f64, hold: Option<LeaderHold>) -> Option<Finding> {
    if behind == 0 {
        return None;
    }
    let stuck = idle > IDLE_SECONDS_MAX;
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
    let found =
        format!("{id:?} is up to {behind} events behind, has not moved for {}, and {why}", words::seconds(idle));
    Some(Finding::warning("subscribers", found, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_led_and_moves_may_be_behind() {
        assert!(behind_with("s", 0, 900.0, None).is_none());
        assert!(behind_with("s", 7, 1.0, Some(LeaderHold::Held)).is_none());
        assert!(behind_with("s", 7, 1.0, Some(LeaderHold::Unknown)).is_none());
        for hold in [Some(LeaderHold::Held), Some(LeaderHold::Unknown), Some(LeaderHold::Gone), None] {
            assert!(behind_with("s", 7, 90.0, hold).is_some(), "{hold:?}");
        }
    }
}
