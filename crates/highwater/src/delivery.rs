//! The delivery engine: written once, for every backend.
//!
//! One task per subscriber. What it does next is decided by a pure machine ([`machine`]); the [`driver`] carries it out
//! and tells the machine what came of it. Events come from a reader of the subscriber's own while it is behind
//! ([`catch_up`]), and from one read that all live subscribers share once it is not ([`tail`]). Checkpoints of all
//! subscribers go through one [`writer`]. What operators ask for is done by the same task, between two events ([`replay`]).
//!
//! ```text
//!  starting ──► standby ──term raised──► setting up ──► catching up ──reached the frontier──► live ◄──► retrying
//!     ▲            ▲                                          ▲                                │
//!     │            │                                          └───────── fell behind ◄─────────┤
//!     │            └─────────────────── leadership lost or released ◄──────────────────────────┤
//!     └── disconnected ◄─── an answer was lost, or the server was restarted or replaced ◄──────┘   paused · halted · stopped
//! ```
//!
//! A store that fails and is retried shows as disconnected too; what was under way then continues where it was.
//!
//! What the engine deliberately does not know: which backend it runs on, what the events mean, and holes in the order.

pub(crate) mod after_commit;
mod batch_size;
pub(crate) mod catch_up;
pub(crate) mod driver;
pub(crate) mod handling;
pub(crate) mod itself;
mod journal;
pub(crate) mod machine;
mod replay;
mod retry;
pub(crate) mod status;
pub(crate) mod tail;
pub(crate) mod writer;

pub(crate) use journal::cut;
