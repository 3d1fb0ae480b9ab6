//! Whether everything is there that was made.

use highwater::Error;
use highwater::backend::{Finding, Transfer, Unfinished, chain};
use sqlx::Row;

use crate::error::failed;
use crate::own_pool::InTime;
use crate::store::PgEventStore;

/// The layout as a whole.
pub(super) async fn layout(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "layout";
    let finding = match store.plan().await {
        Ok(planned) if planned.is_empty() => {
            Finding::good(TOPIC, "it is up to date, and what the order rests on is intact")
        }
        Ok(planned) => {
            let steps: Vec<String> =
                planned.iter().map(|step| format!("{} ({}) {}", step.version, step.name, step.does)).collect();
            let advice = "call initialize() with a role that owns the schema";
            Finding::bad(TOPIC, format!("it is not up to date: {}", steps.join("; ")), advice)
        }
        Err(error @ Error::Unavailable { .. }) => return Err(error),
        Err(error @ Error::Denied { .. }) => {
            Finding::bad(TOPIC, chain(&error), "look and initialize with a role that owns the schema")
        }
        Err(error) => Finding::bad(TOPIC, chain(&error), "do what it says; see What it rests on in docs/operating.md"),
    };
    Ok(vec![finding])
}

/// Whether it is only half of a store.
pub(super) async fn filling(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    Ok(vec![Unfinished::finding(store.filling().await?.as_ref())])
}

/// Indexes: those of ours by their definition, those of others by whether they are valid and used.
pub(super) async fn indexes(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    let read_failed = |e| failed("look at the indexes", e);
    let asking = sqlx::query(store.inner.sql.diagnose_indexes.clone()).bind(store.inner.schema.as_str());
    let rows = asking.fetch_all_in_time(&store.inner.own_pool).await.map_err(read_failed)?;
    let mut findings = Vec::new();
    for row in rows {
        let (kind, said): (String, String) =
            (row.try_get("kind").map_err(read_failed)?, row.try_get("said").map_err(read_failed)?);
        findings.push(index(&kind, row.try_get("is_unique").map_err(read_failed)?, said));
    }
    if findings.is_empty() {
        findings.push(Finding::good("indexes", "all are there and can be used"));
    }
    Ok(findings)
}

fn index(kind: &str, unique: bool, said: String) -> Finding {
    const TOPIC: &str = "indexes";
    match (kind, unique) {
        ("missing", true) => {
            let found = "one is missing that keeps doubles out: what is stored twice is not refused any more";
            Finding::bad(TOPIC, found, format!("while nothing writes, {said}"))
        }
        ("missing", false) => Finding::warning(TOPIC, "one is missing: looking things up takes long", said),
        ("unusable", _) => Finding::warning(
            TOPIC,
            format!("{said} is invalid"),
            format!("REINDEX INDEX CONCURRENTLY {said}, or drop it"),
        ),
        _ => {
            let found =
                format!("{said} is not ours, and no query has used it since statistics were kept: appends pay for it");
            Finding::note(TOPIC, found, format!("DROP INDEX {said}, unless replicas use it"))
        }
    }
}

/// Columns, by what they hold.
pub(super) async fn columns(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "columns";
    let others: Vec<String> = sqlx::query_scalar(store.inner.sql.diagnose_columns.clone())
        .fetch_all_in_time(&store.inner.own_pool)
        .await
        .map_err(|e| failed("look at the columns", e))?;
    if others.is_empty() {
        return Ok(vec![Finding::good(TOPIC, "all are as they were made")]);
    }
    let advice = "put it back as it was with ALTER TABLE, while nothing writes; what was in it may need a backup";
    Ok(others.into_iter().map(|found| Finding::bad(TOPIC, found, advice)).collect())
}

/// Constraints, by what they say.
pub(super) async fn constraints(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "constraints";
    let missing: Vec<String> = sqlx::query_scalar(store.inner.sql.diagnose_constraints.clone())
        .fetch_all_in_time(&store.inner.own_pool)
        .await
        .map_err(|e| failed("look at the constraints", e))?;
    if missing.is_empty() {
        return Ok(vec![Finding::good(TOPIC, "all are there")]);
    }
    let found = "one is missing, or rows from before it were never checked: there may be what cannot be read";
    Ok(missing.into_iter().map(|advice| Finding::warning(TOPIC, found, advice)).collect())
}
