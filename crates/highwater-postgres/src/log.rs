//! The log on PostgreSQL.

use std::time::Duration;

use highwater::backend::{
    BoxFuture, Direction, Log, NEWEST_AMONG, NamedStream, OpenWriter, Page, ReadLimit, Record, StreamPage, StreamRead,
    columns,
};
use highwater::{Append, Appended, Error, Filter, Upcasters};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};
use uuid::Uuid;

use crate::error::{failed, in_time};
use crate::own_pool::{InTime, SCAN_TIMEOUT};
use crate::reader::READ_TIMEOUT;
use crate::row::{self, Stopped, signed, unsigned};
use crate::store::PgEventStore;

/// Records of one statement, whatever the caller asks for.
const STREAM_EVENTS_MAX: usize = 20_000;

impl Log for PgEventStore {
    fn append<'a>(&'a self, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let prepared = self.prepare(append)?;
            self.inner.appender.append(prepared).await
        })
    }

    fn read_stream(&self, stream_id: Uuid, read: StreamRead) -> BoxFuture<'_, Result<StreamPage, Error>> {
        Box::pin(self.stream_page(stream_id, read))
    }

    fn read_all<'a>(&'a self, after: u64, filter: &'a Filter, limit: ReadLimit) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(self.inner.readers.read(after, filter, limit))
    }

    fn streams<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a NamedStream>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<NamedStream>, Error>> {
        Box::pin(async move {
            let rows = sqlx::query(self.inner.sql.streams.clone())
                .bind(prefix)
                .bind(columns::after_prefix(prefix))
                .bind(after.map(|after| after.name.as_str()))
                .bind(after.map(|after| after.stream_id))
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all_in_time(&self.inner.own_pool.within(SCAN_TIMEOUT))
                .await;
            let streams = rows.and_then(|rows| rows.iter().map(named_stream).collect());
            streams.map_err(|e| failed("list streams", e))
        })
    }

    fn record(&self, event_id: Uuid) -> BoxFuture<'_, Result<Option<Record>, Error>> {
        Box::pin(async move { self.find(event_id).await.map_err(|e| failed("look up an event", e)) })
    }

    fn head(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            let head: i64 = sqlx::query_scalar(self.inner.sql.head.clone())
                .fetch_one_in_time(&self.inner.own_pool)
                .await
                .map_err(|e| failed("read the head of the log", e))?;
            Ok(unsigned(head))
        })
    }

    fn life(&self) -> BoxFuture<'_, Result<u64, Error>> {
        let looking = async |connection: &mut PgConnection| self.inner.connector.life(connection).await;
        Box::pin(async move { self.inner.own_pool.work("ask which life of the log it is", looking).await })
    }

    fn frontier(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(self.inner.readers.frontier())
    }

    fn open_writers(&self) -> BoxFuture<'_, Result<Vec<OpenWriter>, Error>> {
        Box::pin(async move {
            let rows = sqlx::query(self.inner.sql.open_writers.clone()).fetch_all_in_time(&self.inner.own_pool).await;
            let writers = rows.and_then(|rows| rows.iter().map(open_writer).collect());
            writers.map_err(|e| failed("list open writers", e))
        })
    }

    fn newest_schema_version<'a>(&'a self, event_type: &'a str) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        Box::pin(async move {
            let query = sqlx::query_scalar(self.inner.sql.schema_version_newest.clone());
            let query = query.bind(event_type).bind(signed(NEWEST_AMONG));
            let newest: Option<i32> = query
                .fetch_one_in_time(&self.inner.own_pool.within(SCAN_TIMEOUT))
                .await
                .map_err(|e| failed("look for the newest schema version", e))?;
            Ok(newest.map(i32::cast_unsigned))
        })
    }

    fn upcasters(&self) -> &Upcasters {
        &self.inner.config.upcasters
    }
}

impl PgEventStore {
    pub(crate) async fn find(&self, event_id: Uuid) -> Result<Option<Record>, sqlx::Error> {
        let asking = sqlx::query(self.inner.sql.find_ids.clone()).bind(vec![event_id]);
        let found = asking.fetch_optional_in_time(&self.inner.own_pool).await?;
        found.as_ref().map(row::record).transpose()
    }

    async fn stream_page(&self, stream_id: Uuid, read: StreamRead) -> Result<StreamPage, Error> {
        let read_failed = |e| failed("read a stream", e);
        let (sql, filtered) = (&self.inner.sql, read.is_filtered());
        let statement = match read.direction {
            Direction::Forwards if filtered => &sql.read_stream_forwards_filtered,
            Direction::Forwards => &sql.read_stream_forwards,
            Direction::Backwards if filtered => &sql.read_stream_backwards_filtered,
            Direction::Backwards => &sql.read_stream_backwards,
        };
        let limit = ReadLimit { events: read.limit.events.clamp(1, STREAM_EVENTS_MAX), ..read.limit };
        let mut lent = self.inner.own_pool.lend().await?;
        let mut rows = sqlx::query(statement.clone())
            .bind(stream_id)
            .bind(signed(read.from))
            // One more than asked for tells whether the stream ends here.
            .bind(limit.events as i64 + 1);
        if filtered {
            rows = rows.bind(signed(read.after)).bind(read.types.names());
        }
        let rows = rows.fetch(lent.kept.connection());
        let reading = async { row::take_page(rows, limit, 0, |_| true).await.map_err(read_failed) };
        let (mut records, stopped) = in_time(READ_TIMEOUT, "read a stream in time", reading).await?;
        if !matches!(stopped, Stopped::Bytes | Stopped::Damaged) {
            // Otherwise the rest of the result may be large; a new connection is cheaper than swallowing it.
            lent.give_back();
        }
        let end = stopped == Stopped::End && records.len() <= limit.events;
        records.truncate(limit.events);
        Ok(StreamPage { records, end })
    }
}

fn named_stream(row: &PgRow) -> Result<NamedStream, sqlx::Error> {
    let name: &str = row.try_get(0)?;
    Ok(NamedStream { name: name.into(), stream_id: row.try_get(1)?, version: row::positive(row.try_get(2)?)? })
}

fn open_writer(row: &PgRow) -> Result<OpenWriter, sqlx::Error> {
    let mut writer = OpenWriter::new(row.try_get::<String, _>("virtualtransaction")?);
    writer.pid = row.try_get("pid")?;
    writer.role = row.try_get("role")?;
    let age: Option<f64> = row.try_get("age")?;
    writer.age = age.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
    writer.application_name = row.try_get("application_name")?;
    writer.last_statement = row.try_get("last_statement")?;
    writer.may_only_have_looked = row.try_get("may_only_have_looked")?;
    writer.waits_for_replica = row.try_get("waits_for_replica")?;
    if writer.age.is_none() {
        let hidden = "it belongs to another role; pg_read_all_stats shows what it runs and since when";
        writer.hidden = Some(hidden.to_owned());
    }
    Ok(writer)
}
