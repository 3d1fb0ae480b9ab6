//! A first projection: cargo run --example projection
//!
//! Orders are appended, a projection counts them, and whoever has just written waits until it can read its own write.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use highwater::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Placed { customer: String, cents: i64 },
    Cancelled { customer: String, cents: i64 },
}

/// What every customer has ordered for.
#[derive(Default)]
struct Totals(Mutex<BTreeMap<String, i64>>);

impl Projection<Order> for Totals {
    fn subscriber_id(&self) -> &str {
        "projection:totals"
    }

    async fn apply(&self, event: &Event<Order>) -> Result<(), BoxError> {
        let (customer, cents) = match &event.data {
            Order::Placed { customer, cents } => (customer, *cents),
            Order::Cancelled { customer, cents } => (customer, -cents),
        };
        *self.0.lock().map_err(|error| error.to_string())?.entry(customer.clone()).or_default() += cents;
        Ok(())
    }

    // Needed for `rebuild`, and for nothing else.
    async fn reset(&self) -> Result<(), BoxError> {
        self.0.lock().map_err(|error| error.to_string())?.clear();
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryEventStore::new();
    let bus = MemoryEventBus::new(store.clone());

    // These happened before anybody subscribed: they are caught up on.
    for (number, customer, cents) in [(1, "anna", 1_299), (2, "ben", 500), (3, "anna", 250)] {
        let order = stream_id("order", &number.to_string());
        store.append(&Append::to(order).event(Order::Placed { customer: customer.into(), cents })).await?;
    }
    let totals = Arc::new(Totals::default());
    let subscription = bus.subscribe(totals.clone()).await?;
    subscription.caught_up().await?;
    println!("caught up:  {:?}", totals.0.lock().map_err(|error| error.to_string())?);

    // This one arrives live. `wait_for` returns once the projection has taken it in.
    let cancelled = Order::Cancelled { customer: "anna".into(), cents: 250 };
    let done = store.append(&Append::to(stream_id("order", "3")).event(cancelled)).await?;
    bus.wait_for("projection:totals", &done).await?;
    println!("live:       {:?}", totals.0.lock().map_err(|error| error.to_string())?);

    // The same once more, from the first event on.
    subscription.rebuild().await?;
    subscription.caught_up().await?;
    println!("rebuilt:    {:?}", totals.0.lock().map_err(|error| error.to_string())?);

    let progress = subscription.progress().await?;
    println!("{}: at {} of {}", progress.state.name(), progress.position, progress.frontier);
    bus.shutdown().await?;
    Ok(())
}
