//! Scenario `memory`: what a subscriber holds that is two million events behind.
//!
//! In a process of its own, with everything as it is by default but for checkpoints, which are stored in batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use highwater::{Event, ReliableDeliveryConfig, observer_fn};
use highwater_postgres::PgEventBus;
use uuid::Uuid;

use crate::Error;
use crate::child::{self, Child};
use crate::options::Options;
use crate::payload::{EVENT_TYPE, Order};
use crate::proc::megabytes;
use crate::report::{Report, Row, Unit};
use crate::server::Server;

pub(crate) const ROLE: &str = "memory";

const EVENTS: i64 = 2_000_000;
const EVENTS_QUICK: i64 = 200_000;
/// Megabytes.
const MEMORY_MAX: f64 = 150.0;

pub(crate) async fn run(server: &Server, options: &Options) -> Result<Report, Error> {
    let events = if options.quick { EVENTS_QUICK } else { EVENTS };
    fill(server, events).await?;
    let mut peak = Row::new("backlog_memory_mb", Unit::Megabytes);
    let mut before = Row::new("before it subscribes", Unit::Megabytes);
    let mut rate = Row::new("catching up", Unit::EventsPerSecond);
    for _ in 0..options.rounds {
        let mut child = Child::start(server, ROLE, &[]).await?;
        before.push(megabytes(child.pid, "VmRSS")?);
        let started = Instant::now();
        let handled: i64 = child.ask("catch up").await?.parse()?;
        rate.push(events as f64 / started.elapsed().as_secs_f64());
        peak.push(megabytes(child.pid, "VmHWM")?);
        if handled != events {
            return Err(format!("{handled} events were handled instead of {events}").into());
        }
    }
    Ok(Report::new(options, vec![peak, before, rate]).limit("backlog_memory", "backlog_memory_mb", MEMORY_MAX))
}

/// By hand: quicker than appending, and the same rows.
async fn fill(server: &Server, events: i64) -> Result<(), Error> {
    server.store().await?;
    let mut connection = server.sqlx().await?;
    sqlx::query(include_str!("../sql/fill_events.sql"))
        .bind(events)
        .bind(EVENT_TYPE)
        .bind(include_str!("../payload.json").trim_end())
        .execute(&mut connection)
        .await?;
    sqlx::query("VACUUM (ANALYZE) highwater.events").execute(&mut connection).await?;
    sqlx::query("CHECKPOINT").execute(&mut connection).await?;
    eprintln!("filled in {events} events");
    Ok(())
}

/// The child: catches up when it is told to, and says how much that was.
pub(crate) async fn catch_up(url: &str) -> Result<(), Error> {
    let bus = PgEventBus::with_config(child::store(url).await?, ReliableDeliveryConfig::default());
    child::serve(|_| catch_up_on(bus.clone())).await
}

async fn catch_up_on(bus: PgEventBus) -> Result<String, Error> {
    let handled = Arc::new(AtomicU64::new(0));
    let count = handled.clone();
    let counting = observer_fn(format!("projection:{}", Uuid::new_v4()), move |_: Event<Order>| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    });
    bus.subscribe(counting).await?.caught_up().await?;
    Ok(handled.load(Ordering::Relaxed).to_string())
}
