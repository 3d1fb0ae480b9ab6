//! What leaders say of themselves, in rows.

use chrono::{DateTime, Utc};
use highwater::{Error, Report, ReportedState};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::failed;
use crate::row::{signed, unsigned};
use crate::store::PgEventStore;

impl PgEventStore {
    pub(super) async fn write_reports(&self, reports: &[Report]) -> Result<(), Error> {
        if reports.is_empty() {
            return Ok(());
        }
        let state = |report: &Report| match report.state.clone() {
            ReportedState::Retrying { global_sequence, failures, next_at } => {
                (Some(signed(global_sequence)), Some(i64::from(failures)), Some(next_at), None)
            }
            ReportedState::Halted { reason } => (None, None, None, Some(reason)),
            _ => (None, None, None, None),
        };
        let (mut failing, mut failures, mut next_at, mut reasons) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (event, times, at, reason) in reports.iter().map(state) {
            failing.push(event);
            failures.push(times);
            next_at.push(at);
            reasons.push(reason);
        }
        let query = sqlx::query(self.inner.sql.reports_store.clone())
            .bind(reports.iter().map(|it| it.subscriber_id.as_str()).collect::<Vec<_>>())
            .bind(reports.iter().map(|it| signed(it.term)).collect::<Vec<_>>())
            .bind(reports.iter().map(|it| it.state.name()).collect::<Vec<_>>())
            .bind(reports.iter().map(|it| signed(it.position)).collect::<Vec<_>>())
            .bind(reports.iter().map(|it| it.rate).collect::<Vec<_>>())
            .bind(failing)
            .bind(failures)
            .bind(next_at)
            .bind(reasons)
            .bind(reports.iter().map(|it| it.last_error.as_deref()).collect::<Vec<_>>())
            .bind(reports.iter().map(|it| it.push_degraded.as_deref()).collect::<Vec<_>>())
            .bind(reports.iter().map(|it| it.reported_at).collect::<Vec<_>>());
        query.execute(&self.inner.pool).await.map(drop).map_err(|e| self.failed("store reports", e))
    }

    pub(super) async fn read_reports(&self) -> Result<Vec<Report>, Error> {
        let rows = sqlx::query(self.inner.sql.reports.clone()).fetch_all(&self.inner.pool).await;
        let found = rows.and_then(|rows| rows.iter().map(report).collect::<Result<Vec<_>, _>>());
        Ok(found.map_err(|e| failed("read reports", e))?.into_iter().flatten().collect())
    }
}

/// `None` for a state that only a newer version knows: it informs, so it is no reason to show nothing at all.
fn report(row: &PgRow) -> Result<Option<Report>, sqlx::Error> {
    let state = match row.try_get("state")? {
        "catching_up" => ReportedState::CatchingUp,
        "live" => ReportedState::Live,
        "retrying" => {
            let next_at: Option<DateTime<Utc>> = row.try_get("next_at")?;
            ReportedState::Retrying {
                global_sequence: unsigned(row.try_get::<Option<i64>, _>("failing")?.unwrap_or_default()),
                failures: u32::try_from(row.try_get::<Option<i64>, _>("failures")?.unwrap_or_default())
                    .unwrap_or(u32::MAX),
                next_at: next_at.unwrap_or_default(),
            }
        }
        "disconnected" => ReportedState::Disconnected,
        "paused" => ReportedState::Paused,
        "halted" => ReportedState::Halted { reason: row.try_get::<Option<String>, _>("reason")?.unwrap_or_default() },
        "stopped" => ReportedState::Stopped,
        _ => return Ok(None),
    };
    Ok(Some(Report {
        subscriber_id: row.try_get("subscriber_id")?,
        term: unsigned(row.try_get("term")?),
        state,
        position: unsigned(row.try_get("global_sequence")?),
        rate: row.try_get("rate")?,
        last_error: row.try_get("last_error")?,
        push_degraded: row.try_get("push_degraded")?,
        reported_at: row.try_get("reported_at")?,
    }))
}
