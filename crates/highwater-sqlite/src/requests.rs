//! Pauses and requests on SQLite.

use highwater::Error;
use highwater::backend::{BoxFuture, Request, RequestColumns, Requests, rows};
use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use uuid::Uuid;

use crate::checkpoints::PATIENCE;
use crate::error::failed;
use crate::row::{Named, array, micros, now, read};
use crate::sql;
use crate::store::SqliteEventStore;

impl Requests for SqliteEventStore {
    fn set_paused<'a>(&'a self, subscriber_id: &'a str, paused: bool) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(self.write("pause or resume a subscriber", PATIENCE, async move |tx| {
            match paused {
                true => sqlx::query(sql::pause).bind(subscriber_id).bind(now()).execute(&mut *tx).await?,
                false => sqlx::query(sql::resume).bind(subscriber_id).execute(&mut *tx).await?,
            };
            sqlx::query_scalar(sql::known).bind(subscriber_id).fetch_one(&mut *tx).await
        }))
    }

    fn paused<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(async move {
            let query = sqlx::query_scalar(sql::paused).bind(array(subscriber_ids));
            query.fetch_all(&self.inner.pool).await.map_err(|e| failed("see which subscribers are paused", e))
        })
    }

    fn file_request<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.write("file a request", PATIENCE, async move |tx| {
            filing(sql::request_file, request).execute(tx).await.map(drop)
        }))
    }

    fn open_requests<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<Request>, Error>> {
        Box::pin(async move {
            let query = sqlx::query(sql::requests_open).bind(array(subscriber_ids));
            let rows = query.fetch_all(&self.inner.pool).await;
            let rows = rows.map_err(|e| failed("list requests", e))?;
            Ok(rows::readable_requests(rows.iter().map(Named)))
        })
    }

    fn all_open_requests<'a>(
        &'a self,
        after: Option<&'a Request>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Request>, Error>> {
        Box::pin(async move {
            let rows = sqlx::query(sql::requests_all_open)
                .bind(after.map(|after| micros(after.requested_at)))
                .bind(after.map(|after| after.id))
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.inner.pool)
                .await;
            let requests = rows.and_then(|rows| rows.iter().map(|row| read(row, rows::request)).collect());
            requests.map_err(|e| failed("list requests", e))
        })
    }

    fn request(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Request>, Error>> {
        Box::pin(async move {
            let row = sqlx::query(sql::request).bind(id).fetch_optional(&self.inner.pool).await;
            let request = row.and_then(|row| row.as_ref().map(|row| read(row, rows::request)).transpose());
            request.map_err(|e| failed("read a request", e))
        })
    }
}

/// A statement that stores a request.
pub(crate) fn filing<'q>(statement: &'static str, request: &'q Request) -> Query<'q, Sqlite, SqliteArguments> {
    let columns = RequestColumns::from(&request.kind);
    sqlx::query(statement)
        .bind(request.id)
        .bind(&request.subscriber_id)
        .bind(columns.kind)
        .bind(columns.dead_letter)
        .bind(columns.stream_id)
        .bind(columns.reason)
        .bind(&request.requested_by)
        .bind(micros(request.requested_at))
}
