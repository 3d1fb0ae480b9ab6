//! Settings of the server, the database or the role that matter to a log.

use highwater::Error;
use highwater::backend::Finding;
use sqlx::Row;

use super::words;
use crate::error::failed;
use crate::own_pool::InTime;
use crate::store::PgEventStore;

const TOPIC: &str = "settings";
/// Shorter than this, and the server ends healthy work of ours.
const PATIENCE_MS: i64 = 10_000;

/// One of them, as a new session would have it.
struct Setting {
    name: String,
    value: String,
    /// As our own connections have it.
    here: String,
    source: String,
}

pub(super) async fn settings(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    let read_failed = |e| failed("read the settings of the server", e);
    let rows = sqlx::query(store.inner.sql.diagnose_settings.clone()).fetch_all_in_time(&store.inner.own_pool).await;
    let settings = rows.and_then(|rows| {
        let setting = |row: &sqlx::postgres::PgRow| {
            Ok(Setting {
                name: row.try_get("name")?,
                value: row.try_get::<Option<_>, _>("value")?.unwrap_or_default(),
                here: row.try_get::<Option<_>, _>("here")?.unwrap_or_default(),
                source: row.try_get("source")?,
            })
        };
        rows.iter().map(setting).collect::<Result<Vec<_>, sqlx::Error>>()
    });
    let mut findings: Vec<Finding> = settings.map_err(read_failed)?.iter().filter_map(judge).collect();
    findings.extend(timeouts(store).await?);
    match findings.is_empty() {
        true => Ok(vec![Finding::good(TOPIC, "they are as they should be")]),
        false => Ok(findings),
    }
}

/// What bounds how long a transaction of any role can hold readers back. Rights do not: a `nextval` that is refused has taken
/// the lock already.
async fn timeouts(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    let read_failed = |e| failed("read the time-outs of the database", e);
    let rows = sqlx::query(store.inner.sql.diagnose_timeouts.clone()).fetch_all_in_time(&store.inner.own_pool).await;
    let mut findings = Vec::new();
    for row in rows.map_err(read_failed)? {
        if row.try_get("bounded").map_err(read_failed)? {
            continue;
        }
        let name: String = row.try_get("name").map_err(read_failed)?;
        let database: String = row.try_get("database").map_err(read_failed)?;
        let (what, limit) = match name.as_str() {
            "transaction_timeout" => ("that runs", "1h"),
            _ => ("that is left idle", "60s"),
        };
        let found = format!(
            "{name} is not set for the database: a transaction {what} holds readers back for as long as it is open, once it \
             has touched the log's sequence, also that of another application"
        );
        findings.push(Finding::note(TOPIC, found, format!("ALTER DATABASE {database} SET {name} = '{limit}'")));
    }
    Ok(findings)
}

