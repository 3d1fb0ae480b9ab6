//! The log on SQLite. There is one writer at a time, so everything that can be read is settled.

use highwater::backend::{BoxFuture, Direction, Log, OpenWriter, Page, ReadLimit, Record, StreamPage, StreamRead};
use highwater::{Append, Appended, Error, EventTypes, Upcasters};
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
            let statement = match read.direction {
                Direction::Forwards => sql::read_stream_forwards,
                Direction::Backwards => sql::read_stream_backwards,
            };
            let events = read.limit.events.clamp(1, EVENTS_MAX);
            // One more than asked for tells whether the stream ends here.
            let rows = sqlx::query(statement).bind(stream_id).bind(signed(read.from)).bind(events as i64 + 1);
            let (mut records, over) =
                row::take(rows.fetch(&self.inner.pool), read.limit, 0).await.map_err(|e| failed("read a stream", e))?;
            let end = over && records.len() <= events;
            records.truncate(events);
            Ok(StreamPage { records, end })
        })
    }

    fn read_all<'a>(
        &'a self,
        after: u64,
        types: &'a EventTypes,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let limit = ReadLimit { events: limit.events.clamp(1, EVENTS_MAX), ..limit };
            let page = match types {
                EventTypes::All => self.all(after, limit).await,
                EventTypes::Only(names) => self.of_types(after, array(names), limit).await,
            };
            page.map_err(|e| failed("read the log", e))
        })
    }

    fn record(&self, event_id: Uuid) -> BoxFuture<'_, Result<Option<Record>, Error>> {
        Box::pin(async move { self.find(event_id).await.map_err(|e| failed("look up an event", e)) })
    }

    fn head(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move { self.highest().await.map_err(|e| failed("read the head of the log", e)) })
    }

    /// Everything that is committed is settled.
    fn frontier(&self) -> BoxFuture<'_, Result<u64, Error>> {
        self.head()
    }

    /// None ever: a transaction that is open has nothing that readers would have to wait for.
    fn open_writers(&self) -> BoxFuture<'_, Result<Vec<OpenWriter>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn upcasters(&self) -> &Upcasters {
        &self.inner.config.upcasters
    }
}

impl SqliteEventStore {
    pub(crate) async fn find(&self, event_id: Uuid) -> Result<Option<Record>, sqlx::Error> {
        let found = sqlx::query(sql::find_ids).bind(row::ids([event_id])).fetch_optional(&self.inner.pool).await?;
        found.as_ref().map(row::record).transpose()
    }

    async fn highest(&self) -> Result<u64, sqlx::Error> {
        sqlx::query_scalar(sql::head).fetch_one(&self.inner.pool).await.map(unsigned)
    }

    async fn all(&self, after: u64, limit: ReadLimit) -> Result<Page, sqlx::Error> {
        let rows = sqlx::query(sql::read_all).bind(signed(after)).bind(limit.events as i64).fetch(&self.inner.pool);
        let (records, _) = row::take(rows, limit, limit.events).await?;
        let complete_to = last_of(&records).unwrap_or(after);
        Ok(Page { records, complete_to, incarnation: 0 })
    }

    async fn of_types(&self, after: u64, types: String, limit: ReadLimit) -> Result<Page, sqlx::Error> {
        // First, so that everything up to there is seen by what comes next.
        let head = self.highest().await?.max(after);
        let rows = sqlx::query(sql::read_all_of_types)
            .bind(signed(after))
            .bind(signed(head))
            .bind(limit.events as i64)
            .bind(types)
            .fetch(&self.inner.pool);
        let (records, over) = row::take(rows, limit, 0).await?;
        let all = over && records.len() < limit.events;
        let complete_to = if all { head } else { last_of(&records).unwrap_or(after) };
        Ok(Page { records, complete_to, incarnation: 0 })
    }
}

fn last_of(records: &[Record]) -> Option<u64> {
    records.last().map(|last| last.global_sequence)
}
