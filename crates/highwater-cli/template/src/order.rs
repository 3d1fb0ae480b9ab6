//! An order: what can happen to it, and what may be decided about it.

use std::fmt;

use highwater::prelude::*;
use serde::{Deserialize, Serialize};

/// What can happen. The names of the variants are stored, without that of the enum: rename them with `#[serde(rename)]`, and let no
/// other enum have one of the same name.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    Placed { customer: String, cents: i64 },
    Shipped,
}

/// One order, folded from its events.
#[derive(Debug, Default)]
pub struct OrderState {
    placed: bool,
    shipped: bool,
}

impl Evolve for OrderState {
    type Event = Order;

    fn evolve(&mut self, event: &Event<Order>) {
        match event.data {
            Order::Placed { .. } => self.placed = true,
            Order::Shipped => self.shipped = true,
        }
    }
}

/// Why something cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    AlreadyPlaced,
    NotPlaced,
    AlreadyShipped,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlreadyPlaced => "the order has been placed already",
            Self::NotPlaced => "there is no such order",
            Self::AlreadyShipped => "the order has left already",
        })
    }
}

impl std::error::Error for Refused {}

/// Decisions look at the state and return what happens. They may be made again when another writer was faster.
impl OrderState {
    pub fn place(&self, customer: &str, cents: i64) -> Result<Order, Refused> {
        match self.placed {
            true => Err(Refused::AlreadyPlaced),
            false => Ok(Order::Placed { customer: customer.to_owned(), cents }),
        }
    }

    pub fn ship(&self) -> Result<Order, Refused> {
        match (self.placed, self.shipped) {
            (false, _) => Err(Refused::NotPlaced),
            (true, true) => Err(Refused::AlreadyShipped),
            (true, false) => Ok(Order::Shipped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a decision was refused for.
    fn refused<T>(decided: Result<T, ExecuteError<Refused>>) -> Option<Refused> {
        match decided {
            Err(ExecuteError::Rejected(why)) => Some(why),
            _ => None,
        }
    }

    #[tokio::test]
    async fn an_order_is_placed_once_and_shipped_once() {
        let store = MemoryEventStore::new();
        let order = stream_id("order", "17");
        let place = |order: &OrderState| order.place("anna", 1299);
        let ship = |order: &OrderState| order.ship();
        assert_eq!(refused(store.execute(order, ship).await), Some(Refused::NotPlaced));
        store.execute(order, place).await.unwrap();
        assert_eq!(refused(store.execute(order, place).await), Some(Refused::AlreadyPlaced));
        store.execute(order, ship).await.unwrap();
        assert_eq!(refused(store.execute(order, ship).await), Some(Refused::AlreadyShipped));
        let events: Vec<Event<Order>> = store.read_events(order).collect().await.unwrap();
        assert_eq!(events.len(), 2, "what was refused is not stored");
    }
}
