//! Highwater: an event store and a reliable event bus.
//!
//! Applications append events to streams and read them back: one stream, or everything in one total order that no
//! late commit can undercut. Events are an ordinary serde enum; nothing is derived from us.
//!
//! ```
//! use highwater::prelude::*;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! enum Order {
//!     Placed { sku: String, cents: i64 },
//!     Shipped,
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let store = MemoryEventStore::new();
//! let order = stream_id("order", "17");
//!
//! let append = Append::to(order)
//!     .expecting(ExpectedVersion::NoStream)
//!     .event(Order::Placed { sku: "A-100".into(), cents: 1299 })
//!     .event(Order::Shipped);
//! let done = store.append(&append).await?;
//! assert_eq!(done.stream_version, 2);
//!
//! let events: Vec<Event<Order>> = store.read_events(order).collect().await?;
//! assert_eq!(events[1].data, Order::Shipped);
//! # Ok::<(), highwater::Error>(()) }).unwrap();
//! ```
//!
//! # What is where
//!
//! - The vocabulary: [`Event`], [`Metadata`], [`Append`], [`ExpectedVersion`], [`Error`].
//! - [`EventStore`]: what applications call. [`Evolve`]: state folded from a stream. [`Projection`] and
//!   [`EventObserver`]: code that is handed events.
//! - The contracts a backend fulfils, over raw [`Record`]s: [`Log`] and [`Wakeups`].
//! - [`codec`]: how an enum becomes a record and back. [`Upcasters`]: how old records become new ones.
//! - [`MemoryEventStore`]: the backend for tests, and the oracle the others are compared with.

mod append;
mod backend;
mod checkpoints;
pub mod codec;
mod dead_letters;
mod error;
mod event;
mod evolve;
mod limits;
mod log;
mod memory;
mod metadata;
mod observer;
mod paging;
mod record;
mod store;
mod stored;
mod upcast;
mod wakeups;

pub use append::{Append, Appended, ExpectedVersion, Position, stream_id};
pub use backend::{Backend, Begun, Closed, Closing};
pub use checkpoints::{Checkpoint, CheckpointWrite, Checkpoints, Fence, Refused, Taken, Term};
pub use codec::EventTypes;
pub use dead_letters::{
    Ask, DeadLetter, DeadLetters, LetterAttempt, LetterCursor, LetterDetail, LetterQuery, LetterState, NewLetter,
    Request, RequestOutcome,
};
pub use error::{BoxError, Error, Invalid};
pub use event::{Event, EventBuilder};
pub use evolve::{Decision, Evolve, ExecuteError, Loaded};
pub use limits::Limits;
pub use log::{BoxFuture, Direction, Log, OpenWriter, Page, ReadLimit, StreamPage, StreamRead};
pub use memory::{MemoryEventStore, MemoryUnitOfWork};
pub use metadata::Metadata;
pub use observer::{EventObserver, Projection};
pub use paging::EventStream;
pub use record::{NewRecord, Record};
pub use store::EventStore;
pub use stored::already_stored;
pub use upcast::Upcasters;
pub use wakeups::{Wakeup, Wakeups};

/// Everything an application usually needs, in one `use`.
pub mod prelude {
    pub use crate::{
        Append, Appended, Error, Event, EventStore, Evolve, ExpectedVersion, Log, MemoryEventStore, Metadata,
        Upcasters, Wakeups, stream_id,
    };
}
