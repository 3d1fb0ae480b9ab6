//! The conformance suite of Highwater's backends: what `docs/guarantees.md` promises, as cases that any implementation
//! of [`Backend`](highwater::backend::Backend) can be held against.
//!
//! A backend says in a [`Harness`] how its logs are made, reopened and written to in a transaction, and how a small read
//! model is kept beside them, and gets one test per case:
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use highwater::{Append, BoxError, Error, ExpectedVersion, MemoryEventStore, MemoryTx};
//! use highwater_contract::{Harness, OpenAppend, Settings};
//!
//! struct Memory;
//!
//! impl Harness for Memory {
//!     type Store = MemoryEventStore;
//!
//!     async fn fresh(&self, settings: Settings) -> MemoryEventStore {
//!         MemoryEventStore::new().with_upcasters(settings.upcasters).with_limits(settings.limits)
//!     }
//!     async fn reopen(&self, store: &MemoryEventStore, settings: Settings) -> MemoryEventStore {
//!         store.clone().with_upcasters(settings.upcasters).with_limits(settings.limits)
//!     }
//!     async fn begin(&self, store: &MemoryEventStore, append: Append) -> Result<Box<dyn OpenAppend>, Error> {
//!         let mut unit_of_work = store.begin().await?;
//!         unit_of_work.append(append);
//!         Ok(Box::new(unit_of_work))
//!     }
//!     async fn tally(&self, _: &MemoryEventStore, tx: &mut MemoryTx, key: &str) -> Result<(), BoxError> {
//!         let key = format!("tally/{key}");
//!         let before = tx.get(&key).and_then(|value| value.as_u64()).unwrap_or(0);
//!         tx.put(key, before + 1);
//!         Ok(())
//!     }
//!     async fn tallies(&self, store: &MemoryEventStore) -> BTreeMap<String, u64> {
//!         let documents = store.documents("tally/").into_iter();
//!         documents.filter_map(|(key, value)| Some((key["tally/".len()..].to_owned(), value.as_u64()?))).collect()
//!     }
//!     async fn clear_tallies(&self, store: &MemoryEventStore, tx: &mut MemoryTx) -> Result<(), BoxError> {
//!         store.documents("tally/").into_iter().for_each(|(key, _)| tx.remove(key));
//!         Ok(())
//!     }
//!     async fn spoil(&self, _: &MemoryEventStore, tx: &mut MemoryTx) {
//!         #[derive(serde::Serialize)]
//!         enum Nonsense { Nonsense }
//!         let stream = highwater::stream_id("no such", "stream");
//!         tx.append(Append::to(stream).expecting(ExpectedVersion::StreamExists).event(Nonsense::Nonsense));
//!     }
//!     async fn clean_up(&self) {}
//! }
//!
//! highwater_contract::suite!(Memory);
//! ```
//!
//! The memory backend's unit of work is an [`OpenAppend`]; another backend brings its own.
//!
//! # Running it
//!
//! - `HIGHWATER_SOAK=20` makes the cases that repeat something do so twenty times as often.
//! - `HIGHWATER_SEED=7` starts the random cases from another seed. Without it they are the same every time; a failure
//!   names the seed it happened with.
//!
//! # What is where
//!
//! - [`suite!`]: the tests. [`cases`]: the same as values, each with the guarantees it checks.
//! - [`Flaky`]: any backend, with calls that fail and answers that are lost.
//! - [`damage`]: what a store says whose tables were changed by hand, for backends on SQL.
//! - [`notes`]: what tests beside a backend share.
//! - [`history`]: random operations, run against a store and compared with an oracle, or run at once and explained.
//!
//! What this crate deliberately does not check is what only one backend can show: crashes of a server, other processes,
//! files. That is tested beside the backend.

mod case;
mod checkpoints;
pub mod damage;
mod dead_letters;
mod delivery;
mod diagnose;
mod flaky;
mod harness;
pub mod history;
mod leadership;
mod list;
mod log;
mod memory;
pub mod notes;
mod requests;
mod support;
mod transactions;
mod transfer;
mod wakeups;

pub use case::{Case, cases, run};
pub use flaky::{Call, Flaky, Verdict};
pub use harness::{Harness, OpenAppend, Settings};
pub use memory::MemoryHarness;
#[doc(hidden)]
pub use support::{assert_state_in_memory_is_refused, delivered, ignore_environment};
