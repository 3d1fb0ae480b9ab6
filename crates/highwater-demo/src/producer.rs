//! Customers: they place orders at a rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use highwater::{Append, Error, ExpectedVersion, StreamId, stream_id};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use crate::{Database, DemoError, Order, Shop, Value, sql};

/// How often orders are placed: those that are due, together.
const TICK: Duration = Duration::from_millis(10);
/// Orders that are on their way to the store at once.
const AT_ONCE_MAX: u64 = 128;
/// How often an order is sent again when its answer was lost.
const RESENDS_MAX: u32 = 100;
const RESEND_AFTER: Duration = Duration::from_millis(50);

/// How long the last orders may be late.
const GRACE: Duration = Duration::from_millis(200);

const CUSTOMERS: i64 = 100;
/// Every so many customers one has an address that is none.
const BAD_EVERY: i64 = 33;
/// The order that is a bad address's in any case, so that there is a dead letter to see.
const BAD_ORDER: u64 = 2;

/// What the director and the customers tell each other.
#[derive(Debug, Default)]
pub(crate) struct Till {
    /// Orders that were accepted.
    pub(crate) accepted: AtomicU64,
    /// The shop cannot keep up: nobody orders until it can.
    pub(crate) closed: AtomicBool,
    /// Whether that ever happened.
    pub(crate) was_closed: AtomicBool,
    /// A customer orders right now.
    pub(crate) now: Notify,
}

impl Till {
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn close(&self, closed: bool) {
        self.closed.store(closed, Ordering::Relaxed);
        self.was_closed.fetch_or(closed, Ordering::Relaxed);
    }
}

/// Who the customers are.
pub(crate) async fn register_customers(database: &Database) -> Result<(), DemoError> {
    for customer in 1..=CUSTOMERS {
        let at = if customer % BAD_EVERY == 0 { " at " } else { "@" };
        let address = format!("customer-{customer}{at}example.org");
        let added = database.execute(sql::CUSTOMER_ADD, &[Value::Int(customer), Value::Text(&address)]).await;
        added.map_err(DemoError::sql("register a customer"))?;
    }
    Ok(())
}

/// An order, as its customer remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) order: StreamId,
    pub(crate) customer: i64,
    pub(crate) cents: i64,
}

impl Accepted {
    fn append(&self) -> Append {
        let placed = Order::Placed { customer: self.customer, cents: self.cents };
        Append::to(self.order).expecting(ExpectedVersion::NoStream).event(placed)
    }
}

/// Orders, one after the other: the same for the same seed. They are placed in this order, so what was accepted are the
/// first of them, and nobody has to keep them.
pub(crate) fn orders(seed: u64) -> impl Iterator<Item = Accepted> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0_u64..).map(move |number| {
        let (customer, cents) = (random.i64(1..=CUSTOMERS), random.i64(100..20_000));
        let customer = if number == BAD_ORDER { BAD_EVERY } else { customer };
        Accepted { order: stream_id("order", &number.to_string()), customer, cents }
    })
}

/// Places `rate` orders a second for `seconds`; fewer, when the shop cannot keep up.
pub(crate) async fn produce<S: Shop>(
    store: S,
    till: Arc<Till>,
    rate: u64,
    seconds: u64,
    seed: u64,
) -> Result<(), DemoError> {
    let (mut orders, mut placed) = (orders(seed), 0);
    let (start, all, end) = (Instant::now(), rate * seconds, Duration::from_secs(seconds));
    let mut clock = tokio::time::interval(TICK);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Orders that were not placed because the shop could not keep up. They are not made up for.
    let mut lost = 0;
    while start.elapsed() < end + GRACE && placed + lost < all {
        let due = tokio::select! {
            _ = clock.tick() => {
                let due = (start.elapsed().as_secs_f64() * rate as f64) as u64 + 1;
                due.min(all).saturating_sub(placed + lost)
            }
            () = till.now.notified() => 1,
        };
        if till.closed.load(Ordering::Relaxed) {
            lost += due;
            continue;
        }
        let now: Vec<Append> =
            orders.by_ref().take(due.min(AT_ONCE_MAX) as usize).map(|order| order.append()).collect();
        try_join_all(now.iter().map(|append| place(&store, append))).await?;
        placed += now.len() as u64;
        till.accepted.store(placed, Ordering::Relaxed);
    }
    tokio::time::sleep_until(start + end).await;
    Ok(())
}

/// An append is a value: it is sent again until it is known to be stored, and stored once.
async fn place<S: Shop>(store: &S, append: &Append) -> Result<(), Error> {
    for _ in 0..RESENDS_MAX {
        match store.append(append).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_retryable() => tokio::time::sleep(RESEND_AFTER).await,
            Err(error) => return Err(error),
        }
    }
    store.append(append).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_orders() {
        let orders = |seed| orders(seed).take(20).collect::<Vec<_>>();
        assert_eq!(orders(7), orders(7));
        assert_ne!(orders(7), orders(8));
        assert_eq!(orders(7)[BAD_ORDER as usize].customer, BAD_EVERY, "an order that cannot be confirmed");
    }
}
