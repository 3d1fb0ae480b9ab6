//! Leadership on PostgreSQL: advisory locks on one connection of each instance's own.
//!
//! The locks of a process that dies are freed by the server at once, because its connection closes. One that hangs, or whose
//! host vanishes, sends nothing: so its session asks the server to end it after the takeover bound, and sends a statement
//! well inside that. No table of heartbeats, and no clocks to agree on.

mod candidate;
mod evict;
mod key;
mod members;
mod ring;
mod session;
mod thread;

use highwater::Error;
use highwater::backend::{
    BoxFuture, Candidate, Instance, Leader, LeaderHold, Leadership, LeadershipSettings, LockHolder,
};
use sqlx::Row;
use sqlx::postgres::PgRow;

pub(crate) use evict::take_over_for_good;

use crate::error::failed;
use crate::own_pool::InTime;
use crate::row::{counted, moment};
use crate::store::PgEventStore;

impl Leadership for PgEventStore {
    fn candidate(&self, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate> {
        Box::new(candidate::PgCandidate::new(self.clone(), instance.clone(), settings.clone()))
    }

    fn leaders(&self) -> BoxFuture<'_, Result<Vec<Leader>, Error>> {
        Box::pin(async move {
            let asking = sqlx::query(self.inner.sql.leaders.clone()).bind(self.inner.schema.as_str());
            let rows = asking.fetch_all_in_time(&self.inner.housekeeping).await;
            let leaders = rows.and_then(|rows| rows.iter().map(leader).collect());
            leaders.map_err(|e| failed("see who leads", e))
        })
    }

    fn lock_holders<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<LockHolder>, Error>> {
        Box::pin(async move {
            let asking = sqlx::query(self.inner.sql.lock_holders.clone()).bind(self.inner.schema.as_str());
            let rows = asking.bind(subscriber_ids).fetch_all_in_time(&self.inner.own_pool).await;
            let holders = rows.and_then(|rows| rows.iter().map(lock_holder).collect());
            holders.map_err(|e| failed("see who has the locks of subscribers", e))
        })
    }
}

/// A lock without a process belongs to a prepared transaction.
fn lock_holder(row: &PgRow) -> Result<LockHolder, sqlx::Error> {
    let mut holder = LockHolder::of(row.try_get::<String, _>(0)?);
    holder.pid = row.try_get::<Option<i32>, _>(1)?.and_then(|pid| u32::try_from(pid).ok());
    (holder.role, holder.application_name) = (row.try_get(2)?, row.try_get(3)?);
    Ok(holder)
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
        since: moment(row, 5)?,
        term: counted(row.try_get(6)?)?,
        hold: match (row.try_get(7)?, row.try_get(8)?) {
            (true, true) => LeaderHold::Held,
            (true, false) => LeaderHold::Gone,
            (false, _) => LeaderHold::Unknown,
        },
    })
}
