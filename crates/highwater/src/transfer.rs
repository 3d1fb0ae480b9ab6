//! Moving a whole store from one place to another: the contract of a store that can be filled, and what is done with it.
//!
//! ```
//! use highwater::backend::Log;
//! use highwater::{EventStore, MemoryEventStore, transfer};
//! # #[derive(serde::Serialize)] enum Order { Shipped }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let (from, to) = (MemoryEventStore::new(), MemoryEventStore::new());
//! let order = highwater::stream_id("order", "17");
//! from.append(&highwater::Append::to(order).event(Order::Shipped)).await?;
//!
//! let copied = transfer::copy(&from, "the old shop", &to, |step| println!("{step:?}")).await?;
//! assert_eq!((copied.counts.events, to.head().await?), (1, from.head().await?));
//! # Ok::<(), highwater::Error>(()) }).unwrap();
//! ```
//!
//! Read models are no part of a store, and do not move with it: see `docs/operating.md`.

mod check;
mod contents;
mod copy;
mod digest;
mod export;
mod import;
mod line;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{BoxFuture, DeadLetterDetail, Error, Finding, Record, Request};

pub use crate::error::TransferError;
pub use check::check_records;
pub use copy::{Copied, Phase, Step, copy};
pub use digest::Counts;
pub use export::{Exported, export};
pub use import::{Imported, import};

/// A store that can be filled with what another one holds, and read by the process that fills it.
///
/// # Contract
///
/// - Only an empty store is filled, without events, checkpoints, dead letters and requests; or one whose filling from the
///   same source was interrupted, which resumes after [`Filling::filled_to`] \[G34\].
/// - From [`fill`](Self::fill) until [`Filling::finish`] or [`abandon`](Self::abandon), whatever happens to the process that
///   fills, every other write is [`Error::BeingFilled`] and changes nothing: appends of every kind, taking over,
///   checkpoints, transactions, pauses, requests; through every handle, also those that were there before \[G35\]. Reading
///   shows what has been filled so far, and [`diagnose`](crate::backend::Diagnose::diagnose) calls it bad \[G36\].
/// - Only one fills at a time.
/// - Numbers that were in use before, by an append or by a filling that was abandoned, are not given again by appends.
pub trait Transfer: Send + Sync {
    /// Begins to fill this store, or resumes it. `source` distinguishes what is being copied from everything else.
    ///
    /// What a filling that was interrupted has stored of checkpoints, dead letters and requests is removed again: they are
    /// stored again, as they are by then.
    ///
    /// # Errors
    /// [`TransferError::NotEmpty`]; [`Error::BeingFilled`] when it is being filled from elsewhere, or by another process right
    /// now.
    fn fill<'a>(&'a self, source: &'a str) -> BoxFuture<'a, Result<Box<dyn Filling>, Error>>;

    /// The filling that is not finished, if there is one.
    fn filling(&self) -> BoxFuture<'_, Result<Option<Unfinished>, Error>>;

    /// Abandons a filling that no process works on any more: the store is empty and open again. `Ok(false)`: there is none.
    ///
    /// # Errors
    /// [`Error::BeingFilled`] while a process fills it.
    fn abandon(&self) -> BoxFuture<'_, Result<bool, Error>>;

    /// How many events there are up to a position.
    fn count_events(&self, up_to: u64) -> BoxFuture<'_, Result<u64, Error>>;
}

/// A store that is being filled. Dropping it interrupts that: what was stored stays, and so does the lock.
///
/// # Contract
///
/// - Each [`put`](Self::put) stores everything it is given, exactly as it is, or nothing.
/// - What breaks the order of the log is refused: numbers that do not ascend, versions that are not contiguous from 1, an id
///   or a dead letter that is there already, and whatever an append could not store, except for limits on size: a store may
///   hold what it would not accept today \[G34\].
pub trait Filling: Send {
    /// Up to which number records are stored; 0 when there are none.
    fn filled_to(&self) -> u64;

    /// Stores a batch.
    fn put<'a>(&'a mut self, batch: Batch<'a>) -> BoxFuture<'a, Result<(), Error>>;

    /// Opens the store. Appends are numbered after the last record.
    ///
    /// # Errors
    /// When the connection is lost it may be finished nevertheless: [`Transfer::filling`] tells.
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;

    /// Drops everything that was filled in, and opens the store.
    fn abandon(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
}

/// What is filled in together.
#[derive(Debug, Clone, Copy)]
pub enum Batch<'a> {
    /// Records that follow those stored before.
    Records(&'a [Record]),
    /// Checkpoints, each with its own term that was never given before.
    Checkpoints(&'a [FilledCheckpoint]),
    /// Dead letters with their attempts. The records in them are not looked at: they are in the log.
    DeadLetters(&'a [DeadLetterDetail]),
    /// Requests that are open.
    Requests(&'a [Request]),
}

/// A filling that is not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// What the store is being filled from.
    pub source: String,
    /// Since when.
    pub since: DateTime<Utc>,
    /// Up to which number records are stored.
    pub filled_to: u64,
}

impl Unfinished {
    /// What a store's own diagnosis reports of it: whatever else is healthy, an unfinished store is not.
    #[must_use]
    pub fn finding(unfinished: Option<&Self>) -> Finding {
        const TOPIC: &str = "filling";
        let Some(Self { source, since, filled_to }) = unfinished else {
            return Finding::good(TOPIC, "nothing is being filled in");
        };
        let since = since.format("%Y-%m-%d %H:%M:%S UTC");
        let found = format!(
            "it is being filled from {source:?} since {since}, so far up to {filled_to}, and takes nothing else"
        );
        let advice = "have the same copy or import finished, or abandon it: what is here is not whole";
        Finding::bad(TOPIC, found, advice)
    }

    /// The error for every other writer.
    #[must_use]
    pub fn into_error(self) -> Error {
        let reason = format!("this store is being filled from {:?} since {}", self.source, self.since);
        Error::BeingFilled { reason }
    }
}

/// How far a subscriber is, as it is copied to another store: leaders stay behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilledCheckpoint {
    /// The subscriber.
    pub subscriber_id: String,
    /// Up to here everything has been handled or dead-lettered.
    pub global_sequence: u64,
    /// The last event that was delivered, if it is known.
    pub event_id: Option<Uuid>,
    /// When it was last written.
    #[serde(with = "line::micros")]
    pub updated_at: DateTime<Utc>,
    /// Whether the subscriber is paused.
    pub paused: bool,
}
