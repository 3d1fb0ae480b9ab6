//! What is filled in, one transaction a batch.

use std::collections::HashMap;

use highwater::backend::{Batch, BoxFuture, FilledCheckpoint, Filling, Record, Request, RequestColumns, Wakeups};
use highwater::backend::{DeadLetterDetail, columns};
use highwater::transfer::check_records;
use highwater::{Error, Invalid, StreamName};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};

use uuid::Uuid;

use crate::error::{failed, is_lost, sqlstate};
use crate::row::{counted, signed};
use crate::store::PgEventStore;
use crate::write::{Events, Statement};

pub(super) struct PgFilling {
    store: PgEventStore,
    /// Holds the lock of the filling, for as long as it lasts.
    connection: PgConnection,
    source: String,
    filled_to: u64,
}

impl PgFilling {
    pub(super) fn new(store: PgEventStore, connection: PgConnection, source: String) -> Self {
        Self { store, connection, source, filled_to: 0 }
    }

    /// Locks other writers out, if the store is empty.
    pub(super) async fn begin(&mut self) -> Result<(), Error> {
        let sql = &self.store.inner.sql;
        let mut tx = self.connection.begin().await.map_err(unfilled)?;
        sqlx::query(sql.filling_tables.clone()).execute(&mut *tx).await.map_err(unfilled)?;
        // After the lock: earlier writers have ended, and are visible.
        let row = sqlx::query(sql.filling_found.clone()).fetch_one(&mut *tx).await.map_err(unfilled)?;
        if let Some(refusal) = columns::not_empty(|column| row.try_get(column)).map_err(unfilled)? {
            tx.rollback().await.map_err(unfilled)?;
            return Err(refusal);
        }
        sqlx::query(sql.filling_begin.clone()).bind(&self.source).execute(&mut *tx).await.map_err(unfilled)?;
        sqlx::query(sql.filling_guard.clone()).bind(true).execute(&mut *tx).await.map_err(unfilled)?;
        tx.commit().await.map_err(uncommitted)
    }

    /// Resumes an interrupted filling. Subscribers' positions are stored again.
    pub(super) async fn resume(&mut self, filled_to: u64) -> Result<(), Error> {
        self.filled_to = filled_to;
        let clear = self.store.inner.sql.filling_clear.clone();
        self.write(vec![sqlx::query(clear)], filled_to).await
    }

    /// Does all of it in one transaction, in which the triggers let us through.
    async fn write(&mut self, statements: Vec<Statement<'_>>, filled_to: u64) -> Result<(), Error> {
        let sql = &self.store.inner.sql;
        let mut tx = self.connection.begin().await.map_err(unfilled)?;
        let open = sqlx::query(sql.filling_open.clone()).bind(&self.source).execute(&mut *tx).await;
        if open.map_err(unfilled)?.rows_affected() != 1 {
            let reason = "the filling was finished or abandoned by another process".to_owned();
            return Err(Error::Interrupted { reason });
        }
        for statement in statements {
            statement.execute(&mut *tx).await.map_err(unfilled)?;
        }
        let close = sqlx::query(sql.filling_close.clone()).bind(signed(filled_to));
        close.execute(&mut *tx).await.map_err(unfilled)?;
        tx.commit().await.map_err(uncommitted)
    }

    /// The versions of streams that the records continue.
    async fn heads(&mut self, records: &[Record]) -> Result<HashMap<Uuid, u64>, Error> {
        let streams = columns::continued(records);
        if streams.is_empty() {
            return Ok(HashMap::new());
        }
        let heads = sqlx::query(self.store.inner.sql.heads.clone()).bind(streams);
        let rows = heads.fetch_all(&mut self.connection).await.map_err(unfilled)?;
        let head = |row: &sqlx::postgres::PgRow| Ok((row.try_get(0)?, counted(row.try_get(1)?)?));
        rows.iter().map(head).collect::<Result<_, sqlx::Error>>().map_err(unfilled)
    }

    async fn put_records(&mut self, records: &[Record]) -> Result<(), Error> {
        let heads = self.heads(records).await?;
        check_records(records, self.filled_to, |stream_id| heads.get(&stream_id).copied().unwrap_or(0))?;
        let Some(last) = records.last().map(|last| last.global_sequence) else { return Ok(()) };
        let sql = self.store.inner.sql.clone();
        let numbers = sqlx::query(sql.filling_numbers.clone()).bind(signed(last));
        let rows = sqlx::query(sql.filling_records.clone())
            .bind(column(records, |record| signed(record.global_sequence)))
            .bind(column(records, |record| record.stream_id))
            .bind(column(records, |record| signed(record.stream_version)))
            .bind(column(records, |record| record.stream_name.as_ref().map(StreamName::as_str)));
        let events = Events::numbered(records);
        self.write(vec![numbers, events.bind_json_to(rows)], last).await?;
        self.filled_to = last;
        Ok(())
    }

    async fn put_checkpoints(&mut self, checkpoints: &[FilledCheckpoint]) -> Result<(), Error> {
        let sql = self.store.inner.sql.clone();
        let rows = sqlx::query(sql.filling_checkpoints.clone())
            .bind(column(checkpoints, |checkpoint| checkpoint.subscriber_id.as_str()))
            .bind(column(checkpoints, |checkpoint| signed(checkpoint.global_sequence)))
            .bind(column(checkpoints, |checkpoint| checkpoint.event_id))
            .bind(column(checkpoints, |checkpoint| checkpoint.updated_at));
        let paused = checkpoints.iter().filter(|checkpoint| checkpoint.paused);
        let paused: Vec<&str> = paused.map(|checkpoint| checkpoint.subscriber_id.as_str()).collect();
        let pauses = sqlx::query(sql.filling_pauses.clone()).bind(paused);
        self.write(vec![rows, pauses], self.filled_to).await
    }

