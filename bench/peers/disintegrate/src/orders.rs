//! The event, the state that it makes, and the decision that makes it.

use disintegrate::{Decision, Event, StateMutate, StateQuery};
use driver::Placed;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// There are no streams: events are found by the ids in them.
#[derive(Debug, Clone, PartialEq, Eq, Event, Serialize, Deserialize)]
pub(crate) enum OrderEvent {
    OrderPlaced {
        #[id]
        stream_id: Uuid,
        order: Placed,
    },
}

/// What is known of a stream.
#[derive(Debug, Clone, Default, StateQuery, Serialize, Deserialize)]
#[state_query(OrderEvent)]
pub(crate) struct Orders {
    #[id]
    stream_id: Uuid,
    /// How many there are.
    pub(crate) events: u64,
}

impl Orders {
    pub(crate) fn of(stream_id: Uuid) -> Self {
        Self { stream_id, ..Self::default() }
    }
}

impl StateMutate for Orders {
    fn mutate(&mut self, event: OrderEvent) {
        match event {
            OrderEvent::OrderPlaced { .. } => self.events += 1,
        }
    }
}

/// Places orders in a stream that has so many events.
pub(crate) struct Place {
    pub(crate) stream: Uuid,
    pub(crate) version: u64,
    pub(crate) orders: Vec<Placed>,
}

#[derive(Debug, thiserror::Error)]
#[error("the stream has {0} events")]
pub(crate) struct OtherVersion(u64);

impl Decision for Place {
    type Event = OrderEvent;
    type StateQuery = Orders;
    type Error = OtherVersion;

    fn state_query(&self) -> Orders {
        Orders::of(self.stream)
    }

    fn process(&self, state: &Orders) -> Result<Vec<OrderEvent>, OtherVersion> {
        // Fewer than there are is what the library finds out.
        if state.events > self.version {
            return Err(OtherVersion(state.events));
        }
        let placed = |order: &Placed| OrderEvent::OrderPlaced { stream_id: self.stream, order: order.clone() };
        Ok(self.orders.iter().map(placed).collect())
    }
}
