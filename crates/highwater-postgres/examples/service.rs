//! A service that stops as it should: cargo run -p highwater-postgres --example service, and then Ctrl-C, or SIGTERM.
//!
//! On SIGTERM every subscriber finishes the event in hand and stores its checkpoint; what is not done by the deadline is
//! delivered again at the next start. Meanwhile `health()` is what a readiness probe would ask.

use std::error::Error;
use std::time::Duration;

use highwater::prelude::*;
use highwater_postgres::{PgConfig, PgEventBus, PgEventStore};
use serde::{Deserialize, Serialize};
use throwaway_postgres::ThrowawayPostgres;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Serialize, Deserialize)]
enum Tick {
    Ticked { n: u64 },
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
    let delivery = ReliableDeliveryConfig { shutdown_timeout: Duration::from_secs(5), ..Default::default() };
    let bus = PgEventBus::with_config(store.clone(), delivery);
    bus.initialize().await?;
    let ticks = bus
        .subscribe(observer_fn("projection:ticks", |event: Event<Tick>| async move {
            let Tick::Ticked { n } = event.data;
            println!("tick {n}");
            Ok(())
        }))
        .await?;

    // Both before the first wait: a signal that comes early must not be missed.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut clock = tokio::time::interval(Duration::from_millis(500));
    for n in 1.. {
        tokio::select! {
            _ = clock.tick() => {}
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
        store.append(&Append::to(stream_id("clock", "1")).event(Tick::Ticked { n })).await?;
        let health = bus.health().await;
        if !health.is_ready() {
            for problem in &health.problems {
                println!("not ready: {problem}");
            }
        }
    }
    bus.shutdown().await?;
    println!("stopped at {}", ticks.progress().await?.checkpoint);
    Ok(())
}
