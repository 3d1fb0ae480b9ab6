//! Scenario `catchup`: what delivery costs on top of reading: checkpoints, fences, handing over.
//!
//! Both sides handle the same events of the same table. Ours has a new subscriber on a new bus each time, measured from
//! `subscribe()` until everything was handled; the end of that bus is not measured.

mod ours;
mod raw;

use std::sync::Arc;
use std::time::{Duration, Instant};

use highwater_postgres::PgEventStore;
use tokio::sync::Mutex;

use crate::Error;
use crate::load::{self, Loaded};
use crate::options::Options;
use crate::read::{Seen, raw_all, raw_pages};
use crate::report::{Goal, Report, Unit};
use crate::rounds::{self, Way as _};
use crate::server::Server;
use ours::Kind;
use raw::Raw;

/// Events at the end of the log that are enough where each takes a statement.
const PART: i64 = 10_000;
const PART_QUICK: i64 = 2_000;
/// Events in a transaction.
const BATCH: usize = 500;

#[derive(Debug, Clone, Copy)]
enum Way {
    Ours,
    RawAll,
    RawPages1k,
    RawPages5k,
    RawPages10k,
    OursTx,
    RawTx,
    OursSync,
    RawSync,
}

use Way::*;

/// What is compared.
const GROUPS: [&[Way]; 3] =
    [&[Ours, RawAll, RawPages1k, RawPages5k, RawPages10k], &[OursTx, RawTx], &[OursSync, RawSync]];

impl rounds::Way for Way {
    fn name(self) -> &'static str {
        match self {
            Ours => "ours, counting",
            RawAll => "raw, counting, one statement",
            RawPages1k => "raw, counting, pages of 1,000",
            RawPages5k => "raw, counting, pages of 5,000",
            RawPages10k => "raw, counting, pages of 10,000",
            OursTx => "ours, transactions of 500 UPSERTs",
            RawTx => "raw, transactions of 500 UPSERTs",
            OursSync => "ours, a checkpoint after every event",
            RawSync => "raw, nothing but UPDATEs",
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
    let part = Part::find(&mut connection, if options.quick { PART_QUICK } else { PART }).await?;
    let sides = Sides { store, raw: Mutex::new(Raw::new(server).await?), loaded, part };
    let sides = Arc::new(sides);
    // In a task, as applications are: not on the thread that waits for the runtime.
    let measure = async |way, time| tokio::spawn(measure(way, time, sides.clone())).await?;
    let rows = rounds::interleave(&GROUPS, options, async || Ok(()), measure).await?;
    let counting = [RawAll, RawPages1k, RawPages5k, RawPages10k].map(Way::name);
    let report = Report::new(options, rows)
        .compare("catchup_vs_raw", Ours.name(), &counting, Some(Goal::AtLeast(0.9)))
        .compare("catchup_tx_vs_raw", OursTx.name(), &[RawTx.name()], Some(Goal::AtLeast(0.85)))
        .compare("sync_vs_raw", OursSync.name(), &[RawSync.name()], Some(Goal::AtLeast(0.8)));
    Ok(report)
}

/// Events per second of as many whole runs as there is time for. What comes between two of them does not count.
async fn measure(way: Way, time: Duration, sides: Arc<Sides>) -> Result<f64, Error> {
    let (mut events, mut measured) = (0, Duration::ZERO);
    while measured < time {
        let (seen, took) = sides.once(way).await?;
        events += seen.events;
        measured += took;
    }
    Ok(events as f64 / measured.as_secs_f64())
}

/// The last events of the log.
struct Part {
    after: i64,
    all: Seen,
}

impl Part {
    async fn find(connection: &mut sqlx::PgConnection, events: i64) -> Result<Self, Error> {
        let (after, events, sum): (i64, i64, i64) =
            sqlx::query_as(include_str!("../sql/part.sql")).bind(events).fetch_one(connection).await?;
        Ok(Self { after, all: Seen { events: usize::try_from(events)?, sum } })
    }
}

/// Both sides.
struct Sides {
    store: PgEventStore,
    /// Used by one at a time; the lock is never waited for.
    raw: Mutex<Raw>,
    loaded: Loaded,
    part: Part,
}

impl Sides {
    /// Handles everything once, and makes sure that it was all there.
    async fn once(&self, way: Way) -> Result<(Seen, Duration), Error> {
        let mut raw = self.raw.lock().await;
        let after = self.part.after;
        if let OursTx | RawTx = way {
            raw.empty_model().await?;
        }
        let started = Instant::now();
        let seen = match way {
            Ours => return self.ours(Kind::Counting, 0, self.loaded.all).await,
            OursTx => return self.ours_tx(&mut raw).await,
            OursSync => return self.ours(Kind::Synchronous, after, self.part.all).await,
            RawAll => raw_all(&mut raw.connection).await?,
            RawPages1k => raw_pages(&mut raw.connection, 1_000).await?,
            RawPages5k => raw_pages(&mut raw.connection, 5_000).await?,
            RawPages10k => raw_pages(&mut raw.connection, 10_000).await?,
            RawTx => raw.transactions(after).await?,
            RawSync => raw.updates(self.part.all).await?,
        };
        let took = started.elapsed();
        let expected = match way {
            RawTx | RawSync => self.part.all,
            _ => self.loaded.all,
        };
        check(way.name(), seen, expected)?;
        if let RawTx = way {
            check(way.name(), raw.model().await?, expected)?;
        }
        Ok((seen, took))
    }

    async fn ours(&self, kind: Kind, after: i64, expected: Seen) -> Result<(Seen, Duration), Error> {
        let (seen, took) = ours::count(&self.store, kind, after).await?;
        check("ours", seen, expected)?;
        Ok((seen, took))
    }

    async fn ours_tx(&self, raw: &mut Raw) -> Result<(Seen, Duration), Error> {
        let took = ours::project(&self.store, self.part.after).await?;
        let seen = raw.model().await?;
        check("ours, in transactions", seen, self.part.all)?;
        Ok((seen, took))
    }
}

fn check(name: &str, seen: Seen, expected: Seen) -> Result<(), Error> {
    if seen != expected {
        return Err(format!("{name}: {seen:?} was handled instead of {expected:?}").into());
    }
    Ok(())
}
