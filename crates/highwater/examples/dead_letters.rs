//! Working on dead letters: cargo run --example dead_letters
//!
//! A projection cannot handle an event. It goes to the dead letters, and so do the later events of its stream, while other
//! streams continue. An operator looks, fixes what was wrong, and has them replayed in order.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use highwater::operations::DeadLetterQuery;
use highwater::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
enum Account {
    Opened { owner: String },
    Deposited { currency: String, cents: i64 },
}

#[derive(Default)]
struct Balances {
    knows_yen: AtomicBool,
}

impl Projection<Account> for Balances {
    const STATE: StateIs = StateIs::Nothing;

    fn subscriber_id(&self) -> &str {
        "projection:balances"
    }

    fn options(&self) -> SubscriberOptions {
        SubscriberOptions::new().on_failure(FailurePolicy::ParkStream)
    }

    async fn apply(&self, event: &Event<Account>) -> Result<(), BoxError> {
        match &event.data {
            Account::Deposited { currency, .. } if currency == "JPY" && !self.knows_yen.load(Ordering::Relaxed) => {
                // Retrying will not help: straight to the dead letters.
                Err(highwater::Permanent::new("no exchange rate for JPY").into())
            }
            data => {
                println!("  handled {data:?}");
                Ok(())
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryEventStore::new();
    let config = ReliableDeliveryConfig { wait_timeout: Duration::from_secs(5), ..ReliableDeliveryConfig::default() };
    let bus = MemoryEventBus::with_config(store.clone(), config);
    let balances = Arc::new(Balances::default());
    let subscription = bus.subscribe(balances.clone()).await?;

    let deposited = |currency: &str, cents| Account::Deposited { currency: currency.into(), cents };
    let anna = Append::to(stream_id("account", "anna")).events([
        Account::Opened { owner: "anna".into() },
        deposited("JPY", 5_000),
        deposited("EUR", 100),
    ]);
    let ben = Append::to(stream_id("account", "ben")).events([deposited("EUR", 700)]);
    store.append(&anna).await?;
    store.append(&ben).await?;
    subscription.caught_up().await?;

    // From any process: list, show with payload and error, replay, discard. What is done is recorded in this name.
    let dead_letters = bus.dead_letters().by("carla");
    let query = DeadLetterQuery::of("projection:balances");
    println!("{} dead letters:", dead_letters.count(&query).await?);
    for dead_letter in dead_letters.list(&query).await? {
        let detail = dead_letters.show(dead_letter.id).await?;
        let error = dead_letter.error_message.as_deref().unwrap_or("waits behind the one before");
        println!(
            "  {} {}: {error}",
            dead_letter.state.name(),
            detail.record.map_or_else(String::new, |record| record.data)
        );
    }

    println!("after the rate was entered:");
    balances.knows_yen.store(true, Ordering::Relaxed);
    let outcome = dead_letters.replay_all("projection:balances").await?.done().await?;
    println!("{} replayed, {} failed again, {} left", outcome.done, outcome.failed, dead_letters.count(&query).await?);
    bus.shutdown().await?;
    Ok(())
}
