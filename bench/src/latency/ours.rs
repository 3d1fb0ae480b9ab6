//! A store here, a bus there.

use highwater::backend::{Log, Transactional};
use highwater::{Append, EventBus, ExpectedVersion, StartAt, SubscriberOptions, observer_fn};
use uuid::Uuid;

use super::receipts::Receipts;
use crate::payload::{Order, Placed};
use crate::{Error, child};

pub(crate) async fn send(store: &impl Log, placed: Placed) -> Result<(), Error> {
    let append = Append::to(Uuid::new_v4()).expecting(ExpectedVersion::NoStream).event(Order::from(placed));
    store.append(&append).await?;
    Ok(())
}

/// The child: a subscriber with everything as it is by default.
pub(crate) async fn receive(url: &str) -> Result<(), Error> {
    receive_from(child::store(url).await?).await
}

/// The same from any store.
pub(crate) async fn receive_from<B: Transactional>(store: B) -> Result<(), Error> {
    let bus = EventBus::new(store);
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
