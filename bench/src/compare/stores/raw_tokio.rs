//! By hand, with tokio-postgres.

use std::hint::black_box;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use driver::{About, Appending, Error, Placed, Settings, Sink, Store};
use futures_util::TryStreamExt;
use serde_json::value::RawValue;
use tokio::sync::{OnceCell, Semaphore};
use tokio_postgres::types::{Json, ToSql};
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

use super::raw::{
    self, CHECKPOINT_LOAD, CHECKPOINT_STORE, CONNECTIONS, Columns, EVENT_TYPE, INSERT, INSERT_MANY, LOOK, PAGE,
    READ_NEW, READ_PAGE, READ_STREAM, STREAMS_INDEX, TABLES,
};
use crate::raw::Nothing;
use crate::server::connect;

pub(super) struct Raw {
    url: String,
    settings: Settings,
    /// Those nobody uses now; a permit for each there is or may be.
    idle: Mutex<Vec<Prepared>>,
    permits: Semaphore,
    indexed: OnceCell<()>,
}

struct Prepared {
    client: Client,
    insert: Statement,
    insert_many: Statement,
    read_stream: Statement,
}

impl Prepared {
    async fn new(url: &str) -> Result<Self, Error> {
        let client = connect(url).await?;
        let insert = client.prepare(INSERT).await?;
        let insert_many = client.prepare(INSERT_MANY).await?;
        let read_stream = client.prepare(READ_STREAM).await?;
        Ok(Self { client, insert, insert_many, read_stream })
    }

    async fn append(&self, append: Appending) -> Result<(), Error> {
        let count = append.events.len();
        if let [placed] = &append.events[..] {
            let version = append.version.cast_signed() + 1;
            let (id, stream) = (Uuid::now_v7(), append.stream);
            let values: [&(dyn ToSql + Sync); 7] =
                [&version, &Utc::now(), &id, &stream, &EVENT_TYPE, &Json(placed), &Json(Nothing {})];
            self.client.execute(&self.insert, &values).await?;
            return Ok(());
        }
        let Columns { versions, created_at, ids, streams, data } = Columns::of(append);
        let (types, data) = (vec![EVENT_TYPE; count], data.iter().map(Json).collect::<Vec<_>>());
        let metadata = vec![Json(Nothing {}); count];
        let values: [&(dyn ToSql + Sync); 7] = [&versions, &created_at, &ids, &streams, &types, &data, &metadata];
        self.client.execute(&self.insert_many, &values).await?;
        Ok(())
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        let rows = self.client.query(&self.read_stream, &[&stream]).await?;
        rows.iter().try_for_each(|row| decoded(row).map(|event| drop(black_box(event))))?;
        Ok(rows.len())
    }
}

impl Raw {
    /// Does something on a connection that is nobody else's meanwhile.
    async fn on<T>(&self, work: impl AsyncFnOnce(&Prepared) -> Result<T, Error>) -> Result<T, Error> {
        let _permit = self.permits.acquire().await?;
        let idle = self.idle().pop();
        let prepared = match idle {
            Some(prepared) => prepared,
            None => Prepared::new(&self.url).await?,
        };
        let done = work(&prepared).await;
        self.idle().push(prepared);
        done
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Prepared>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    async fn deliver(&self, id: &str, sink: &Sink) -> Result<(), Error> {
        let client = connect(&self.url).await?;
        // Does not wait for the disk, as ours does not where a checkpoint is all there is to commit.
        let checkpoints = connect(&self.url).await?;
        checkpoints.batch_execute("SET synchronous_commit = off").await?;
        let store = checkpoints.prepare(CHECKPOINT_STORE).await?;
        let (page, new) = (client.prepare(READ_PAGE).await?, client.prepare(READ_NEW).await?);
        let stored = checkpoints.query_opt(CHECKPOINT_LOAD, &[&id]).await?;
        let (mut last, mut unstored): (i64, i64) = (stored.map_or(0, |row| row.get(0)), 0);
        loop {
            let before = last;
            let rows = match self.settings {
                Settings::Default => client.query_raw(&page, [last, PAGE]).await?,
                Settings::Best => client.query_raw(&new, [last]).await?,
            };
            let mut rows = pin!(rows);
            while let Some(row) = rows.try_next().await? {
                let (position, placed) = decoded(&row)?;
                last = position;
                sink.handle(&placed, Some(last.cast_unsigned()));
                unstored += 1;
                if unstored == PAGE {
                    checkpoints.execute(&store, &[&id, &last]).await?;
                    unstored = 0;
                }
            }
            if unstored > 0 {
                checkpoints.execute(&store, &[&id, &last]).await?;
                unstored = 0;
            }
            if last == before {
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

impl Store for Raw {
    fn about() -> About {
        raw::about("tokio-postgres", "tokio-postgres")
    }

    async fn prepare(url: &str) -> Result<(), Error> {
        Ok(connect(url).await?.batch_execute(&TABLES.join("\n")).await?)
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let permits = Semaphore::new(CONNECTIONS as usize);
        Ok(Self { url: url.to_owned(), settings, idle: Mutex::default(), permits, indexed: OnceCell::new() })
    }

    async fn append(&self, append: Appending) -> Result<(), Error> {
        self.on(async |prepared| prepared.append(append).await).await
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        let index = async || self.on(async |prepared| Ok(prepared.client.batch_execute(STREAMS_INDEX).await?)).await;
        self.indexed.get_or_try_init(index).await?;
        self.on(async |prepared| prepared.load(stream).await).await
    }

    async fn follow(&self, id: &str, sink: Arc<Sink>) -> Result<(), Error> {
        tokio::select! {
            followed = self.deliver(id, &sink) => followed,
            () = sink.stopped() => Ok(()),
        }
    }
}

/// Every column, as an event has them.
fn decoded(row: &Row) -> Result<(i64, Placed), Error> {
    let Json(placed) = row.try_get(6)?;
    black_box((row.try_get::<_, Uuid>(1)?, row.try_get::<_, Uuid>(2)?, row.try_get::<_, i64>(3)?));
    black_box((row.try_get::<_, &str>(4)?, row.try_get::<_, DateTime<Utc>>(5)?));
    let Json(metadata): Json<&RawValue> = row.try_get(7)?;
    black_box(metadata);
    Ok((row.try_get(0)?, placed))
}
