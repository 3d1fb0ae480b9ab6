//! The one connection that stores checkpoints which carry nothing else with them.
//!
//! It alone commits without waiting for the disk: a checkpoint that a crash of the server undoes means that events are
//! delivered again, and nothing worse. A connection on which something went wrong, or whose caller stopped waiting, is
//! thrown away.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use highwater::Error;
use highwater::backend::{CheckpointWrite, Fence, Refused, Term};
use sqlx::Row;
use sqlx::postgres::PgConnection;
use uuid::Uuid;

use super::term;
use crate::blockers;
use crate::connect::{Connector, Kept, Stock, ask_life};
use crate::error::{failed, in_time, sqlstate};
use crate::row::{counted, signed};
use crate::settled::Settled;
use crate::sql::Sql;

/// How long a lone checkpoint waits for a row that another transaction holds. Others wait behind it.
const HELD_TIMEOUT: Duration = Duration::from_millis(100);

pub(crate) struct Writer {
    sql: Arc<Sql>,
    settled: Arc<Settled>,
    /// One connection, which knows the life of the server at its other end.
    stock: Stock<u64>,
}

impl Writer {
    pub(crate) fn new(connector: Connector, sql: Arc<Sql>, settled: Arc<Settled>) -> Self {
        Self { sql, settled, stock: Stock::new(connector, 1, Duration::MAX) }
    }

