//! From an order to its shipment: a saga. Its answers' ids follow from the event that is answered, so answering twice is
//! answering once.

use highwater::{Append, BoxError, Event, ExpectedVersion, Metadata, Projection, StateIs};

use super::{FULFILMENT, now};
use crate::{Order, Shop};

/// Has what was placed paid for, and what was paid for shipped.
#[derive(Debug)]
pub struct Fulfilment<S> {
    instance: u32,
    store: S,
}

impl<S: Shop> Fulfilment<S> {
    /// In the instance of that number, on this store.
    #[must_use]
    pub fn new(instance: u32, store: S) -> Self {
        Self { instance, store }
    }
}

impl<S: Shop> Projection<Order> for Fulfilment<S> {
    const STATE: StateIs = StateIs::Nothing;

    fn subscriber_id(&self) -> &str {
        FULFILMENT
    }

    async fn apply(&self, event: &Event<Order>) -> Result<(), BoxError> {
        let (step, answer) = match event.data {
            Order::Placed { customer, cents } => ("fulfilment/pay", Order::Paid { customer, cents }),
            Order::Paid { customer, .. } => ("fulfilment/ship", Order::Shipped { customer }),
            Order::Shipped { .. } => return Ok(()),
        };
        // Who answered, and when: metadata may differ when the same answer is given again.
        let metadata = Metadata::caused_by(event).with("instance", self.instance).with("handled_at", now());
        let append = Append::to(event.stream_id)
            .expecting(ExpectedVersion::Exact(event.stream_version))
            .in_answer_to(event, step)
            .metadata(&metadata)
            .event(answer);
        self.store.append(&append).await?;
        Ok(())
    }
}
