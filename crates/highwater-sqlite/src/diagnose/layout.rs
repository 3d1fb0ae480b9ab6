//! Whether everything is there that the migrations have made.

use std::collections::HashMap;

use highwater::Error;
use highwater::backend::Finding;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection, SqliteExecutor};

use crate::error::failed;
use crate::migrate;
use crate::sql;
use crate::store::SqliteEventStore;

const TOPIC: &str = "layout";

/// And whether it is complete.
pub(super) async fn layout(store: &SqliteEventStore) -> (Vec<Finding>, bool) {
    let refused = |error: Error| Finding::bad(TOPIC, error.to_string(), "do what it says, and look again");
    match store.plan().await {
        Ok(planned) if planned.is_empty() => match compare(store).await {
            Ok(found) => found,
            Err(error) => (vec![refused(error)], false),
        },
        Ok(planned) => {
            let steps: Vec<String> =
                planned.iter().map(|step| format!("{} ({}) {}", step.version, step.name, step.does)).collect();
            let found = format!("it is not up to date: {}", steps.join("; "));
            (vec![Finding::bad(TOPIC, found, "call initialize()")], false)
        }
        Err(error) => (vec![refused(error)], false),
    }
}

/// A table or an index: what it is, its name, and the statement that makes it.
type Made = (String, String, String);

async fn made(executor: impl SqliteExecutor<'_>) -> Result<Vec<Made>, sqlx::Error> {
    sqlx::query_as(sql::diagnose_schema).fetch_all(executor).await
}

/// What the migrations make, seen where they have just made it.
async fn wanted() -> Result<Vec<Made>, sqlx::Error> {
    let mut model = SqliteConnection::connect_with(&SqliteConnectOptions::new().in_memory(true)).await?;
    migrate::make_everything(&mut model).await?;
    made(&mut model).await
}

async fn compare(store: &SqliteEventStore) -> Result<(Vec<Finding>, bool), Error> {
    let look_failed = |e| failed("look at the layout", e);
    let found: HashMap<(String, String), String> = made(&store.inner.pool)
        .await
        .map_err(look_failed)?
        .into_iter()
        .map(|(kind, name, statement)| ((kind, name), statement))
        .collect();
    let (mut findings, mut complete) = (Vec::new(), true);
    for (kind, name, statement) in wanted().await.map_err(look_failed)? {
        let key = (kind, name);
        let is = found.get(&key);
        let (kind, name) = key;
        findings.extend(match is {
            Some(is) if *is == statement => None,
            Some(_) => {
                let found = format!("the {kind} {name} is not as it was made");
                Some(Finding::warning(TOPIC, found, format!("put it back as it was: {statement}")))
            }
            None if kind == "index" => {
                let found = format!("the index {name} is missing");
                Some(Finding::bad(TOPIC, found, format!("make it again: {statement}")))
            }
            None => {
                complete = false;
                let found = format!("the table {name} is missing, although it was made");
                Some(Finding::bad(TOPIC, found, "restore a backup: what was in it is gone"))
            }
        });
    }
    if findings.is_empty() {
        findings.push(Finding::good(TOPIC, "it is up to date, and everything is there"));
    }
    Ok((findings, complete))
}
