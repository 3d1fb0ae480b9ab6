//! Dead letters on SQLite.

use chrono::{DateTime, Utc};
use highwater::Error;
use highwater::backend::{BoxFuture, DeadLetter, DeadLetterDetail, DeadLetterQuery, DeadLetters, rows};
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Row, Sqlite};
use uuid::Uuid;

use crate::checkpoints::PATIENCE;
use crate::error::failed;
use crate::row::{array, counted, micros, read, signed, unsigned};
use crate::sql;
use crate::store::SqliteEventStore;

impl DeadLetters for SqliteEventStore {
    fn parked<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Vec<(Uuid, u64)>, Error>> {
        Box::pin(async move {
            let rows = sqlx::query(sql::parked).bind(subscriber_id).fetch_all(&self.inner.pool).await;
            let parked = rows.and_then(|rows| {
                rows.iter().map(|row| Ok((row.try_get(0)?, counted(row.try_get(1)?)?))).collect::<Result<_, _>>()
            });
            parked.map_err(|e| failed("see which streams are parked", e))
        })
    }

    fn dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<Vec<DeadLetter>, Error>> {
        Box::pin(async move {
            let rows = matching(sql::dead_letters, query)
                .bind(query.after.map(|after| signed(after.global_sequence)))
                .bind(query.after.map(|after| after.id))
                .bind(i64::try_from(query.limit).unwrap_or(i64::MAX))
                .fetch_all(&self.inner.pool)
                .await;
            let dead_letters = rows.and_then(|rows| rows.iter().map(|row| read(row, rows::dead_letter)).collect());
            dead_letters.map_err(|e| failed("list dead letters", e))
        })
    }

    fn count_dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            let row = matching(sql::dead_letters_count, query).fetch_one(&self.inner.pool).await;
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
        Box::pin(self.write("purge dead letters", PATIENCE, async move |tx| {
            let before = micros(before);
            sqlx::query(sql::requests_purge).bind(subscriber_id).bind(before).execute(&mut *tx).await?;
            let purged = sqlx::query(sql::dead_letters_purge).bind(subscriber_id).bind(before).execute(tx).await?;
            Ok(purged.rows_affected())
        }))
    }
}

impl SqliteEventStore {
    async fn detail(&self, id: Uuid) -> Result<Option<DeadLetterDetail>, sqlx::Error> {
        let pool = &self.inner.pool;
        let Some(found) = sqlx::query(sql::dead_letter).bind(id).fetch_optional(pool).await? else { return Ok(None) };
        let dead_letter = read(&found, rows::dead_letter)?;
        let record = self.find(dead_letter.event_id).await?;
        let attempts = sqlx::query(sql::dead_letter_attempts).bind(id).fetch_all(pool).await?;
        let attempts = attempts.iter().map(|row| read(row, rows::attempt)).collect::<Result<_, _>>()?;
        Ok(Some(DeadLetterDetail { dead_letter, record, attempts }))
    }
}

/// A statement whose first arguments say which dead letters are meant.
fn matching<'q>(statement: &'static str, query: &'q DeadLetterQuery) -> Query<'q, Sqlite, SqliteArguments> {
    sqlx::query(statement)
        .bind(&query.subscriber_id)
        .bind(query.stream_id)
        .bind(query.since.map(micros))
        .bind(query.until.map(micros))
        .bind(array(query.states.iter().map(|state| state.name())))
        .bind(&query.event_type)
}
