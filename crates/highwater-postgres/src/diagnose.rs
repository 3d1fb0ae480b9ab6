//! Whether what the order rests on is still as it was made, and what else is known to go wrong.
//!
//! Each check is its own function that returns what it found. One that fails becomes a finding, and the others continue.

mod activity;
mod connection;
mod contents;
mod delivery;
mod layout;
mod rights;
mod room;
mod settings;
mod words;

use highwater::Error;
use highwater::backend::{BoxFuture, Diagnose, Finding, Planned, chain, diagnose_kinds, diagnose_subscribers};
use sqlx::Row;

use crate::error::{failed, in_time, sqlstate};
use crate::own_pool::{ANSWER_TIMEOUT, DoneInTime, InTime};
use crate::row::unsigned;
use crate::store::PgEventStore;

type Examination<'a> = (&'static str, BoxFuture<'a, Result<Vec<Finding>, Error>>);

impl Diagnose for PgEventStore {
    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>, Error>> {
        Box::pin(async move { Ok(self.findings().await) })
    }

    fn planned(&self) -> BoxFuture<'_, Result<Vec<Planned>, Error>> {
        Box::pin(self.plan())
    }
}

impl PgEventStore {
    async fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let about_the_server: Vec<Examination<'_>> = vec![
            ("connection", Box::pin(connection::round_trip(self))),
            ("server", Box::pin(connection::server(self))),
            ("encryption", Box::pin(connection::encryption(self))),
            ("pooler", Box::pin(connection::pooler(self))),
            ("settings", Box::pin(settings::settings(self))),
            ("connections", Box::pin(room::connections(self))),
            ("replication slots", Box::pin(room::slots(self))),
            ("transactions", Box::pin(activity::transactions(self))),
            ("commits", Box::pin(activity::commits(self))),
        ];
        if !self.look_at(about_the_server, &mut findings).await {
            return findings;
        }
        match activity::locks(self).await {
            // Everything else would wait for it, one look after the other.
            Ok((found, true)) => {
                findings.extend(found);
                return findings;
            }
            Ok((found, false)) => findings.extend(found),
            Err(error) => findings.push(not_seen("locks", &error)),
        }
        let about_the_layout: Vec<Examination<'_>> = vec![("layout", Box::pin(layout::layout(self)))];
        if !self.look_at(about_the_layout, &mut findings).await {
            return findings;
        }
        // What is not there yet is not checked; the layout reports it.
        if !self.is_complete().await.unwrap_or(false) {
            return findings;
        }
        let about_the_log: Vec<Examination<'_>> = vec![
            ("filling", Box::pin(layout::filling(self))),
            ("indexes", Box::pin(layout::indexes(self))),
            ("columns", Box::pin(layout::columns(self))),
            ("constraints", Box::pin(layout::constraints(self))),
            ("rows", Box::pin(contents::rows(self))),
            ("stream names", Box::pin(diagnose_kinds(self))),
            ("rights", Box::pin(rights::rights(self))),
            ("writers", Box::pin(activity::writers(self))),
            ("vacuum", Box::pin(activity::vacuum(self))),
            ("growth", Box::pin(room::growth(self))),
            ("sequences", Box::pin(room::sequences(self))),
            ("dead letters", Box::pin(delivery::dead_letters(self))),
            ("subscribers", Box::pin(diagnose_subscribers(self))),
        ];
        self.look_at(about_the_log, &mut findings).await;
        findings
    }

    /// Looks at one thing after the other; false when the server no longer answers, and it is useless to continue.
    async fn look_at(&self, looks: Vec<Examination<'_>>, findings: &mut Vec<Finding>) -> bool {
        for (topic, look) in looks {
            match in_time(ANSWER_TIMEOUT, "look in time", look).await {
                Ok(found) => findings.extend(found),
                Err(error) => {
                    let unanswered = matches!(error, Error::Unavailable { .. });
                    if unanswered && (topic == "connection" || connection::round_trip(self).await.is_err()) {
                        let found = format!("the server does not answer: {}", chain(&error));
                        findings.push(Finding::bad("connection", found, "see that it runs and can be reached"));
                        return false;
                    }
                    findings.push(not_seen(topic, &error));
                }
            }
        }
        true
    }
}

/// What could not be checked. What the role may not see is not bad.
fn not_seen(topic: &'static str, error: &Error) -> Finding {
    let found = format!("it could not be looked at: {}", chain(error));
    match error {
        Error::Denied { .. } => {
            Finding::note(topic, found, "look with a role that may, as highwater_operator of docs/postgres-roles.sql")
        }
        Error::Unavailable { .. } => Finding::warning(topic, found, "fix what the server complains of, and look again"),
        _ => Finding::bad(topic, found, "do what it says, and look again"),
    }
}

