//! The fenced transaction on SQLite: it begins by writing itself down in the subscriber's checkpoint, and its last statement
//! moves that.

mod closing;

use std::sync::Arc;
use std::time::Duration;

use highwater::Error;
use highwater::backend::{Backend, Begun, BoxFuture, Closed, Closing, Fence, OpenTx, Opening, Transactional};
use sqlx::Row;
use uuid::Uuid;

use crate::checkpoints::term;
use crate::error::{Code, code, commit_failed, failed, is_outage};
use crate::row::{counted, unsigned};
use crate::sql;
use crate::store::SqliteEventStore;
use crate::unit_of_work::SqliteTx;

/// How long to wait for other transactions: those of all subscribers, and of the application itself.
const PATIENCE: Duration = Duration::from_secs(30);

impl Transactional for SqliteEventStore {
    type Tx = SqliteTx;
}

impl Backend for SqliteEventStore {
    fn shared(&self) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }

    fn initialize(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(SqliteEventStore::initialize(self))
    }

    fn is_durable(&self) -> bool {
        true
    }

    /// There is one writer at a time, whatever it does.
    fn begin<'a>(
        &'a self,
        fence: &'a Fence,
        _: Opening,
        dead_letter: Option<Uuid>,
    ) -> BoxFuture<'a, Result<Begun, Error>> {
        Box::pin(async move {
            let what = format!("a transaction of delivery for {}", fence.subscriber_id);
            let mut tx = self.write_transaction(what, PATIENCE).await?;
            match enter(&mut tx, fence, dead_letter).await {
                Ok((global_sequence, dead_letter_open)) => {
                    Ok(Begun { tx: OpenTx::new(tx), global_sequence, dead_letter_open })
                }
                Err(error) => {
                    tx.roll_back().await;
                    Err(error)
                }
            }
        })
    }

    fn commit<'a>(
        &'a self,
        tx: OpenTx,
        fence: &'a Fence,
        closing: Closing<'a>,
    ) -> BoxFuture<'a, Result<Closed, Error>> {
        Box::pin(async move { self.commit_fenced(tx.into_inner()?, fence, closing).await })
    }

    fn is_outage(&self, error: &(dyn std::error::Error + 'static)) -> bool {
        error.downcast_ref().is_some_and(is_outage)
    }

    /// `unsure` makes no difference: what is still running on the connection ends by itself, before the rollback.
    fn rollback(&self, tx: OpenTx, _unsure: bool) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Ok(tx) = tx.into_inner::<SqliteTx>() {
                tx.roll_back().await;
            }
        })
    }
}

/// Records the transaction, and checks which term may write.
async fn enter(tx: &mut SqliteTx, fence: &Fence, dead_letter: Option<Uuid>) -> Result<(u64, bool), Error> {
    let begin_failed = |e| failed("begin a transaction", e);
    let number = tx.number;
    let row = sqlx::query(sql::fence_lock).bind(&*fence.subscriber_id).bind(number).fetch_optional(&mut **tx).await;
    let Some(row) = row.map_err(begin_failed)? else { return Err(fenced(fence, None)) };
    let holds = term(&row, 1).map_err(begin_failed)?;
    if holds != fence.term {
        return Err(fenced(fence, Some(holds.number)));
    }
    if fence.incarnation != unsigned(row.try_get(3).map_err(begin_failed)?) {
        let reason = "the position comes from another life of the log".to_owned();
        return Err(Error::Interrupted { reason });
    }
    let global_sequence = row.try_get(0).and_then(counted).map_err(begin_failed)?;
    let Some(dead_letter) = dead_letter else { return Ok((global_sequence, true)) };
    let open = sqlx::query_scalar(sql::dead_letter_is_open).bind(dead_letter).bind(&*fence.subscriber_id);
    Ok((global_sequence, open.fetch_one(&mut **tx).await.map_err(begin_failed)?))
}

impl SqliteEventStore {
    async fn commit_fenced(&self, mut tx: SqliteTx, fence: &Fence, closing: Closing<'_>) -> Result<Closed, Error> {
        match closing::close(&mut tx, fence, closing).await {
            Ok(Some(closed)) => {
                tx.commit().await.map_err(|error| match code(&error) {
                    // A deferred constraint.
                    Some(Code::Constraint | Code::Unique) => Error::Aborted { source: error.into() },
                    // There was no transaction any more.
                    Some(Code::Other) => Error::Aborted { source: error.into() },
                    _ => commit_failed("commit", error),
                })?;
                Ok(closed)
            }
            Ok(None) => {
                tx.roll_back().await;
                Err(self.why_not(fence).await?)
            }
            Err(error) => {
                tx.roll_back().await;
                Err(error)
            }
        }
    }

    /// Why a closing did nothing: seen from outside, since what the transaction itself sees may be the handler's doing.
    async fn why_not(&self, fence: &Fence) -> Result<Error, Error> {
        let look_failed = |e| failed("see who has taken over", e);
        let row = sqlx::query(sql::fence_term).bind(&*fence.subscriber_id).fetch_optional(&self.inner.pool).await;
        let Some(row) = row.map_err(look_failed)? else { return Ok(fenced(fence, None)) };
        Ok(fenced(fence, Some(term(&row, 0).map_err(look_failed)?.number)))
    }
}

fn fenced(fence: &Fence, term: Option<u64>) -> Error {
    Error::Fenced { subscriber_id: fence.subscriber_id.to_string(), term }
}
