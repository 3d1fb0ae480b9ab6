//! A live view: cargo run --example live_view
//!
//! Orders are appended, a view in memory adds them up, and the writer reads its own write. A process that starts later folds the
//! same from the log, or from a snapshot.

use std::collections::BTreeMap;
use std::error::Error;

use highwater::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Placed { customer: String, cents: i64 },
    Cancelled { customer: String, cents: i64 },
}

/// What every customer has ordered for.
#[derive(Debug, Clone, Default)]
struct Totals(BTreeMap<String, i64>);

impl Evolve for Totals {
    type Event = Order;

    fn evolve(&mut self, event: &Event<Order>) {
        let (customer, cents) = match &event.data {
            Order::Placed { customer, cents } => (customer, *cents),
            Order::Cancelled { customer, cents } => (customer, -cents),
        };
        *self.0.entry(customer.clone()).or_default() += cents;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryEventStore::new();
    let bus = MemoryEventBus::new(store.clone());

    // These happened before the view was started: it is folded from the beginning of the log.
    for (number, customer, cents) in [(1, "anna", 1_299), (2, "ben", 500), (3, "anna", 250)] {
        let order = stream_id("order", &number.to_string());
        store.append(&Append::to(order).event(Order::Placed { customer: customer.into(), cents })).await?;
    }
    let totals = bus.live_view::<Totals>()?;
    totals.ready().await?;
    println!("ready:      {:?}", totals.read(Totals::clone).await?.0);

    // This one arrives live, and is in what is read.
    let cancelled = Order::Cancelled { customer: "anna".into(), cents: 250 };
    let done = store.append(&Append::to(stream_id("order", "3")).event(cancelled)).await?;
    println!("own write:  {:?}", totals.read_after(&done, Totals::clone).await?.0);

    // A snapshot saves folding a long log again. One of another log is noticed, and not used.
    let snapshot = totals.snapshot().await?;
    let later = bus.live_view_from(snapshot)?;
    println!("snapshot:   {:?}", later.read(Totals::clone).await?.0);
    bus.shutdown().await?;
    Ok(())
}
