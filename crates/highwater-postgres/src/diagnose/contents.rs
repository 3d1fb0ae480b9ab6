//! Whether what is stored is what was written.

use highwater::Error;
use highwater::backend::{Finding, diagnose_rows};

use crate::error::failed;
use crate::store::PgEventStore;

/// So many of the newest events are checked: a log may have a thousand million.
const EVENTS_MAX: i64 = 100_000;

/// Rows that nothing of ours has written.
pub(super) async fn rows(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    let query =
        sqlx::query_as(store.inner.sql.diagnose_rows.clone()).bind(EVENTS_MAX).bind(store.inner.schema.as_str());
    let damaged = store.inner.own_pool.ask(async |connection| query.fetch_all(connection).await).await;
    Ok(diagnose_rows(damaged.map_err(|e| failed("look at the rows", e))?))
}
