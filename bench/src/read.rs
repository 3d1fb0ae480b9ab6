//! Scenario `read`: what order, frontier, pages and decoding cost.
//!
//! Both sides read the same rows of the same table on the same server, and turn every row into Rust values.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use futures_util::TryStreamExt;
use highwater::{Event, EventStore, EventStream};
use highwater_postgres::PgEventStore;
use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::Error;
use crate::callers::rate;
use crate::load::{self, Loaded};
use crate::options::Options;
use crate::payload::{Order, Placed};
use crate::report::{Goal, Report, Unit};
use crate::rounds::{self, Way as _};
use crate::server::Server;

const READ_ALL: &str = include_str!("../sql/read_all.sql");
pub(crate) const READ_PAGE: &str = include_str!("../sql/read_page.sql");
const READ_STREAM: &str = include_str!("../sql/read_stream.sql");

#[derive(Debug, Clone, Copy)]
enum Way {
    OursAll,
    RawAll,
    RawPages1k,
    RawPages5k,
    RawPages10k,
    OursStream,
    RawStream,
    RawStreamWhole,
}

use Way::*;

/// What is compared.
const GROUPS: [&[Way]; 2] =
    [&[OursAll, RawAll, RawPages1k, RawPages5k, RawPages10k], &[OursStream, RawStream, RawStreamWhole]];

impl rounds::Way for Way {
    fn name(self) -> &'static str {
        match self {
            OursAll => "ours, everything",
            RawAll => "raw, everything, one statement",
            RawPages1k => "raw, everything, pages of 1,000",
            RawPages5k => "raw, everything, pages of 5,000",
            RawPages10k => "raw, everything, pages of 10,000",
            OursStream => "ours, one stream",
            RawStream => "raw, one stream, row by row",
            RawStreamWhole => "raw, one stream, all rows at once",
        }
    }

    fn unit(self) -> Unit {
        Unit::EventsPerSecond
    }
}

pub(crate) async fn run(server: &Server, options: &Options) -> Result<Report, Error> {
    let store = server.store().await?;
    let mut connection = server.sqlx().await?;
    let loaded = load::load(&store, &mut connection, options.quick).await?;
    let sides = Arc::new(Sides { store, connection: Mutex::new(connection), loaded });
    let begin = async || Ok(());
    let measure = async |way, time| measure(way, time, &sides).await;
    let rows = rounds::interleave(&GROUPS, options, begin, measure).await?;
    let everything = [RawAll, RawPages1k, RawPages5k, RawPages10k].map(Way::name);
    let stream = [RawStream, RawStreamWhole].map(Way::name);
    let report = Report::new(options, rows)
        .compare("read_all_vs_raw", OursAll.name(), &everything, Some(Goal::AtLeast(0.95)))
        .compare("read_stream_vs_raw", OursStream.name(), &stream, Some(Goal::AtLeast(0.95)));
    Ok(report)
}

async fn measure(way: Way, time: Duration, sides: &Arc<Sides>) -> Result<f64, Error> {
    let sides = sides.clone();
    rate(1, time, move |_| sides.clone().read(way)).await
}

/// Both sides.
struct Sides {
    store: PgEventStore,
    /// Used by one reader at a time; the lock is never waited for.
    connection: Mutex<PgConnection>,
    loaded: Loaded,
}

impl Sides {
    /// Reads what there is to read once, and makes sure that it was all there.
    async fn read(self: Arc<Self>, way: Way) -> Result<usize, Error> {
        let mut connection = self.connection.lock().await;
        let long = self.loaded.long_stream;
        let seen = match way {
            OursAll => ours(self.store.read_all_events_since(0)).await?,
            RawAll => raw_all(&mut connection).await?,
            RawPages1k => raw_pages(&mut connection, 1_000).await?,
            RawPages5k => raw_pages(&mut connection, 5_000).await?,
            RawPages10k => raw_pages(&mut connection, 10_000).await?,
            OursStream => ours(self.store.read_events(long)).await?,
            RawStream => raw_stream(&mut connection, long).await?,
            RawStreamWhole => raw_stream_whole(&mut connection, long).await?,
        };
        let expected = match way {
            OursAll | RawAll | RawPages1k | RawPages5k | RawPages10k => self.loaded.all,
            OursStream | RawStream | RawStreamWhole => self.loaded.long,
        };
        if seen != expected {
            return Err(format!("{}: {seen:?} was read instead of {expected:?}", way.name()).into());
        }
        Ok(seen.events)
    }
}