    /// See [`highwater::backend::Checkpoints::store_checkpoints`].
    pub(crate) async fn store(&self, writes: &[CheckpointWrite]) -> Result<Vec<Option<Refused>>, Error> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let mut lent = self.stock.lend("store checkpoints: others were being stored all the time", self.open()).await?;
        // A host that vanished must not keep all subscribers waiting: the connection is thrown away then.
        let storing =
            tokio::time::timeout(self.stock.connector().timeout(), self.store_on(&mut lent.kept, writes)).await;
        let storing = storing
            .map_err(|elapsed| Error::Unavailable { action: "store checkpoints in time", source: elapsed.into() })?;
        let mut answers = match storing {
            Ok(answers) => answers,
            Err(error) if sqlstate(&error).as_deref() == Some("55P03") => {
                vec![Some(Refused::Held { by: None }); writes.len()]
            }
            Err(error) => return Err(failed("store checkpoints", error)),
        };
        let naming = self.name_holders(lent.kept.connection(), writes, &mut answers);
        // Without an answer something is still under way on the connection: it is closed.
        if let Ok(Ok(())) = tokio::time::timeout(blockers::LOOK_TIMEOUT, naming).await {
            lent.give_back();
        }
        Ok(answers)
    }

    /// Adds to refusals which transaction holds the checkpoint.
    async fn name_holders<'a>(
        &self,
        connection: &mut PgConnection,
        writes: &'a [CheckpointWrite],
        answers: &mut [Option<Refused>],
    ) -> Result<(), sqlx::Error> {
        let held = |(write, answer): (&'a CheckpointWrite, &Option<Refused>)| match answer {
            Some(Refused::Held { .. }) => Some(&*write.fence.subscriber_id),
            _ => None,
        };
        let ids: Vec<&str> = writes.iter().zip(&*answers).filter_map(held).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let holders = blockers::of_checkpoints(connection, &self.sql, &ids).await?;
        for (write, answer) in writes.iter().zip(answers) {
            if let Some(Refused::Held { by }) = answer {
                *by = holders.of(&write.fence.subscriber_id);
            }
        }
        Ok(())
    }

    async fn open(&self) -> Result<Kept<u64>, Error> {
        let connector = self.stock.connector();
        let mut connection = connector.connect_asynchronous("checkpoint", Some(HELD_TIMEOUT)).await?;
        let asking = connector.life(&mut connection);
        let life = in_time(connector.timeout(), "identify the server in time", asking).await?;
        Ok(Kept::new(connection, life))
    }

    async fn store_on(
        &self,
        kept: &mut Kept<u64>,
        writes: &[CheckpointWrite],
    ) -> Result<Vec<Option<Refused>>, sqlx::Error> {
        // A position from another life of the server means nothing to this one. A connection mostly ends with the life it was
        // opened in; not when a sequence is restarted, or behind something that hands it from server to server.
        if writes.iter().any(|write| write.fence.incarnation != kept.known) {
            kept.known = ask_life(kept.connection(), &self.sql).await?;
        }
        let life = kept.known;
        let current = |write: &&CheckpointWrite| write.fence.incarnation == life;
        let valid: Vec<&CheckpointWrite> = writes.iter().filter(current).collect();
        let connection = kept.connection();
        let stored: HashSet<String> = match valid[..] {
            [] => HashSet::new(),
            [CheckpointWrite { fence, global_sequence, event_id: Some(event_id) }] => {
                if self.store_one(connection, fence, *global_sequence, *event_id).await? && writes.len() == 1 {
                    return Ok(vec![None]);
                }
                HashSet::new()
            }
            _ => self.store_many(connection, &valid, life).await?,
        };
        if stored.len() == writes.len() {
            return Ok(vec![None; writes.len()]);
        }
        let found = self.find(connection, writes).await?;
        // Every statement asks for the life that it was meant for.
        let life = ask_life(connection, &self.sql).await?;
        kept.known = life;
        let refused = |write: &CheckpointWrite| {
            if stored.contains(&*write.fence.subscriber_id) {
                return None;
            }
            match found.get(&*write.fence.subscriber_id) {
                None => Some(Refused::Missing),
                Some((term, _)) if *term != write.fence.term => Some(Refused::Superseded { term: term.number }),
                Some(_) if write.fence.incarnation != life => Some(Refused::Interrupted),
                Some((_, at)) if *at < write.global_sequence => Some(Refused::Held { by: None }),
                // A newer one was faster, or this very one.
                Some(_) => None,
            }
        };
        Ok(writes.iter().map(refused).collect())
    }

    async fn store_one(
        &self,
        connection: &mut PgConnection,
        fence: &Fence,
        global_sequence: u64,
        event_id: Uuid,
    ) -> Result<bool, sqlx::Error> {
        let done = sqlx::query(self.sql.checkpoint_store_one.clone())
            .bind(&*fence.subscriber_id)
            .bind(signed(fence.term.number))
            .bind(fence.term.nonce)
            .bind(signed(global_sequence))
            .bind(event_id)
            .bind(signed(self.settled.to(fence.incarnation)))
            .bind(fence.incarnation.cast_signed())
            .execute(connection)
            .await?;
        Ok(done.rows_affected() == 1)
    }

    async fn store_many(
        &self,
        connection: &mut PgConnection,
        writes: &[&CheckpointWrite],
        incarnation: u64,
    ) -> Result<HashSet<String>, sqlx::Error> {
        let stored = sqlx::query_scalar(self.sql.checkpoint_store_many.clone())
            .bind(writes.iter().map(|write| &*write.fence.subscriber_id).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| signed(write.fence.term.number)).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.fence.term.nonce).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| signed(write.global_sequence)).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.event_id).collect::<Vec<_>>())
            .bind(signed(self.settled.to(incarnation)))
            .bind(incarnation.cast_signed())
            .fetch_all(connection)
            .await?;
        Ok(stored.into_iter().collect())
    }

    /// The terms that hold now, and where the checkpoints are.
    async fn find(
        &self,
        connection: &mut PgConnection,
        writes: &[CheckpointWrite],
    ) -> Result<HashMap<String, (Term, u64)>, sqlx::Error> {
        let subscribers: Vec<&str> = writes.iter().map(|write| &*write.fence.subscriber_id).collect();
        let rows = sqlx::query(self.sql.checkpoint_terms.clone()).bind(subscribers).fetch_all(connection).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, (term(row, 1)?, counted(row.try_get(3)?)?)))).collect()
    }
}
