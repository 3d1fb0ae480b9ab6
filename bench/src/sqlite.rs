//! Scenario `sqlite`: ours in a file beside what SQLite can do by hand: WAL, `synchronous = FULL`, prepared statements.
//!
//! SQLite has one writer at a time. The raw side does what is fastest then: one connection that callers take by turns.

mod idle;
mod latency;
mod raw;

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use highwater::backend::Log;
use highwater::{Append, BoxError, Event, EventStore, ExpectedVersion, Projection, StateIs};
use highwater_sqlite::{SqliteEventBus, SqliteEventStore};
use uuid::Uuid;

pub(crate) use latency::{ROLE as LATENCY, receive};

use crate::Error;
use crate::callers::{rate, slowest};
use crate::options::Options;
use crate::payload::{self, Order, Placed};
use crate::report::{Goal, Report, Row, Unit};
use crate::rounds::{self, Way as _};

/// Events to catch up with.
const BACKLOG: usize = 200_000;
const BACKLOG_QUICK: usize = 20_000;
/// Streams of ten events that are read.
const STREAMS: usize = 2_000;
/// Events of one append when the log is filled.
const FILL: usize = 1_000;

#[derive(Debug, Clone, Copy)]
enum Way {
    Raw(usize),
    Ours(usize),
    RawLoop,
    /// How long 64 callers wait at most, but for a hundredth of the appends.
    Slowest64,
    /// So many read streams at once.
    Readers(usize),
}

use Way::*;

const GROUPS: [&[Way]; 5] = [
    &[Raw(1), Ours(1)],
    &[Raw(32), Ours(32)],
    &[Raw(256), Ours(256), RawLoop],
    &[Slowest64],
    &[Readers(8), Readers(64)],
];

impl rounds::Way for Way {
    fn name(self) -> &'static str {
        match self {
            Raw(1) => "raw, a transaction each, alone",
            Raw(32) => "raw, a transaction each, 32 callers",
            Raw(_) => "raw, a transaction each, 256 callers",
            Ours(1) => "ours, alone",
            Ours(32) => "ours, 32 callers",
            Ours(_) => "ours, 256 callers",
            RawLoop => "raw, a loop in one transaction",
            Slowest64 => "ours, 64 callers, p99",
            Readers(8) => "ours, 8 readers of streams",
            Readers(_) => "ours, 64 readers of streams",
        }
    }

    fn unit(self) -> Unit {
        match self {
            Slowest64 => Unit::Milliseconds,
            _ => Unit::EventsPerSecond,
        }
    }
}

/// A folder that goes with everything in it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("highwater-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn url(&self, name: &str) -> String {
        format!("sqlite:{}", self.0.join(name).display())
    }

    async fn ours(&self, name: &str) -> Result<SqliteEventStore, Error> {
        let store = SqliteEventStore::open(&self.url(name)).await?;
        store.initialize().await?;
        Ok(store)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("bench: {} is left behind: {error}", self.0.display());
        }
    }
}

pub(crate) async fn run(options: &Options) -> Result<Report, Error> {
    let folder = Folder::new()?;
    let placed = payload::sample()?;
    let raw = Arc::new(raw::Raw::open(&folder.0.join("raw.db"), &placed).await?);
    let order = Arc::new(placed.clone().into());
    let ours = Ours { store: folder.ours("ours.db").await?, order, streams: Arc::default() };
    let ours = ours.with_streams().await?;
    let measure = async |way, time| measure(way, time, &ours, &raw).await;
    let mut rows = rounds::interleave(&GROUPS, options, async || Ok(()), measure).await?;
    rows.extend(catch_up(&folder, options, &placed).await?);
    rows.extend(latency::measure(&folder, options, &placed).await?);
    rows.push(idle::measure(folder.ours("idle.db").await?, options).await?);
    Ok(Report::new(options, rows)
        .compare("append1_vs_raw", Ours(1).name(), &[Raw(1).name()], Some(Goal::AtLeast(0.95)))
        .compare("append32_vs_raw", Ours(32).name(), &[Raw(32).name()], None)
        .compare("append256_vs_raw", Ours(256).name(), &[Raw(256).name()], None)
        .compare("append256_vs_loop", Ours(256).name(), &[RawLoop.name()], Some(Goal::AtLeast(0.5)))
        .compare("catchup_vs_raw", "ours, catching up", &["raw, SELECT"], Some(Goal::AtLeast(0.8)))
        .compare("read64_vs_8", Readers(64).name(), &[Readers(8).name()], Some(Goal::AtLeast(1.0)))
        .limit("append64_p99_ms", Slowest64.name(), 8.0)
        .limit("latency_p50_ms", latency::P50_MS, 10.0)
        .limit("idle_cpu_percent", idle::NAME, 1.0))
}

