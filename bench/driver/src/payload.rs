//! What is stored: a small order, the same for every contestant.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The content of an event. Who wrote it, as which of theirs, and when, stands in fields that an order has anyway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Writer and number: see [`Placed::origin`].
    pub order_id: Uuid,
    /// The same for all.
    pub customer: String,
    /// When it was made, in microseconds since 1970.
    pub amount: i64,
    /// The same for all.
    pub currency: String,
    /// The same for all.
    pub lines: Vec<Line>,
    /// The same for all.
    pub note: String,
}

/// A line of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// What.
    pub sku: String,
    /// How many.
    pub qty: u32,
}

impl Placed {
    /// The next order of a writer.
    #[must_use]
    pub fn new(writer: u64, number: u64) -> Self {
        let line = |sku: &str, qty| Line { sku: sku.to_owned(), qty };
        Self {
            order_id: Uuid::from_u64_pair(writer, number),
            customer: "c-1029".to_owned(),
            amount: now_micros(),
            currency: "EUR".to_owned(),
            lines: vec![line("A-100", 2), line("B-7", 1)],
            note: "leave at the door please".to_owned(),
        }
    }

    /// Who wrote it, and as which of theirs.
    #[must_use]
    pub fn origin(&self) -> (u64, u64) {
        self.order_id.as_u64_pair()
    }
}

/// Microseconds since 1970: all processes are on one machine.
#[must_use]
pub fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_says_where_it_comes_from() {
        let placed = Placed::new(3, 17);
        assert_eq!(placed.origin(), (3, 17));
        let json = serde_json::to_string(&placed).unwrap();
        assert!(
            json.starts_with(r#"{"order_id":"00000000-0000-0003-0000-000000000011","customer":"c-1029","amount":1"#)
        );
        assert_eq!(serde_json::from_str::<Placed>(&json).unwrap(), placed);
    }
}
