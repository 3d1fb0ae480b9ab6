//! A saga: cargo run --example saga
//!
//! When an order is placed, a payment is asked for; when the payment has come, the order is shipped. The answers' ids
//! follow from the event that is answered, so answering twice is answering once.

use std::error::Error;

use highwater::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The saga knows the events of both sides.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Shop {
    OrderPlaced { cents: i64 },
    PaymentRequested { order: Uuid, cents: i64 },
    PaymentReceived { order: Uuid },
    OrderShipped,
}

struct Fulfilment {
    store: MemoryEventStore,
}

impl Projection<Shop> for Fulfilment {
    const STATE: StateIs = StateIs::Nothing;

    fn subscriber_id(&self) -> &str {
        "saga:fulfilment"
    }

    async fn apply(&self, event: &Event<Shop>) -> Result<(), BoxError> {
        let answer = match &event.data {
            Shop::OrderPlaced { cents } => {
                let payment = stream_id("payment", &event.stream_id.to_string());
                let request = Shop::PaymentRequested { order: event.stream_id, cents: *cents };
                // Caused by the event and correlated with it; "request" tells this answer from others to the same event.
                Append::to(payment).in_answer_to(event, "fulfilment/request").event(request)
            }
            Shop::PaymentReceived { order } => {
                Append::to(*order).in_answer_to(event, "fulfilment/ship").event(Shop::OrderShipped)
            }
            Shop::PaymentRequested { .. } | Shop::OrderShipped => return Ok(()),
        };
        let done = self.store.append(&answer).await?;
        if done.repeated {
            println!("  (answered {} already)", event.event_type);
        }
        Ok(())
    }

    async fn reset(&self) -> Result<(), BoxError> {
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryEventStore::new();
    let bus = MemoryEventBus::new(store.clone());
    let saga = bus.subscribe(Fulfilment { store: store.clone() }).await?;

    let order = stream_id("order", "17");
    store.append(&Append::to(order).event(Shop::OrderPlaced { cents: 1_299 })).await?;
    saga.caught_up().await?;
    let payment = stream_id("payment", &order.id().to_string());
    store.append(&Append::to(payment).event(Shop::PaymentReceived { order: order.id() })).await?;
    saga.caught_up().await?;

    // Everything is delivered once more, as after a crash: nothing is asked for or shipped a second time.
    saga.rebuild().await?;
    saga.caught_up().await?;

    let mut events = store.read_all_events_since::<Shop>(0);
    while let Some(event) = events.next().await.transpose()? {
        let cause = event.metadata.causation_id().map_or("", |_| "  <- because of the one before");
        println!("{} {}{cause}", event.global_sequence.unwrap_or_default(), event.event_type);
    }
    bus.shutdown().await?;
    Ok(())
}
