//! The fenced transaction on PostgreSQL: it begins by locking the subscriber's checkpoint, and its last statement moves it.

mod closing;
mod pool;

use std::sync::Arc;

use highwater::Error;
use highwater::backend::{Backend, Begun, BoxFuture, Closed, Closing, Fence, OpenTx, Opening, Transactional};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::checkpoints::{held, term};
use crate::connect::life;
use crate::error::{commit_refused, failed, failed_in_life, is_lost, is_outage, sqlstate};
use crate::own_pool::{ANSWER_TIMEOUT, InTime};
use crate::row::{counted, unsigned};
use crate::store::PgEventStore;
use crate::unit_of_work::{COMMIT_TIMEOUT, PgTx, roll_back};
use crate::write;

pub(crate) use pool::{CLOSINGS_MAX, PURPOSE, pool};

const DELIVERIES_BUSY: &str = "begin a transaction: all transaction_connections_max connections were in use all the time, or none could be opened";
const CLOSINGS_BUSY: &str = "begin a transaction without a handler: both connections for these were in use all the time, or none could be opened";

impl Transactional for PgEventStore {
    type Tx = PgTx;
}

impl Backend for PgEventStore {
    fn shared(&self) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }

    fn initialize(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(PgEventStore::initialize(self))
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn begin<'a>(
        &'a self,
        fence: &'a Fence,
        opening: Opening,
        dead_letter: Option<Uuid>,
    ) -> BoxFuture<'a, Result<Begun, Error>> {
        Box::pin(self.begin_fenced(fence, opening, dead_letter))
    }

    fn commit<'a>(
        &'a self,
        tx: OpenTx,
        fence: &'a Fence,
        closing: Closing<'a>,
    ) -> BoxFuture<'a, Result<Closed, Error>> {
        Box::pin(async move {
            match tokio::time::timeout(COMMIT_TIMEOUT, self.commit_fenced(tx.into_inner()?, fence, closing)).await {
                Ok(committed) => committed,
                Err(elapsed) => Err(Error::UnknownOutcome { source: elapsed.into() }),
            }
        })
    }

    fn is_outage(&self, error: &(dyn std::error::Error + 'static)) -> bool {
        error.downcast_ref().is_some_and(is_outage)
    }

    fn rollback(&self, tx: OpenTx, unsure: bool) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // One that is dropped is rolled back by the pool, which finds out whether it still answers, and closes it if not.
            if !unsure && let Ok(tx) = tx.into_inner() {
                roll_back(tx).await;
            }
        })
    }
}

impl PgEventStore {
    async fn begin_fenced(&self, fence: &Fence, opening: Opening, dead_letter: Option<Uuid>) -> Result<Begun, Error> {
        let (pool, busy) = match opening {
            Opening::Handler => (&self.inner.deliveries, DELIVERIES_BUSY),
            Opening::Closing => (&self.inner.closings, CLOSINGS_BUSY),
        };
        // Both with a time-out, and no transaction begins on a connection that came too late.
        let beginning = tokio::time::timeout(ANSWER_TIMEOUT + self.inner.config.connect_timeout, pool.begin()).await;
        let beginning = beginning.unwrap_or_else(|elapsed| Err(sqlx::Error::Io(elapsed.into())));
        let mut tx = beginning.map_err(|error| match error {
            sqlx::Error::PoolTimedOut => Error::Unavailable { action: busy, source: error.into() },
            error => failed("begin a transaction", error),
        })?;
        match tokio::time::timeout(ANSWER_TIMEOUT, self.enter(&mut tx, fence, dead_letter)).await {
            Ok(Ok((global_sequence, dead_letter_open))) => {
                Ok(Begun { tx: OpenTx::new(tx), global_sequence, dead_letter_open })
            }
            Ok(Err(error)) => {
                roll_back(tx).await;
                Err(error)
            }
            // Dropped, and not rolled back: there would be no answer to that either.
            Err(elapsed) => Err(Error::Unavailable { action: "begin a transaction in time", source: elapsed.into() }),
        }
    }

