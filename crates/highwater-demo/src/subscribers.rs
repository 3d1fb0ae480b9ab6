//! What is handed the events of the shop.

mod emails;
mod fulfilment;
mod orders;
mod revenue;

use chrono::Utc;

use crate::{Shop, Value, sql};

pub use emails::Emails;
pub use fulfilment::Fulfilment;
pub use orders::Orders;
pub use revenue::Revenue;

pub(crate) const EMAILS: &str = "projection:emails";
const FULFILMENT: &str = "saga:fulfilment";
const ORDERS: &str = "projection:orders";
const REVENUE: &str = "projection:revenue";

/// All subscribers of the shop.
pub const SUBSCRIBERS: [&str; 4] = [REVENUE, ORDERS, EMAILS, FULFILMENT];

/// Now, as the shop's tables have it: microseconds since 1970.
pub(crate) fn now() -> i64 {
    Utc::now().timestamp_micros()
}

/// Writes down that an instance has handled so many events: in the transaction that says what came of them.
async fn handled<S: Shop>(
    tx: &mut S::Tx,
    subscriber_id: &str,
    instance: u32,
    events: usize,
    at: i64,
) -> Result<(), sqlx::Error> {
    let values = [Value::Text(subscriber_id), Value::Int(instance.into()), Value::Int(events as i64), Value::Int(at)];
    S::within(tx, sql::HANDLED_ADD, &values).await
}