    async fn put_dead_letters(&mut self, details: &[DeadLetterDetail]) -> Result<(), Error> {
        let sql = self.store.inner.sql.clone();
        let rows = sqlx::query(sql.filling_dead_letters.clone())
            .bind(column(details, |detail| detail.dead_letter.id))
            .bind(column(details, |detail| detail.dead_letter.subscriber_id.as_str()))
            .bind(column(details, |detail| detail.dead_letter.event_id))
            .bind(column(details, |detail| signed(detail.dead_letter.global_sequence)))
            .bind(column(details, |detail| detail.dead_letter.stream_id))
            .bind(column(details, |detail| detail.dead_letter.event_type.as_str()))
            .bind(column(details, |detail| detail.dead_letter.error_message.as_deref()))
            .bind(column(details, |detail| detail.dead_letter.retry_count.cast_signed()))
            .bind(column(details, |detail| detail.dead_letter.created_at))
            .bind(column(details, |detail| detail.dead_letter.last_retry_at))
            .bind(column(details, |detail| detail.dead_letter.state.name()))
            .bind(column(details, |detail| detail.dead_letter.parks))
            .bind(column(details, |detail| detail.dead_letter.resolved_at))
            .bind(column(details, |detail| detail.dead_letter.resolved_by.as_deref()))
            .bind(column(details, |detail| detail.dead_letter.reason.as_deref()));
        let of_dead_letter =
            |detail: &'_ DeadLetterDetail| detail.attempts.iter().map(|_| detail.dead_letter.id).collect::<Vec<Uuid>>();
        let dead_letters: Vec<Uuid> = details.iter().flat_map(of_dead_letter).collect();
        let attempts: Vec<_> = details.iter().flat_map(|detail| &detail.attempts).collect();
        let attempts = sqlx::query(sql.filling_attempts.clone())
            .bind(dead_letters)
            .bind(column(&attempts, |attempt| attempt.at))
            .bind(column(&attempts, |attempt| attempt.by.as_str()))
            .bind(column(&attempts, |attempt| attempt.outcome.as_str()))
            .bind(column(&attempts, |attempt| attempt.detail.as_deref()));
        self.write(vec![rows, attempts], self.filled_to).await
    }

    async fn put_requests(&mut self, requests: &[Request]) -> Result<(), Error> {
        let columns: Vec<_> = requests.iter().map(|request| RequestColumns::from(&request.kind)).collect();
        let rows = sqlx::query(self.store.inner.sql.filling_requests.clone())
            .bind(column(requests, |request| request.id))
            .bind(column(requests, |request| request.subscriber_id.as_str()))
            .bind(column(&columns, |columns| columns.kind))
            .bind(column(&columns, |columns| columns.dead_letter))
            .bind(column(&columns, |columns| columns.stream_id))
            .bind(column(&columns, |columns| columns.reason))
            .bind(column(requests, |request| request.requested_by.as_str()))
            .bind(column(requests, |request| request.requested_at));
        self.write(vec![rows], self.filled_to).await
    }

    /// Names the transactions that have touched the sequence, which abandoning waits for.
    async fn with_holders(&self, error: Error) -> Error {
        let Error::Unavailable { action, source } = error else { return error };
        // Without an answer there is only the error itself.
        let writers = highwater::backend::Log::open_writers(&self.store).await.unwrap_or_default();
        match &writers[..] {
            [] => Error::Unavailable { action, source },
            [writer, ..] => {
                let said = format!("{source}; {writer} is open, and has to end first");
                Error::Unavailable { action, source: said.into() }
            }
        }
    }

    /// Drops what was filled in, if that is wanted, and the lock.
    async fn end(mut self, drop: bool) -> Result<PgEventStore, Error> {
        let sql = self.store.inner.sql.clone();
        let mut statements = Vec::new();
        if drop {
            // What has to wait for strangers comes first: from TRUNCATE on, readers would wait as well.
            statements.push(sqlx::query(sql.filling_restart.clone()));
            statements.push(sqlx::query(sql.filling_drop.clone()));
        }
        statements.push(sqlx::query(sql.filling_guard.clone()).bind(false));
        statements.push(sqlx::query(sql.filling_end.clone()));
        if let Err(error) = self.write(statements, 0).await {
            return Err(self.with_holders(error).await);
        }
        // The next caller should not wait until the server notices.
        self.connection.close().await.map_err(unfilled)?;
        Ok(self.store)
    }
}

fn column<'a, T, U>(rows: &'a [T], value: impl Fn(&'a T) -> U) -> Vec<U> {
    rows.iter().map(value).collect()
}

fn unfilled(error: sqlx::Error) -> Error {
    match sqlstate(&error).as_deref() {
        // A unique index, or another constraint: what is wrong is in what was given.
        Some(code) if code.starts_with("23") || code.starts_with("22") => {
            let found = error.as_database_error();
            let detail = found.and_then(|found| found.try_downcast_ref::<sqlx::postgres::PgDatabaseError>()?.detail());
            let said = detail.map_or_else(|| error.to_string(), str::to_owned);
            Invalid::Filling(said).into()
        }
        Some("55P03") => Error::Unavailable { action: "fill the store: another process uses it", source: error.into() },
        _ => failed("fill the store", error),
    }
}

fn uncommitted(error: sqlx::Error) -> Error {
    if is_lost(&error) { Error::UnknownOutcome { source: error.into() } } else { unfilled(error) }
}

impl Filling for PgFilling {
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
