//! Checkpoints on SQLite.

use std::time::Duration;

use highwater::backend::{
    BoxFuture, Checkpoint, CheckpointWrite, Checkpoints, Refused, Report, StateColumns, Taken, Term, rows,
    start_is_gone,
};
use highwater::{Claim, Error, Filter};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::error::failed;
use crate::row::{Named, about, counted, micros, now, signed, time, unsigned};
use crate::sql;
use crate::store::SqliteEventStore;

/// How long to wait for another transaction.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

impl Checkpoints for SqliteEventStore {
    fn take_over<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        Box::pin(async move {
            let taken = self.write("take over", PATIENCE, async move |tx| take_over(tx, claim).await).await?;
            taken.ok_or_else(|| start_is_gone(claim))
        })
    }

    fn store_checkpoints<'a>(
        &'a self,
        writes: &'a [CheckpointWrite],
    ) -> BoxFuture<'a, Result<Vec<Option<Refused>>, Error>> {
        Box::pin(self.write_lightly("store checkpoints", PATIENCE, async move |tx| {
            let life = sqlx::query_scalar(sql::life).fetch_one(&mut *tx).await.map(unsigned)?;
            let mut answers = Vec::with_capacity(writes.len());
            for write in writes {
                answers.push(store(tx, life, write).await?);
            }
            Ok(answers)
        }))
    }

    fn checkpoint<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Checkpoint>, Error>> {
        Box::pin(async move {
            let row = sqlx::query(sql::checkpoint).bind(subscriber_id).fetch_optional(&self.inner.pool).await;
            let found = row.and_then(|row| row.as_ref().map(checkpoint).transpose());
            found.map_err(|e| failed("read a checkpoint", e))
        })
    }

    fn checkpoints(&self) -> BoxFuture<'_, Result<Vec<Checkpoint>, Error>> {
        Box::pin(async move {
            let rows = sqlx::query(sql::checkpoints).fetch_all(&self.inner.pool).await;
            let found = rows.and_then(|rows| rows.iter().map(checkpoint).collect());
            found.map_err(|e| failed("read checkpoints", e))
        })
    }

    fn store_reports<'a>(&'a self, reports: &'a [Report]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.write_lightly("store reports", PATIENCE, async move |tx| {
            for report in reports {
                store_report(tx, report).await?;
            }
            Ok(())
        }))
    }

    fn reports(&self) -> BoxFuture<'_, Result<Vec<Report>, Error>> {
        Box::pin(async move {
            let rows = sqlx::query(sql::reports).fetch_all(&self.inner.pool).await;
            let rows = rows.map_err(|e| failed("read reports", e))?;
            Ok(rows::readable_reports(rows.iter().map(Named)))
        })
    }
}

async fn store_report(tx: &mut SqliteConnection, report: &Report) -> Result<(), sqlx::Error> {
    let state = StateColumns::of(&report.state);
    let query = sqlx::query(sql::reports_store)
        .bind(&report.subscriber_id)
        .bind(signed(report.term))
        .bind(state.state)
        .bind(signed(report.position))
        .bind(report.rate)
        .bind(state.failing.map(signed))
        .bind(state.failures)
        .bind(state.next_at.map(micros))
        .bind(state.reason)
        .bind(&report.last_error)
        .bind(&report.push_degraded)
        .bind(report.reads.as_ref().map(Filter::to_text))
        .bind(micros(report.reported_at));
    query.execute(tx).await.map(drop)
}

async fn take_over(tx: &mut SqliteConnection, claim: &Claim) -> Result<Option<Taken>, sqlx::Error> {
    let known: bool = sqlx::query_scalar(sql::known).bind(&*claim.subscriber_id).fetch_one(&mut *tx).await?;
    let (term, now) = (draw_term(tx).await?, now());
    let row = sqlx::query(sql::checkpoint_take_over)
        .bind(&*claim.subscriber_id)
        .bind(signed(claim.start))
        .bind(now)
        .bind(signed(term))
        .bind(claim.nonce)
        .bind(claim.start_event)
        .fetch_optional(&mut *tx)
        .await?;
    let Some(row) = row else { return Ok(None) };
    sqlx::query(sql::leader_enter)
        .bind(&*claim.subscriber_id)
        .bind(claim.instance.id)
        .bind(&claim.instance.host)
        .bind(i64::from(claim.instance.pid))
        .bind(&claim.instance.label)
        .bind(now)
        .bind(signed(term))
        .bind(claim.nonce)
        .bind(claim.session)
        .execute(&mut *tx)
        .await?;
    Ok(Some(Taken { checkpoint: checkpoint(&row)?, fresh: !known }))
}

/// A term that was never given before.
pub(crate) async fn draw_term(tx: &mut SqliteConnection) -> Result<u64, sqlx::Error> {
    sqlx::query_scalar(sql::term_draw).fetch_one(tx).await.map(unsigned)
}

async fn store(tx: &mut SqliteConnection, life: u64, write: &CheckpointWrite) -> Result<Option<Refused>, sqlx::Error> {
    let fence = &write.fence;
    if fence.incarnation != life {
        return Ok(Some(Refused::Interrupted));
    }
    let stored = sqlx::query(sql::checkpoint_store_one)
        .bind(&*fence.subscriber_id)
        .bind(signed(fence.term.number))
        .bind(fence.term.nonce)
        .bind(signed(write.global_sequence))
        .bind(write.event_id)
        .bind(now())
        .execute(&mut *tx)
        .await?;
    if stored.rows_affected() == 1 {
        return Ok(None);
    }
    // Another instance's, gone, or further already.
    let row = sqlx::query(sql::fence_term).bind(&*fence.subscriber_id).fetch_optional(tx).await?;
    let Some(row) = row else { return Ok(Some(Refused::Missing)) };
    let holds = term(&row, 0)?;
    Ok((holds != fence.term).then_some(Refused::Superseded { term: holds.number }))
}

/// The term in two neighbouring columns.
pub(crate) fn term(row: &SqliteRow, first: usize) -> Result<Term, sqlx::Error> {
    Ok(Term { number: counted(row.try_get(first)?)?, nonce: row.try_get(first + 1)? })
}

fn checkpoint(row: &SqliteRow) -> Result<Checkpoint, sqlx::Error> {
    let subscriber_id: String = row.try_get(0)?;
    about(readable(row, subscriber_id.clone()), || format!("the checkpoint of {subscriber_id:?}"))
}

fn readable(row: &SqliteRow, subscriber_id: String) -> Result<Checkpoint, sqlx::Error> {
    Ok(Checkpoint {
        subscriber_id,
        global_sequence: counted(row.try_get(1)?)?,
        event_id: row.try_get(2)?,
        updated_at: time(row.try_get(3)?)?,
        term: term(row, 4)?,
        incarnation: unsigned(row.try_get(7)?),
        setup_version: row.try_get(6)?,
    })
}
