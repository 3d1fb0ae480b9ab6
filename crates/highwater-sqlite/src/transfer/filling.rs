//! What is filled in, one transaction a batch.

use std::collections::HashMap;
use std::time::Duration;

use highwater::backend::{Batch, BoxFuture, FilledCheckpoint, Filling, Record, Request, Wakeups};
use highwater::backend::{DeadLetterDetail, columns};
use highwater::transfer::check_records;
use highwater::{Error, Invalid};
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments, Row};
use uuid::Uuid;

use crate::checkpoints::draw_term;
use crate::error::{Code, code, commit_failed, failed};
use crate::leadership::Lock;
use crate::requests::filing;
use crate::row::{self, micros, now, signed};
use crate::sql::{self, Inserts};
use crate::store::SqliteEventStore;
use crate::unit_of_work::SqliteTx;
use crate::write::Columns;

/// How long to wait for another transaction.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct SqliteFilling {
    store: SqliteEventStore,
    /// No other process fills while this is there.
    lock: Lock,
    source: String,
    filled_to: u64,
    inserts: Inserts,
}

impl SqliteFilling {
    pub(super) fn new(store: SqliteEventStore, lock: Lock, source: String) -> Self {
        Self { store, lock, source, filled_to: 0, inserts: Inserts::new() }
    }

    /// Locks other writers out, if the store is empty.
    pub(super) async fn begin(&mut self) -> Result<(), Error> {
        let mut tx = self.store.write_transaction("a filling", PATIENCE).await?;
        let begun = begin(&mut tx, &self.source).await;
        end(tx, begun).await
    }

    /// Resumes an interrupted filling. Subscribers' positions are stored again.
    pub(super) async fn resume(&mut self, filled_to: u64) -> Result<(), Error> {
        self.filled_to = filled_to;
        self.write(filled_to, async |tx| sqlx::raw_sql(sql::filling_clear).execute(tx).await.map(drop)).await
    }

    /// Does all of it in one transaction, in which the triggers let us through.
    async fn write(
        &self,
        filled_to: u64,
        writing: impl AsyncFnOnce(&mut SqliteConnection) -> Result<(), sqlx::Error>,
    ) -> Result<(), Error> {
        let mut tx = self.store.write_transaction("a filling", PATIENCE).await?;
        let written = self.write_on(&mut tx, filled_to, writing).await;
        end(tx, written).await
    }

    async fn write_on(
        &self,
        tx: &mut SqliteConnection,
        filled_to: u64,
        writing: impl AsyncFnOnce(&mut SqliteConnection) -> Result<(), sqlx::Error>,
    ) -> Result<(), Error> {
        let open = sqlx::query(sql::filling_open).bind(&self.source).execute(&mut *tx).await.map_err(unfilled)?;
        if open.rows_affected() != 1 {
            let reason = "the filling was finished or abandoned by another process".to_owned();
            return Err(Error::Interrupted { reason });
        }
        writing(&mut *tx).await.map_err(unfilled)?;
        sqlx::query(sql::filling_close).bind(signed(filled_to)).execute(tx).await.map_err(unfilled)?;
        Ok(())
    }

    /// The versions of streams that the records continue.
    async fn heads(&self, records: &[Record]) -> Result<HashMap<Uuid, u64>, Error> {
        let streams = columns::continued(records);
        if streams.is_empty() {
            return Ok(HashMap::new());
        }
        let heads = sqlx::query(sql::heads).bind(row::ids(streams.iter().copied()));
        let heads = heads.fetch_one(&self.store.inner.pool).await.and_then(|row| row.try_get::<String, _>(0));
        let heads: Vec<(u64, Option<String>)> = serde_json::from_str(&heads.map_err(unfilled)?)
            .map_err(|error| unfilled(sqlx::Error::Decode(error.into())))?;
        Ok(streams.into_iter().zip(heads).map(|(stream, (head, _))| (stream, head)).collect())
    }

    async fn put_records(&mut self, records: &[Record]) -> Result<(), Error> {
        let heads = self.heads(records).await?;
        check_records(records, self.filled_to, |stream_id| heads.get(&stream_id).copied().unwrap_or(0))?;
        let Some(last) = records.last().map(|last| last.global_sequence) else { return Ok(()) };
        self.write(last, async |tx| insert(tx, &self.inserts, records).await).await?;
        self.filled_to = last;
        Ok(())
    }

    async fn put_checkpoints(&self, checkpoints: &[FilledCheckpoint]) -> Result<(), Error> {
        self.write(self.filled_to, async |tx| {
            for checkpoint in checkpoints {
                // Terms are new ones: there are no leaders here.
                let term = draw_term(tx).await?;
                let row = sqlx::query(sql::filling_checkpoints)
                    .bind(&checkpoint.subscriber_id)
                    .bind(signed(checkpoint.global_sequence))
                    .bind(checkpoint.event_id)
                    .bind(micros(checkpoint.updated_at))
                    .bind(signed(term))
                    .bind(Uuid::from_u128(fastrand::u128(..)));
                row.execute(&mut *tx).await?;
                if checkpoint.paused {
                    let pause = sqlx::query(sql::filling_pauses).bind(&checkpoint.subscriber_id).bind(now());
                    pause.execute(&mut *tx).await?;
                }
            }
            Ok(())
        })
        .await
    }

