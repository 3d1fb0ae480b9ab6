//! Filling a store on SQLite: a row that marks it, triggers that keep other writers out, and a lock of the filling process
//! on a file beside the database.

mod filling;

use highwater::Error;
use highwater::backend::{BoxFuture, Filling, Transfer, Unfinished};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteExecutor};

use crate::error::failed;
use crate::leadership::{Folder, Lock};
use crate::row::{counted, signed, time, unsigned};
use crate::sql;
use crate::store::SqliteEventStore;
use filling::SqliteFilling;

impl Transfer for SqliteEventStore {
    fn fill<'a>(&'a self, source: &'a str) -> BoxFuture<'a, Result<Box<dyn Filling>, Error>> {
        Box::pin(async move {
            let lock = self.lock_filling().await?;
            let mut filling = SqliteFilling::new(self.clone(), lock, source.to_owned());
            match unfinished(&self.inner.pool).await? {
                Some(unfinished) if unfinished.source == source => filling.resume(unfinished.filled_to).await?,
                Some(other) => return Err(other.into_error()),
                None => filling.begin().await?,
            }
            Ok(Box::new(filling) as Box<dyn Filling>)
        })
    }

    fn filling(&self) -> BoxFuture<'_, Result<Option<Unfinished>, Error>> {
        Box::pin(unfinished(&self.inner.pool))
    }

    fn abandon(&self) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move {
            let lock = self.lock_filling().await?;
            let Some(unfinished) = unfinished(&self.inner.pool).await? else { return Ok(false) };
            Box::new(SqliteFilling::new(self.clone(), lock, unfinished.source)).abandon().await?;
            Ok(true)
        })
    }

    fn count_events(&self, up_to: u64) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            let count = sqlx::query_scalar(sql::events_count).bind(signed(up_to)).fetch_one(&self.inner.pool).await;
            count.map(unsigned).map_err(|e| failed("count events", e))
        })
    }
}

impl SqliteEventStore {
    /// A trigger can only report that the store is being filled. The source and the start time are in the row.
    pub(crate) async fn say_what_fills(&self, error: Error) -> Error {
        let Error::BeingFilled { .. } = error else { return error };
        match unfinished(&self.inner.pool).await {
            Ok(Some(unfinished)) => unfinished.into_error(),
            // It has ended meanwhile, or cannot be seen: the first error is the cause.
            _ => error,
        }
    }

    /// The lock of the filling process. It ends with the process.
    async fn lock_filling(&self) -> Result<Lock, Error> {
        let folder = Folder::beside(&self.inner.path);
        folder.create()?;
        if let Some(lock) = folder.fill()? {
            return Ok(lock);
        }
        let since = unfinished(&self.inner.pool).await?.map(Unfinished::into_error);
        let reason = "another process is about to fill this store".to_owned();
        Err(since.unwrap_or(Error::BeingFilled { reason }))
    }
}

/// The filling that is not finished, if there is one.
pub(crate) async fn unfinished(executor: impl SqliteExecutor<'_>) -> Result<Option<Unfinished>, Error> {
    let unfinished = |row: SqliteRow| {
        Ok(Unfinished { source: row.try_get(0)?, since: time(row.try_get(1)?)?, filled_to: counted(row.try_get(2)?)? })
    };
    let row = sqlx::query(sql::filling).fetch_optional(executor).await;
    let found = row.and_then(|row| row.map(unfinished).transpose());
    found.map_err(|e| failed("see whether the store is being filled", e))
}
