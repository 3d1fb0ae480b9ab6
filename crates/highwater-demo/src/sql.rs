//! Every statement, one a file. They are the same on PostgreSQL and SQLite, but for those about schemas and lists.

pub(crate) const ACCEPTED_ADD_POSTGRES: &str = include_str!("../sql/accepted_add_postgres.sql");
pub(crate) const ACCEPTED_ADD_SQLITE: &str = include_str!("../sql/accepted_add_sqlite.sql");
pub(crate) const ADDRESS: &str = include_str!("../sql/address.sql");
pub(crate) const ADDRESSES_REPAIR: &str = include_str!("../sql/addresses_repair.sql");
pub(crate) const CORRUPT: &str = include_str!("../sql/corrupt.sql");
pub(crate) const CUSTOMER_ADD: &str = include_str!("../sql/customer_add.sql");
pub(crate) const EMAIL_SEND: &str = include_str!("../sql/email_send.sql");
pub(crate) const EMAILS_ASKED_AGAIN: &str = include_str!("../sql/emails_asked_again.sql");
pub(crate) const EVENTS: &str = include_str!("../sql/events.sql");
pub(crate) const FIRST_HANDLED_SINCE: &str = include_str!("../sql/first_handled_since.sql");
pub(crate) const HANDLED_ADD: &str = include_str!("../sql/handled_add.sql");
pub(crate) const DEAD_LETTERS_REPLAYED: &str = include_str!("../sql/dead_letters_replayed.sql");
pub(crate) const ORDER_UPDATE: &str = include_str!("../sql/order_update.sql");
pub(crate) const REVENUE_ADD: &str = include_str!("../sql/revenue_add.sql");
pub(crate) const SCHEMA_CREATE: &str = include_str!("../sql/schema_create.sql");
pub(crate) const SCHEMA_DROP: &str = include_str!("../sql/schema_drop.sql");
pub(crate) const SCHEMAS_LEFT: &str = include_str!("../sql/schemas_left.sql");
pub(crate) const SHARES: &str = include_str!("../sql/shares.sql");

/// The tables of the shop, in the order they are created in.
pub(crate) const CREATE: [&str; 7] = [
    include_str!("../sql/create_customers.sql"),
    include_str!("../sql/create_orders.sql"),
    include_str!("../sql/create_revenue.sql"),
    include_str!("../sql/create_emails.sql"),
    include_str!("../sql/create_handled.sql"),
    include_str!("../sql/create_work.sql"),
    include_str!("../sql/create_accepted.sql"),
];

pub(crate) const BOOK_ACCEPTED: &str = include_str!("../sql/book_accepted.sql");
pub(crate) const BOOK_ACCEPTED_ONLY: &str = include_str!("../sql/book_accepted_only.sql");
pub(crate) const BOOK_CHECKPOINTS: &str = include_str!("../sql/book_checkpoints.sql");
pub(crate) const BOOK_CHECKPOINTS_ONLY: &str = include_str!("../sql/book_checkpoints_only.sql");
pub(crate) const BOOK_CUSTOMERS: &str = include_str!("../sql/book_customers.sql");
pub(crate) const BOOK_CUSTOMERS_ONLY: &str = include_str!("../sql/book_customers_only.sql");
pub(crate) const BOOK_EMAILS: &str = include_str!("../sql/book_emails.sql");
pub(crate) const BOOK_EMAILS_ONLY: &str = include_str!("../sql/book_emails_only.sql");
pub(crate) const BOOK_FULFILLED: &str = include_str!("../sql/book_fulfilled.sql");
pub(crate) const BOOK_HANDLED_ORDERS: &str = include_str!("../sql/book_handled_orders.sql");
pub(crate) const BOOK_HANDLED_REVENUE: &str = include_str!("../sql/book_handled_revenue.sql");
pub(crate) const BOOK_DEAD_LETTERS: &str = include_str!("../sql/book_dead_letters.sql");
pub(crate) const BOOK_ORDERS: &str = include_str!("../sql/book_orders.sql");
pub(crate) const BOOK_ORDERS_ONLY: &str = include_str!("../sql/book_orders_only.sql");
pub(crate) const BOOK_REVENUE: &str = include_str!("../sql/book_revenue.sql");
