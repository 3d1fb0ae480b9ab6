//! Pauses and requests on PostgreSQL.

use highwater::Error;
use highwater::backend::{BoxFuture, Request, RequestColumns, Requests, rows};
use uuid::Uuid;

use crate::error::failed;
use crate::own_pool::{DoneInTime, InTime};
use crate::row::{Named, read};
use crate::store::PgEventStore;

impl Requests for PgEventStore {
    fn set_paused<'a>(&'a self, subscriber_id: &'a str, paused: bool) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let statement = if paused { &self.inner.sql.pause } else { &self.inner.sql.resume };
            let known =
                sqlx::query_scalar(statement.clone()).bind(subscriber_id).fetch_one_in_time(&self.inner.own_pool).await;
            known.map_err(|e| self.failed("pause or resume a subscriber", e))
        })
    }

    fn paused<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(async move {
            let query = sqlx::query_scalar(self.inner.sql.paused.clone()).bind(subscriber_ids);
            let paused = query.fetch_all_in_time(&self.inner.housekeeping).await;
            paused.map_err(|e| failed("see which subscribers are paused", e))
        })
    }

    fn file_request<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let columns = RequestColumns::from(&request.kind);
            let filed = sqlx::query(self.inner.sql.request_file.clone())
                .bind(request.id)
                .bind(&request.subscriber_id)
                .bind(columns.kind)
                .bind(columns.dead_letter)
                .bind(columns.stream_id)
                .bind(columns.reason)
                .bind(&request.requested_by)
                .bind(request.requested_at)
                .execute_in_time(&self.inner.own_pool)
                .await;
            filed.map(|_| ()).map_err(|e| self.failed("file a request", e))
        })
    }

    fn open_requests<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<Request>, Error>> {
        Box::pin(async move {
            let query = sqlx::query(self.inner.sql.requests_open.clone()).bind(subscriber_ids);
            let rows = query.fetch_all_in_time(&self.inner.housekeeping).await;
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
            let rows = sqlx::query(self.inner.sql.requests_all_open.clone())
                .bind(after.map(|after| after.requested_at))
                .bind(after.map(|after| after.id))
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all_in_time(&self.inner.own_pool)
                .await;
            let requests = rows.and_then(|rows| rows.iter().map(|row| read(row, rows::request)).collect());
            requests.map_err(|e| failed("list requests", e))
        })
    }

    fn request(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Request>, Error>> {
        Box::pin(async move {
            let query = sqlx::query(self.inner.sql.request.clone()).bind(id);
            let row = query.fetch_optional_in_time(&self.inner.own_pool).await;
            let request = row.and_then(|row| row.as_ref().map(|row| read(row, rows::request)).transpose());
            request.map_err(|e| failed("read a request", e))
        })
    }
}
