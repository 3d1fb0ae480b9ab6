//! Scenario `append`: what group commit gains, and what versions, unique ids and answers cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use highwater::backend::Log;
use highwater::{Append, ExpectedVersion, StreamId};
use highwater_postgres::PgEventStore;
use uuid::Uuid;

use crate::Error;
use crate::callers::{latency, rate};
use crate::options::Options;
use crate::payload::{self, Order};
use crate::raw::{Raw, Table};
use crate::report::{Goal, Report, Unit};
use crate::rounds::{self, Way as _};
use crate::server::Server;

const CALLERS: usize = 32;
const CALLERS_MANY: usize = 256;
/// Callers that each append to a stream of their own again and again.
const CALLERS_AGAIN: usize = 64;
const BATCH: usize = 100;
const BATCH_CALLERS: usize = 8;

#[derive(Debug, Clone, Copy)]
enum Way {
    Raw32,
    Raw32Indexed,
    Ours32,
    Ours256,
    Named32,
    Own32,
    Any64,
    Exact64,
    Raw1,
    Ours1,
    Named1,
    RawBatch,
    RawBatchSqlx,
    RawBatchIndexed,
    OursBatch,
    NamedBatch,
}

use Way::*;

/// What is compared.
const GROUPS: [&[Way]; 4] = [
    &[Raw32, Ours32, Ours256, Named32, Own32, Raw32Indexed],
    &[Exact64, Any64],
    &[Raw1, Ours1, Named1],
    &[RawBatch, OursBatch, NamedBatch, RawBatchSqlx, RawBatchIndexed],
];

impl rounds::Way for Way {
    fn name(self) -> &'static str {
        match self {
            Raw32 => "raw, 32 connections",
            Raw32Indexed => "raw with our indexes, 32 connections",
            Ours32 => "ours, 32 callers",
            Ours256 => "ours, 256 callers",
            Named32 => "ours, 32 callers, streams with names",
            Own32 => "ours, 32 callers, each to a stream of its own",
            Any64 => "ours, 64 callers, each to a stream of its own, at any version",
            Exact64 => "ours, 64 callers, each to a stream of its own, at its version",
            Raw1 => "raw, alone (sqlx)",
            Ours1 => "ours, alone",
            Named1 => "ours, alone, streams with names",
            RawBatch => "raw, 8 x 100 events",
            RawBatchSqlx => "raw, 8 x 100 events (sqlx)",
            RawBatchIndexed => "raw with our indexes, 8 x 100 events",
            OursBatch => "ours, 8 x 100 events",
            NamedBatch => "ours, 8 x 100 events, streams with names",
        }
    }

    fn unit(self) -> Unit {
        match self {
            Raw1 | Ours1 | Named1 => Unit::Microseconds,
            _ => Unit::EventsPerSecond,
        }
    }
}

pub(crate) async fn run(server: &Server, options: &Options) -> Result<Report, Error> {
    let raw = Arc::new(Raw::new(server, CALLERS, BATCH_CALLERS).await?);
    let ours = Ours { store: server.store().await?, order: Arc::new(payload::sample()?.into()) };
    // Every round finds the same: empty tables, nothing left to be written.
    let begin = async || {
        let mut connection = server.sqlx().await?;
        sqlx::raw_sql(include_str!("../sql/begin_round.sql")).execute(&mut connection).await?;
        Ok(())
    };
    let measure = async |way, time| measure(way, time, &ours, &raw).await;
    let rows = rounds::interleave(&GROUPS, options, begin, measure).await?;
    let report = Report::new(options, rows)
        .compare("append32_vs_raw", Ours32.name(), &[Raw32.name()], Some(Goal::AtLeast(2.3)))
        .compare("append256_vs_raw", Ours256.name(), &[Raw32.name()], Some(Goal::AtLeast(5.0)))
        .compare("append1_latency_vs_raw", Ours1.name(), &[Raw1.name()], Some(Goal::AtMost(1.12)))
        .compare("batch100_vs_raw", OursBatch.name(), &[RawBatch.name(), RawBatchSqlx.name()], None)
        .compare("batch100_vs_raw_indexed", OursBatch.name(), &[RawBatchIndexed.name()], Some(Goal::AtLeast(1.1)))
        .compare("named32_vs_unnamed", Named32.name(), &[Ours32.name()], Some(Goal::AtLeast(0.95)))
        .compare("named1_latency_vs_unnamed", Named1.name(), &[Ours1.name()], Some(Goal::AtMost(1.05)))
        .compare("named_batch100_vs_unnamed", NamedBatch.name(), &[OursBatch.name()], Some(Goal::AtLeast(0.9)))
        .compare("own32_vs_raw", Own32.name(), &[Raw32.name()], None)
        .compare("any_vs_exact", Any64.name(), &[Exact64.name()], Some(Goal::AtLeast(0.95)));
    Ok(report)
}

