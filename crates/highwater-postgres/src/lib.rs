//! Highwater on PostgreSQL.
//!
//! ```no_run
//! use highwater::prelude::*;
//! use highwater_postgres::PgEventStore;
//!
//! # #[derive(serde::Serialize, serde::Deserialize)] enum Order { Placed { cents: i64 } }
//! # async fn example() -> Result<(), highwater::Error> {
//! let store = PgEventStore::connect("postgres://app@localhost/shop").await?;
//! store.initialize().await?;
//! let order = stream_id("order", "17");
//! let done = store.append(&Append::to(order).event(Order::Placed { cents: 1299 })).await?;
//! println!("stored at {}", done.global_sequence);
//! # Ok(()) }
//! ```
//!
//! # How the order comes about
//!
//! `nextval` locks the sequence before it draws, for the whole of the transaction, so `pg_locks` names every transaction
//! that may still bring a number to light. Readers wait for exactly those; see `frontier.rs`. Writers pay nothing.
//!
//! # What is where
//!
//! - [`PgEventStore`] implements [`Backend`](highwater::backend::Backend), and with it every contract. [`PgConfig`] holds what
//!   can be chosen.
//! - [`UnitOfWork`]: appends together with the application's own writes, in one transaction.
//! - The functions `append_group`, `append_new` and `append_one` in the database store what the library appends, and `append` is for
//!   callers in plain SQL; see `migrations/0002_append.sql`. A bare `INSERT` or `COPY` is seen by readers all the same.

mod announcement;
mod appender;
mod blockers;
mod checkpoints;
mod config;
mod connect;
mod dead_letters;
mod diagnose;
mod error;
mod frontier;
mod hosts;
mod leadership;
mod log;
mod migrate;
mod own_pool;
mod pooler;
mod reader;
mod requests;
mod row;
mod schema;
mod settled;
mod sql;
mod store;
mod transactions;
mod transfer;
mod unit_of_work;
mod wakeups;
mod write;

pub use announcement::Announcement;
pub use config::PgConfig;
/// The sqlx that transactions and pools come from: version 0.9. Applications that use this one cannot mix two.
pub use sqlx;
pub use store::PgEventStore;
pub use unit_of_work::{PgTx, UnitOfWork};

/// The event bus on PostgreSQL: the same engine as everywhere, over a [`PgEventStore`].
pub type PgEventBus = highwater::EventBus<PgEventStore>;
