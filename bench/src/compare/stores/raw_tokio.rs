//! By hand, with tokio-postgres.

use std::hint::black_box;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use driver::{About, Appending, Delivery, Error, Placed, Settings, Sink, Store};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::value::RawValue;
use tokio::sync::{Notify, OnceCell, Semaphore};
use tokio_postgres::types::{Json, ToSql};
use tokio_postgres::{AsyncMessage, Client, NoTls, Row, Statement};
use uuid::Uuid;

use super::raw::{
    self, CHANNEL, CHECKPOINT_LOAD, CHECKPOINT_STORE, CONNECTIONS, Columns, EVENT_TYPE, EVERY, INSERT, INSERT_MANY,
    INSERT_NOTIFY, NOTIFY, READ_NEW, READ_PAGE, READ_STREAM, STREAMS_INDEX, TABLES,
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
    /// They listen as long as they are there.
    listening: Mutex<Vec<Client>>,
}

struct Prepared {
    client: Client,
    insert: Statement,
    insert_many: Statement,
    read_stream: Statement,
    /// Where there may be a subscriber.
    notify: Option<Statement>,
}

impl Prepared {
    async fn new(url: &str, settings: &Settings) -> Result<Self, Error> {
        let client = connect(url).await?;
        let insert = client.prepare(if settings.subscriber { INSERT_NOTIFY } else { INSERT }).await?;
        let notify = match settings.subscriber {
            true => Some(client.prepare(NOTIFY).await?),
            false => None,
        };
        let insert_many = client.prepare(INSERT_MANY).await?;
        let read_stream = client.prepare(READ_STREAM).await?;
        Ok(Self { client, insert, insert_many, read_stream, notify })
    }

    async fn append(&self, append: Appending) -> Result<(), Error> {
        let count = append.events.len();
        if let [placed] = &append.events[..] {
            let version = append.version.cast_signed() + 1;
            let (id, stream) = (Uuid::now_v7(), append.stream);
            let values: [&(dyn ToSql + Sync); 8] =
                [&version, &Utc::now(), &id, &stream, &EVENT_TYPE, &Json(placed), &Json(Nothing {}), &CHANNEL];
            let values = if self.notify.is_some() { &values[..] } else { &values[..7] };
            self.client.execute(&self.insert, values).await?;
            return Ok(());
        }
        let Columns { versions, created_at, ids, streams, data } = Columns::of(append);
        let (types, data) = (vec![EVENT_TYPE; count], data.iter().map(Json).collect::<Vec<_>>());
        let metadata = vec![Json(Nothing {}); count];
        let values: [&(dyn ToSql + Sync); 7] = [&versions, &created_at, &ids, &streams, &types, &data, &metadata];
        self.client.execute(&self.insert_many, &values).await?;
        if let Some(notify) = &self.notify {
            self.client.execute(notify, &[&CHANNEL]).await?;
        }
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
            None => Prepared::new(&self.url, &self.settings).await?,
        };
        let done = work(&prepared).await;
        self.idle().push(prepared);
        done
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Prepared>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    async fn deliver(&self, id: &str, delivery: Delivery, sink: &Sink) -> Result<(), Error> {
        let client = connect(&self.url).await?;
        let checkpoints = connect(&self.url).await?;
        if delivery != Delivery::Once {
            // Does not wait for the disk, as ours does not where a checkpoint is all there is to commit.
            checkpoints.batch_execute("SET synchronous_commit = off").await?;
        }
        let every = if delivery == Delivery::Each { 1 } else { EVERY };
        let store = checkpoints.prepare(CHECKPOINT_STORE).await?;
        let (page, new) = (client.prepare(READ_PAGE).await?, client.prepare(READ_NEW).await?);
        let news = self.listen().await?;
        let stored = checkpoints.query_opt(CHECKPOINT_LOAD, &[&id]).await?;
        let (mut last, mut unstored): (i64, usize) = (stored.map_or(0, |row| row.get(0)), 0);
        loop {
            let before = last;
            let rows = match delivery {
                Delivery::Once => {
                    checkpoints.batch_execute("BEGIN").await?;
                    client.query_raw(&page, [last, i64::try_from(EVERY)?]).await?
                }
                Delivery::Batched | Delivery::Each => client.query_raw(&new, [last]).await?,
            };
            let mut rows = pin!(rows);
            while let Some(row) = rows.try_next().await? {
                let (position, placed) = decoded(&row)?;
                last = position;
                sink.handle(&placed, Some(last.cast_unsigned()));
                unstored += 1;
                if unstored == every {
                    checkpoints.execute(&store, &[&id, &last]).await?;
                    unstored = 0;
                }
            }
            if unstored > 0 {
                checkpoints.execute(&store, &[&id, &last]).await?;
                unstored = 0;
            }
            if delivery == Delivery::Once {
                checkpoints.batch_execute("COMMIT").await?;
            }
            if last == before {
                news.notified().await;
            }
        }
    }

    /// Is notified whenever a writer has appended.
    async fn listen(&self) -> Result<Arc<Notify>, Error> {
        let (client, mut connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        let news = Arc::new(Notify::new());
        let told = news.clone();
        tokio::spawn(async move {
            let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(_) = message {
                    told.notify_one();
                }
            }
        });
        client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
        self.listening.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(client);
        Ok(news)
    }
}

impl Store for Raw {
    fn about() -> About {
        raw::about("tokio-postgres", "tokio-postgres", &[Delivery::Batched, Delivery::Each, Delivery::Once])
    }

    async fn prepare(url: &str, _settings: &Settings) -> Result<(), Error> {
        Ok(connect(url).await?.batch_execute(&TABLES.join("\n")).await?)
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let permits = Semaphore::new(settings.pool(CONNECTIONS) as usize);
        Ok(Self {
            url: url.to_owned(),
            settings,
            idle: Mutex::default(),
            permits,
            indexed: OnceCell::new(),
            listening: Mutex::default(),
        })
    }

    async fn append(&self, append: Appending) -> Result<u64, Error> {
        self.on(async |prepared| prepared.append(append).await).await?;
        Ok(1)
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        let index = async || self.on(async |prepared| Ok(prepared.client.batch_execute(STREAMS_INDEX).await?)).await;
        self.indexed.get_or_try_init(index).await?;
        self.on(async |prepared| prepared.load(stream).await).await
    }

    async fn follow(&self, id: &str, delivery: Delivery, sink: Arc<Sink>) -> Result<(), Error> {
        tokio::select! {
            followed = self.deliver(id, delivery, &sink) => followed,
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
