//! The process with the subscribers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use highwater::{Event, ReliableDeliveryConfig, StartAt, SubscriberOptions, observer_fn};
use highwater_postgres::PgEventBus;

use crate::payload::Order;
use crate::{Error, child};

/// How long to wait for events that are on their way.
const PATIENCE: Duration = Duration::from_secs(30);

/// Delivers to as many as it is told, and answers how many events that were in all, as soon as they are as many as asked.
pub(crate) async fn deliver(url: &str, args: &[String]) -> Result<(), Error> {
    let [count, name] = args else { return Err("how many subscribers, and of what name?".into()) };
    let bus = PgEventBus::with_config(child::store(url).await?, ReliableDeliveryConfig::default());
    let delivered = Arc::new(AtomicUsize::new(0));
    for n in 0..count.parse::<usize>()? {
        let delivered = delivered.clone();
        let counting = observer_fn(format!("projection:{name}-{n}"), move |_: Event<Order>| {
            delivered.fetch_add(1, Ordering::Relaxed);
            async { Ok(()) }
        });
        let counting = counting.with_options(SubscriberOptions::new().start(StartAt::End));
        bus.subscribe(counting).await?.caught_up().await?;
    }
    child::serve(|expected| count_to(delivered.clone(), expected)).await
}

async fn count_to(delivered: Arc<AtomicUsize>, expected: String) -> Result<String, Error> {
    let (expected, started) = (expected.parse::<usize>()?, Instant::now());
    while delivered.load(Ordering::Relaxed) < expected && started.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(delivered.load(Ordering::Relaxed).to_string())
}
