//! The end of a fenced transaction: what it is about, and then the fence, as the last statement before the COMMIT.
//!
//! That check is not only about other instances that have taken over. A handler that swallowed an SQL error leaves a
//! transaction whose COMMIT rolls back without an error; a statement does return one. And a handler that ended its
//! transaction by a statement would leave the fence's write outside it: that checks whether it is still in the transaction
//! that began (`fence_lock.sql`).

use highwater::Error;
use highwater::backend::{Closed, Closing, Fence, NewDeadLetter, Term};
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::query::Query;
use sqlx::{Postgres, SqlStr};
use uuid::Uuid;

use crate::checkpoints::term;
use crate::error::{failed, sqlstate};
use crate::row::{signed, unsigned};
use crate::sql::Sql;
use crate::write;

/// What closing gives, or `None` when the fence does not hold any more.
pub(super) async fn close(
    tx: &mut PgConnection,
    sql: &Sql,
    fence: &Fence,
    settled: u64,
    closing: Closing<'_>,
) -> Result<Option<Closed>, Error> {
    if !matches!(closing, Closing::Advance { .. }) {
        // What comes before the fence must not be stored by itself. An advance has nothing before it.
        write::still_open(tx, sql).await?;
    }
    let mut open = Open { tx, sql, fence, settled };
    let parked_left = match closing {
        Closing::Bury { dead_letter, .. } => open.bury(dead_letter).await?,
        Closing::Replayed { dead_letter, by } => {
            open.dead_letter(dead_letter, &sql.dead_letter_replayed, by, None).await?
        }
        Closing::ReplayFailed { dead_letter, by, error } => {
            open.dead_letter(dead_letter, &sql.dead_letter_failed, by, Some(error)).await?
        }
        Closing::Discarded { dead_letter, by, reason } => {
            open.dead_letter(dead_letter, &sql.dead_letter_discarded, by, Some(reason)).await?
        }
        Closing::Finished { request, outcome } => {
            let finished = sqlx::query(sql.request_finish.clone())
                .bind(request)
                .bind(&*fence.subscriber_id)
                .bind(outcome.finished_at)
                .bind(signed(outcome.done))
                .bind(signed(outcome.failed))
                .bind(&outcome.error);
            let finished = finished.execute(&mut *open.tx).await.map_err(|e| broken("finish a request", e))?;
            if finished.rows_affected() == 0 {
                return Err(Error::NotFound { what: "request", id: request });
            }
            0
        }
        Closing::Reset { to, by, .. } => open.archive(by, to).await?,
        Closing::Remove { by } => open.archive(by, 0).await?,
        Closing::Advance { .. } | Closing::SetUp { .. } => 0,
    };
    let term = match closing {
        Closing::Advance { from, to, event_id } => open.advance(from, to, event_id).await,
        Closing::Bury { dead_letter, from } => {
            open.advance(from, dead_letter.global_sequence, Some(dead_letter.event_id)).await
        }
        Closing::SetUp { version } => open.set_up(version).await,
        Closing::Reset { to, nonce, setup_version, .. } => open.reset(to, nonce, setup_version).await,
        Closing::Remove { .. } => open.remove().await,
        _ => open.keep().await,
    };
    let term = term.map_err(|error| aborted_or("close a transaction", error))?;
    Ok(term.map(|term| Closed { term, parked_left }))
}

/// What keeps a transaction from being closed, or an error like any other.
fn aborted_or(action: &'static str, error: sqlx::Error) -> Error {
    let code = sqlstate(&error).unwrap_or_default();
    // A constraint; a serialization failure or a deadlock.
    if code.starts_with("23") || code.starts_with("40") {
        return Error::Aborted { source: error.into() };
    }
    broken(action, error)
}

/// An error of a statement of ours, unless the transaction had failed before, or was made read-only: it has locked a row.
fn broken(action: &'static str, error: sqlx::Error) -> Error {
    if matches!(sqlstate(&error).as_deref(), Some("25P02" | "25006")) {
        return Error::Aborted { source: error.into() };
    }
    failed(action, error)
}

struct Open<'a> {
    tx: &'a mut PgConnection,
    sql: &'a Sql,
    fence: &'a Fence,
    /// How far the order is known to be settled.
    settled: u64,
}

