//! The thinnest aggregate: it places whatever it is asked to.

use std::convert::Infallible;

use driver::Placed;
use esrs::Aggregate;
use serde::{Deserialize, Serialize};

/// A stream of orders. It needs no state: the manager knows how many events there are.
pub(crate) struct Order;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum OrderEvent {
    Placed(Placed),
}

impl Aggregate for Order {
    const NAME: &'static str = "order";

    type State = ();
    /// The orders to place.
    type Command = Vec<Placed>;
    type Event = OrderEvent;
    type Error = Infallible;

    fn handle_command((): &(), orders: Vec<Placed>) -> Result<Vec<OrderEvent>, Infallible> {
        Ok(orders.into_iter().map(OrderEvent::Placed).collect())
    }

    fn apply_event((): (), OrderEvent::Placed(_): OrderEvent) {}
}
