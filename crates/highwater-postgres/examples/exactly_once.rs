//! An exactly-once read model in PostgreSQL: cargo run -p highwater-postgres --example exactly_once
//!
//! The projection is handed the transaction that its checkpoint is in, so the two are committed together or not at all. Runs
//! against the server that DATABASE_URL names, or else starts one of its own and throws it away afterwards.

use std::error::Error;

use highwater::TransactionalProjection;
use highwater::prelude::*;
use highwater_postgres::{PgConfig, PgEventBus, PgEventStore, PgTx};
use serde::{Deserialize, Serialize};
use throwaway_postgres::ThrowawayPostgres;

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Placed { customer: String, cents: i64 },
}

struct Revenue;

impl TransactionalProjection<Order, PgTx> for Revenue {
    fn subscriber_id(&self) -> &str {
        "projection:revenue"
    }

    async fn setup(&self, tx: &mut PgTx) -> Result<(), BoxError> {
        let create =
            "CREATE TABLE IF NOT EXISTS example_revenue (customer text PRIMARY KEY, cents bigint, orders bigint)";
        sqlx::query(create).execute(&mut **tx).await?;
        Ok(())
    }

    // While it catches up, up to four thousand events share a transaction.
    async fn apply(&self, tx: &mut PgTx, event: &Event<Order>) -> Result<(), BoxError> {
        let Order::Placed { customer, cents } = &event.data;
        sqlx::query(
            "INSERT INTO example_revenue AS r (customer, cents, orders) VALUES ($1, $2, 1)
             ON CONFLICT (customer) DO UPDATE SET cents = r.cents + excluded.cents, orders = r.orders + 1",
        )
        .bind(customer)
        .bind(cents)
        .execute(&mut **tx)
        .await?;
        Ok(())
    }

    async fn reset(&self, tx: &mut PgTx) -> Result<(), BoxError> {
        sqlx::query("TRUNCATE example_revenue").execute(&mut **tx).await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (_server, url) = match std::env::var("DATABASE_URL") {
        Ok(url) => (None, url),
        Err(_) => {
            let server = ThrowawayPostgres::builder().start()?;
            let url = server.url();
            (Some(server), url)
        }
    };
    let config = PgConfig { schema: "highwater_example".into(), ..PgConfig::default() };
    let store = PgEventStore::connect_with(&url, config).await?;
    store.initialize().await?;

    for n in 0..2_000 {
        let customer = ["anna", "ben", "carla"][n % 3].to_owned();
        let append = Append::to(uuid::Uuid::now_v7()).event(Order::Placed { customer, cents: 100 });
        store.append(&append).await?;
    }
    let bus = PgEventBus::new(store.clone());
    let subscription = bus.subscribe(Revenue).await?;
    subscription.caught_up().await?;

    let rows: Vec<(String, i64, i64)> =
        sqlx::query_as("SELECT customer, cents, orders FROM example_revenue ORDER BY customer")
            .fetch_all(store.pool())
            .await?;
    for (customer, cents, orders) in rows {
        println!("{customer:6} {orders:4} orders {cents:7} cents");
    }
    println!("the read model is as of {}", subscription.progress().await?.checkpoint);
    bus.shutdown().await?;
    Ok(())
}
