//! The pool for everything that the store asks for by itself, and the only way to ask on it: within a time.
//!
//! A server that hangs, or a host that has vanished, gives no answer and no error either. A caller would wait for ever, and
//! the connection with it: the driver reclaims an abandoned connection by waiting for the rest of the answer. So a
//! connection that did not answer in time, or was abandoned by its caller, is closed and not reused.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use highwater::Error;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnection, PgQueryResult, PgRow};
use sqlx::query::{Query, QueryAs, QueryScalar};
use sqlx::{Decode, FromRow, PgPool, Postgres, Type};

use crate::error::{failed, in_time};

/// How long to wait for an answer, unless given otherwise. Longer than any such statement waits on the server.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The same where whole tables are looked through.
pub(crate) const SCAN_TIMEOUT: Duration = Duration::from_secs(600);

/// Connections for what needs no dedicated one.
#[derive(Debug, Clone)]
pub(crate) struct OwnPool {
    pool: PgPool,
    patience: Duration,
}

impl OwnPool {
    pub(crate) fn new(pool: PgPool) -> Self {
        Self { pool, patience: ANSWER_TIMEOUT }
    }

    /// The same connections, for what takes longer.
    pub(crate) fn within(&self, patience: Duration) -> Self {
        Self { pool: self.pool.clone(), patience }
    }

    /// A connection for several statements. How long they take is up to the caller.
    pub(crate) async fn lend(&self) -> Result<Lent, sqlx::Error> {
        Ok(Lent(Some(self.pool.acquire().await?)))
    }

    /// Whether all connections that are open rest.
    pub(crate) fn rests(&self) -> bool {
        self.pool.num_idle() == self.pool.size() as usize
    }

    /// Does something on a connection, within the time.
    pub(crate) async fn ask<T>(
        &self,
        asking: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        let answering = async {
            let mut connection = self.lend().await?;
            let answer = asking(&mut connection).await;
            connection.give_back();
            answer
        };
        let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {:?}", self.patience));
        tokio::time::timeout(self.patience, answering).await.map_err(|_| sqlx::Error::Io(late()))?
    }

    /// The same for what takes several statements and has errors of ours.
    pub(crate) async fn work<T>(
        &self,
        action: &'static str,
        working: impl AsyncFnOnce(&mut PgConnection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        in_time(self.patience, action, async {
            let mut connection = self.lend().await.map_err(|e| failed(action, e))?;
            let done = working(&mut connection).await;
            connection.give_back();
            done
        })
        .await
    }
}

/// A connection of the pool. Closed unless it is returned.
pub(crate) struct Lent(Option<PoolConnection<Postgres>>);

impl Lent {
    /// Nothing is under way on it.
    pub(crate) fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        drop(self.0.take().map(PoolConnection::detach));
    }
}

const GIVEN_BACK: &str = "a connection is gone only when it is dropped";

impl Deref for Lent {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.0.as_ref().expect(GIVEN_BACK)
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.0.as_mut().expect(GIVEN_BACK)
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lent")
    }
}

/// A statement that is asked for an answer within the pool's time.
pub(crate) trait InTime: Sized {
    type Row;

    async fn fetch_all_in_time(self, pool: &OwnPool) -> Result<Vec<Self::Row>, sqlx::Error>;
    async fn fetch_one_in_time(self, pool: &OwnPool) -> Result<Self::Row, sqlx::Error>;
    async fn fetch_optional_in_time(self, pool: &OwnPool) -> Result<Option<Self::Row>, sqlx::Error>;
}

/// Whatever the driver calls the statement, it is asked in the same way.
macro_rules! in_time {
    ($row:ty) => {
        type Row = $row;

        async fn fetch_all_in_time(self, pool: &OwnPool) -> Result<Vec<$row>, sqlx::Error> {
            pool.ask(async |connection| self.fetch_all(connection).await).await
        }

        async fn fetch_one_in_time(self, pool: &OwnPool) -> Result<$row, sqlx::Error> {
            pool.ask(async |connection| self.fetch_one(connection).await).await
        }

        async fn fetch_optional_in_time(self, pool: &OwnPool) -> Result<Option<$row>, sqlx::Error> {
            pool.ask(async |connection| self.fetch_optional(connection).await).await
        }
    };
}

impl InTime for Query<'_, Postgres, PgArguments> {
    in_time!(PgRow);
}

impl<O> InTime for QueryScalar<'_, Postgres, O, PgArguments>
where
    O: Send + Unpin + for<'r> Decode<'r, Postgres> + Type<Postgres>,
{
    in_time!(O);
}

impl<O> InTime for QueryAs<'_, Postgres, O, PgArguments>
where
    O: Send + Unpin + for<'r> FromRow<'r, PgRow>,
{
    in_time!(O);
}

/// The same for a statement that gives no rows.
pub(crate) trait DoneInTime {
    async fn execute_in_time(self, pool: &OwnPool) -> Result<PgQueryResult, sqlx::Error>;
}

impl DoneInTime for Query<'_, Postgres, PgArguments> {
    async fn execute_in_time(self, pool: &OwnPool) -> Result<PgQueryResult, sqlx::Error> {
        pool.ask(async |connection| self.execute(connection).await).await
    }
}
