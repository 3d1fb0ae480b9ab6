//! What customers have paid: a transactional projection, so each payment counts once whatever crashes when.

use std::marker::PhantomData;

use highwater::{BoxError, Event, EventTypes, SubscriberOptions, TransactionalProjection};

use super::{REVENUE, handled, now};
use crate::{Order, Shop, Value, sql};

/// The sum and the number of each customer's payments.
#[derive(Debug)]
pub struct Revenue<S> {
    instance: u32,
    shop: PhantomData<fn() -> S>,
}

impl<S: Shop> Revenue<S> {
    /// In the instance of that number.
    #[must_use]
    pub fn new(instance: u32) -> Self {
        Self { instance, shop: PhantomData }
    }
}

impl<S: Shop> TransactionalProjection<Order, S::Tx> for Revenue<S> {
    fn subscriber_id(&self) -> &str {
        REVENUE
    }

    fn options(&self) -> SubscriberOptions {
        SubscriberOptions::new().event_types(EventTypes::only(["Paid"]))
    }

    async fn apply(&self, tx: &mut S::Tx, event: &Event<Order>) -> Result<(), BoxError> {
        self.apply_batch(tx, std::slice::from_ref(event)).await
    }

    async fn apply_batch(&self, tx: &mut S::Tx, events: &[Event<Order>]) -> Result<(), BoxError> {
        let at = now();
        for event in events {
            if let Order::Paid { customer, cents } = event.data {
                S::within(tx, sql::REVENUE_ADD, &[Value::Int(customer), Value::Int(cents)]).await?;
            }
        }
        Ok(handled::<S>(tx, REVENUE, self.instance, events.len(), at).await?)
    }
}
