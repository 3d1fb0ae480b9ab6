//! Which sessions are active, for how long, and what that holds back.

use std::time::Duration;

use highwater::Error;
use highwater::backend::{Finding, Log, OpenWriter, START_REPLICA, Severity};
use sqlx::Row;
use sqlx::postgres::PgConnection;

use super::words;
use crate::blockers;
use crate::error::failed;
use crate::own_pool::InTime;
use crate::store::PgEventStore;

/// Transactions open for longer are named.
const OPEN_MAX: Duration = Duration::from_secs(5);
/// Transactions that hold readers back for longer are.
const HELD_MAX: Duration = Duration::from_secs(1);
/// Transactions open for longer do harm.
const HARMFUL: Duration = Duration::from_secs(300);
/// Transactions until a table has to be frozen; the server stops taking writes at two thousand million.
const AGE_WARNING: i64 = 1_000_000_000;
const AGE_BAD: i64 = 1_900_000_000;
/// Dead versions of checkpoint rows: vacuum comes after a thousand.
const DEAD_MAX: i64 = 20_000;

/// Sessions that others wait for, also a moment later: a transaction that appends or delivers holds locks for a moment. And whether one
/// of them has locked a table so that it cannot be read.
pub(super) async fn locks(store: &PgEventStore) -> Result<(Vec<Finding>, bool), Error> {
    const TOPIC: &str = "locks";
    let look = async || {
        let looking = async |connection: &mut PgConnection| blockers::blockers(connection, &store.inner.sql).await;
        store.inner.own_pool.ask(looking).await.map_err(|e| failed("see which locks are waited for", e))
    };
    let mut found = look().await?;
    if !found.is_empty() {
        tokio::time::sleep(HELD_MAX).await;
        let still = look().await?;
        found.retain(|blocker| still.contains(blocker));
    }
    let wholly = found.iter().any(|blocker| blocker.wholly);
    let findings = found.iter().map(|blocker| Finding::bad(TOPIC, blocker.to_string(), blocker.advice()));
    match found.is_empty() {
        true => Ok((vec![Finding::good(TOPIC, "none is waited for")], wholly)),
        false => Ok((findings.collect(), wholly)),
    }
}

/// Writers that readers wait for.
pub(super) async fn writers(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    let findings: Vec<Finding> = store.open_writers().await?.iter().filter_map(writer).collect();
    match findings.is_empty() {
        true => Ok(vec![Finding::good("writers", "none has been open for long")]),
        false => Ok(findings),
    }
}

fn writer(writer: &OpenWriter) -> Option<Finding> {
    const TOPIC: &str = "writers";
    if writer.age.is_some_and(|age| age < HELD_MAX) {
        return None;
    }
    let does = match writer {
        OpenWriter { waits_for_replica: true, .. } => "has appended and is committing",
        OpenWriter { may_only_have_looked: true, .. } => "has drawn a number or looked at the sequence, and is open",
        _ => "has appended and not committed",
    };
    let found = format!("{writer} {does}: no reader gets past it");
    let advice = match (writer.pid, &writer.last_statement) {
        _ if writer.waits_for_replica => START_REPLICA.to_owned(),
        // What it waits for is hidden as well.
        (Some(pid), _) if writer.hidden.is_some() => {
            format!(
                "have it end; or look whether its wait_event is SyncRep, and unless it is, SELECT pg_terminate_backend({pid})"
            )
        }
        (Some(pid), _) if writer.may_only_have_looked => {
            format!("have it committed or rolled back, or SELECT pg_terminate_backend({pid})")
        }
        (Some(pid), _) => format!("let it commit, or SELECT pg_terminate_backend({pid}), which takes its appends back"),
        (None, Some(name)) => format!("COMMIT PREPARED or ROLLBACK PREPARED '{}'", name.replace('\'', "''")),
        (None, None) => "look for it in pg_prepared_xacts, and commit it or roll it back".to_owned(),
    };
    // Of one whose age is hidden it cannot be told whether it is late.
    let severity = if writer.age.is_some() { Severity::Warning } else { Severity::Note };
    Some(Finding::advised(severity, TOPIC, found, advice))
}

