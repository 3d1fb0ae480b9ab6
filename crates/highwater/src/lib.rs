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
//! - [`Overview`], [`explain`] and [`Repair`]: subscribers seen and steered from outside.
//! - The contracts a backend fulfils, over raw [`Record`]s: [`Log`] and [`Wakeups`].
//! - [`codec`]: how an enum becomes a record and back. [`Upcasters`]: how old records become new ones.
//! - [`transfer`]: moving a whole store: copying, exporting, importing.
//! - [`MemoryEventStore`]: the backend for tests, and the oracle the others are compared with.

mod append;
mod append_queue;
mod backend;
mod bus;
mod checkpoints;
pub mod codec;
pub mod columns;
mod config;
mod dead_letters;
mod delivery;
mod diagnose;
mod error;
mod event;
mod evolve;
mod explain;
mod leadership;
mod limits;
mod log;
mod memory;
mod metadata;
mod observer;
mod overview;
mod paging;
mod prepared;
mod record;
mod repair;
mod store;
mod stored;
mod subscriber;
pub mod transfer;
mod upcast;
mod wakeups;

pub use append::{Append, Appended, ExpectedVersion, Position, stream_id};
pub use append_queue::{AppendQueue, Appender, Backlog, QueuedAppend};
pub use backend::{Backend, Begun, Closed, Closing};
pub use bus::{DeadLetterDesk, EventBus, Filed, Health, MemoryEventBus, Problem, Subscription, Waited};
pub use checkpoints::{
    Checkpoint, CheckpointWrite, Checkpoints, Claim, Fence, Refused, Report, ReportedState, StateColumns, Taken, Term,
};
pub use codec::EventTypes;
pub use config::{CheckpointMode, FailurePolicy, InstanceMode, ReliableDeliveryConfig, StartAt, SubscriberOptions};
pub use dead_letters::{
    Ask, AskColumns, DeadLetter, DeadLetters, LetterAttempt, LetterCursor, LetterDetail, LetterQuery, LetterState,
    NewLetter, Request, RequestOutcome,
};
#[doc(hidden)]
pub use delivery::after_commit::appended_in_handler;
pub use delivery::status::{Progress, SubscriptionState};
pub use diagnose::{Diagnose, Finding, Planned, Severity, diagnose_rows, diagnose_subscribers};
pub use error::{BoxError, Error, Invalid, SharedError};
pub use event::{Event, EventBuilder};
pub use evolve::{Decision, Evolve, ExecuteError, Loaded};
pub use explain::{Cause, Explanation, explain, explain_with_patience};
pub use leadership::{
    Candidate, Coordinator, Held, Instance, Leader, LeaderHold, Leadership, LeadershipGuard, LeadershipSettings,
    LocalCoordinator, LockHolder, Member, Moment, ProjectorCoordinator, Seen, Validity, View, Want,
};
pub use limits::Limits;
pub use log::{BoxFuture, Direction, Log, OpenWriter, Page, ReadLimit, StreamPage, StreamRead};
pub use memory::{MemoryCoordinator, MemoryEventStore, MemoryTx, MemoryUnitOfWork};
pub use metadata::Metadata;
pub use observer::{EventObserver, Permanent, Projection, TransactionalProjection};
pub use overview::{Overview, SubscriberOverview};
pub use paging::EventStream;
pub use prepared::Prepared;
pub use record::{NewRecord, Record};
pub use repair::{Moved, Repair};
pub use store::EventStore;
pub use stored::already_stored;
pub use subscriber::{IntoSubscriber, ObserverFn, Subscriber, observer_fn};
pub use transfer::{FilledCheckpoint, Filling, Transfer, Unfinished};
pub use upcast::Upcasters;
pub use wakeups::{Wakeup, Wakeups};

/// Everything an application usually needs, in one `use`.
pub mod prelude {
    pub use crate::{
        Append, Appended, BoxError, CheckpointMode, Error, Event, EventBus, EventStore, Evolve, ExpectedVersion,
        FailurePolicy, InstanceMode, Log, MemoryEventBus, MemoryEventStore, Metadata, Projection,
        ReliableDeliveryConfig, StartAt, SubscriberOptions, Upcasters, Wakeups, observer_fn, stream_id,
    };
}
