//! What every customer has ordered for, in a table beside the events.

use highwater::prelude::*;
use highwater_sqlite::{SqliteTx, sqlx};

use crate::order::Order;

pub struct Customers;

impl TransactionalProjection<Order, SqliteTx> for Customers {
    /// Its checkpoint is stored under this name: it must never change.
    fn subscriber_id(&self) -> &str {
        "projection:customers"
    }

    /// Called once, before the first event, by the instance that leads. When the table changes, add `fn version` with 2, and drop
    /// the old one here: all events come again.
    async fn setup(&self, tx: &mut SqliteTx) -> Result<(), BoxError> {
        let create = "CREATE TABLE customers (name text PRIMARY KEY, cents bigint NOT NULL)";
        sqlx::query(create).execute(&mut **tx).await?;
        Ok(())
    }

    async fn apply(&self, tx: &mut SqliteTx, event: &Event<Order>) -> Result<(), BoxError> {
        let Order::Placed { customer, cents } = &event.data else { return Ok(()) };
        let add = "INSERT INTO customers (name, cents) VALUES ($1, $2) \
                   ON CONFLICT (name) DO UPDATE SET cents = customers.cents + excluded.cents";
        sqlx::query(add).bind(customer).bind(cents).execute(&mut **tx).await?;
        Ok(())
    }

    /// For `highwater rebuild projection:customers`.
    async fn reset(&self, tx: &mut SqliteTx) -> Result<(), BoxError> {
        sqlx::query("DELETE FROM customers").execute(&mut **tx).await?;
        Ok(())
    }
}
