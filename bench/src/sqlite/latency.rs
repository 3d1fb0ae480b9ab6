//! From the call of append to the call of a handler in another process, at 100 events a second.

use highwater_sqlite::SqliteEventStore;

use super::Folder;
use crate::Error;
use crate::child::Child;
use crate::latency::{PACE, SLICE, Side, paced, receive_from, send, stamped};
use crate::options::Options;
use crate::payload::Placed;
use crate::report::{Row, Unit};

pub(crate) const ROLE: &str = "latency-sqlite";
pub(super) const P50_MS: &str = "ours, to another process, p50";

pub(super) async fn measure(folder: &Folder, options: &Options, placed: &Placed) -> Result<Vec<Row>, Error> {
    let (store, url) = (folder.ours("latency.db").await?, folder.url("latency.db"));
    let mut child = Child::start_on(&url, ROLE, &[]).await?;
    let mut side = Side::new(&[P50_MS, "ours, to another process, p99", "ours, to another process, max"]);
    let slices = options.time.div_duration_f64(PACE * SLICE as u32).ceil() as usize;
    for round in 0..=options.rounds {
        for _ in 0..if round == 0 { 1 } else { slices } {
            paced(async || send(&store, stamped(placed)).await).await?;
            side.take(&mut child).await?;
        }
        // The first is there to warm up.
        side.end_round(round > 0);
    }
    Ok(side.rows.into_iter().map(in_milliseconds).collect())
}

fn in_milliseconds(row: Row) -> Row {
    Row { unit: Unit::Milliseconds, figures: row.figures.iter().map(|micros| micros / 1e3).collect(), ..row }
}

/// The child: a subscriber with everything as it is by default.
pub(crate) async fn receive(url: &str) -> Result<(), Error> {
    receive_from(SqliteEventStore::open(url).await?).await
}
