//! Books that everything would balance in prove nothing: here is what each notices.

use highwater::{Append, EventBus, Log as _, stream_id};
use highwater_sqlite::SqliteEventStore;

use super::*;
use crate::instance::delivery;
use crate::producer::register_customers;
use crate::subscribers::EMAILS;
use crate::{Emails, Fulfilment, Order, Orders, Place, Revenue, Shop};

/// A shop in a file, with its instances gone.
struct Kept {
    place: Place,
    desk: Desk,
}

/// Orders by customers of whom one has a bad address, which is repaired.
const CUSTOMERS: [i64; 4] = [1, 2, 2, 33];

impl Kept {
    /// Four orders, and everything that follows from them.
    async fn with_orders() -> Self {
        let place = Place::of(None, None).unwrap();
        place.make().await.unwrap();
        let store = <SqliteEventStore as Shop>::open(&place).await.unwrap();
        store.initialize().await.unwrap();
        let desk = Desk::open(&place).await.unwrap();
        for sql in sql::CREATE {
            desk.execute(sql, &[]).await.unwrap();
        }
        register_customers(&desk).await.unwrap();
        let bus = EventBus::new(store.clone(), delivery(Some(1)));
        bus.subscribe(Revenue::<SqliteEventStore>::new(1)).await.unwrap();
        bus.subscribe(Orders::<SqliteEventStore>::new(1)).await.unwrap();
        bus.subscribe(Emails::new(1, desk.clone())).await.unwrap();
        bus.subscribe(Fulfilment::new(1, store.clone())).await.unwrap();
        for (n, customer) in CUSTOMERS.into_iter().enumerate() {
            let append = Append::to(stream_id("order", &n.to_string())).event(Order::Placed { customer, cents: 500 });
            store.append(&append).await.unwrap();
        }
        // Each order is placed, paid and shipped: the second is an answer to the first, and the third to the second.
        for _ in 0..3 {
            for subscription in bus.subscriptions() {
                subscription.caught_up().await.unwrap();
            }
        }
        desk.execute(sql::ADDRESSES_REPAIR, &[]).await.unwrap();
        assert_eq!(bus.dead_letters().replay_all(EMAILS).await.unwrap().done().await.unwrap().done, 1);
        bus.shutdown().await.unwrap();
        Self { place, desk }
    }

    /// The statements of the books that do not balance.
    async fn unbalanced(&self) -> Vec<&'static str> {
        let books = check(&self.desk, CUSTOMERS.len() as u64).await.unwrap();
        assert_eq!(books.len(), BOOKS.len());
        let wrong = books.iter().zip(BOOKS).filter(|(book, _)| !book.balances());
        wrong.map(|(_, (_, sql))| sql).collect()
    }

    /// Damages something, sees what is noticed, and repairs it.
    async fn damage(&self, damage: &'static str, repair: &'static str, noticed: &[&'static str]) {
        assert_eq!(self.desk.execute(damage, &[]).await.unwrap(), 1, "{damage}");
        assert_eq!(self.unbalanced().await, noticed, "{damage}");
        assert_eq!(self.desk.execute(repair, &[]).await.unwrap(), 1, "{repair}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_damage_is_noticed_by_the_book_that_is_there_for_it() {
    let kept = Kept::with_orders().await;
    assert_eq!(kept.unbalanced().await, [""; 0]);

    let damages: [(&str, &str, &[&str]); 10] = [
        (
            "UPDATE events SET event_type = 'Lost' WHERE global_sequence = (SELECT max(global_sequence) FROM events)",
            "UPDATE events SET event_type = 'Shipped' WHERE event_type = 'Lost'",
            &[sql::BOOK_FULFILLED],
        ),
        (
            "UPDATE demo_orders SET events = 4 WHERE customer = 1",
            "UPDATE demo_orders SET events = 3 WHERE customer = 1",
            &[sql::BOOK_ORDERS],
        ),
        (
            "UPDATE demo_orders SET status = 'paid' WHERE customer = 33",
            "UPDATE demo_orders SET status = 'shipped' WHERE customer = 33",
            &[sql::BOOK_ORDERS],
        ),
        (
            "INSERT INTO demo_orders VALUES (x'00', 1, 'shipped', 3)",
            "DELETE FROM demo_orders WHERE order_id = x'00'",
            &[sql::BOOK_ORDERS_ONLY],
        ),
        (
            "UPDATE demo_revenue SET cents = cents + 1 WHERE customer = 2",
            "UPDATE demo_revenue SET cents = cents - 1 WHERE customer = 2",
            &[sql::BOOK_REVENUE, sql::BOOK_CUSTOMERS],
        ),
        (
            "UPDATE demo_revenue SET payments = 1 WHERE customer = 2",
            "UPDATE demo_revenue SET payments = 2 WHERE customer = 2",
            &[sql::BOOK_CUSTOMERS],
        ),
        (
            "UPDATE demo_emails SET address = 'somebody@else' WHERE address LIKE 'customer-33@%'",
            "UPDATE demo_emails SET address = 'customer-33@example.org' WHERE address = 'somebody@else'",
            &[sql::BOOK_EMAILS],
        ),
        (
            "INSERT INTO demo_emails VALUES (x'00', 'x', 1, 1, 1)",
            "DELETE FROM demo_emails WHERE event_id = x'00'",
            &[sql::BOOK_EMAILS_ONLY],
        ),
        (
            "UPDATE event_bus_dlq SET state = 'dead'",
            "UPDATE event_bus_dlq SET state = 'replayed'",
            &[sql::BOOK_LETTERS],
        ),
        (
            "UPDATE event_bus_checkpoints SET last_global_sequence = 11 WHERE subscriber_id = 'projection:emails'",
            "UPDATE event_bus_checkpoints SET last_global_sequence = 12 WHERE subscriber_id = 'projection:emails'",
            &[sql::BOOK_CHECKPOINTS],
        ),
    ];
    for (damage, repair, noticed) in damages {
        kept.damage(damage, repair, noticed).await;
    }
    kept.desk.execute("INSERT INTO demo_handled VALUES ('projection:orders', 1, 1, 1)", &[]).await.unwrap();
    assert_eq!(kept.unbalanced().await, [sql::BOOK_HANDLED], "one that was handled twice");
    let accepted = check(&kept.desk, 5).await.unwrap();
    assert!(!accepted[0].balances(), "an order that was accepted and is not in the log");
    kept.desk.close().await;
    kept.place.remove().await.unwrap();
}
