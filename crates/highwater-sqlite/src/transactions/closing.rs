//! The end of a fenced transaction: what it is about, and then the fence, as the last statement before the COMMIT.
//!
//! A handler can end its transaction without meaning to: a conflict clause `OR ROLLBACK`, a full disk. What is executed
//! then stands by itself, outside of any transaction. So every closing makes sure that it is still the same one before it
//! changes anything.

use highwater::Error;
use highwater::backend::{Closed, Closing, Fence, NewDeadLetter, Term};
use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use uuid::Uuid;

use crate::checkpoints::draw_term;
use crate::error::{Code, code, failed};
use crate::gate::ENDED_INSIDE;
use crate::row::{micros, now, signed, unsigned};
use crate::sql;
use crate::unit_of_work::SqliteTx;

/// What closing gives, or `None` when the fence does not hold any more.
pub(super) async fn close(tx: &mut SqliteTx, fence: &Fence, closing: Closing<'_>) -> Result<Option<Closed>, Error> {
    let mut open = Open { tx, fence };
    let advances = matches!(closing, Closing::Advance { .. });
    // What only moves the checkpoint does nothing where it is not.
    if !advances {
        open.is_still_open().await?;
    }
    let parked_left = match closing {
        Closing::Bury { dead_letter, .. } => open.bury(dead_letter).await?,
        Closing::Replayed { dead_letter, by } => {
            open.dead_letter(dead_letter, sql::dead_letter_replayed, "replayed", by, None).await?
        }
        Closing::ReplayFailed { dead_letter, by, error } => {
            open.dead_letter(dead_letter, sql::dead_letter_failed, "failed", by, Some(error)).await?
        }
        Closing::Discarded { dead_letter, by, reason } => {
            open.dead_letter(dead_letter, sql::dead_letter_discarded, "discarded", by, Some(reason)).await?
        }
        Closing::Finished { request, outcome } => {
            let finished = sqlx::query(sql::request_finish)
                .bind(request)
                .bind(&*fence.subscriber_id)
                .bind(outcome.finished_at.map_or_else(now, micros))
                .bind(signed(outcome.done))
                .bind(signed(outcome.failed))
                .bind(&outcome.error);
            let finished = finished.execute(&mut **open.tx).await.map_err(|e| failed("finish a request", e))?;
            if finished.rows_affected() == 0 {
                return Err(Error::NotFound { what: "request", id: request });
            }
            0
        }
        Closing::Reset { by, to, .. } => open.archive(by, to).await?,
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
    let term = term.map_err(|error| match code(&error) {
        Some(Code::Constraint | Code::Unique) => Error::Aborted { source: error.into() },
        _ => failed("close a transaction", error),
    })?;
    if term.is_none() && advances {
        open.is_still_open().await?;
    }
    Ok(term.map(|term| Closed { term, parked_left }))
}

struct Open<'a> {
    tx: &'a mut SqliteTx,
    fence: &'a Fence,
}

