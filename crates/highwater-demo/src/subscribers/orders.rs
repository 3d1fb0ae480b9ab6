//! What has become of each order: a transactional projection.

use std::marker::PhantomData;

use highwater::{BoxError, Event, TransactionalProjection};

use super::{ORDERS, handled, now};
use crate::{Order, Shop, Value, sql};

/// The status of each order, and how many events it comes from.
#[derive(Debug)]
pub struct Orders<S> {
    instance: u32,
    shop: PhantomData<fn() -> S>,
}

impl<S: Shop> Orders<S> {
    /// In the instance of that number.
    #[must_use]
    pub fn new(instance: u32) -> Self {
        Self { instance, shop: PhantomData }
    }
}

impl<S: Shop> TransactionalProjection<Order, S::Tx> for Orders<S> {
    fn subscriber_id(&self) -> &str {
        ORDERS
    }

    async fn apply(&self, tx: &mut S::Tx, event: &Event<Order>) -> Result<(), BoxError> {
        self.apply_batch(tx, std::slice::from_ref(event)).await
    }

    async fn apply_batch(&self, tx: &mut S::Tx, events: &[Event<Order>]) -> Result<(), BoxError> {
        let at = now();
        for event in events {
            let (customer, status) = (Value::Int(event.data.customer()), Value::Text(event.data.status()));
            S::within(tx, sql::ORDER_UPDATE, &[Value::Id(event.stream_id), customer, status]).await?;
        }
        Ok(handled::<S>(tx, ORDERS, self.instance, events.len(), at).await?)
    }
}
