//! Taking over from a leader that is frozen with its transaction open.

use std::time::Duration;

use highwater::{Claim, Error};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, Row};

use crate::checkpoints::take_over;
use crate::connect::ask_life;
use crate::error::failed;
use crate::store::PgEventStore;

/// How long a transaction of a former leader may take to end by itself.
const GRACE: Duration = Duration::from_millis(100);

/// Raises the term; a session of Highwater that keeps that waiting no longer leads, and is ended.
pub(crate) async fn take_over_for_good(store: &PgEventStore, claim: &Claim) -> Result<PgRow, sqlx::Error> {
    // Callers that wait for a locked row must not use up the pool: the others wait for their turn, not for them.
    let _turn = store.inner.taking_over.acquire().await;
    let taking_over = async |connection: &mut PgConnection| {
        ask_life(connection, &store.inner.sql).await?;
        let pid: i32 = sqlx::query_scalar(store.inner.sql.backend_pid.clone()).fetch_one(&mut *connection).await?;
        let mut taking = std::pin::pin!(take_over(&store.inner.sql, claim).fetch_one(&mut *connection));
        loop {
            tokio::select! {
                taken = &mut taking => return taken,
                () = tokio::time::sleep(GRACE) => {
                    if let Err(error) = evict(store, pid).await {
                        tracing::warn!(%error, "cannot end the transaction of a former leader; waiting for its end");
                    }
                }
            }
        }
    };
    store.inner.own_pool.ask(taking_over).await
}

/// On a dedicated connection: the pool may be full of waiting callers.
async fn evict(store: &PgEventStore, waiting: i32) -> Result<(), Error> {
    let failed = |e| failed("end the transaction of a former leader", e);
    let mut connection = store.inner.connector.connect("evict", None).await?;
    let ended = sqlx::query(store.inner.sql.evict.clone()).bind(waiting).fetch_all(&mut connection).await;
    for row in ended.map_err(failed)? {
        let (pid, role): (i32, String) = (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
        match row.try_get::<Option<bool>, _>(2).map_err(failed)? {
            Some(_) => tracing::warn!(pid, "ended a transaction that a former leader had left open"),
            None => {
                tracing::warn!(pid, role, "a former leader has left a transaction open, and this role may not end it")
            }
        }
    }
    connection.close().await.map_err(failed)
}
