//! What happens in the shop.

use serde::{Deserialize, Serialize};

/// The events of an order, each in the stream of its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// A customer has ordered something.
    Placed {
        /// Who.
        customer: i64,
        /// For how much.
        cents: i64,
    },
    /// The customer has paid.
    Paid {
        /// Who.
        customer: i64,
        /// How much.
        cents: i64,
    },
    /// It is on its way.
    Shipped {
        /// To whom.
        customer: i64,
    },
}

impl Order {
    /// Whose order it is.
    #[must_use]
    pub fn customer(&self) -> i64 {
        match self {
            Self::Placed { customer, .. } | Self::Paid { customer, .. } | Self::Shipped { customer } => *customer,
        }
    }

    /// What becomes of the order.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match self {
            Self::Placed { .. } => "placed",
            Self::Paid { .. } => "paid",
            Self::Shipped { .. } => "shipped",
        }
    }
}