impl Open<'_> {
    /// Whether this is still the transaction that was begun.
    async fn is_still_open(&mut self) -> Result<(), Error> {
        let number = self.tx.number;
        let opened: Option<bool> = sqlx::query_scalar(sql::fence_opened)
            .bind(&*self.fence.subscriber_id)
            .bind(number)
            .fetch_optional(&mut **self.tx)
            .await
            .map_err(|e| failed("close a transaction", e))?;
        // Deleted by the handler: then the fence reports it.
        if opened == Some(false) {
            return Err(Error::Aborted { source: ENDED_INSIDE.into() });
        }
        Ok(())
    }

    async fn bury(&mut self, dead_letter: &NewDeadLetter) -> Result<u64, Error> {
        let bury = sqlx::query(sql::dead_letter_bury)
            .bind(Uuid::now_v7())
            .bind(&*self.fence.subscriber_id)
            .bind(dead_letter.event_id)
            .bind(signed(dead_letter.global_sequence))
            .bind(dead_letter.stream_id)
            .bind(&dead_letter.event_type)
            .bind(&dead_letter.error_message)
            .bind(dead_letter.retry_count)
            .bind(dead_letter.state().name())
            .bind(dead_letter.parks)
            .bind(now());
        bury.execute(&mut **self.tx).await.map_err(|e| failed("write a dead letter", e))?;
        self.parking(dead_letter.stream_id).await
    }

    /// Records what has become of an open dead letter.
    async fn dead_letter(
        &mut self,
        dead_letter: Uuid,
        statement: &'static str,
        outcome: &str,
        by: &str,
        detail: Option<&str>,
    ) -> Result<u64, Error> {
        let update_failed = |e| failed("update a dead letter", e);
        let now = now();
        let update = sqlx::query_scalar(statement)
            .bind(dead_letter)
            .bind(&*self.fence.subscriber_id)
            .bind(by)
            .bind(now)
            .bind(detail);
        let stream_id = update.fetch_optional(&mut **self.tx).await.map_err(update_failed)?;
        let stream_id = stream_id.ok_or(Error::NotFound { what: "open dead letter", id: dead_letter })?;
        let attempt =
            sqlx::query(sql::dead_letter_attempt).bind(dead_letter).bind(now).bind(by).bind(outcome).bind(detail);
        attempt.execute(&mut **self.tx).await.map_err(update_failed)?;
        self.parking(stream_id).await
    }

    /// Archives the open dead letters beyond a position: none of them parks a stream any more.
    async fn archive(&mut self, by: &str, beyond: u64) -> Result<u64, Error> {
        for statement in [sql::dead_letters_archive_attempts, sql::dead_letters_archive] {
            let archive = sqlx::query(statement).bind(&*self.fence.subscriber_id).bind(by).bind(now());
            let archive = archive.bind(signed(beyond)).execute(&mut **self.tx).await;
            archive.map_err(|e| failed("archive dead letters", e))?;
        }
        Ok(0)
    }

    /// How many open dead letters park a stream.
    async fn parking(&mut self, stream_id: Uuid) -> Result<u64, Error> {
        let count = sqlx::query_scalar(sql::dead_letters_parking).bind(&*self.fence.subscriber_id).bind(stream_id);
        Ok(unsigned(count.fetch_one(&mut **self.tx).await.map_err(|e| failed("count dead letters", e))?))
    }

    /// A statement whose first arguments are the fence and the transaction.
    fn fenced(&self, statement: &'static str) -> Query<'static, Sqlite, SqliteArguments> {
        sqlx::query(statement)
            .bind(self.fence.subscriber_id.to_string())
            .bind(signed(self.fence.term.number))
            .bind(self.fence.term.nonce)
            .bind(self.tx.number)
    }

    async fn advance(&mut self, from: u64, to: u64, event_id: Option<Uuid>) -> Result<Option<Term>, sqlx::Error> {
        let update = self.fenced(sql::fence_move).bind(signed(from)).bind(signed(to)).bind(event_id).bind(now());
        self.one(update, self.fence.term).await
    }

    async fn keep(&mut self) -> Result<Option<Term>, sqlx::Error> {
        let update = self.fenced(sql::fence_keep).bind(now());
        self.one(update, self.fence.term).await
    }

    async fn set_up(&mut self, version: u32) -> Result<Option<Term>, sqlx::Error> {
        let update = self.fenced(sql::fence_set_up).bind(now()).bind(version);
        self.one(update, self.fence.term).await
    }

    async fn reset(&mut self, to: u64, nonce: Uuid, setup_version: Option<u32>) -> Result<Option<Term>, sqlx::Error> {
        let term = Term { number: draw_term(self.tx).await?, nonce };
        let leader = sqlx::query(sql::fence_leader)
            .bind(&*self.fence.subscriber_id)
            .bind(signed(term.number))
            .bind(term.nonce)
            .bind(self.fence.term.nonce);
        leader.execute(&mut **self.tx).await?;
        let update =
            self.fenced(sql::fence_reset).bind(signed(to)).bind(now()).bind(signed(term.number)).bind(term.nonce);
        let update = update.bind(setup_version);
        self.one(update, term).await
    }

    async fn remove(&mut self) -> Result<Option<Term>, sqlx::Error> {
        for statement in [sql::requests_remove, sql::resume, sql::report_remove, sql::leader_remove] {
            sqlx::query(statement).bind(&*self.fence.subscriber_id).execute(&mut **self.tx).await?;
        }
        let delete = self.fenced(sql::fence_remove);
        self.one(delete, self.fence.term).await
    }

    /// The term holds if exactly one row was there.
    async fn one(
        &mut self,
        update: Query<'static, Sqlite, SqliteArguments>,
        term: Term,
    ) -> Result<Option<Term>, sqlx::Error> {
        let done = update.execute(&mut **self.tx).await?;
        Ok((done.rows_affected() == 1).then_some(term))
    }
}
