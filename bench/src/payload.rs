//! What is stored: a small order, the same on every side.

/// What the raw sides write and read: the content of [`Order::Placed`], which is what ours stores for it. JSON and work
/// are the same on both sides.
pub(crate) use driver::{Line, Placed};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Error;

/// The events of the benchmark, as an application would have them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Order {
    Placed { order_id: Uuid, customer: String, amount: i64, currency: String, lines: Vec<Line>, note: String },
}

/// The type of [`Order::Placed`].
pub(crate) const EVENT_TYPE: &str = "Placed";

/// The order in `payload.json`.
pub(crate) fn sample() -> Result<Placed, Error> {
    Ok(serde_json::from_str(include_str!("../payload.json"))?)
}

impl From<Placed> for Order {
    fn from(placed: Placed) -> Self {
        let Placed { order_id, customer, amount, currency, lines, note } = placed;
        Self::Placed { order_id, customer, amount, currency, lines, note }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_write_the_same_bytes() {
        let placed = sample().unwrap();
        let ours = highwater::codec::encode(&Order::from(placed.clone())).unwrap();
        assert_eq!(ours.event_type, EVENT_TYPE);
        assert_eq!(ours.data, serde_json::to_string(&placed).unwrap());
        assert_eq!(ours.data, include_str!("../payload.json").trim_end());
    }
}
