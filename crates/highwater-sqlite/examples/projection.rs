//! A read model in a table: cargo run -p highwater-sqlite --example projection
//!
//! The projection is handed the transaction that its checkpoint is committed with, so every event counts exactly once, whatever
//! crashes when. Its table is made before the first event. Catching up, live, read-your-own-writes, and rebuilding.

use std::error::Error;

use highwater::prelude::*;
use highwater_sqlite::{SqliteEventBus, SqliteEventStore, SqliteTx, sqlx};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Placed { customer: String, cents: i64 },
    Cancelled { customer: String, cents: i64 },
}

/// What every customer has ordered for.
struct Totals;

impl TransactionalProjection<Order, SqliteTx> for Totals {
    fn subscriber_id(&self) -> &str {
        "projection:totals"
    }

    // Once, before the first event. `version` goes up when the table changes, and then this drops the old one first.
    async fn setup(&self, tx: &mut SqliteTx) -> Result<(), BoxError> {
        let create = "CREATE TABLE IF NOT EXISTS totals (customer TEXT PRIMARY KEY, cents INTEGER NOT NULL) STRICT";
        sqlx::query(create).execute(&mut **tx).await?;
        Ok(())
    }

    async fn apply(&self, tx: &mut SqliteTx, event: &Event<Order>) -> Result<(), BoxError> {
        let (customer, cents) = match &event.data {
            Order::Placed { customer, cents } => (customer, *cents),
            Order::Cancelled { customer, cents } => (customer, -cents),
        };
        let add = "INSERT INTO totals VALUES ($1, $2) ON CONFLICT DO UPDATE SET cents = cents + excluded.cents";
        sqlx::query(add).bind(customer).bind(cents).execute(&mut **tx).await?;
        Ok(())
    }

    // Needed for `rebuild`, and for a new version.
    async fn reset(&self, tx: &mut SqliteTx) -> Result<(), BoxError> {
        sqlx::query("DELETE FROM totals").execute(&mut **tx).await?;
        Ok(())
    }
}

async fn totals(store: &SqliteEventStore) -> Result<Vec<(String, i64)>, sqlx::Error> {
    sqlx::query_as("SELECT customer, cents FROM totals ORDER BY customer").fetch_all(store.pool()).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("highwater-projection-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let store = SqliteEventStore::open(&format!("sqlite:{}", folder.join("shop.db").display())).await?;
    store.initialize().await?;

    // These happened before anything subscribed: they are caught up on.
    for (number, customer, cents) in [(1, "anna", 1_299), (2, "ben", 500), (3, "anna", 250)] {
        let order = stream_id("order", &number.to_string());
        store.append(&Append::to(order).event(Order::Placed { customer: customer.into(), cents })).await?;
    }
    let bus = SqliteEventBus::new(store.clone());
    let subscription = bus.subscribe(Totals).await?;
    subscription.caught_up().await?;
    println!("caught up:  {:?}", totals(&store).await?);

    // This one arrives live. `wait_for` returns once the projection has handled it.
    let cancelled = Order::Cancelled { customer: "anna".into(), cents: 250 };
    let done = store.append(&Append::to(stream_id("order", "3")).event(cancelled)).await?;
    bus.wait_for("projection:totals", &done).await?;
    println!("live:       {:?}", totals(&store).await?);

    // The same once more, from the first event on.
    subscription.rebuild().await?;
    subscription.caught_up().await?;
    println!("rebuilt:    {:?}", totals(&store).await?);

    bus.shutdown().await?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
