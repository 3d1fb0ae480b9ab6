//! A shop, to see Highwater at work.
//!
//! Orders are placed at a chosen rate. Three instances of the shop, each a process of its own, share four subscribers: two
//! transactional projections, a saga and one that sends e-mails. Half-way the busiest instance is killed. At the end plain
//! SQL checks the books.
//!
//! - [`run`] directs all of it and tells an [`Audience`] what there is to see. [`run_instance`] is one instance.
//! - [`Order`], and what handles it: [`Revenue`], [`Orders`], [`Fulfilment`], [`Emails`]. They are what an application would
//!   write, and know nothing of the demo around them.
//! - [`Place`]: where the shop is. [`clear`]: what is left of those that were killed. [`Database`]: plain SQL there, past
//!   the library. [`Book`]: a check.

mod books;
mod company;
mod database;
mod director;
mod error;
mod instance;
mod leftovers;
mod order;
mod place;
mod producer;
mod scene;
mod shop;
mod sql;
mod subscribers;

pub use books::Book;
pub use company::Launch;
pub use database::{Database, Value};
pub use director::{Plan, run};
pub use error::DemoError;
pub use instance::run_instance;
pub use leftovers::{Leftover, clear};
pub use order::Order;
pub use place::{InUse, Place};
pub use scene::{Audience, Fate, Happening, InstanceView, Killed, Phase, Report, Scene, SubscriberView, Takeover};
pub use shop::Shop;
pub use subscribers::{Emails, Fulfilment, Orders, Revenue, SUBSCRIBERS};
