//! Two instances of one program: one processes, the other stands by and takes over. `cargo run --example instances`
//!
//! Both run in this process, over a store in memory. With `PgEventStore` and `PgEventBus` they would be two processes on two
//! machines; nothing else changes.

use highwater::prelude::*;
use highwater::{Subscription, SubscriptionState};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
enum Order {
    Placed { cents: i64 },
}

/// What an instance does: here it says who it is.
struct Printer(&'static str);

impl Projection<Order> for Printer {
    const STATE: StateIs = StateIs::Nothing;

    fn subscriber_id(&self) -> &str {
        "projection:printer"
    }

    async fn apply(&self, event: &Event<Order>) -> Result<(), BoxError> {
        let Order::Placed { cents } = event.data;
        println!("{}: an order over {cents} cents", self.0);
        Ok(())
    }
}

/// Starts an instance, as `main` of your program would.
async fn start(store: &MemoryEventStore, name: &'static str) -> Result<MemoryEventBus, Error> {
    let config = ReliableDeliveryConfig { instance_mode: InstanceMode::Coordinated, ..Default::default() };
    let bus = MemoryEventBus::with_config(store.clone(), config);
    bus.subscribe(Printer(name)).await?;
    Ok(bus)
}

fn printer(bus: &MemoryEventBus) -> Subscription {
    bus.subscription("projection:printer").expect("it was subscribed")
}

async fn place(store: &MemoryEventStore, bus: &MemoryEventBus, cents: i64) -> Result<(), Error> {
    let append = Append::to(stream_id("order", &cents.to_string())).event(Order::Placed { cents });
    let done = store.append(&append).await?;
    bus.wait_for("projection:printer", &done).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let store = MemoryEventStore::new();
    let first = start(&store, "first").await?;
    printer(&first).caught_up().await?;
    let second = start(&store, "second").await?;

    place(&store, &second, 1299).await?;
    // The second one stands by, and soon knows for whom.
    let leader = loop {
        if let SubscriptionState::Standby { leader: Some(leader) } = printer(&second).state() {
            break leader;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    };
    println!("second: standing by; instance {} leads with term {}", leader.instance.id, leader.term);

    // The first one stops: it finishes what is in hand and lets the other take over.
    first.shutdown().await?;
    place(&store, &second, 499).await?;
    println!("second: leading with term {:?}", printer(&second).state().term());
    second.shutdown().await
}
