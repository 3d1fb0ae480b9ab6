//! What leaders say of themselves, in rows.

use highwater::backend::{Report, StateColumns, rows};
use highwater::{Error, Filter};

use crate::error::failed;
use crate::own_pool::{DoneInTime, InTime};
use crate::row::{Named, signed};
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
            .bind(reports.iter().map(|it| it.reads.as_ref().map(Filter::to_text)).collect::<Vec<_>>())
            .bind(reports.iter().map(|it| it.reported_at).collect::<Vec<_>>());
        query.execute_in_time(&self.inner.housekeeping).await.map(drop).map_err(|e| self.failed("store reports", e))
    }

    pub(super) async fn read_reports(&self) -> Result<Vec<Report>, Error> {
        let rows = sqlx::query(self.inner.sql.reports.clone()).fetch_all_in_time(&self.inner.own_pool).await;
        let rows = rows.map_err(|e| failed("read reports", e))?;
        Ok(rows::readable_reports(rows.iter().map(Named)))
    }
}
