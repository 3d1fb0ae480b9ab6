//! What the role may do.

use highwater::Error;
use highwater::backend::Finding;
use sqlx::Row;

use crate::error::failed;
use crate::own_pool::InTime;
use crate::store::PgEventStore;

const TOPIC: &str = "rights";

/// What is missing for one purpose.
#[derive(Default)]
struct Missing {
    denied: Vec<String>,
    absent: Vec<String>,
}

pub(super) async fn rights(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    let read_failed = |e| failed("see what the role may do", e);
    let row = sqlx::query(store.inner.sql.diagnose_role.clone())
        .fetch_one_in_time(&store.inner.own_pool)
        .await
        .map_err(read_failed)?;
    let role: String = row.try_get("role").map_err(read_failed)?;
    let (sees_others, owns): (bool, bool) =
        (row.try_get("sees_others").map_err(read_failed)?, row.try_get("owns").map_err(read_failed)?);
    let rows = sqlx::query(store.inner.sql.diagnose_rights.clone())
        .fetch_all_in_time(&store.inner.own_pool)
        .await
        .map_err(read_failed)?;
    let mut purposes: Vec<(String, Missing)> = Vec::new();
    for row in rows {
        let purpose: String = row.try_get("purpose").map_err(read_failed)?;
        if purposes.last().is_none_or(|(last, _)| *last != purpose) {
            purposes.push((purpose, Missing::default()));
        }
        let needed: String = row.try_get("needed").map_err(read_failed)?;
        let Some((_, missing)) = purposes.last_mut() else { continue };
        match row.try_get::<Option<bool>, _>("allowed").map_err(read_failed)? {
            Some(true) => {}
            Some(false) => missing.denied.push(needed),
            None => missing.absent.push(needed),
        }
    }
    let may: Vec<&str> =
        purposes.iter().filter(|(_, missing)| missing.is_empty()).map(|(purpose, _)| purpose.as_str()).collect();
    let mut findings = Vec::new();
    if !may.is_empty() {
        let owner = if owns { "; it owns the log" } else { "" };
        findings.push(Finding::good(TOPIC, format!("role {role:?} may {}{owner}", may.join(", "))));
    }
    findings.extend(purposes.iter().flat_map(|(purpose, missing)| missing.findings(&role, purpose)));
    if !sees_others {
        let found =
            format!("role {role:?} does not see what transactions of other roles do, or since when they are open");
        findings.push(Finding::note(TOPIC, found, format!("GRANT pg_read_all_stats TO {role:?} if it is to operate")));
    }
    if row.try_get("anybody_creates").map_err(read_failed)? {
        let found = "every role may create functions and operators in schema public, and so change what the application's own \
                     statements mean, also those of handlers";
        findings.push(Finding::note(TOPIC, found, "REVOKE CREATE ON SCHEMA public FROM PUBLIC"));
    }
    Ok(findings)
}

impl Missing {
    fn is_empty(&self) -> bool {
        self.denied.is_empty() && self.absent.is_empty()
    }

    fn findings(&self, role: &str, purpose: &str) -> Vec<Finding> {
        let mut findings = Vec::new();
        if !self.absent.is_empty() {
            let found = format!("what it takes to {purpose} is not there: {}", self.absent.join(", "));
            findings.push(Finding::bad(
                TOPIC,
                found,
                "restore it from a dump of the layout, or from the library's migrations",
            ));
        }
        if !self.denied.is_empty() {
            let found = format!("role {role:?} may not {purpose}: it lacks {}", self.denied.join(", "));
            let advice = "if it should, grant what docs/postgres-roles.sql grants; after an upgrade, grant it again";
            findings.push(match purpose {
                "read" => Finding::bad(TOPIC, found, advice),
                _ => Finding::note(TOPIC, found, advice),
            });
        }
        findings
    }
}
