//! Checkpoints on PostgreSQL.

mod reports;
mod writer;

use std::time::Duration;

use highwater::backend::{
    BoxFuture, Checkpoint, CheckpointWrite, Checkpoints, Refused, Report, Taken, Term, start_is_gone,
};
use highwater::{Claim, Error};
use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};

use crate::blockers;
use crate::connect::{ask_life, life};
use crate::error::{failed_in_life, in_time, sqlstate};
use crate::leadership::take_over_for_good;
use crate::own_pool::{ANSWER_TIMEOUT, InTime};
use crate::row::{about, counted, moment, signed};
use crate::sql::Sql;
use crate::store::PgEventStore;

pub(crate) use writer::Writer;

/// How long to wait for a checkpoint that another transaction holds. Its client may be frozen.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The same where the waiting instance leads: others wait for it to finish, and a frozen session is ended meanwhile.
const TAKE_OVER_TIMEOUT: Duration = Duration::from_millis(500);

impl Checkpoints for PgEventStore {
    fn take_over<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        Box::pin(async move {
            in_time(ANSWER_TIMEOUT, "take over in time", async {
                let taken = match claim.session {
                    Some(_) => take_over_for_good(self, claim).await,
                    None => {
                        let taking_over = async |connection: &mut PgConnection| {
                            ask_life(connection, &self.inner.sql).await?;
                            take_over(&self.inner.sql, claim).fetch_one(connection).await
                        };
                        self.inner.own_pool.ask(taking_over).await
                    }
                };
                match taken.and_then(|row| self::taken(&row)) {
                    Err(error) if sqlstate(&error).as_deref() == Some("55P03") => Err(held(
                        self,
                        "take over: another transaction holds the checkpoint",
                        &claim.subscriber_id,
                        error,
                    )
                    .await),
                    Err(sqlx::Error::RowNotFound) => Err(start_is_gone(claim)),
                    taken => taken.map_err(|error| self.failed("take over", error)),
                }
            })
            .await
        })
    }

    fn store_checkpoints<'a>(
        &'a self,
        writes: &'a [CheckpointWrite],
    ) -> BoxFuture<'a, Result<Vec<Option<Refused>>, Error>> {
        Box::pin(self.inner.checkpoints.store(writes))
    }

    fn checkpoint<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Checkpoint>, Error>> {
        Box::pin(async move {
            let query = sqlx::query(self.inner.sql.checkpoint.clone()).bind(subscriber_id);
            let row = query.fetch_optional_in_time(&self.inner.own_pool).await;
            let found = row.and_then(|row| row.as_ref().map(checkpoint).transpose());
            found.map_err(|e| failed_in_life("read a checkpoint", e))
        })
    }

    fn checkpoints(&self) -> BoxFuture<'_, Result<Vec<Checkpoint>, Error>> {
        Box::pin(async move {
            let rows = sqlx::query(self.inner.sql.checkpoints.clone()).fetch_all_in_time(&self.inner.own_pool).await;
            let found = rows.and_then(|rows| rows.iter().map(checkpoint).collect());
            found.map_err(|e| failed_in_life("read checkpoints", e))
        })
    }

    fn store_reports<'a>(&'a self, reports: &'a [Report]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.write_reports(reports))
    }

    fn reports(&self) -> BoxFuture<'_, Result<Vec<Report>, Error>> {
        Box::pin(self.read_reports())
    }
}

pub(crate) fn take_over<'a>(sql: &Sql, claim: &'a Claim) -> Query<'a, Postgres, PgArguments> {
    sqlx::query(sql.checkpoint_take_over.clone())
        .bind(&*claim.subscriber_id)
        .bind(signed(claim.start))
        .bind(if claim.session.is_some() { TAKE_OVER_TIMEOUT } else { LOCK_TIMEOUT }.as_millis().to_string())
        .bind(claim.nonce)
        .bind(claim.instance.id)
        .bind(&claim.instance.host)
        .bind(i64::from(claim.instance.pid))
        .bind(&claim.instance.label)
        .bind(claim.session)
        .bind(claim.start_event)
}

/// Another transaction has held the row for too long: says which, if it still does.
pub(crate) async fn held(store: &PgEventStore, action: &'static str, subscriber_id: &str, error: sqlx::Error) -> Error {
    let looking = async |connection: &mut PgConnection| {
        let holders = blockers::of_checkpoints(connection, &store.inner.sql, &[subscriber_id]).await?;
        Ok(holders.of(subscriber_id))
    };
    match tokio::time::timeout(blockers::LOOK_TIMEOUT, store.inner.own_pool.ask(looking)).await {
        Ok(Ok(Some(holder))) => Error::Unavailable { action, source: holder.into() },
        _ => Error::Unavailable { action, source: error.into() },
    }
}

/// The term in two neighbouring columns.
pub(crate) fn term(row: &PgRow, first: usize) -> Result<Term, sqlx::Error> {
    Ok(Term { number: counted(row.try_get(first)?)?, nonce: row.try_get(first + 1)? })
}

/// The version of tables that were set up, if any were.
fn version(row: &PgRow, column: usize) -> Result<Option<u32>, sqlx::Error> {
    let found: Option<i32> = row.try_get(column)?;
    found.map(u32::try_from).transpose().map_err(|error| sqlx::Error::Decode(error.into()))
}

fn taken(row: &PgRow) -> Result<Taken, sqlx::Error> {
    Ok(Taken { checkpoint: checkpoint(row)?, fresh: row.try_get(8)? })
}

fn checkpoint(row: &PgRow) -> Result<Checkpoint, sqlx::Error> {
    let subscriber_id: String = row.try_get(0)?;
    about(readable(row, subscriber_id.clone()), || format!("the checkpoint of {subscriber_id:?}"))
}

fn readable(row: &PgRow, subscriber_id: String) -> Result<Checkpoint, sqlx::Error> {
    Ok(Checkpoint {
        subscriber_id,
        global_sequence: counted(row.try_get(1)?)?,
        event_id: row.try_get(2)?,
        updated_at: moment(row, 3)?,
        term: term(row, 4)?,
        incarnation: life(row.try_get(6)?),
        setup_version: version(row, 7)?,
    })
}
