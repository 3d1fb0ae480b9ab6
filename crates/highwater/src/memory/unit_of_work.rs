//! Appends collected to be stored together.

use super::MemoryEventStore;
use crate::{Append, Appended, Error};

/// Appends that are stored together when it is committed, and not at all when it is dropped.
#[derive(Debug)]
#[must_use = "a unit of work stores nothing unless it is committed"]
pub struct MemoryUnitOfWork {
    store: MemoryEventStore,
    appends: Vec<Append>,
}

impl MemoryUnitOfWork {
    pub(super) fn new(store: MemoryEventStore) -> Self {
        Self { store, appends: Vec::new() }
    }

    /// Adds an append. It is validated when the unit of work is committed.
    pub fn append(&mut self, append: Append) {
        self.appends.push(append);
    }

    /// Stores all of it, and says where.
    ///
    /// # Errors
    /// The first append that cannot be stored; then none is.
    #[expect(clippy::unused_async, reason = "the other backends wait here, and code must be able to move between them")]
    pub async fn commit(self) -> Result<Vec<Appended>, Error> {
        self.store.append_together(&self.appends)
    }

    /// Stores nothing.
    #[expect(clippy::unused_async, reason = "the other backends wait here, and code must be able to move between them")]
    pub async fn rollback(self) -> Result<(), Error> {
        Ok(())
    }
}
