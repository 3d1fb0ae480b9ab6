//! What a backend brings along to be examined.

use std::collections::BTreeMap;
use std::future::Future;

use highwater::backend::{BoxFuture, Transactional};
use highwater::{Append, Appended, BoxError, Error, Limits, Upcasters};

/// Makes and opens the logs of one backend. One harness serves one case.
pub trait Harness: Send + Sync + 'static {
    /// The backend. Clones share one log.
    type Store: Transactional;

    /// A new, empty log that nothing else uses. A case may ask for several.
    fn fresh(&self, settings: Settings) -> impl Future<Output = Self::Store> + Send;

    /// The same log through a new handle, as a restarted process would open it. The old handle stays usable.
    fn reopen(&self, store: &Self::Store, settings: Settings) -> impl Future<Output = Self::Store> + Send;

    /// Makes an append in a transaction and leaves that open, with its numbers drawn if the backend draws them then.
    ///
    /// What is wrong with the append may be said here or when it is committed. Up to eight are open at once.
    fn begin(
        &self,
        store: &Self::Store,
        append: Append,
    ) -> impl Future<Output = Result<Box<dyn OpenAppend>, Error>> + Send;

    /// A read model inside the backend's own transaction: adds one to the count of a key. A table of keys and counts will
    /// do, as long as it lies beside the log that `store` is.
    fn tally(
        &self,
        store: &Self::Store,
        tx: &mut <Self::Store as Transactional>::Tx,
        key: &str,
    ) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// The counts that are committed, without those that are zero.
    fn tallies(&self, store: &Self::Store) -> impl Future<Output = BTreeMap<String, u64>> + Send;

    /// Forgets all counts, inside the backend's own transaction.
    fn clear_tallies(
        &self,
        store: &Self::Store,
        tx: &mut <Self::Store as Transactional>::Tx,
    ) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Does something inside the transaction that keeps it from being committed, and says nothing about it: as a handler
    /// does that runs into an error of the database and continues.
    fn spoil(
        &self,
        store: &Self::Store,
        tx: &mut <Self::Store as Transactional>::Tx,
    ) -> impl Future<Output = ()> + Send;

    /// Removes what [`fresh`](Self::fresh) made. Called after each case, also when it failed.
    fn clean_up(&self) -> impl Future<Output = ()> + Send;
}

/// An append in a transaction that is still open. Dropping it rolls it back.
pub trait OpenAppend: Send {
    /// Commits it, and says where it was stored.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<Appended, Error>>;

    /// Takes it back. Nothing of it is left when this returns.
    fn rollback(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
}

/// How a log is opened.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// How old records are brought up to date.
    pub upcasters: Upcasters,
    /// How large things may be.
    pub limits: Limits,
}

impl From<Upcasters> for Settings {
    fn from(upcasters: Upcasters) -> Self {
        Self { upcasters, ..Self::default() }
    }
}

impl From<Limits> for Settings {
    fn from(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }
}