    async fn put_dead_letters(&self, details: &[DeadLetterDetail]) -> Result<(), Error> {
        self.write(self.filled_to, async |tx| {
            for detail in details {
                let dead_letter = &detail.dead_letter;
                let row = sqlx::query(sql::filling_dead_letters)
                    .bind(dead_letter.id)
                    .bind(&dead_letter.subscriber_id)
                    .bind(dead_letter.event_id)
                    .bind(signed(dead_letter.global_sequence))
                    .bind(dead_letter.stream_id)
                    .bind(&dead_letter.event_type)
                    .bind(&dead_letter.error_message)
                    .bind(dead_letter.retry_count)
                    .bind(micros(dead_letter.created_at))
                    .bind(dead_letter.last_retry_at.map(micros))
                    .bind(dead_letter.state.name())
                    .bind(dead_letter.parks)
                    .bind(dead_letter.resolved_at.map(micros))
                    .bind(&dead_letter.resolved_by)
                    .bind(&dead_letter.reason);
                row.execute(&mut *tx).await?;
                for attempt in &detail.attempts {
                    let row = sqlx::query(sql::dead_letter_attempt)
                        .bind(dead_letter.id)
                        .bind(micros(attempt.at))
                        .bind(&attempt.by)
                        .bind(&attempt.outcome)
                        .bind(&attempt.detail);
                    row.execute(&mut *tx).await?;
                }
            }
            Ok(())
        })
        .await
    }

    async fn put_requests(&self, requests: &[Request]) -> Result<(), Error> {
        self.write(self.filled_to, async |tx| {
            for request in requests {
                filing(sql::filling_requests, request).execute(&mut *tx).await?;
            }
            Ok(())
        })
        .await
    }

    /// Drops what was filled in, if that is wanted, and the lock.
    async fn end(self, drop: bool) -> Result<SqliteEventStore, Error> {
        self.write(0, async |tx| {
            if drop {
                sqlx::raw_sql(sql::filling_clear).execute(&mut *tx).await?;
                sqlx::query(sql::filling_drop).execute(&mut *tx).await?;
                sqlx::query(sql::filling_restart).execute(&mut *tx).await?;
            }
            sqlx::raw_sql(sql::filling_unguard).execute(&mut *tx).await?;
            sqlx::query(sql::filling_end).execute(tx).await.map(std::mem::drop)
        })
        .await?;
        self.lock.release(None);
        Ok(self.store)
    }
}

async fn begin(tx: &mut SqliteConnection, source: &str) -> Result<(), Error> {
    let row = sqlx::query(sql::filling_found).fetch_one(&mut *tx).await.map_err(unfilled)?;
    if let Some(refusal) = columns::not_empty(|column| row.try_get(column)).map_err(unfilled)? {
        return Err(refusal);
    }
    sqlx::query(sql::filling_begin).bind(source).bind(now()).execute(&mut *tx).await.map_err(unfilled)?;
    sqlx::raw_sql(sql::filling_guard).execute(tx).await.map_err(unfilled)?;
    Ok(())
}

/// Keeps what was done, or takes it back.
async fn end(tx: SqliteTx, done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Ok(()) => tx.commit().await.map_err(|e| commit_failed("fill the store", e)),
        Err(error) => {
            tx.roll_back().await;
            Err(error)
        }
    }
}

async fn insert(tx: &mut SqliteConnection, inserts: &Inserts, mut records: &[Record]) -> Result<(), sqlx::Error> {
    while !records.is_empty() {
        let (statement, count) = inserts.for_some_of(records.len());
        let (some, rest) = records.split_at(count);
        let mut arguments = SqliteArguments::default();
        arguments.reserve(count * Columns::NAMES.len(), 0);
        for record in some {
            Columns::numbered(record).add_to(&mut arguments)?;
        }
        sqlx::query_with(statement, arguments).execute(&mut *tx).await?;
        records = rest;
    }
    Ok(())
}

fn unfilled(error: sqlx::Error) -> Error {
    match code(&error) {
        // What is wrong is in what was given.
        Some(Code::Unique | Code::Constraint) => Invalid::Filling(error.to_string()).into(),
        _ => failed("fill the store", error),
    }
}

impl Filling for SqliteFilling {
    fn filled_to(&self) -> u64 {
        self.filled_to
    }

    fn put<'a>(&'a mut self, batch: Batch<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            batch.check()?;
            match batch {
                Batch::Records(records) => self.put_records(records).await,
                Batch::Checkpoints(checkpoints) => self.put_checkpoints(checkpoints).await,
                Batch::DeadLetters(dead_letters) => self.put_dead_letters(dead_letters).await,
                Batch::Requests(requests) => self.put_requests(requests).await,
            }
        })
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            let filled_to = self.filled_to;
            self.end(false).await?.announce(filled_to);
            Ok(())
        })
    }

    fn abandon(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move { self.end(true).await.map(drop) })
    }
}