impl Open<'_> {
    async fn bury(&mut self, dead_letter: &NewDeadLetter) -> Result<u64, Error> {
        let bury = sqlx::query(self.sql.dead_letter_bury.clone())
            .bind(&*self.fence.subscriber_id)
            .bind(dead_letter.event_id)
            .bind(signed(dead_letter.global_sequence))
            .bind(dead_letter.stream_id)
            .bind(&dead_letter.event_type)
            .bind(&dead_letter.error_message)
            .bind(i32::try_from(dead_letter.retry_count).unwrap_or(i32::MAX))
            .bind(dead_letter.state().name())
            .bind(dead_letter.parks);
        bury.execute(&mut *self.tx).await.map_err(|e| broken("write a dead letter", e))?;
        self.parking(dead_letter.stream_id).await
    }

    /// Records what has become of an open dead letter.
    async fn dead_letter(
        &mut self,
        dead_letter: Uuid,
        statement: &SqlStr,
        by: &str,
        detail: Option<&str>,
    ) -> Result<u64, Error> {
        let mut query =
            sqlx::query_scalar(statement.clone()).bind(dead_letter).bind(&*self.fence.subscriber_id).bind(by);
        if let Some(detail) = detail {
            query = query.bind(detail);
        }
        let stream_id = query.fetch_optional(&mut *self.tx).await.map_err(|e| broken("update a dead letter", e))?;
        self.parking(stream_id.ok_or(Error::NotFound { what: "open dead letter", id: dead_letter })?).await
    }

    /// Archives the open dead letters beyond a position: none of them parks a stream any more.
    async fn archive(&mut self, by: &str, beyond: u64) -> Result<u64, Error> {
        let archive = sqlx::query(self.sql.dead_letters_archive.clone());
        let archive = archive.bind(&*self.fence.subscriber_id).bind(by).bind(signed(beyond));
        archive.execute(&mut *self.tx).await.map_err(|e| broken("archive dead letters", e))?;
        Ok(0)
    }

    /// How many open dead letters park a stream.
    async fn parking(&mut self, stream_id: Uuid) -> Result<u64, Error> {
        let count = sqlx::query_scalar(self.sql.dead_letters_parking.clone())
            .bind(&*self.fence.subscriber_id)
            .bind(stream_id)
            .fetch_one(&mut *self.tx)
            .await;
        Ok(unsigned(count.map_err(|e| broken("count dead letters", e))?))
    }

    /// A statement whose first arguments are the fence.
    fn fenced(&self, statement: &SqlStr) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(statement.clone())
            .bind(self.fence.subscriber_id.to_string())
            .bind(signed(self.fence.term.number))
            .bind(self.fence.term.nonce)
    }

    async fn advance(&mut self, from: u64, to: u64, event_id: Option<Uuid>) -> Result<Option<Term>, sqlx::Error> {
        let update = self.fenced(&self.sql.fence_move).bind(signed(from)).bind(signed(to)).bind(event_id);
        let update = update.bind(signed(self.settled)).bind(self.fence.incarnation.cast_signed());
        self.one(update).await
    }

    async fn keep(&mut self) -> Result<Option<Term>, sqlx::Error> {
        let update = self.fenced(&self.sql.fence_keep);
        self.one(update).await
    }

    /// The term stays if exactly one row was there.
    async fn one(&mut self, update: Query<'static, Postgres, PgArguments>) -> Result<Option<Term>, sqlx::Error> {
        let done = update.execute(&mut *self.tx).await?;
        Ok((done.rows_affected() == 1).then_some(self.fence.term))
    }

    async fn remove(&mut self) -> Result<Option<Term>, sqlx::Error> {
        let delete = self.fenced(&self.sql.fence_remove).bind(self.fence.incarnation.cast_signed());
        Ok(delete.fetch_optional(&mut *self.tx).await?.map(|_| self.fence.term))
    }

    async fn set_up(&mut self, version: u32) -> Result<Option<Term>, sqlx::Error> {
        let update = self.fenced(&self.sql.fence_set_up).bind(version.cast_signed());
        let update = update.bind(self.fence.incarnation.cast_signed());
        self.one(update).await
    }

    async fn reset(&mut self, to: u64, nonce: Uuid, setup_version: Option<u32>) -> Result<Option<Term>, sqlx::Error> {
        let update = self.fenced(&self.sql.fence_reset).bind(signed(to)).bind(nonce).bind(signed(self.settled));
        let update = update.bind(self.fence.incarnation.cast_signed()).bind(setup_version.map(u32::cast_signed));
        let row = update.fetch_optional(&mut *self.tx).await?;
        let Some(term) = row.map(|row| term(&row, 0)).transpose()? else { return Ok(None) };
        let leader = sqlx::query(self.sql.fence_leader.clone())
            .bind(self.fence.subscriber_id.to_string())
            .bind(signed(term.number))
            .bind(term.nonce)
            .bind(self.fence.term.nonce);
        leader.execute(&mut *self.tx).await?;
        Ok(Some(term))
    }
}
