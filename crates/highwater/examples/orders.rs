//! A shop in memory: cargo run --example orders
//!
//! Orders are placed, paid and shipped; two people try to ship the same one at once; and in the end the whole history is
//! read back in order.

use std::error::Error;

use highwater::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Placed { item: String, cents: i64 },
    Paid { cents: i64 },
    Shipped { by: String },
}

/// What an order has come to, folded from its events.
#[derive(Default)]
struct OrderState {
    due: i64,
    shipped: bool,
}

impl Evolve for OrderState {
    type Event = Order;

    fn evolve(&mut self, event: &Event<Order>) {
        match &event.data {
            Order::Placed { cents, .. } => self.due += cents,
            Order::Paid { cents } => self.due -= cents,
            Order::Shipped { .. } => self.shipped = true,
        }
    }
}

impl OrderState {
    fn ship(&self, by: &str) -> Result<Order, String> {
        if self.shipped {
            return Err("it has left already".into());
        }
        if self.due > 0 {
            return Err(format!("{:.2} EUR are still due", self.due as f64 / 100.0));
        }
        Ok(Order::Shipped { by: by.into() })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryEventStore::new();

    println!("Three orders come in.");
    for (name, item, cents) in [("17", "a kettle", 3490), ("18", "a teapot", 2750), ("19", "two cups", 1200)] {
        let append = Append::to(stream_id("order", name))
            .expecting(ExpectedVersion::NoStream)
            .event(Order::Placed { item: item.into(), cents })
            .metadata(&Metadata::new().with_actor("web shop"));
        let done = store.append(&append).await?;
        // A second click on the button sends the same append again. It is stored once.
        let again = store.append(&append).await?;
        println!(
            "  order {name}: {item}, event {} (sent twice, stored once: {})",
            done.global_sequence, again.repeated
        );
    }

    let kettle = stream_id("order", "17");
    println!("\nAnna wants to ship the kettle before it is paid.");
    if let Err(refused) = store.execute(kettle, |order: &OrderState| order.ship("Anna")).await {
        println!("  {refused}");
    }

    println!("\nIt is paid, and Anna and Ben both ship it.");
    store.append(&Append::to(kettle).event(Order::Paid { cents: 3490 })).await?;
    let (anna, ben) = tokio::join!(
        store.execute(kettle, |order: &OrderState| order.ship("Anna")),
        store.execute(kettle, |order: &OrderState| order.ship("Ben")),
    );
    for (who, outcome) in [("Anna", anna), ("Ben", ben)] {
        match outcome {
            Ok(_) => println!("  {who} shipped it"),
            Err(refused) => println!("  {who}: {refused}"),
        }
    }

    println!("\nEverything that happened, in order:");
    let mut events = store.read_all_events_since::<Order>(0);
    while let Some(event) = events.next().await {
        let event = event?;
        let by = event.metadata.actor().unwrap_or("-");
        println!(
            "  {:>2}  v{}  {:<9} {by}",
            event.global_sequence.unwrap_or(0),
            event.stream_version,
            format!("{:?}", event.data)
        );
    }
    Ok(())
}
