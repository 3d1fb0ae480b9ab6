//! The log on SQLite. There is one writer at a time, so everything that can be read is settled.

use highwater::backend::{
    BoxFuture, Direction, Log, NEWEST_AMONG, NamedStream, OpenWriter, Page, ReadLimit, Record, StreamPage, StreamRead,
    columns,
};
use highwater::{Append, Appended, Error, Filter, Upcasters};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteExecutor};
use uuid::Uuid;

use crate::error::failed;
use crate::row::{self, array, signed, unsigned};
use crate::sql;
use crate::store::SqliteEventStore;

/// Records of one statement, whatever the caller asks for.
const EVENTS_MAX: usize = 20_000;

impl Log for SqliteEventStore {
    fn append<'a>(&'a self, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let prepared = self.prepare(append)?;
            match self.inner.gate.not_for_itself(self.inner.appender.append(prepared)).await {
                Err(error) => Err(self.say_what_fills(error).await),
                appended => appended,
            }
        })
    }

    fn read_stream(&self, stream_id: Uuid, read: StreamRead) -> BoxFuture<'_, Result<StreamPage, Error>> {
        Box::pin(async move {
            let filtered = read.is_filtered();
            let statement = match read.direction {
                Direction::Forwards if filtered => sql::read_stream_forwards_filtered.clone(),
                Direction::Forwards => sql::read_stream_forwards.clone(),
                Direction::Backwards if filtered => sql::read_stream_backwards_filtered.clone(),
                Direction::Backwards => sql::read_stream_backwards.clone(),
            };
            let events = read.limit.events.clamp(1, EVENTS_MAX);
            // One more than asked for tells whether the stream ends here.
            let mut rows = sqlx::query(statement).bind(stream_id).bind(signed(read.from)).bind(events as i64 + 1);
            if filtered {
                let types = read.types.names().map(array);
                rows = rows.bind(signed(read.after)).bind(types);
            }
            let (mut records, over) = row::take_page(rows.fetch(&self.inner.pool), read.limit, 0)
                .await
                .map_err(|e| failed("read a stream", e))?;
            let end = over && records.len() <= events;
            records.truncate(events);
            Ok(StreamPage { records, end })
        })
    }

    fn read_all<'a>(&'a self, after: u64, filter: &'a Filter, limit: ReadLimit) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let limit = ReadLimit { events: limit.events.clamp(1, EVENTS_MAX), ..limit };
            let page = match *filter == Filter::ALL {
                true => self.all(after, limit).await,
                false => self.filtered(after, filter, limit).await,
            };
            page.map_err(|e| failed("read the log", e))
        })
    }

    fn streams<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a NamedStream>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<NamedStream>, Error>> {
        Box::pin(async move {
            let rows = sqlx::query(sql::streams)
                .bind(prefix)
                .bind(columns::after_prefix(prefix))
                .bind(after.map(|after| after.name.as_str()))
                .bind(after.map(|after| after.stream_id))
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.inner.pool)
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
            self.inner.gate.file().still_has_its_name()?;
            highest(&self.inner.pool).await.map_err(|e| failed("read the head of the log", e))
        })
    }

    fn life(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            self.inner.gate.file().still_has_its_name()?;
            life(&self.inner.pool).await.map_err(|e| failed("read which life of the log it is", e))
        })
    }

    /// Everything that is committed is settled.
    fn frontier(&self) -> BoxFuture<'_, Result<u64, Error>> {
        self.head()
    }

    /// None ever: a transaction that is open has nothing that readers would have to wait for.
    fn open_writers(&self) -> BoxFuture<'_, Result<Vec<OpenWriter>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn newest_schema_version<'a>(&'a self, event_type: &'a str) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        Box::pin(async move {
            let query = sqlx::query_scalar(sql::schema_version_newest).bind(event_type).bind(signed(NEWEST_AMONG));
            query.fetch_one(&self.inner.pool).await.map_err(|e| failed("look for the newest schema version", e))
        })
    }

    fn upcasters(&self) -> &Upcasters {
        &self.inner.config.upcasters
    }
}

impl SqliteEventStore {
    pub(crate) async fn find(&self, event_id: Uuid) -> Result<Option<Record>, sqlx::Error> {
        let found =
            sqlx::query(sql::find_ids.clone()).bind(row::ids([event_id])).fetch_optional(&self.inner.pool).await?;
        found.as_ref().map(row::record).transpose()
    }

    async fn all(&self, after: u64, limit: ReadLimit) -> Result<Page, sqlx::Error> {
        let mut connection = self.inner.pool.acquire().await?;
        let incarnation = life(&mut *connection).await?;
        let rows =
            sqlx::query(sql::read_all.clone()).bind(signed(after)).bind(limit.events as i64).fetch(&mut *connection);
        let (records, _) = row::take_page(rows, limit, limit.events).await?;
        let complete_to = last_of(&records).unwrap_or(after);
        Ok(Page { records, complete_to, incarnation })
    }

    async fn filtered(&self, after: u64, filter: &Filter, limit: ReadLimit) -> Result<Page, sqlx::Error> {
        let mut connection = self.inner.pool.acquire().await?;
        let incarnation = life(&mut *connection).await?;
        // Before the rows, so that everything up to there is seen by what comes next.
        let head = highest(&mut *connection).await?.max(after);
        let types = filter.types.names().map(array);
        let statement = if filter.kinds.is_some() { &sql::read_all_of_kinds } else { &sql::read_all_of_types };
        let mut query = sqlx::query((*statement).clone())
            .bind(signed(after))
            .bind(signed(head))
            .bind(limit.events as i64)
            .bind(types);
        if let Some(kinds) = &filter.kinds {
            query = query.bind(array(kinds));
        }
        let rows = query.fetch(&mut *connection);
        let (records, over) = row::take_page(rows, limit, 0).await?;
        let all = over && records.len() < limit.events;
        let complete_to = if all { head } else { last_of(&records).unwrap_or(after) };
        Ok(Page { records, complete_to, incarnation })
    }
}

async fn highest(executor: impl SqliteExecutor<'_>) -> Result<u64, sqlx::Error> {
    sqlx::query_scalar(sql::head).fetch_one(executor).await.map(unsigned)
}

/// Which life of the log this is. Asked before a page is read: one that is given an older number than its own is void all the same,
/// and the next says so.
async fn life(executor: impl SqliteExecutor<'_>) -> Result<u64, sqlx::Error> {
    sqlx::query_scalar(sql::life).fetch_one(executor).await.map(unsigned)
}

fn named_stream(row: &SqliteRow) -> Result<NamedStream, sqlx::Error> {
    let name: &str = row.try_get(0)?;
    Ok(NamedStream { name: name.into(), stream_id: row.try_get(1)?, version: row::positive(row.try_get(2)?)? })
}

fn last_of(records: &[Record]) -> Option<u64> {
    records.last().map(|last| last.global_sequence)
}
