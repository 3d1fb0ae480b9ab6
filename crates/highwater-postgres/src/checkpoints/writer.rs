//! The one connection that stores checkpoints which carry nothing else with them.
//!
//! It alone commits without waiting for the disk: a checkpoint that a crash of the server takes back means that events are
//! handed over again, and nothing worse. A connection on which something went wrong, or whose caller stopped waiting, is
//! thrown away.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use highwater::{CheckpointWrite, Error, Refused, Term};
use sqlx::postgres::PgConnection;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{LOCK_TIMEOUT, held, term};
use crate::connect::{Connector, started};
use crate::error::{failed, sqlstate};
use crate::row::signed;
use crate::sql::Sql;
use crate::write::{self, IDLE_MAX};

pub(crate) struct Writer {
    connector: Connector,
    sql: Arc<Sql>,
    timeout: Duration,
    /// Taken out for as long as it is used.
    idle: Mutex<Option<Idle>>,
}

struct Idle {
    connection: PgConnection,
    used: Instant,
}

impl Writer {
    pub(crate) fn new(connector: Connector, sql: Arc<Sql>, timeout: Duration) -> Self {
        Self { connector, sql, timeout, idle: Mutex::default() }
    }

    /// See [`highwater::Checkpoints::store_checkpoints`].
    pub(crate) async fn store(&self, writes: &[CheckpointWrite]) -> Result<Vec<Option<Refused>>, Error> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let mut idle = self.idle.lock().await;
        let mut connection = self.connection(idle.take()).await?;
        let answers =
            self.store_on(&mut connection, writes).await.map_err(|error| match sqlstate(&error).as_deref() {
                Some("55P03") => held("store checkpoints: another transaction holds one of them", error),
                _ => failed("store checkpoints", error),
            })?;
        *idle = Some(Idle { connection, used: Instant::now() });
        Ok(answers)
    }

    /// The connection that was used before, if it still answers, or a new one.
    async fn connection(&self, idle: Option<Idle>) -> Result<PgConnection, Error> {
        if let Some(mut idle) = idle
            && (idle.used.elapsed() < IDLE_MAX || write::still_there(&mut idle.connection, self.timeout).await)
        {
            return Ok(idle.connection);
        }
        let (mut new, _) = self.connector.connect("checkpoint", Some(LOCK_TIMEOUT)).await?;
        let asynchronous = sqlx::query("SET synchronous_commit = off").execute(&mut new).await;
        asynchronous.map_err(|e| failed("set up a connection", e))?;
        Ok(new)
    }

    async fn store_on(
        &self,
        connection: &mut PgConnection,
        writes: &[CheckpointWrite],
    ) -> Result<Vec<Option<Refused>>, sqlx::Error> {
        let stored: HashSet<String> = match writes {
            [write] => {
                if self.store_one(connection, write).await? {
                    return Ok(vec![None]);
                }
                HashSet::new()
            }
            _ => self.store_many(connection, writes).await?,
        };
        if stored.len() == writes.len() {
            return Ok(vec![None; writes.len()]);
        }
        let refused = |write: &&CheckpointWrite| !stored.contains(&*write.fence.subscriber_id);
        let reasons = self.reasons(connection, writes.iter().filter(refused)).await?;
        let reason = |write: &CheckpointWrite| match reasons.get(&*write.fence.subscriber_id) {
            None => Refused::Missing,
            // The term is ours: then it is the server that is not the one we knew.
            Some(term) if *term == write.fence.term => Refused::Interrupted,
            Some(term) => Refused::Superseded { term: term.number },
        };
        Ok(writes.iter().map(|write| refused(&write).then(|| reason(write))).collect())
    }

    async fn store_one(&self, connection: &mut PgConnection, write: &CheckpointWrite) -> Result<bool, sqlx::Error> {
        let done = sqlx::query(self.sql.checkpoint_store_one.clone())
            .bind(&*write.fence.subscriber_id)
            .bind(signed(write.fence.term.number))
            .bind(write.fence.term.nonce)
            .bind(started(write.fence.incarnation))
            .bind(signed(write.global_sequence))
            .bind(write.event_id)
            .execute(connection)
            .await?;
        Ok(done.rows_affected() == 1)
    }

    async fn store_many(
        &self,
        connection: &mut PgConnection,
        writes: &[CheckpointWrite],
    ) -> Result<HashSet<String>, sqlx::Error> {
        let fences = || writes.iter().map(|write| &write.fence);
        let stored = sqlx::query_scalar(self.sql.checkpoint_store_many.clone())
            .bind(fences().map(|fence| &*fence.subscriber_id).collect::<Vec<_>>())
            .bind(fences().map(|fence| signed(fence.term.number)).collect::<Vec<_>>())
            .bind(fences().map(|fence| fence.term.nonce).collect::<Vec<_>>())
            .bind(fences().map(|fence| started(fence.incarnation)).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| signed(write.global_sequence)).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.event_id).collect::<Vec<_>>())
            .fetch_all(connection)
            .await?;
        Ok(stored.into_iter().collect())
    }

    /// The terms that hold now.
    async fn reasons(
        &self,
        connection: &mut PgConnection,
        refused: impl Iterator<Item = &CheckpointWrite>,
    ) -> Result<HashMap<String, Term>, sqlx::Error> {
        let subscribers: Vec<&str> = refused.map(|write| &*write.fence.subscriber_id).collect();
        let rows = sqlx::query(self.sql.checkpoint_terms.clone()).bind(subscribers).fetch_all(connection).await?;
        rows.iter().map(|row| Ok((sqlx::Row::try_get(row, 0)?, term(row, 1)?))).collect()
    }
}
