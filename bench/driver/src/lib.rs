//! A contestant of the comparison is a process. It is started as `about`, and says what it is, or as
//! `serve URL SETTINGS`, and then does what it is asked, a line of JSON each, on standard input; it answers each with a
//! line on standard output and ends with its input.
//!
//! A store has to say how it appends, loads and follows ([`Store`]); callers, rates and clocks are the same for all, and
//! are here. Contestants in other languages speak the same lines: `bench/peers/README.md` has them.

mod measure;
mod payload;
mod protocol;
mod recent;
mod serve;
mod sink;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub use payload::{Line, Placed, now_micros};
pub use protocol::{About, Answer, Ask, Delivered, Delivery, Handed, Settings, Way};
pub use recent::Recent;
pub use serve::{run, run_with};
pub use sink::Sink;
use uuid::Uuid;

/// Whatever goes wrong.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// How often those look for new events who have to look, in the fastest way: the same for all.
pub const POLL: Duration = Duration::from_millis(5);

/// What an append is given.
#[derive(Debug, Clone)]
pub struct Appending {
    /// The stream.
    pub stream: Uuid,
    /// How many events it has already; 0 for a new one.
    pub version: u64,
    /// The events, all or nothing.
    pub events: Vec<Placed>,
}

/// A store, as its own documentation says that it is used.
pub trait Store: Send + Sync + Sized + 'static {
    /// What it is. Asked without a database.
    fn about() -> About;

    /// Lays out an empty database: with what a subscriber needs only if there may be one.
    fn prepare(url: &str, settings: &Settings) -> impl Future<Output = Result<(), Error>> + Send;

    /// Opens a database that is laid out.
    fn open(url: &str, settings: Settings) -> impl Future<Output = Result<Self, Error>> + Send;

    /// Stores events, durably, before it returns. Called by many at once. Says how often it had to try.
    fn append(&self, append: Appending) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Loads a stream, with every event decoded, and says how many there were.
    fn load(&self, stream: Uuid) -> impl Future<Output = Result<usize, Error>> + Send;

    /// Hands every event to the sink, from the beginning or from where this subscriber has stored that it was, until
    /// [`Sink::stopped`]. A contestant that cannot says so in [`About::no_follower`] and is not asked.
    fn follow(&self, id: &str, delivery: Delivery, sink: Arc<Sink>) -> impl Future<Output = Result<(), Error>> + Send;
}

/// The version of a package in a `Cargo.lock`, for [`About::versions`].
#[must_use]
pub fn locked_version(lock: &str, package: &str) -> String {
    let entry = format!("name = \"{package}\"\nversion = \"");
    let version = lock.split_once(&entry).and_then(|(_, rest)| rest.split_once('"'));
    format!("{package} {}", version.map_or("(not in the lock file)", |(version, _)| version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        let lock = "[[package]]\nname = \"a-b\"\nversion = \"1.2.3\"\nsource = \"x\"\n";
        assert_eq!(locked_version(lock, "a-b"), "a-b 1.2.3");
        assert_eq!(locked_version(lock, "a"), "a (not in the lock file)");
    }
}
