//! By hand, with sqlx.

use std::hint::black_box;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use driver::{About, Appending, Delivery, Error, Placed, Settings, Sink, Store};
use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPool, PgPoolOptions, PgRow};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::raw::{
    self, CHANNEL, CHECKPOINT_LOAD, CHECKPOINT_STORE, CONNECTIONS, Columns, EVENT_TYPE, EVERY, INSERT, INSERT_MANY,
    INSERT_NOTIFY, NOTIFY, READ_NEW, READ_STREAM, STREAMS_INDEX, TABLES,
};
use crate::json::Json;
use crate::raw::Nothing;
use crate::read::{EPOCH_MICROS, fixed, text};

pub(super) struct Raw {
    pool: PgPool,
    options: PgConnectOptions,
    settings: Settings,
    indexed: OnceCell<()>,
}

impl Store for Raw {
    fn about() -> About {
        raw::about("sqlx", "sqlx", &[Delivery::Batched])
    }

    async fn prepare(url: &str, _settings: &Settings) -> Result<(), Error> {
        let mut connection = PgConnection::connect(url).await?;
        for tables in TABLES {
            sqlx::raw_sql(tables).execute(&mut connection).await?;
        }
        Ok(connection.close().await?)
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let options = PgConnectOptions::from_str(url)?.disable_statement_logging();
        let pool = PgPoolOptions::new().max_connections(settings.pool(CONNECTIONS)).test_before_acquire(false);
        let pool = pool.connect_with(options.clone()).await?;
        Ok(Self { pool, options, settings, indexed: OnceCell::new() })
    }

    async fn append(&self, append: Appending) -> Result<u64, Error> {
        let count = append.events.len();
        let Columns { versions, created_at, ids, streams, data } = match &append.events[..] {
            [placed] => {
                let insert = if self.settings.subscriber { INSERT_NOTIFY } else { INSERT };
                let insert = sqlx::query(insert)
                    .bind(append.version.cast_signed() + 1)
                    .bind(Utc::now())
                    .bind(Uuid::now_v7())
                    .bind(append.stream)
                    .bind(EVENT_TYPE)
                    .bind(Json(placed))
                    .bind(Json(Nothing {}));
                let insert = if self.settings.subscriber { insert.bind(CHANNEL) } else { insert };
                insert.execute(&self.pool).await?;
                return Ok(1);
            }
            _ => Columns::of(append),
        };
        sqlx::query(INSERT_MANY)
            .bind(versions)
            .bind(created_at)
            .bind(ids)
            .bind(streams)
            .bind(vec![EVENT_TYPE; count])
            .bind(data.iter().map(Json).collect::<Vec<_>>())
            .bind(vec![Json(Nothing {}); count])
            .execute(&self.pool)
            .await?;
        if self.settings.subscriber {
            sqlx::query(NOTIFY).bind(CHANNEL).execute(&self.pool).await?;
        }
        Ok(1)
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        let index = async || sqlx::query(STREAMS_INDEX).execute(&self.pool).await.map(drop);
        self.indexed.get_or_try_init(index).await?;
        let rows = sqlx::query(READ_STREAM).bind(stream).fetch_all(&self.pool).await?;
        rows.iter().try_for_each(|row| decoded(row).map(|event| drop(black_box(event))))?;
        Ok(rows.len())
    }

    async fn follow(&self, id: &str, _delivery: Delivery, sink: Arc<Sink>) -> Result<(), Error> {
        tokio::select! {
            followed = self.deliver(id, &sink) => followed,
            () = sink.stopped() => Ok(()),
        }
    }
}

impl Raw {
    async fn deliver(&self, id: &str, sink: &Sink) -> Result<(), Error> {
        let mut connection = PgConnection::connect_with(&self.options).await?;
        // Does not wait for the disk, as ours does not where a checkpoint is all there is to commit.
        let mut checkpoints = PgConnection::connect_with(&self.options).await?;
        sqlx::query("SET synchronous_commit = off").execute(&mut checkpoints).await?;
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen(CHANNEL).await?;
        let stored = sqlx::query_scalar(CHECKPOINT_LOAD).bind(id).fetch_optional(&mut checkpoints).await?;
        let (mut last, mut unstored): (i64, usize) = (stored.unwrap_or(0), 0);
        loop {
            let before = last;
            let mut rows = sqlx::query(READ_NEW).bind(last).fetch(&mut connection);
            while let Some(row) = rows.try_next().await? {
                let (position, placed) = decoded(&row)?;
                last = position;
                sink.handle(&placed, Some(last.cast_unsigned()));
                unstored += 1;
                if unstored == EVERY {
                    sqlx::query(CHECKPOINT_STORE).bind(id).bind(last).execute(&mut checkpoints).await?;
                    unstored = 0;
                }
            }
            drop(rows);
            if unstored > 0 {
                sqlx::query(CHECKPOINT_STORE).bind(id).bind(last).execute(&mut checkpoints).await?;
                unstored = 0;
            }
            if last == before {
                listener.recv().await?;
            }
        }
    }
}

/// Every column, as an event has them; taken from the binary format directly, which is quicker than the driver's own
/// decoding.
fn decoded(row: &PgRow) -> Result<(i64, Placed), Error> {
    let placed = serde_json::from_str(text(row, 6)?)?;
    let micros = i64::from_be_bytes(fixed(row, 5)?) + EPOCH_MICROS;
    let created_at = DateTime::from_timestamp_micros(micros).ok_or("a time that chrono cannot hold")?;
    black_box((Uuid::from_bytes(fixed(row, 1)?), Uuid::from_bytes(fixed(row, 2)?), i64::from_be_bytes(fixed(row, 3)?)));
    black_box((text(row, 4)?, text(row, 7)?, created_at));
    Ok((i64::from_be_bytes(fixed(row, 0)?), placed))
}
