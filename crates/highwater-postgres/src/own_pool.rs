//! The connections for everything that the store asks for by itself, and the only way to ask on them: within a time.
//!
//! A server that hangs, or a host that has vanished, gives no answer and no error either. So what was not answered in time, or
//! given up by its caller, is closed and not taken back.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use highwater::Error;
use sqlx::postgres::{PgArguments, PgConnection, PgQueryResult, PgRow};
use sqlx::query::{Query, QueryScalar};
use sqlx::{Decode, Postgres, Type};
use tokio::sync::Mutex;

use crate::blockers;
use crate::connect::{Connector, Kept, Lent, Session, Stock};
use crate::error::{failed, is_lost, ours};

/// How long to wait for an answer, unless given otherwise. Longer than any such statement waits on the server.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The same where whole tables are looked through.
pub(crate) const SCAN_TIMEOUT: Duration = Duration::from_secs(600);
/// What a busy moment has left over is closed after this.
const REST_MAX: Duration = Duration::from_secs(1);

const BUSY: &str = "ask the server: all pool_connections_max connections were in use all the time";

/// Connections for what needs none of its own.
#[derive(Clone)]
pub(crate) struct OwnPool {
    stock: Arc<Stock<Session>>,
    patience: Duration,
    /// For what is asked one after the other.
    turn: Option<Arc<Mutex<()>>>,
}

impl OwnPool {
    pub(crate) fn new(connector: Connector, connections_max: u32) -> Self {
        let stock = Arc::new(Stock::new(connector, connections_max as usize, REST_MAX));
        Self { stock, patience: ANSWER_TIMEOUT, turn: None }
    }

    /// The same connections, for what takes longer.
    pub(crate) fn within(&self, patience: Duration) -> Self {
        Self { patience, ..self.clone() }
    }

    /// The same connections, for what is looked at from time to time: one after the other, so that an idle instance needs
    /// one connection for all of it.
    pub(crate) fn in_turn(&self) -> Self {
        Self { turn: Some(Arc::default()), ..self.clone() }
    }

    /// A connection for several statements. How long they take is up to the caller.
    pub(crate) async fn lend(&self) -> Result<Lent<'_, Session>, Error> {
        let opening = async {
            let (connection, session) = self.stock.connector().connect_patiently().await?;
            Ok(Kept::new(connection, session))
        };
        self.stock.lend(BUSY, opening).await
    }

    /// Does something on a connection, within the time.
    pub(crate) async fn ask<T>(
        &self,
        question: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        let answering = async {
            let _turn = match &self.turn {
                Some(turn) => Some(turn.lock().await),
                None => None,
            };
            let mut lent = self.lend().await.map_err(ours)?;
            let answer = question(lent.kept.connection()).await;
            if !answer.as_ref().is_err_and(is_lost) {
                lent.give_back();
            }
            answer
        };
        match tokio::time::timeout(self.patience, answering).await {
            Ok(answer) => answer,
            Err(_) => Err(sqlx::Error::Io(self.late().await)),
        }
    }

    /// What was not answered in time, and which session it may wait for: the server itself may be well.
    async fn late(&self) -> io::Error {
        let looking = async {
            let mut lent = self.lend().await.ok()?;
            let found = blockers::of_anything(lent.kept.connection(), self.stock.connector().sql()).await.ok()?;
            lent.give_back();
            found
        };
        let found = tokio::time::timeout(blockers::LOOK_TIMEOUT, looking).await.ok().flatten();
        let holder = found.map(|found| format!("; {found}")).unwrap_or_default();
        io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {:?}{holder}", self.patience))
    }

    /// The same for what takes several statements and has errors of ours.
    pub(crate) async fn work<T>(
        &self,
        action: &'static str,
        working: impl AsyncFnOnce(&mut PgConnection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let worked = self.ask(async |connection| working(connection).await.map_err(ours)).await;
        worked.map_err(|error| failed(action, error))
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

/// The same for a statement that gives no rows.
pub(crate) trait DoneInTime {
    async fn execute_in_time(self, pool: &OwnPool) -> Result<PgQueryResult, sqlx::Error>;
}

impl DoneInTime for Query<'_, Postgres, PgArguments> {
    async fn execute_in_time(self, pool: &OwnPool) -> Result<PgQueryResult, sqlx::Error> {
        pool.ask(async |connection| self.execute(connection).await).await
    }
}