async fn measure(way: Way, time: Duration, ours: &Ours, raw: &Arc<raw::Raw>) -> Result<f64, Error> {
    let (ours, raw) = (ours.clone(), raw.clone());
    match way {
        Raw(callers) => rate(callers, time, move |_| raw.clone().insert()).await,
        Ours(callers) => rate(callers, time, move |_| ours.clone().append(1)).await,
        RawLoop => raw.insert_for(time).await,
        Slowest64 => slowest(64, time, move |_| ours.clone().append(1)).await,
        Readers(readers) => rate(readers, time, move |_| ours.clone().read_one()).await,
    }
}

#[derive(Clone)]
struct Ours {
    store: SqliteEventStore,
    order: Arc<Order>,
    /// Streams to read.
    streams: Arc<[Uuid]>,
}

impl Ours {
    /// Stores events in a stream that does not exist yet.
    async fn append(self, events: usize) -> Result<usize, Error> {
        let append = Append::to(Uuid::new_v4())
            .expecting(ExpectedVersion::NoStream)
            .events(std::iter::repeat_n(&*self.order, events));
        Ok(self.store.append(&append).await?.positions.len())
    }

    /// With streams of ten events each.
    async fn with_streams(self) -> Result<Self, Error> {
        let streams: Arc<[Uuid]> = (0..STREAMS).map(|_| Uuid::new_v4()).collect();
        for stream in &*streams {
            self.store.append(&Append::to(*stream).events(std::iter::repeat_n(&*self.order, 10))).await?;
        }
        Ok(Self { streams, ..self })
    }

    /// Reads one of them.
    async fn read_one(self) -> Result<usize, Error> {
        let stream = self.streams[Uuid::new_v4().as_u128() as usize % STREAMS];
        let (mut events, mut found) = (self.store.read_events::<Order>(stream), 0);
        while let Some(event) = events.next().await {
            black_box(event?);
            found += 1;
        }
        Ok(found)
    }
}

struct Counting {
    id: String,
    events: AtomicUsize,
}

impl Projection<Order> for Counting {
    const STATE: StateIs = StateIs::Nothing;

    fn subscriber_id(&self) -> &str {
        &self.id
    }

    async fn apply(&self, event: &Event<Order>) -> Result<(), BoxError> {
        self.events.fetch_add(1, Ordering::Relaxed);
        black_box(event);
        Ok(())
    }
}

/// Ours from `subscribe` to `caught_up`, decoded; raw a SELECT of the same columns, decoded too.
async fn catch_up(folder: &Folder, options: &Options, placed: &Placed) -> Result<Vec<Row>, Error> {
    let backlog = if options.quick { BACKLOG_QUICK } else { BACKLOG };
    let raw = raw::Raw::open(&folder.0.join("raw-backlog.db"), placed).await?;
    raw.insert_many(backlog).await?;
    let order = Arc::new(placed.clone().into());
    let ours = Ours { store: folder.ours("ours-backlog.db").await?, order, streams: Arc::default() };
    for _ in 0..backlog / FILL {
        ours.clone().append(FILL).await?;
    }
    let row = |name| Row::new(name, Unit::EventsPerSecond);
    let (mut ours_row, mut raw_row) = (row("ours, catching up"), row("raw, SELECT"));
    for round in 0..options.rounds {
        let started = Instant::now();
        let bus = SqliteEventBus::new(ours.store.clone());
        let counting = Arc::new(Counting { id: format!("projection:{round}"), events: AtomicUsize::new(0) });
        let subscription = bus.subscribe(counting.clone()).await?;
        subscription.caught_up().await?;
        ours_row.push(backlog as f64 / started.elapsed().as_secs_f64());
        if counting.events.load(Ordering::Relaxed) != backlog {
            return Err("ours has not seen every event once".into());
        }
        bus.shutdown().await?;
        let started = Instant::now();
        if raw.read().await? != backlog {
            return Err("raw has not seen every event once".into());
        }
        raw_row.push(backlog as f64 / started.elapsed().as_secs_f64());
    }
    Ok(vec![ours_row, raw_row])
}
