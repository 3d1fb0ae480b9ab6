//! Filling a store on PostgreSQL: a row that marks it, triggers that keep other writers out, and a lock of the session that
//! fills.

mod filling;

use std::time::Duration;

use highwater::Error;
use highwater::backend::{BoxFuture, Filling, Transfer, Unfinished};
use sqlx::Row;
use sqlx::postgres::PgConnection;

use crate::error::{failed, sqlstate};
use crate::own_pool::{InTime, SCAN_TIMEOUT};
use crate::pooler::insist_on_session;
use crate::row::{counted, moment, signed, unsigned};
use crate::store::PgEventStore;
use filling::PgFilling;

/// How long to wait for another filling or writer: the server may not know yet that a client is gone.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

impl Transfer for PgEventStore {
    fn fill<'a>(&'a self, source: &'a str) -> BoxFuture<'a, Result<Box<dyn Filling>, Error>> {
        Box::pin(async move {
            let connection = self.lock_filling().await?;
            let mut filling = PgFilling::new(self.clone(), connection, source.to_owned());
            match self.unfinished().await? {
                Some(unfinished) if unfinished.source == source => filling.resume(unfinished.filled_to).await?,
                Some(other) => return Err(other.into_error()),
                None => filling.begin().await?,
            }
            Ok(Box::new(filling) as Box<dyn Filling>)
        })
    }

    fn filling(&self) -> BoxFuture<'_, Result<Option<Unfinished>, Error>> {
        Box::pin(self.unfinished())
    }

    fn abandon(&self) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move {
            let connection = self.lock_filling().await?;
            let Some(unfinished) = self.unfinished().await? else { return Ok(false) };
            Box::new(PgFilling::new(self.clone(), connection, unfinished.source)).abandon().await?;
            Ok(true)
        })
    }

    fn count_events(&self, up_to: u64) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            let query = sqlx::query_scalar(self.inner.sql.events_count.clone()).bind(signed(up_to));
            let count = query.fetch_one_in_time(&self.inner.own_pool.within(SCAN_TIMEOUT)).await;
            Ok(unsigned(count.map_err(|e| failed("count events", e))?))
        })
    }
}

impl PgEventStore {
    /// A connection that holds the lock of the filling. The lock ends with it.
    async fn lock_filling(&self) -> Result<PgConnection, Error> {
        let direct = &self.inner.direct;
        let mut connection = direct.connect("fill", Some(LOCK_TIMEOUT)).await?;
        insist_on_session(&mut connection, direct, "fill", &self.inner.sql).await?;
        let lock = sqlx::query(self.inner.sql.filling_lock.clone()).bind(self.schema()).execute(&mut connection).await;
        match lock {
            Ok(_) => Ok(connection),
            Err(error) if sqlstate(&error).as_deref() == Some("55P03") => {
                let since = self.unfinished().await?.map(Unfinished::into_error);
                let reason = "another process is about to fill this store".to_owned();
                Err(since.unwrap_or(Error::BeingFilled { reason }))
            }
            Err(error) => Err(failed("lock the store", error)),
        }
    }

    async fn unfinished(&self) -> Result<Option<Unfinished>, Error> {
        let row = sqlx::query(self.inner.sql.filling.clone()).fetch_optional_in_time(&self.inner.own_pool).await;
        let found = row.and_then(|row| {
            let unfinished = |row: sqlx::postgres::PgRow| {
                let since = moment(&row, 1)?;
                Ok::<_, sqlx::Error>(Unfinished {
                    source: row.try_get(0)?,
                    since,
                    filled_to: counted(row.try_get(2)?)?,
                })
            };
            row.map(unfinished).transpose()
        });
        found.map_err(|e| failed("see whether the store is being filled", e))
    }
}
