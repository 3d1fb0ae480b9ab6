//! How much there is, and how much there is left.

use highwater::Error;
use highwater::backend::Finding;
use sqlx::Row;

use super::words;
use crate::config::PgConfig;
use crate::error::failed;
use crate::own_pool::InTime;
use crate::store::PgEventStore;
use crate::transactions;

/// One each that notifies, listens, stores checkpoints, leads, watches another instance and watches for the primary.
const CONNECTIONS_BESIDES: i64 = 6;
/// So much kept for a slot without a reader is not momentary.
const KEPT_BYTES_MAX: i64 = 1_000_000_000;
/// Below this a rate says nothing.
const RATE_SECONDS_MIN: f64 = 3_600.0;

/// Whether another instance finds room.
pub(super) async fn connections(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    let read_failed = |e| failed("count connections", e);
    let row = sqlx::query(store.inner.sql.diagnose_connections.clone()).fetch_one_in_time(&store.inner.own_pool).await;
    let row = row.map_err(read_failed)?;
    let mut left = Vec::new();
    for (whose, limit, used) in [
        ("the server", "room", "used"),
        ("this role", "role_room", "role_used"),
        ("this database", "database_room", "database_used"),
    ] {
        let (limit, used): (i64, i64) =
            (row.try_get(limit).map_err(read_failed)?, row.try_get(used).map_err(read_failed)?);
        if limit >= 0 {
            left.push((whose, limit, used));
        }
    }
    Ok(left
        .into_iter()
        .min_by_key(|(_, limit, used)| limit - used)
        .map(|left| room(left, &store.inner.config))
        .into_iter()
        .collect())
}

fn room((whose, limit, used): (&str, i64, i64), config: &PgConfig) -> Finding {
    const TOPIC: &str = "connections";
    let needed = config.append_connections_max as i64
        + config.read_connections_max as i64
        + 2 * i64::from(config.pool_connections_max)
        + i64::from(config.transaction_connections_max + transactions::CLOSINGS_MAX)
        + CONNECTIONS_BESIDES;
    let found =
        format!("{used} of the {limit} connections of {whose} are open; one more instance needs up to {needed}");
    match limit - used < needed {
        true => Finding::warning(
            TOPIC,
            found,
            "raise max_connections or the role's or database's CONNECTION LIMIT, or lower the connections of PgConfig",
        ),
        false => Finding::good(TOPIC, found),
    }
}

/// What is kept for replicas that do not come.
pub(super) async fn slots(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "replication slots";
    let read_failed = |e| failed("look at replication slots", e);
    let rows = sqlx::query(store.inner.sql.diagnose_slots.clone())
        .fetch_all_in_time(&store.inner.own_pool)
        .await
        .map_err(read_failed)?;
    let mut findings = Vec::new();
    for row in rows {
        let (name, kept): (String, i64) =
            (row.try_get("name").map_err(read_failed)?, row.try_get("bytes").map_err(read_failed)?);
        let found = format!("nothing reads from slot {name:?}, for which {} of WAL are kept", words::bytes(kept));
        let advice = format!(
            "start who should read from it, or SELECT pg_drop_replication_slot('{}')",
            name.replace('\'', "''")
        );
        findings.push(match kept > KEPT_BYTES_MAX {
            true => Finding::warning(TOPIC, found, format!("{advice}; else it fills the disk")),
            false => Finding::note(TOPIC, found, advice),
        });
    }
    if findings.is_empty() {
        findings.push(Finding::good(TOPIC, "none is left alone"));
    }
    Ok(findings)
}

/// How large the log is.
pub(super) async fn growth(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    let read_failed = |e| failed("measure the log", e);
    let row = sqlx::query(store.inner.sql.diagnose_growth.clone())
        .fetch_one_in_time(&store.inner.own_pool)
        .await
        .map_err(read_failed)?;
    let (table, indexes): (i64, i64) =
        (row.try_get("bytes").map_err(read_failed)?, row.try_get("index_bytes").map_err(read_failed)?);
    let events: i64 = row.try_get::<Option<_>, _>("events").map_err(read_failed)?.unwrap_or(0);
    let late: i64 = row.try_get("late").map_err(read_failed)?;
    let seconds: Option<f64> = row.try_get("seconds").map_err(read_failed)?;
    let mut found =
        format!("about {events} events in {} and {} of indexes", words::bytes(table), words::bytes(indexes));
    if events > 0 {
        found += &format!(", {} each", words::bytes((table + indexes) / events));
    }
    if let Some(seconds) = seconds.filter(|seconds| *seconds >= RATE_SECONDS_MIN) {
        found += &format!("; about {:.0} a day of late", late as f64 / seconds * 86_400.0);
    }
    Ok(vec![Finding::good("growth", found)])
}

/// How many numbers are left.
pub(super) async fn sequences(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    let read_failed = |e| failed("look at the sequences", e);
    let asking = sqlx::query(store.inner.sql.diagnose_sequences.clone()).bind(store.inner.schema.as_str());
    let rows = asking.fetch_all_in_time(&store.inner.own_pool).await.map_err(read_failed)?;
    let mut findings = Vec::new();
    for row in rows {
        let name: String = row.try_get("name").map_err(read_failed)?;
        let last: Option<i64> = row.try_get("last_value").map_err(read_failed)?;
        let max: i64 = row.try_get("max_value").map_err(read_failed)?;
        let of_ours = store.inner.schema.render(&format!("{{schema}}.{name}"));
        findings.extend(last.and_then(|last| used_up(&of_ours, last, max)));
    }
    if findings.is_empty() {
        findings.push(Finding::good("sequences", "there are numbers enough"));
    }
    Ok(findings)
}

fn used_up(name: &str, last: i64, max: i64) -> Option<Finding> {
    let used = last as f64 / max as f64;
    let found = format!("{name} stands at {last} of {max}");
    let advice = format!("ALTER SEQUENCE {name} NO MAXVALUE");
    match used {
        used if used > 0.95 => Some(Finding::bad("sequences", format!("{found}: soon nothing can be stored"), advice)),
        used if used > 0.5 => Some(Finding::warning("sequences", found, advice)),
        _ => None,
    }
}
