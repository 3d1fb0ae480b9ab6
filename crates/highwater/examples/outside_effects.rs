//! Effects outside of the database, each once although events may come twice: cargo run --example outside_effects
//!
//! A projection that sends mail cannot share a transaction with the mail server. After a crash the events since its
//! checkpoint are handed over again. What makes that harmless is the event's id: it is the same every time, so it serves as
//! the key under which the other side knows what it has done.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use highwater::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Placed { email: String },
}

/// Stands for a mail service that takes an idempotency key, as most do.
#[derive(Default)]
struct MailService(Mutex<HashMap<Uuid, String>>);

impl MailService {
    fn send(&self, key: Uuid, to: &str) -> Result<(), BoxError> {
        let mut sent = self.0.lock().map_err(|error| error.to_string())?;
        match sent.insert(key, to.to_owned()) {
            None => println!("  sent to {to}"),
            Some(_) => println!("  {to} has had this one already"),
        }
        Ok(())
    }
}

struct Confirmations {
    mail: Arc<MailService>,
    /// How often it still "crashes" after the mail went out, before that is known here.
    crashes: Mutex<u32>,
}

impl Projection<Order> for Confirmations {
    const STATE: StateIs = StateIs::Nothing;

    fn subscriber_id(&self) -> &str {
        "projection:confirmations"
    }

    async fn apply(&self, event: &Event<Order>) -> Result<(), BoxError> {
        let Order::Placed { email } = &event.data;
        // The event's id, not a new one: a receiver that sees it again recognises it.
        self.mail.send(event.id, email)?;
        let mut crashes = self.crashes.lock().map_err(|error| error.to_string())?;
        if *crashes > 0 {
            *crashes -= 1;
            return Err("the line went dead right after the mail had gone out".into());
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryEventStore::new();
    let config = ReliableDeliveryConfig {
        initial_retry_delay: std::time::Duration::from_millis(50),
        ..ReliableDeliveryConfig::default()
    };
    let bus = MemoryEventBus::with_config(store.clone(), config);
    let mail = Arc::new(MailService::default());
    bus.subscribe(Confirmations { mail: mail.clone(), crashes: Mutex::new(1) }).await?;

    let mut last = 0;
    for (number, email) in [("1", "anna@example.org"), ("2", "ben@example.org")] {
        let append = Append::to(stream_id("order", number)).event(Order::Placed { email: email.into() });
        last = store.append(&append).await?.global_sequence;
    }
    bus.wait_for("projection:confirmations", GlobalSequence(last)).await?;
    let sent = mail.0.lock().map_err(|error| error.to_string())?.len();
    println!("{sent} orders, {sent} mails, although one was handed over twice");
    bus.shutdown().await?;
    Ok(())
}
