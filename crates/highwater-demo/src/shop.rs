//! The two databases that the shop can be on.

mod postgres;
mod sqlite;

use highwater::backend::Transactional;
use std::future::Future;

use crate::{DemoError, Place, Value};

/// An event store with the shop's tables beside it.
pub trait Shop: Transactional {
    /// Opens the store.
    ///
    /// # Errors
    /// When it cannot be reached.
    fn open(place: &Place) -> impl Future<Output = Result<Self, DemoError>> + Send;

    /// Runs one of the shop's statements in the transaction that a projection was handed.
    ///
    /// # Errors
    /// What the driver says.
    fn within(
        tx: &mut Self::Tx,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}