    /// Locks the checkpoint, then checks which term may write it: in this order, so that a writer that was still committing
    /// has ended.
    async fn enter(&self, tx: &mut PgTx, fence: &Fence, dead_letter: Option<Uuid>) -> Result<(u64, bool), Error> {
        let failed = |e| self.noted(failed_in_life("begin a transaction", e));
        let row =
            sqlx::query(self.inner.sql.fence_lock.clone()).bind(&*fence.subscriber_id).fetch_optional(&mut **tx).await;
        let row = match row {
            Err(error) if sqlstate(&error).as_deref() == Some("55P03") => {
                let action = "begin: another transaction holds the checkpoint";
                return Err(held(self, action, &fence.subscriber_id, error).await);
            }
            row => row.map_err(failed)?,
        };
        let Some(row) = row else { return Err(fenced(fence, None)) };
        let global_sequence = check(&row, fence).map_err(failed)??;
        let Some(dead_letter) = dead_letter else { return Ok((global_sequence, true)) };
        let open = sqlx::query_scalar(self.inner.sql.dead_letter_is_open.clone())
            .bind(dead_letter)
            .bind(&*fence.subscriber_id)
            .fetch_one(&mut **tx)
            .await
            .map_err(failed)?;
        Ok((global_sequence, open))
    }

    async fn commit_fenced(&self, mut tx: PgTx, fence: &Fence, closing: Closing<'_>) -> Result<Closed, Error> {
        match closing::close(&mut tx, &self.inner.sql, fence, self.inner.settled.to(fence.incarnation), closing).await {
            Ok(Some(closed)) => {
                tx.commit().await.map_err(|error| match is_lost(&error) {
                    true => Error::UnknownOutcome { source: error.into() },
                    false => commit_refused(error),
                })?;
                Ok(closed)
            }
            Ok(None) => {
                let same = self.still_locks(&mut tx).await;
                roll_back(tx).await;
                // The handler has ended it, so that it did not hold the checkpoint any more.
                same?;
                // From outside: what the transaction itself sees may be the handler's doing.
                let row = sqlx::query_scalar(self.inner.sql.fence_term.clone())
                    .bind(&*fence.subscriber_id)
                    .fetch_optional_in_time(&self.inner.own_pool)
                    .await;
                let term: Option<i64> = row.map_err(|e| failed("see who has taken over", e))?;
                Err(fenced(fence, term.map(unsigned)))
            }
            Err(error) => {
                roll_back(tx).await;
                Err(error)
            }
        }
    }

    /// Whether this is the transaction that has locked the checkpoint.
    async fn still_locks(&self, tx: &mut PgTx) -> Result<(), Error> {
        write::still_open(tx, &self.inner.sql).await?;
        let same = sqlx::query_scalar(self.inner.sql.fence_same.clone()).fetch_one(&mut **tx).await;
        match same.map_err(|e| failed("look at the transaction", e))? {
            true => Ok(()),
            false => Err(Error::Aborted {
                source: "the handler ended the transaction that it was given, and began another".into(),
            }),
        }
    }
}

/// Where the checkpoint is, if the fence holds.
fn check(row: &PgRow, fence: &Fence) -> Result<Result<u64, Error>, sqlx::Error> {
    let holds = term(row, 1)?;
    if holds != fence.term {
        return Ok(Err(fenced(fence, Some(holds.number))));
    }
    // None: this life has no number yet.
    if row.try_get::<Option<i64>, _>(3)?.map(life) != Some(fence.incarnation) {
        let reason = "the server was restarted, recovered or replaced since the subscriber began".to_owned();
        return Ok(Err(Error::Interrupted { reason }));
    }
    Ok(Ok(counted(row.try_get(0)?)?))
}

fn fenced(fence: &Fence, term: Option<u64>) -> Error {
    Error::Fenced { subscriber_id: fence.subscriber_id.to_string(), term }
}