/// What a reader has made of what it read. Keeps the compiler from leaving any of it out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) events: usize,
    /// The amounts, and the versions.
    pub(crate) sum: i64,
}

impl Seen {
    fn event(&mut self, event: Event<Order>) {
        let Order::Placed { amount, .. } = &event.data;
        self.events += 1;
        self.sum += amount + event.stream_version.cast_signed();
        black_box(event);
    }

    /// Reads a row with all its columns: the payload decoded, text where it lies. Returns its number.
    pub(crate) fn row(&mut self, row: &PgRow) -> Result<i64, Error> {
        let global_sequence = i64::from_be_bytes(fixed(row, 0)?);
        let stream_version = i64::from_be_bytes(fixed(row, 3)?);
        let data: Placed = serde_json::from_str(text(row, 6)?)?;
        let micros = i64::from_be_bytes(fixed(row, 8)?) + EPOCH_MICROS;
        let created_at = DateTime::from_timestamp_micros(micros).ok_or("a time that chrono cannot hold")?;
        self.events += 1;
        self.sum += data.amount + stream_version;
        black_box((Uuid::from_bytes(fixed(row, 1)?), Uuid::from_bytes(fixed(row, 2)?), text(row, 4)?));
        black_box((i32::from_be_bytes(fixed(row, 5)?), data, text(row, 7)?, created_at));
        Ok(global_sequence)
    }
}

/// PostgreSQL counts microseconds from the year 2000.
pub(crate) const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// A value of fixed size, from the binary format of prepared statements: quicker than the driver's own decoding, which looks
/// at the type of every value.
pub(crate) fn fixed<const N: usize>(row: &PgRow, column: usize) -> Result<[u8; N], Error> {
    Ok(row.try_get_raw(column)?.as_bytes()?.try_into()?)
}

pub(crate) fn text(row: &PgRow, column: usize) -> Result<&str, Error> {
    row.try_get_raw(column)?.as_str()
}

async fn ours(mut events: EventStream<'_, Order>) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    while let Some(event) = events.next().await {
        seen.event(event?);
    }
    Ok(seen)
}

pub(crate) async fn raw_all(connection: &mut PgConnection) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    let mut rows = sqlx::query(READ_ALL).fetch(connection);
    while let Some(row) = rows.try_next().await? {
        seen.row(&row)?;
    }
    Ok(seen)
}

pub(crate) async fn raw_pages(connection: &mut PgConnection, page: usize) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    let mut last = 0;
    loop {
        let before = seen.events;
        let mut rows = sqlx::query(READ_PAGE).bind(last).bind(page as i64).fetch(&mut *connection);
        while let Some(row) = rows.try_next().await? {
            last = seen.row(&row)?;
        }
        if seen.events < before + page {
            return Ok(seen);
        }
    }
}

async fn raw_stream(connection: &mut PgConnection, stream_id: Uuid) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    let mut rows = sqlx::query(READ_STREAM).bind(stream_id).fetch(connection);
    while let Some(row) = rows.try_next().await? {
        seen.row(&row)?;
    }
    Ok(seen)
}

async fn raw_stream_whole(connection: &mut PgConnection, stream_id: Uuid) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    for row in sqlx::query(READ_STREAM).bind(stream_id).fetch_all(connection).await? {
        seen.row(&row)?;
    }
    Ok(seen)
}
