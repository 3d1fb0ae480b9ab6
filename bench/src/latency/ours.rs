//! A store here, a bus there.

use highwater::{Append, ExpectedVersion, Log, ReliableDeliveryConfig, StartAt, SubscriberOptions, observer_fn};
use highwater_postgres::{PgEventBus, PgEventStore};
use uuid::Uuid;

use super::receipts::Receipts;
use crate::payload::{Order, Placed};
use crate::{Error, child};

pub(super) async fn send(store: &PgEventStore, placed: Placed) -> Result<(), Error> {
    let append = Append::to(Uuid::new_v4()).expecting(ExpectedVersion::NoStream).event(Order::from(placed));
    store.append(&append).await?;
    Ok(())
}

/// The child: a subscriber with everything as it is by default.
pub(crate) async fn receive(url: &str) -> Result<(), Error> {
    let bus = PgEventBus::new(child::store(url).await?, ReliableDeliveryConfig::default());
    let receipts = Receipts::default();
    let noting = receipts.clone();
    let observer = observer_fn("projection:latency", move |event: highwater::Event<Order>| {
        let Order::Placed { amount, .. } = event.data;
        noting.note(amount);
        async { Ok(()) }
    });
    let observer = observer.with_options(SubscriberOptions::new().start(StartAt::End));
    bus.subscribe(observer).await?.caught_up().await?;
    receipts.serve().await
}
