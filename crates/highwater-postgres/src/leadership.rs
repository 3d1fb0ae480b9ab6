//! Leadership on PostgreSQL: advisory locks on one connection of each instance's own.
//!
//! The locks of a process that dies are freed by the server at once, because its connection closes. One that hangs, or whose
//! host vanishes, says nothing: so its session asks the server to end it after the takeover bound, and lets itself be heard
//! well inside that. No table of heartbeats, and no clocks to agree on.

mod candidate;
mod clock;
mod evict;
mod key;
mod members;
mod ring;
mod session;
mod thread;

use highwater::{
    BoxFuture, Candidate, Coordinator, Error, Instance, Leader, LeaderHold, Leadership, LeadershipSettings,
};
use sqlx::Row;
use sqlx::postgres::PgRow;

pub(crate) use evict::take_over_for_good;

use crate::error::failed;
use crate::row::counted;
use crate::store::PgEventStore;

/// Leadership among instances over one schema of one database.
pub type PgCoordinator = Coordinator<PgEventStore>;

impl Leadership for PgEventStore {
    fn candidate(&self, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate> {
        Box::new(candidate::PgCandidate::new(self.clone(), instance.clone(), settings.clone()))
    }

    fn leaders(&self) -> BoxFuture<'_, Result<Vec<Leader>, Error>> {
        Box::pin(async move {
            self.look("see in time who leads", async {
                let asking = sqlx::query(self.inner.sql.leaders.clone()).bind(self.inner.schema.as_str());
                let rows = asking.fetch_all(&self.inner.own_pool).await;
                let leaders = rows.and_then(|rows| rows.iter().map(leader).collect());
                leaders.map_err(|e| failed("see who leads", e))
            })
            .await
        })
    }
}

/// An instance, in four neighbouring columns.
fn instance(row: &PgRow, first: usize) -> Result<Instance, sqlx::Error> {
    let pid: i64 = row.try_get(first + 2)?;
    Ok(Instance {
        id: row.try_get(first)?,
        host: row.try_get(first + 1)?,
        pid: u32::try_from(pid).unwrap_or(0),
        label: row.try_get(first + 3)?,
    })
}

fn leader(row: &PgRow) -> Result<Leader, sqlx::Error> {
    Ok(Leader {
        subscriber_id: row.try_get(0)?,
        instance: instance(row, 1)?,
        since: row.try_get(5)?,
        term: counted(row.try_get(6)?)?,
        hold: match (row.try_get(7)?, row.try_get(8)?) {
            (true, true) => LeaderHold::Held,
            (true, false) => LeaderHold::Gone,
            (false, _) => LeaderHold::Unknown,
        },
    })
}
