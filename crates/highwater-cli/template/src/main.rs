//! A small shop on events. README.md says what it can do.

mod customers;
mod order;
mod revenue;

use std::error::Error;
use std::process::ExitCode;

use highwater::prelude::*;
use highwater_sqlite::{SqliteEventBus, SqliteEventStore};
use tracing_subscriber::filter::LevelFilter;

use customers::Customers;
use order::OrderState;
use revenue::Revenue;

const USAGE: &str = "usage: shop place ORDER CUSTOMER CENTS | shop ship ORDER | shop serve";

#[tokio::main]
async fn main() -> ExitCode {
    logging();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With its causes.
            eprintln!("{}", highwater::operations::chain(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("HIGHWATER_DATABASE_URL").unwrap_or_else(|_| "sqlite:shop.db".to_owned());
    let store = SqliteEventStore::open(&url).await?;
    store.initialize().await?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["place", order, customer, cents] => {
            let cents = cents.parse()?;
            let place = |order: &OrderState| order.place(customer, cents);
            let done = store.execute(stream_id("order", order), place).await?;
            let bus = SqliteEventBus::new(store);
            let revenue = bus.live_view::<Revenue>()?;
            if let Some(done) = &done {
                println!("placed; {} cents in all", revenue.read_after(done, |revenue| revenue.cents).await?);
            }
            bus.shutdown().await?;
        }
        ["ship", order] => {
            store.execute(stream_id("order", order), |order: &OrderState| order.ship()).await?;
            println!("shipped");
        }
        ["serve"] => serve(store).await?,
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

/// The library says through `tracing` what it warns of.
fn logging() {
    tracing_subscriber::fmt().with_max_level(LevelFilter::WARN).with_writer(std::io::stderr).init();
}

/// Keeps the read models up to date until it is told to stop. Of several such processes one leads, and another takes over.
async fn serve(store: SqliteEventStore) -> Result<(), Box<dyn Error>> {
    let config = ReliableDeliveryConfig { instance_mode: InstanceMode::Coordinated, ..Default::default() };
    let bus = SqliteEventBus::with_config(store, config);
    bus.subscribe(Customers).await?;
    let revenue = bus.live_view::<Revenue>()?;
    println!("serving; {} cents so far", revenue.read(|revenue| revenue.cents).await?);
    stopped().await?;
    // The current events are finished, and the checkpoint is stored.
    bus.shutdown().await?;
    println!("stopped");
    Ok(())
}

/// Ctrl-C, or SIGTERM as service managers send it.
async fn stopped() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            stopped = tokio::signal::ctrl_c() => stopped,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
