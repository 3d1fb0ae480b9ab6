//! Leadership on SQLite: locks on files in a folder beside the database, which the kernel releases when a process ends,
//! however it ends.
//!
//! ```text
//! shop.db-locks/leader-<hash>      one for each subscriber: who holds its lock leads
//! shop.db-locks/instance-<n>       one for each instance that is there; in it stands a sign of life, which it renews
//! shop.db-locks/next-<n>           of instance n, about to replace a leader's file
//! ```
//!
//! A process that is frozen keeps its locks, and nothing can take them from it. So a standby that sees no new sign of life
//! for `takeover_bound` replaces the leader's *file* by one that it has locked already. The name decides which instance
//! leads: the replaced leader finds another file under it, and knows before that by its own clock.
//!
//! Each leader's file contains the session that locked it last, or for which it was released. Files are not removed, except
//! those that are replaced. They are closed when another program is executed, so a child does not keep what its parent has
//! released.

mod candidate;
mod files;
mod keeper;
mod notes;
mod rights;
mod silence;

use std::collections::BTreeSet;

use highwater::Error;
use highwater::backend::{
    BoxFuture, Candidate, Instance, Leader, LeaderHold, Leadership, LeadershipSettings, LockHolder,
};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use crate::error::failed;
use crate::row::{counted, time};
use crate::sql;
use crate::store::SqliteEventStore;
use candidate::SqliteCandidate;
pub(crate) use files::{Folder, Lock};

impl Leadership for SqliteEventStore {
    fn candidate(&self, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate> {
        Box::new(SqliteCandidate::new(self.clone(), instance.clone(), settings))
    }

    fn leaders(&self) -> BoxFuture<'_, Result<Vec<Leader>, Error>> {
        Box::pin(async move {
            let read_failed = |e| failed("see who leads", e);
            let rows = sqlx::query(sql::leaders).fetch_all(&self.inner.pool).await.map_err(read_failed)?;
            let folder = Folder::beside(&self.inner.path);
            let alive = folder.alive()?;
            let leader =
                |row: &SqliteRow| leader(row, |id| folder.holder(id).filter(|session| alive.contains_key(session)));
            rows.iter().map(leader).collect::<Result<_, _>>().map_err(read_failed)
        })
    }

    fn lock_holders<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<LockHolder>, Error>> {
        Box::pin(async move {
            let folder = Folder::beside(&self.inner.path);
            let ids: BTreeSet<&String> = subscriber_ids.iter().collect();
            Ok(ids.into_iter().flat_map(|id| folder.lock_holders(id)).collect())
        })
    }
}

fn leader(row: &SqliteRow, holder: impl Fn(&str) -> Option<Uuid>) -> Result<Leader, sqlx::Error> {
    let subscriber_id: String = row.try_get(0)?;
    let hold = match row.try_get::<Option<Uuid>, _>(7)? {
        None => LeaderHold::Unknown,
        // Another instance may have the lock by now, and not the term yet.
        Some(session) if holder(&subscriber_id) == Some(session) => LeaderHold::Held,
        Some(_) => LeaderHold::Gone,
    };
    Ok(Leader {
        subscriber_id,
        instance: instance(row, 1)?,
        since: time(row.try_get(5)?)?,
        term: counted(row.try_get(6)?)?,
        hold,
    })
}

/// An instance in four neighbouring columns.
fn instance(row: &SqliteRow, first: usize) -> Result<Instance, sqlx::Error> {
    Ok(Instance {
        id: row.try_get(first)?,
        host: row.try_get(first + 1)?,
        pid: row.try_get(first + 2)?,
        label: row.try_get(first + 3)?,
    })
}
