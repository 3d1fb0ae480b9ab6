//! The event, and the command that makes it.

use driver::Placed;
use eventcore::{Command, CommandError, CommandLogic, Event, NewEvents, StreamId, require};
use serde::{Deserialize, Serialize};

/// An event of eventcore knows its stream.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct OrderPlaced {
    pub(crate) stream: StreamId,
    pub(crate) order: Placed,
}

impl Event for OrderPlaced {
    fn stream_id(&self) -> &StreamId {
        &self.stream
    }

    fn event_type_name() -> &'static str {
        "OrderPlaced"
    }
}

/// Places orders in a stream that has so many events.
#[derive(Command)]
pub(crate) struct Place {
    #[stream]
    pub(crate) stream: StreamId,
    pub(crate) version: u64,
    pub(crate) orders: Vec<Placed>,
}

impl CommandLogic for Place {
    type Event = OrderPlaced;
    /// How many events there are.
    type State = u64;

    fn apply(&self, events: u64, _: &OrderPlaced) -> u64 {
        events + 1
    }

    fn handle(&self, events: u64) -> Result<NewEvents<OrderPlaced>, CommandError> {
        require!(events == self.version, "the stream has {} events, not {}", events, self.version);
        let placed = |order: &Placed| OrderPlaced { stream: self.stream.clone(), order: order.clone() };
        Ok(self.orders.iter().map(placed).collect::<Vec<_>>().into())
    }
}
