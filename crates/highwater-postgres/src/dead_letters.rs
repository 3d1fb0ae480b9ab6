//! Dead letters on PostgreSQL.

use chrono::{DateTime, Utc};
use highwater::Error;
use highwater::backend::{BoxFuture, DeadLetter, DeadLetterDetail, DeadLetterQuery, DeadLetters, rows};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Postgres, Row, SqlStr};
use uuid::Uuid;

use crate::error::failed;
use crate::own_pool::{DoneInTime, InTime, SCAN_TIMEOUT};
use crate::row::{counted, read, signed, unsigned};
use crate::store::PgEventStore;

impl DeadLetters for PgEventStore {
    fn parked<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Vec<(Uuid, u64)>, Error>> {
        Box::pin(async move {
            let query = sqlx::query(self.inner.sql.parked.clone()).bind(subscriber_id);
            let rows = query.fetch_all_in_time(&self.inner.own_pool).await;
            let parked = rows.and_then(|rows| {
                rows.iter().map(|row| Ok((row.try_get(0)?, counted(row.try_get(1)?)?))).collect::<Result<_, _>>()
            });
            parked.map_err(|e| failed("see which streams are parked", e))
        })
    }

    fn dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<Vec<DeadLetter>, Error>> {
        Box::pin(async move {
            let rows = matching(&self.inner.sql.dead_letters, query)
                .bind(query.after.map(|after| signed(after.global_sequence)))
                .bind(query.after.map(|after| after.id))
                .bind(i64::try_from(query.limit).unwrap_or(i64::MAX))
                .fetch_all_in_time(&self.inner.own_pool)
                .await;
            let dead_letters = rows.and_then(|rows| rows.iter().map(|row| read(row, rows::dead_letter)).collect());
            dead_letters.map_err(|e| failed("list dead letters", e))
        })
    }

    fn count_dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            let row = matching(&self.inner.sql.dead_letters_count, query).fetch_one_in_time(&self.inner.own_pool).await;
            Ok(unsigned(row.and_then(|row| row.try_get(0)).map_err(|e| failed("count dead letters", e))?))
        })
    }

    fn dead_letter(&self, id: Uuid) -> BoxFuture<'_, Result<Option<DeadLetterDetail>, Error>> {
        Box::pin(async move { self.detail(id).await.map_err(|e| failed("read a dead letter", e)) })
    }

    fn purge_dead_letters<'a>(
        &'a self,
        subscriber_id: &'a str,
        before: DateTime<Utc>,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            let query = sqlx::query(self.inner.sql.dead_letters_purge.clone()).bind(subscriber_id).bind(before);
            let pool = self.inner.own_pool.within(SCAN_TIMEOUT);
            let done = query.execute_in_time(&pool).await.map_err(|e| self.failed("purge dead letters", e))?;
            Ok(done.rows_affected())
        })
    }
}

impl PgEventStore {
    async fn detail(&self, id: Uuid) -> Result<Option<DeadLetterDetail>, sqlx::Error> {
        let (sql, pool) = (&self.inner.sql, &self.inner.own_pool);
        let Some(found) = sqlx::query(sql.dead_letter.clone()).bind(id).fetch_optional_in_time(pool).await? else {
            return Ok(None);
        };
        let dead_letter = read(&found, rows::dead_letter)?;
        let record = self.find(dead_letter.event_id).await?;
        let attempts = sqlx::query(sql.dead_letter_attempts.clone()).bind(id).fetch_all_in_time(pool).await?;
        let attempts = attempts.iter().map(|row| read(row, rows::attempt)).collect::<Result<_, _>>()?;
        Ok(Some(DeadLetterDetail { dead_letter, record, attempts }))
    }
}

/// A statement whose first arguments say which dead letters are meant.
fn matching<'q>(statement: &SqlStr, query: &'q DeadLetterQuery) -> Query<'q, Postgres, PgArguments> {
    let states: Vec<&str> = query.states.iter().map(|state| state.name()).collect();
    sqlx::query(statement.clone())
        .bind(&query.subscriber_id)
        .bind(query.stream_id)
        .bind(query.since)
        .bind(query.until)
        .bind(states)
        .bind(&query.event_type)
}
