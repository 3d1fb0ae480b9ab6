//! By hand, with sqlx.

use std::hint::black_box;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use driver::{About, Appending, Error, Placed, Settings, Sink, Store};
use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgRow};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::raw::{
    self, CHECKPOINT_LOAD, CHECKPOINT_STORE, CONNECTIONS, Columns, EVENT_TYPE, INSERT, INSERT_MANY, LOOK, PAGE,
    READ_NEW, READ_PAGE, READ_STREAM, STREAMS_INDEX, TABLES,
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
        raw::about("sqlx", "sqlx")
    }

    async fn prepare(url: &str) -> Result<(), Error> {
        let mut connection = PgConnection::connect(url).await?;
        for tables in TABLES {
            sqlx::raw_sql(tables).execute(&mut connection).await?;
        }
        Ok(connection.close().await?)
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let options = PgConnectOptions::from_str(url)?.disable_statement_logging();
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).test_before_acquire(false);
        let pool = pool.connect_with(options.clone()).await?;
        Ok(Self { pool, options, settings, indexed: OnceCell::new() })
    }

    async fn append(&self, append: Appending) -> Result<(), Error> {
        let count = append.events.len();
        let Columns { versions, created_at, ids, streams, data } = match &append.events[..] {
            [placed] => {
                sqlx::query(INSERT)
                    .bind(append.version.cast_signed() + 1)
                    .bind(Utc::now())
                    .bind(Uuid::now_v7())
                    .bind(append.stream)
                    .bind(EVENT_TYPE)
                    .bind(Json(placed))
                    .bind(Json(Nothing {}))
                    .execute(&self.pool)
                    .await?;
                return Ok(());
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
        Ok(())
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        let index = async || sqlx::query(STREAMS_INDEX).execute(&self.pool).await.map(drop);
        self.indexed.get_or_try_init(index).await?;
        let rows = sqlx::query(READ_STREAM).bind(stream).fetch_all(&self.pool).await?;
        rows.iter().try_for_each(|row| decoded(row).map(|event| drop(black_box(event))))?;
        Ok(rows.len())
    }

    async fn follow(&self, id: &str, sink: Arc<Sink>) -> Result<(), Error> {
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
        let stored = sqlx::query_scalar(CHECKPOINT_LOAD).bind(id).fetch_optional(&mut checkpoints).await?;
        let (mut last, mut unstored): (i64, i64) = (stored.unwrap_or(0), 0);
        loop {
            let before = last;
            let query = match self.settings {
                Settings::Default => sqlx::query(READ_PAGE).bind(last).bind(PAGE),
                Settings::Best => sqlx::query(READ_NEW).bind(last),
            };
            let mut rows = query.fetch(&mut connection);
            while let Some(row) = rows.try_next().await? {
                let (position, placed) = decoded(&row)?;
                last = position;
                sink.handle(&placed, Some(last.cast_unsigned()));
                unstored += 1;
                if unstored == PAGE {
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
                tokio::time::sleep(LOOK).await;
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
