//! Books that everything would balance in prove nothing: here is what each notices.

use highwater::backend::Log as _;
use highwater::{Append, EventBus, stream_id};
use highwater_sqlite::SqliteEventStore;

use super::*;
use crate::instance::delivery;
use crate::producer::register_customers;
use crate::subscribers::EMAILS;
use crate::{Emails, Fulfilment, Order, Orders, Place, Revenue, Shop};

/// A shop in a file, with its instances gone.
struct Kept {
    place: Place,
    database: Database,
}

/// Orders by customers of whom one has a bad address, which is repaired.
const CUSTOMERS: [i64; 4] = [1, 2, 2, 33];

impl Kept {
    /// Four orders, and everything that follows from them.
    async fn with_orders() -> Self {
        let place = Place::of(None, None, true).unwrap();
        drop(place.make().await.unwrap());
        let store = <SqliteEventStore as Shop>::open(&place).await.unwrap();
        store.initialize().await.unwrap();
        let database = Database::open(&place).await.unwrap();
        for sql in sql::CREATE {
            database.execute(sql, &[]).await.unwrap();
        }
        register_customers(&database).await.unwrap();
        let bus = EventBus::with_config(store.clone(), delivery(Some(1)));
        bus.subscribe(Revenue::<SqliteEventStore>::new(1)).await.unwrap();
        bus.subscribe(Orders::<SqliteEventStore>::new(1)).await.unwrap();
        bus.subscribe(Emails::new(1, database.clone())).await.unwrap();
        bus.subscribe(Fulfilment::new(1, store.clone())).await.unwrap();
        let orders = CUSTOMERS.into_iter().enumerate().map(|(number, customer)| {
            let order = stream_id("order", &number.to_string());
            Accepted { order, customer, cents: 500 }
        });
        write_down(&database, orders.clone()).await.unwrap();
        for Accepted { order, customer, cents } in orders {
            store.append(&Append::to(order).event(Order::Placed { customer, cents })).await.unwrap();
        }
        // Each order is placed, paid and shipped: the second is an answer to the first, and the third to the second.
        for _ in 0..3 {
            for subscription in bus.subscriptions() {
                subscription.caught_up().await.unwrap();
            }
        }
        database.execute(sql::ADDRESSES_REPAIR, &[]).await.unwrap();
        assert_eq!(bus.dead_letters().replay_all(EMAILS).await.unwrap().done().await.unwrap().done, 1);
        bus.shutdown().await.unwrap();
        Self { place, database }
    }

    /// A copy of the shop with this damage: the statements of the books that do not balance then.
    async fn noticed(&self, damage: &[&'static str]) -> Vec<&'static str> {
        let Place::Sqlite { file, .. } = &self.place else { panic!("it is in a file") };
        let copy = file.with_file_name("damaged.db");
        self.database.execute("VACUUM INTO $1", &[Value::Text(copy.to_str().unwrap())]).await.unwrap();
        let place = Place::Sqlite { file: copy, folder: None };
        let database = Database::open(&place).await.unwrap();
        for sql in damage {
            assert!(database.execute(sql, &[]).await.unwrap() > 0, "{sql}");
        }
        let noticed = unbalanced(&database, CUSTOMERS.len() as u64).await;
        database.close().await;
        place.remove().await.unwrap();
        noticed
    }
}

/// The statements of the books that do not balance.
async fn unbalanced(database: &Database, accepted: u64) -> Vec<&'static str> {
    let books = check(database, accepted).await.unwrap();
    assert_eq!(books.len(), BOOKS.len());
    let wrong = books.iter().zip(BOOKS).filter(|(book, _)| !book.balances());
    wrong.map(|(_, (_, sql))| sql).collect()
}

/// What is done to the shop, and the books that notice.
type Damage = (&'static [&'static str], &'static [&'static str]);