impl PgEventStore {
    /// Checks what the order of the log rests on: that the server shows which transactions draw numbers, that
    /// `global_sequence` is an identity column that draws from its own sequence, one by one and without a cache, that the
    /// sequence has not fallen behind the events, that no row is hidden from anybody, and that a recovery of the server would be noticed. Draws nothing, holds
    /// no reader back, and needs no more rights than reading.
    ///
    /// # Errors
    /// [`Error::Unfit`] with everything that is wrong and what to do about it.
    pub async fn verify(&self) -> Result<(), Error> {
        let read_failed = |e| failed("check the layout of the database", e);
        let probed = sqlx::query(self.inner.sql.probe.clone()).execute_in_time(&self.inner.own_pool).await;
        probed.map_err(read_failed)?;
        // Before the sequence is read: what was proved by then is never above it, and writers append meanwhile.
        let settled = self.settled_to().await?;
        let row = sqlx::query(self.inner.sql.basis.clone())
            .fetch_optional_in_time(&self.inner.own_pool)
            .await
            .map_err(read_failed)?;
        let Some(row) = row else {
            return Err(Error::Unfit {
                reason:
                    "events.global_sequence or its sequence events_global_sequence_seq is missing; call initialize() \
                         on an empty schema, or restore them"
                        .to_owned(),
            });
        };
        let mut problems = Vec::new();
        for (column, problem) in [
            ("identity", "global_sequence is not GENERATED ALWAYS AS IDENTITY: ALTER TABLE … SET GENERATED ALWAYS"),
            ("cache", "its sequence has a cache, which hands out numbers out of order: ALTER SEQUENCE … CACHE 1"),
            ("increment", "its sequence does not count by one: ALTER SEQUENCE … INCREMENT 1"),
            ("cycle", "its sequence starts again when it is used up: ALTER SEQUENCE … NO CYCLE"),
            ("owned", "its sequence is not events_global_sequence_seq"),
            (
                "unfiltered",
                "row-level security hides rows from some roles, whose subscribers would pass over events: ALTER TABLE … DISABLE ROW \
                 LEVEL SECURITY",
            ),
            (
                "utf8",
                "the database does not hold text as UTF-8, so that events could not be read as they were written: CREATE DATABASE … \
                     ENCODING 'UTF8' TEMPLATE template0, and copy the events there",
            ),
            (
                "at_home",
                "the schema was renamed, and its functions append to the one of the former name: ALTER SCHEMA … RENAME TO that name, \
                 or copy the events to a new schema",
            ),
            (
                "logged",
                "a table of the store is unlogged, and the next recovery of the server would empty it: ALTER TABLE … SET LOGGED",
            ),
            ("life", "server_life is not unlogged, so a recovery would go unnoticed: ALTER TABLE … SET UNLOGGED"),
        ] {
            if !row.try_get::<Option<bool>, _>(column).map_err(read_failed)?.unwrap_or(false) {
                problems.push(problem.to_owned());
            }
        }
        let highest = unsigned(row.try_get("highest").map_err(read_failed)?);
        let last_value = unsigned(row.try_get("last_value").map_err(read_failed)?);
        if last_value < highest.max(settled) {
            let below = match highest < settled {
                true => format!("{settled}, which readers have passed"),
                false => format!("the highest event {highest}"),
            };
            // Never back, whatever has been appended since.
            problems.push(format!(
                "the sequence stands at {last_value}, below {below}: while nothing writes, SELECT setval('{}', \
                 greatest(last_value, {})) FROM {}",
                self.inner.schema.render("{schema_text}.events_global_sequence_seq"),
                highest.max(settled),
                self.inner.schema.render("{schema}.events_global_sequence_seq"),
            ));
        }
        if problems.is_empty() { Ok(()) } else { Err(Error::Unfit { reason: problems.join("; ") }) }
    }
    /// What readers have proved, as far as the role may see it; 0 while what stores it is not there yet.
    async fn settled_to(&self) -> Result<u64, Error> {
        match sqlx::query(self.inner.sql.settled_to.clone()).fetch_one_in_time(&self.inner.own_pool).await {
            Ok(row) => row.try_get(0).map(unsigned),
            Err(error) if sqlstate(&error).is_some_and(|code| code.starts_with("42")) => Ok(0),
            Err(error) => Err(error),
        }
        .map_err(|e| failed("see how far the order is settled", e))
    }
}
