//! The revenue, as a live view: in memory on every instance, right after a restart, and it reads its own writes.

use highwater::prelude::*;

use crate::order::Order;

#[derive(Debug, Default)]
pub struct Revenue {
    pub cents: i64,
}

impl Evolve for Revenue {
    type Event = Order;

    fn evolve(&mut self, event: &Event<Order>) {
        if let Order::Placed { cents, .. } = event.data {
            self.cents += cents;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_just_placed_counts() {
        let store = MemoryEventStore::new();
        let bus = MemoryEventBus::new(store.clone());
        let revenue = bus.live_view::<Revenue>().unwrap();
        let placed = Order::Placed { customer: "anna".into(), cents: 1299 };
        let done = store.append(&Append::to(stream_id("order", "17")).event(placed)).await.unwrap();
        assert_eq!(revenue.read_after(&done, |revenue| revenue.cents).await.unwrap(), 1299);
        bus.shutdown().await.unwrap();
    }
}