const LOG: [Damage; 7] = [
    // One order is lost, and another is there twice: log and read models agree, and so do all counts.
    (
        &[
            "UPDATE events SET stream_id = x'00000000000000000000000000000000'
             WHERE stream_id = (SELECT order_id FROM demo_accepted WHERE customer = 2 LIMIT 1)",
            "UPDATE demo_orders SET order_id = x'00000000000000000000000000000000'
             WHERE order_id NOT IN (SELECT stream_id FROM events)",
        ],
        &[sql::BOOK_ACCEPTED, sql::BOOK_ACCEPTED_ONLY],
    ),
    // An order that is another customer's, everywhere.
    (
        &[
            "UPDATE events SET data = replace(data, '\"customer\":1,', '\"customer\":2,')",
            "UPDATE events SET data = replace(data, '\"customer\":1}', '\"customer\":2}')",
            "UPDATE demo_orders SET customer = 2 WHERE customer = 1",
            "UPDATE demo_revenue SET cents = 1500, payments = 3 WHERE customer = 2",
            "DELETE FROM demo_revenue WHERE customer = 1",
            "UPDATE demo_emails SET address = 'customer-2@example.org' WHERE address = 'customer-1@example.org'",
        ],
        &[sql::BOOK_ACCEPTED],
    ),
    // More was ordered than paid for.
    (
        &["UPDATE events SET data = replace(data, ':500', ':501')
             WHERE global_sequence = (SELECT min(global_sequence) FROM events WHERE event_type = 'Placed')"],
        &[sql::BOOK_ACCEPTED, sql::BOOK_FULFILLED],
    ),
    // What was paid by one is shipped to another.
    (&["UPDATE events SET data = replace(data, ':33', ':1') WHERE event_type = 'Shipped'"], &[sql::BOOK_FULFILLED]),
    (
        &["UPDATE events SET event_type = 'Lost' WHERE global_sequence = (SELECT max(global_sequence) FROM events)"],
        &[sql::BOOK_FULFILLED],
    ),
    // A fourth event.
    (
        &[
            "INSERT INTO events (stream_version, created_at, id, stream_id, event_type, data)
             SELECT 4, 1, zeroblob(16), order_id, 'Shipped', '{\"customer\":1}' FROM demo_orders WHERE customer = 1",
            "UPDATE demo_orders SET events = 4 WHERE customer = 1",
            "UPDATE event_bus_checkpoints SET last_global_sequence = 13",
            "INSERT INTO demo_handled VALUES ('projection:orders', 1, 1, 1)",
        ],
        &[sql::BOOK_FULFILLED],
    ),
    (&["UPDATE event_bus_dlq SET state = 'dead'"], &[sql::BOOK_DEAD_LETTERS]),
];

const READ_MODELS: [Damage; 10] = [
    (&["UPDATE demo_orders SET events = 4 WHERE customer = 1"], &[sql::BOOK_ORDERS]),
    (&["UPDATE demo_orders SET status = 'paid' WHERE customer = 33"], &[sql::BOOK_ORDERS]),
    (&["UPDATE demo_orders SET customer = customer + 1"], &[sql::BOOK_ORDERS]),
    (&["INSERT INTO demo_orders VALUES (x'00', 1, 'shipped', 3)"], &[sql::BOOK_ORDERS_ONLY]),
    (&["UPDATE demo_revenue SET cents = cents + 1 WHERE customer = 2"], &[sql::BOOK_REVENUE, sql::BOOK_CUSTOMERS]),
    (&["UPDATE demo_revenue SET payments = 1 WHERE customer = 2"], &[sql::BOOK_CUSTOMERS]),
    (&["INSERT INTO demo_revenue VALUES (7, 0, 0)"], &[sql::BOOK_CUSTOMERS_ONLY]),
    (&["UPDATE demo_emails SET address = 'somebody@else' WHERE address LIKE 'customer-33@%'"], &[sql::BOOK_EMAILS]),
    (&["INSERT INTO demo_emails VALUES (x'00', 'x', 1, 1, 1)"], &[sql::BOOK_EMAILS_ONLY]),
    // One is sent to nobody's order instead.
    (
        &["UPDATE demo_emails SET event_id = x'00' WHERE address LIKE 'customer-33@%'"],
        &[sql::BOOK_EMAILS, sql::BOOK_EMAILS_ONLY],
    ),
];

const DELIVERY: [Damage; 7] = [
    (&["INSERT INTO demo_handled VALUES ('projection:orders', 1, 1, 1)"], &[sql::BOOK_HANDLED_ORDERS]),
    (&["INSERT INTO demo_handled VALUES ('projection:revenue', 1, 1, 1)"], &[sql::BOOK_HANDLED_REVENUE]),
    // What one lacks, the other has too many of.
    (
        &[
            "INSERT INTO demo_handled VALUES ('projection:orders', 1, -10, 1)",
            "INSERT INTO demo_handled VALUES ('projection:revenue', 1, 10, 1)",
        ],
        &[sql::BOOK_HANDLED_ORDERS, sql::BOOK_HANDLED_REVENUE],
    ),
    (
        &["UPDATE event_bus_checkpoints SET last_global_sequence = 11 WHERE subscriber_id = 'projection:emails'"],
        &[sql::BOOK_CHECKPOINTS],
    ),
    (
        &["UPDATE event_bus_checkpoints SET last_global_sequence = 13 WHERE subscriber_id = 'saga:fulfilment'"],
        &[sql::BOOK_CHECKPOINTS],
    ),
    (&["DELETE FROM event_bus_checkpoints WHERE subscriber_id <> 'projection:orders'"], &[sql::BOOK_CHECKPOINTS]),
    // One that nobody subscribed.
    (
        &["UPDATE event_bus_checkpoints SET subscriber_id = 'projection:x' WHERE subscriber_id = 'saga:fulfilment'"],
        &[sql::BOOK_CHECKPOINTS, sql::BOOK_CHECKPOINTS_ONLY],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_damage_is_noticed_by_the_books_that_are_there_for_it() {
    let kept = Kept::with_orders().await;
    assert_eq!(kept.noticed(&[]).await, [""; 0]);
    let damages: Vec<Damage> = [&LOG[..], &READ_MODELS, &DELIVERY].concat();
    for (damage, noticed) in &damages {
        assert_eq!(&kept.noticed(damage).await, noticed, "{damage:?}");
    }
    let accepted = unbalanced(&kept.database, 5).await;
    assert_eq!(accepted, [sql::BOOK_ACCEPTED], "an order that was accepted and is not in the log");
    for (name, sql) in BOOKS {
        assert!(damages.iter().any(|(_, noticed)| noticed.contains(&sql)), "nothing shows that it notices: {name}");
    }
    kept.database.close().await;
    kept.place.remove().await.unwrap();
}
