//! Highwater on SQLite: embedded, in one file, with nothing to install. The same behaviour as on PostgreSQL, also between
//! processes.
//!
//! ```
//! use highwater::prelude::*;
//! use highwater_sqlite::SqliteEventStore;
//!
//! # #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)] enum Order { Placed { cents: i64 } }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! # let folder = std::env::temp_dir().join(format!("highwater-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! # let path = folder.join("shop.db");
//! let store = SqliteEventStore::open(&format!("sqlite:{}", path.display())).await?;
//! store.initialize().await?;
//! let order = stream_id("order", "17");
//! let done = store.append(&Append::to(order).event(Order::Placed { cents: 1299 })).await?;
//! assert_eq!(done.global_sequence, 1);
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), highwater::Error>(()) }).unwrap();
//! ```
//!
//! # How the order comes about
//!
//! SQLite has one writer at a time, and every transaction that writes begins with `BEGIN IMMEDIATE`: numbers are drawn and
//! become visible in the same order, so everything that can be read is settled. Readers never wait for the writer, nor the
//! writer for them (WAL).
//!
//! # What is where
//!
//! - [`SqliteEventStore`] implements [`Backend`](highwater::backend::Backend), and with it all contracts. [`SqliteConfig`] holds what
//!   can be chosen.
//! - [`UnitOfWork`]: appends together with the application's own writes, in one transaction.
//! - Leadership between processes is by locks on files in a folder beside the database, `<database>-locks`; see
//!   [`Coordinator`](highwater::Coordinator).
//!
//! # What it deliberately does not do
//!
//! While a transaction is open no other subscriber or process can write; also when its process is stopped meanwhile, and
//! then no standby can take over from it either. Errors and `diagnose` name that process.

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!(
    "highwater-sqlite is written for Linux and macOS: its locks, their rights and its backups rest on what Unix does with files; \
     elsewhere use highwater-postgres, or the memory backend of highwater for tests"
);

mod appender;
mod backup;
mod checkpoints;
mod config;
mod connect;
mod dead_letters;
mod diagnose;
mod error;
mod gate;
mod holder;
mod leadership;
mod log;
mod migrate;
mod opened;
mod place;
mod requests;
mod row;
mod sql;
mod store;
mod transactions;
mod transfer;
mod unit_of_work;
mod wakeups;
mod write;
mod write_ahead;

pub use config::{SqliteConfig, Synchronous};
/// The sqlx that transactions and pools come from: version 0.9. Applications that use this one cannot mix two.
pub use sqlx;
pub use store::SqliteEventStore;
pub use unit_of_work::{Announcement, SqliteTx, UnitOfWork};

/// The event bus on SQLite: the same engine as everywhere, over a [`SqliteEventStore`].
pub type SqliteEventBus = highwater::EventBus<SqliteEventStore>;