async fn measure(way: Way, time: Duration, ours: &Ours, raw: &Arc<Raw>) -> Result<f64, Error> {
    let (ours, raw) = (ours.clone(), raw.clone());
    match way {
        Raw32 => rate(CALLERS, time, move |n| raw.clone().insert(n, Table::Plain)).await,
        Raw32Indexed => rate(CALLERS, time, move |n| raw.clone().insert(n, Table::Indexed)).await,
        Ours32 => rate(CALLERS, time, move |_| ours.clone().append(unnamed(), 1)).await,
        Ours256 => rate(CALLERS_MANY, time, move |_| ours.clone().append(unnamed(), 1)).await,
        Named32 => rate(CALLERS, time, move |_| ours.clone().append(named(), 1)).await,
        Own32 => {
            let streams = Streams::new(CALLERS);
            rate(CALLERS, time, move |n| ours.clone().append_to(streams.clone(), n, false)).await
        }
        Any64 | Exact64 => {
            let (streams, exact) = (Streams::new(CALLERS_AGAIN), matches!(way, Exact64));
            rate(CALLERS_AGAIN, time, move |n| ours.clone().append_to(streams.clone(), n, exact)).await
        }
        Raw1 => latency(time, move || raw.clone().insert_by_sqlx(0)).await,
        Ours1 => latency(time, move || ours.clone().append(unnamed(), 1)).await,
        Named1 => latency(time, move || ours.clone().append(named(), 1)).await,
        RawBatch => rate(BATCH_CALLERS, time, move |n| raw.clone().insert_many(n, Table::Plain, BATCH)).await,
        RawBatchSqlx => rate(BATCH_CALLERS, time, move |n| raw.clone().insert_many_by_sqlx(n, BATCH)).await,
        RawBatchIndexed => rate(BATCH_CALLERS, time, move |n| raw.clone().insert_many(n, Table::Indexed, BATCH)).await,
        OursBatch => rate(BATCH_CALLERS, time, move |_| ours.clone().append(unnamed(), BATCH)).await,
        NamedBatch => rate(BATCH_CALLERS, time, move |_| ours.clone().append(named(), BATCH)).await,
    }
}

#[derive(Clone)]
struct Ours {
    store: PgEventStore,
    order: Arc<Order>,
}

impl Ours {
    /// Stores events in a stream that does not exist yet, whose id lands anywhere in the index.
    async fn append(self, stream: StreamId, events: usize) -> Result<usize, Error> {
        let append =
            Append::to(stream).expecting(ExpectedVersion::NoStream).events(std::iter::repeat_n(&*self.order, events));
        let done = self.store.append(&append).await?;
        Ok(done.positions.len())
    }

    /// Stores one event in a stream that mostly exists: after whatever is there, or at the version that the caller knows.
    async fn append_to(self, streams: Arc<Streams>, caller: usize, exact: bool) -> Result<usize, Error> {
        let (stream, version) = &streams.0[caller];
        let mut append = Append::to(*stream);
        if exact {
            append = append.expecting(ExpectedVersion::Exact(version.load(Ordering::Relaxed)));
        }
        let done = self.store.append(&append.event(&*self.order)).await?;
        version.store(done.stream_version, Ordering::Relaxed);
        Ok(done.positions.len())
    }
}

/// A stream for each caller, and its version.
struct Streams(Vec<(Uuid, AtomicU64)>);

impl Streams {
    fn new(callers: usize) -> Arc<Self> {
        Arc::new(Self((0..callers).map(|_| (Uuid::new_v4(), AtomicU64::new(0))).collect()))
    }
}

/// A stream by its id alone.
fn unnamed() -> StreamId {
    Uuid::new_v4().into()
}

/// The same with the longest name that is usual: a kind and the id.
fn named() -> StreamId {
    StreamId::of_kind("order", Uuid::new_v4())
}
