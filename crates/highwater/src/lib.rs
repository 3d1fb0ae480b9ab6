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
//! - [`EventBus`]: delivers events to subscribers. [`LiveView`]: state in memory, folded from the whole log.
//! - [`operations`]: subscribers seen and steered from outside, by [`EventStore::overview`], [`explain`](EventStore::explain) and
//!   [`repair`](EventStore::repair); dead letters, by [`Bus::dead_letters`].
//! - [`backend`]: the contracts that a backend fulfils, over raw records, and what all backends share.
//! - [`codec`]: how an enum becomes a record and back. [`OneOf`](codec::OneOf): several enums as one. [`Upcasters`]: how old records become new ones.
//! - [`transfer`]: moving a whole store: copying, exporting, importing.
//! - [`MemoryEventStore`]: the backend for tests, and the oracle the others are compared with.
//!
//! In the repository, `docs/guide` builds one application from the first event to three instances, and `docs/cookbook.md` answers
//! single questions.

mod append;
mod append_queue;
pub mod backend;
mod backoff;
mod bus;
mod checkpoints;
pub mod codec;
mod config;
mod dead_letters;
mod delivery;
mod diagnose;
mod error;
mod event;
mod evolve;
mod explain;
mod for_each_tx;
mod into;
mod kinds;
mod leadership;
mod limits;
mod lock;
mod log;
mod memory;
mod metadata;
mod observer;
mod overview;
mod paging;
mod prepared;
mod record;
mod repair;
mod requests;
mod store;
mod stored;
mod stream_id;
mod subscriber;
mod transactions;
pub mod transfer;
mod upcast;
mod wakeups;
mod wrapper;

pub use append::{Append, Appended, ExpectedVersion, GlobalSequence};
pub use bus::{Bus, EventBus, Health, LiveView, MemoryEventBus, Problem, Subscription, ViewOptions, ViewSnapshot};
pub use checkpoints::Claim;
pub use codec::EventTypes;
pub use config::{
    CheckpointMode, CoordinatorConfig, FailurePolicy, InstanceMode, ReliableDeliveryConfig, StartAt, SubscriberOptions,
};
pub use delivery::status::{Progress, SubscriptionState};
pub use error::{BoxError, BusError, Error, Invalid};
pub use event::Event;
pub use evolve::{Evolve, ExecuteError, Loaded};
pub use leadership::{Coordinator, LeadershipGuard, LocalCoordinator, ProjectorCoordinator};
pub use limits::Limits;
pub use log::Filter;
pub use memory::{MemoryEventStore, MemoryTx, MemoryUnitOfWork};
pub use metadata::Metadata;
pub use observer::{EventObserver, Permanent, Projection, StateIs, TransactionalProjection};
pub use paging::EventStream;
pub use store::EventStore;
pub use stream_id::{StreamId, StreamName, stream_id};
pub use subscriber::observer_fn;
pub use upcast::Upcasters;

/// What operators' tools use: subscribers and leases observed and steered from outside, and dead letters.
///
/// Begin with [`EventStore::overview`], [`EventStore::explain`], [`EventStore::repair`] and [`Bus::dead_letters`].
pub mod operations {
    pub use crate::bus::{CaughtUp, DeadLetterQueue, Filed, Waited};
    pub use crate::dead_letters::{DeadLetter, DeadLetterDetail, DeadLetterQuery, DeadLetterState};
    pub use crate::diagnose::{Finding, Planned, Severity};
    pub use crate::error::chain;
    pub use crate::explain::{Cause, Explanation};
    pub use crate::leadership::{Instance, Leader, LeaderHold, LockHolder, leader_of};
    pub use crate::log::OpenWriter;
    pub use crate::overview::{LeaseOverview, Overview, SubscriberOverview};
    pub use crate::repair::{Moved, Removed, Repair};
    pub use crate::requests::RequestOutcome;
}

// Inside, everything is at hand.
pub(crate) use backend::*;
pub(crate) use operations::*;

/// Everything an application usually needs, in one `use`.
pub mod prelude {
    // What applications call on a store, whatever the contract is called.
    pub use crate::backend::Log as _;
    pub use crate::codec::OneOf;
    pub use crate::{
        Append, Appended, BoxError, CheckpointMode, Claim, Coordinator, Error, Event, EventBus, EventStore, Evolve,
        ExecuteError, ExpectedVersion, FailurePolicy, GlobalSequence, InstanceMode, LiveView, MemoryEventBus,
        MemoryEventStore, Metadata, Permanent, Projection, ProjectorCoordinator, ReliableDeliveryConfig, StartAt,
        StateIs, StreamId, SubscriberOptions, TransactionalProjection, Upcasters, ViewOptions, observer_fn, stream_id,
    };
}
