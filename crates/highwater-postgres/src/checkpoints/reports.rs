//! What leaders say of themselves, in rows.

use highwater::Error;
use highwater::backend::{Report, StateColumns};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::failed;
use crate::own_pool::{DoneInTime, InTime};
use crate::row::{counted, signed};
use crate::store::PgEventStore;

impl PgEventStore {
    pub(super) async fn write_reports(&self, reports: &[Report]) -> Result<(), Error> {
        if reports.is_empty() {
            return Ok(());
        }
        let states: Vec<StateColumns<'_>> = reports.iter().map(|report| StateColumns::of(&report.state)).collect();
        let query = sqlx::query(self.inner.sql.reports_store.clone())
            .bind(reports.iter().map(|it| it.subscriber_id.as_str()).collect::<Vec<_>>())
            .bind(reports.iter().map(|it| signed(it.term)).collect::<Vec<_>>())
            .bind(states.iter().map(|it| it.state).collect::<Vec<_>>())
            .bind(reports.iter().map(|it| signed(it.position)).collect::<Vec<_>>())
            .bind(reports.iter().map(|it| it.rate).collect::<Vec<_>>())
            .bind(states.iter().map(|it| it.failing.map(signed)).collect::<Vec<_>>())
            .bind(states.iter().map(|it| it.failures.map(i64::from)).collect::<Vec<_>>())
            .bind(states.iter().map(|it| it.next_at).collect::<Vec<_>>())
            .bind(states.iter().map(|it| it.reason).collect::<Vec<_>>())
            .bind(reports.iter().map(|it| it.last_error.as_deref()).collect::<Vec<_>>())
            .bind(reports.iter().map(|it| it.push_degraded.as_deref()).collect::<Vec<_>>())
            .bind(reports.iter().map(|it| it.reported_at).collect::<Vec<_>>());
        query.execute_in_time(&self.inner.housekeeping).await.map(drop).map_err(|e| self.failed("store reports", e))
    }

    pub(super) async fn read_reports(&self) -> Result<Vec<Report>, Error> {
        let rows = sqlx::query(self.inner.sql.reports.clone()).fetch_all_in_time(&self.inner.own_pool).await;
        let found = rows
            .and_then(|rows| rows.iter().map(report).filter(|read| !is_damaged(read)).collect::<Result<Vec<_>, _>>());
        Ok(found.map_err(|e| failed("read reports", e))?.into_iter().flatten().collect())
    }
}

/// Reports inform: one that cannot be read says nothing, and keeps no other from being read.
fn is_damaged<T>(read: &Result<T, sqlx::Error>) -> bool {
    matches!(read, Err(sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. }))
}

/// `None` for a state that only a newer version knows.
fn report(row: &PgRow) -> Result<Option<Report>, sqlx::Error> {
    let failures: Option<i64> = row.try_get("failures")?;
    let columns = StateColumns {
        state: row.try_get("state")?,
        failing: row.try_get::<Option<i64>, _>("failing")?.map(counted).transpose()?,
        failures: failures.map(|failures| u32::try_from(failures).unwrap_or(u32::MAX)),
        next_at: row.try_get("next_at")?,
        reason: row.try_get("reason")?,
    };
    let (term, last_error) = (counted(row.try_get("term")?)?, row.try_get::<Option<String>, _>("last_error")?);
    let Some(state) = columns.read(term, last_error.as_deref()) else { return Ok(None) };
    Ok(Some(Report {
        subscriber_id: row.try_get("subscriber_id")?,
        term,
        state,
        position: counted(row.try_get("global_sequence")?)?,
        rate: row.try_get("rate")?,
        last_error,
        push_degraded: row.try_get("push_degraded")?,
        reported_at: row.try_get("reported_at")?,
    }))
}
