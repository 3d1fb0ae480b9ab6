//! The same work by hand: no fence, no retries, nobody else's turn.

use sqlx::{Connection, PgConnection};

use super::BATCH;
use crate::Error;
use crate::read::{READ_PAGE, Seen};
use crate::server::Server;

/// Customers in the read model. Fewer would have the same row written over and over in one transaction, which takes the
/// server longer each time, on both sides alike.
pub(super) const CUSTOMERS: i64 = 1_000;

pub(super) const UPSERT: &str = include_str!("../../sql/upsert.sql");
const MOVE: &str = include_str!("../../sql/raw_checkpoint.sql");

const NAME: &str = "projection:raw";

pub(super) struct Raw {
    pub(super) connection: PgConnection,
    /// Commits without waiting for the disk, as ours does where a checkpoint is all there is to commit.
    asynchronous: PgConnection,
}

impl Raw {
    pub(super) async fn new(server: &Server) -> Result<Self, Error> {
        let mut raw = Self { connection: server.sqlx().await?, asynchronous: server.sqlx().await? };
        sqlx::raw_sql(include_str!("../../sql/raw_delivery.sql")).execute(&mut raw.connection).await?;
        sqlx::query("SET synchronous_commit = off").execute(&mut raw.asynchronous).await?;
        Ok(raw)
    }

    /// Page by page: read it, write it, move the checkpoint, commit.
    pub(super) async fn transactions(&mut self, after: i64) -> Result<Seen, Error> {
        let (mut seen, mut last) = (Seen::default(), after);
        loop {
            let page = sqlx::query(READ_PAGE).bind(last).bind(BATCH as i64).fetch_all(&mut self.connection).await?;
            if page.is_empty() {
                return Ok(seen);
            }
            let mut tx = self.connection.begin().await?;
            for row in &page {
                let before = seen.sum;
                last = seen.row(row)?;
                let amount = seen.sum - before;
                sqlx::query(UPSERT).bind(amount % CUSTOMERS).bind(amount).execute(&mut *tx).await?;
            }
            sqlx::query(MOVE).bind(NAME).bind(last).execute(&mut *tx).await?;
            tx.commit().await?;
        }
    }

    /// Nothing is read and nothing handled: as many checkpoints as there are events.
    pub(super) async fn updates(&mut self, all: Seen) -> Result<Seen, Error> {
        for position in 1..=all.events as i64 {
            sqlx::query(MOVE).bind(NAME).bind(position).execute(&mut self.asynchronous).await?;
        }
        Ok(all)
    }

    /// What is in the read model.
    pub(super) async fn model(&mut self) -> Result<Seen, Error> {
        let (events, sum): (i64, i64) =
            sqlx::query_as(include_str!("../../sql/customers.sql")).fetch_one(&mut self.connection).await?;
        Ok(Seen { events: usize::try_from(events)?, sum })
    }

    pub(super) async fn empty_model(&mut self) -> Result<(), Error> {
        sqlx::query("TRUNCATE raw.customers").execute(&mut self.connection).await?;
        Ok(())
    }
}
