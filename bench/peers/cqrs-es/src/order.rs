//! The thinnest aggregate: it places whatever it is asked to, if it is where the caller thinks it is.

use std::fmt;

use cqrs_es::event_sink::EventSink;
use cqrs_es::{Aggregate, DomainEvent};
use driver::Placed;
use serde::{Deserialize, Serialize};

/// A stream of orders; of what happened, it needs to know how often.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Order {
    events: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum OrderEvent {
    Placed(Placed),
}

#[derive(Debug)]
pub(crate) struct Place {
    /// How many events there are before.
    pub(crate) version: u64,
    pub(crate) orders: Vec<Placed>,
}

/// Another writer has appended.
#[derive(Debug)]
pub(crate) struct WrongVersion;

impl DomainEvent for OrderEvent {
    fn event_type(&self) -> String {
        "Placed".to_owned()
    }

    fn event_version(&self) -> String {
        "1.0".to_owned()
    }
}

impl fmt::Display for WrongVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stream has another version")
    }
}

impl std::error::Error for WrongVersion {}

impl Aggregate for Order {
    const TYPE: &'static str = "order";

    type Command = Place;
    type Event = OrderEvent;
    type Error = WrongVersion;
    type Services = ();

    async fn handle(&mut self, command: Place, (): &(), sink: &EventSink<Self>) -> Result<(), WrongVersion> {
        if self.events != command.version {
            return Err(WrongVersion);
        }
        for order in command.orders {
            sink.write(OrderEvent::Placed(order), self).await;
        }
        Ok(())
    }

    fn apply(&mut self, OrderEvent::Placed(_): OrderEvent) {
        self.events += 1;
    }
}
