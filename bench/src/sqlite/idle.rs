//! What a process costs in which nothing happens.

use std::time::Duration;

use highwater::observer_fn;
use highwater_sqlite::{SqliteEventBus, SqliteEventStore};

use crate::Error;
use crate::options::Options;
use crate::payload::Order;
use crate::proc::cpu;
use crate::report::{Row, Unit};

pub(super) const NAME: &str = "ours, 20 live subscribers and no events";
const SUBSCRIBERS: usize = 20;

/// Processor time of this process, in which nothing else is done meanwhile.
pub(super) async fn measure(store: SqliteEventStore, options: &Options) -> Result<Row, Error> {
    let bus = SqliteEventBus::new(store);
    for n in 0..SUBSCRIBERS {
        let observer = observer_fn(format!("projection:{n}"), async |_: highwater::Event<Order>| Ok(()));
        bus.subscribe(observer).await?.caught_up().await?;
    }
    let mut row = Row::new(NAME, Unit::Percent);
    let time = Duration::from_secs(if options.quick { 2 } else { 10 });
    for _ in 0..options.rounds {
        let before = cpu(std::process::id())?;
        tokio::time::sleep(time).await;
        row.push((cpu(std::process::id())? - before).as_secs_f64() / time.as_secs_f64() * 100.0);
    }
    bus.shutdown().await?;
    Ok(row)
}