/// Transactions that have been open for so long that vacuum can remove little.
pub(super) async fn transactions(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "transactions";
    let read_failed = |e| failed("see who is at work", e);
    let asking = sqlx::query(store.inner.sql.diagnose_transactions.clone()).bind(OPEN_MAX.as_secs_f64());
    let rows = asking.fetch_all_in_time(&store.inner.own_pool).await.map_err(read_failed)?;
    let mut findings = Vec::new();
    for row in rows {
        let pid: Option<i32> = row.try_get("pid").map_err(read_failed)?;
        let name: Option<String> = row.try_get("name").map_err(read_failed)?;
        let state: Option<String> = row.try_get("state").map_err(read_failed)?;
        let age: f64 = row.try_get("age").map_err(read_failed)?;
        let (name, state) = (name.unwrap_or_default(), state.unwrap_or_default());
        let (who, advice) = match pid {
            Some(pid) if row.try_get("waits_for_replica").map_err(read_failed)? => {
                let who = format!("process {pid} ({name}, its commit waits for a synchronous replica)");
                (who, START_REPLICA.to_owned())
            }
            Some(pid) => {
                (format!("process {pid} ({name}, {state})"), format!("end it, or SELECT pg_terminate_backend({pid})"))
            }
            None => {
                (format!("the prepared transaction {name:?}"), "COMMIT PREPARED or ROLLBACK PREPARED it".to_owned())
            }
        };
        let found =
            format!("{who} has been open for {}: nothing that was deleted since can be removed", words::seconds(age));
        let severity = if age > HARMFUL.as_secs_f64() { Severity::Warning } else { Severity::Note };
        findings.push(Finding::advised(severity, TOPIC, found, advice));
    }
    if findings.is_empty() {
        findings.push(Finding::good(TOPIC, "none has been open for long, as far as this role sees"));
    }
    Ok(findings)
}

/// Commits that wait for a synchronous replica, of any database: all of them wait for the same.
pub(super) async fn commits(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "commits";
    let read_failed = |e| failed("see which commits wait", e);
    let asking = sqlx::query(store.inner.sql.diagnose_commits.clone()).bind(HELD_MAX.as_secs_f64());
    let row = asking.fetch_one_in_time(&store.inner.own_pool).await.map_err(read_failed)?;
    let waiting: i64 = row.try_get("waiting").map_err(read_failed)?;
    let Some(age) = row.try_get::<Option<f64>, _>("age").map_err(read_failed)? else {
        return Ok(vec![Finding::good(
            TOPIC,
            "none waits for a synchronous replica for long, as far as this role sees",
        )]);
    };
    let found = format!(
        "{waiting} wait for a synchronous replica, the first for {}: none of them is acknowledged before one has it",
        words::seconds(age)
    );
    Ok(vec![Finding::bad(TOPIC, found, START_REPLICA)])
}

/// Whether vacuum comes, and comes in time.
pub(super) async fn vacuum(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "vacuum";
    let read_failed = |e| failed("look at what vacuum has to do", e);
    let database: i64 = sqlx::query_scalar(store.inner.sql.diagnose_database_age.clone())
        .fetch_one_in_time(&store.inner.own_pool)
        .await
        .map_err(read_failed)?;
    let asking = sqlx::query(store.inner.sql.diagnose_tables.clone()).bind(store.inner.schema.as_str());
    let rows = asking.fetch_all_in_time(&store.inner.own_pool).await.map_err(read_failed)?;
    let mut findings: Vec<Finding> = wraparound("the database", database).into_iter().collect();
    for row in rows {
        let name: String = row.try_get("name").map_err(read_failed)?;
        let table = store.inner.schema.render(&format!("{{schema}}.{name}"));
        if row.try_get("left_alone").map_err(read_failed)? {
            let found = format!("autovacuum is switched off for {table}");
            findings.push(Finding::warning(TOPIC, found, format!("ALTER TABLE {table} RESET (autovacuum_enabled)")));
        }
        findings.extend(wraparound(&table, row.try_get("age").map_err(read_failed)?));
        let (dead, live): (i64, i64) =
            (row.try_get("dead").map_err(read_failed)?, row.try_get("live").map_err(read_failed)?);
        if name == "event_bus_checkpoints" && dead > DEAD_MAX {
            let found =
                format!("{table} holds {dead} dead rows beside {live} live ones: every checkpoint takes longer");
            let advice = format!("end transactions that have been open for long, then VACUUM {table}");
            findings.push(Finding::warning(TOPIC, found, advice));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::good(TOPIC, "it keeps up"));
    }
    Ok(findings)
}

fn wraparound(what: &str, age: i64) -> Option<Finding> {
    let severity = match age {
        age if age > AGE_BAD => Severity::Bad,
        age if age > AGE_WARNING => Severity::Warning,
        _ => return None,
    };
    let found = format!(
        "{what} was last frozen {age} transactions ago; at two thousand million the server takes no more writes"
    );
    Some(Finding::advised(severity, "vacuum", found, "VACUUM (FREEZE), and find out what keeps autovacuum from it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_frozen_for_long_is_said_in_time() {
        let severity = |age| wraparound("events", age).map(|finding| finding.severity);
        assert_eq!(severity(200_000_000), None);
        assert_eq!(severity(1_200_000_000), Some(Severity::Warning));
        assert_eq!(severity(2_000_000_000), Some(Severity::Bad));
    }
}