fn judge(setting: &Setting) -> Option<Finding> {
    let Setting { name, value, here, source } = setting;
    let limit: i64 = value.parse().unwrap_or(0);
    let time = words::seconds(limit as f64 / 1e3);
    match (name.as_str(), value.as_str()) {
        ("autovacuum", "off") => Some(Finding::warning(
            TOPIC,
            "autovacuum is off: checkpoints are rewritten all the time, and what is left of them is never removed",
            "set autovacuum = on",
        )),
        // A reader may well have chosen this.
        ("default_transaction_read_only", "on") if matches!(source.as_str(), "user" | "database user" | "client") => {
            let advice = "ALTER ROLE … RESET default_transaction_read_only, if it is to write";
            Some(Finding::note(
                TOPIC,
                "this role is read-only by its own setting (default_transaction_read_only)",
                advice,
            ))
        }
        ("default_transaction_read_only", "on") => Some(Finding::bad(
            TOPIC,
            "default_transaction_read_only is on: nothing can be written",
            "set it off, or connect to the primary if this is an old one",
        )),
        ("fsync", "off") => Some(Finding::warning(
            TOPIC,
            "fsync is off: a crash of the machine may lose what was acknowledged, and ruin the whole database",
            "set fsync = on wherever events matter",
        )),
        ("full_page_writes", "off") => Some(Finding::warning(
            TOPIC,
            "full_page_writes is off: a crash of the machine may ruin pages that were being written",
            "set full_page_writes = on, unless the file system never tears a page",
        )),
        ("synchronous_commit", "off") => Some(Finding::note(
            TOPIC,
            "synchronous_commit is off: appends through the library and highwater.append override it, bare INSERTs do not, \
             and a crash may take those back after readers have seen them",
            "set synchronous_commit = on for roles that insert by plain SQL",
        )),
        ("idle_session_timeout", _) if limit > 0 => Some(Finding::note(
            TOPIC,
            format!(
                "idle_session_timeout is {time}: connections of this library set it off for themselves, others are ended"
            ),
            "ALTER ROLE … SET idle_session_timeout = 0 for roles that keep connections",
        )),
        ("idle_in_transaction_session_timeout", _) if limit > 0 && limit < PATIENCE_MS => Some(Finding::warning(
            TOPIC,
            format!(
                "idle_in_transaction_session_timeout is {time}: a projection that pauses for longer in its transaction fails"
            ),
            "raise it to a minute, which is what connections of delivery would take",
        )),
        ("statement_timeout", _) if limit > 0 && limit < PATIENCE_MS => Some(Finding::warning(
            TOPIC,
            format!(
                "statement_timeout is {time}: large appends, long pages and waiting for a stream may be ended by it"
            ),
            "ALTER ROLE … SET statement_timeout = 0 for this role; the library has time-outs of its own",
        )),
        ("statement_timeout", _) if limit > 0 => Some(Finding::note(
            TOPIC,
            format!("statement_timeout is {time}, for statements of this library too; initialize() may take longer"),
            "ALTER ROLE … SET statement_timeout = 0 for the role that initializes",
        )),
        ("transaction_timeout", _) if limit > 0 && limit < PATIENCE_MS => Some(Finding::note(
            TOPIC,
            format!(
                "transaction_timeout is {time}: connections of this library set it off for themselves, but units of work \
                 and the application's own transactions that take longer are ended"
            ),
            "ALTER ROLE … SET transaction_timeout = 0 for roles whose transactions may take longer",
        )),
        ("tcp_keepalives_idle", _) if here == "0" => Some(Finding::note(
            TOPIC,
            "keepalives cannot be set on this connection: a client that vanishes is noticed when the system notices",
            "nothing, if this is a Unix socket; else set tcp_keepalives_idle in the server or in the pooler",
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use highwater::backend::Severity;

    use super::*;

    fn severity(name: &str, value: &str, source: &str) -> Option<Severity> {
        let (name, value, source) = (name.to_owned(), value.to_owned(), source.to_owned());
        judge(&Setting { name, here: value.clone(), value, source }).map(|finding| finding.severity)
    }

    #[test]
    fn what_a_server_is_delivered_with_is_fine() {
        for (name, value) in [
            ("autovacuum", "on"),
            ("default_transaction_read_only", "off"),
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("idle_session_timeout", "0"),
            ("statement_timeout", "0"),
            ("synchronous_commit", "on"),
            ("tcp_keepalives_idle", "5"),
            ("transaction_timeout", "0"),
        ] {
            assert_eq!(severity(name, value, "default"), None, "{name}");
        }
    }

    #[test]
    fn how_bad_a_limit_is_depends_on_how_short_it_is() {
        assert_eq!(severity("statement_timeout", "500", "user"), Some(Severity::Warning));
        assert_eq!(severity("statement_timeout", "60000", "user"), Some(Severity::Note));
        assert_eq!(severity("idle_in_transaction_session_timeout", "0", "default"), None, "asked for apart");
        assert_eq!(severity("idle_in_transaction_session_timeout", "500", "user"), Some(Severity::Warning));
        assert_eq!(severity("idle_in_transaction_session_timeout", "60000", "user"), None);
    }

    #[test]
    fn a_role_may_choose_to_be_read_only() {
        assert_eq!(severity("default_transaction_read_only", "on", "user"), Some(Severity::Note));
        assert_eq!(severity("default_transaction_read_only", "on", "configuration file"), Some(Severity::Bad));
    }
}
