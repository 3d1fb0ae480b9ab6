//! The same by hand: one statement that inserts and notifies; LISTEN, and a SELECT of what is new.
//!
//! Nothing is stored about what was received, and nobody asks whether a smaller number may still appear.

use chrono::Utc;
use sqlx::postgres::{PgConnection, PgListener, PgPoolOptions};
use sqlx::{Connection, Row as _};
use uuid::Uuid;

use super::receipts::Receipts;
use crate::json::Json;
use crate::payload::{EVENT_TYPE, Placed};
use crate::raw::{Nothing, TABLES};
use crate::server::Server;
use crate::{Error, child};

const INSERT: &str = include_str!("../../sql/raw_insert_notify.sql");
const READ_NEW: &str = include_str!("../../sql/raw_read_new.sql");
const CHANNEL: &str = "raw_events";

pub(super) struct Sender {
    connection: PgConnection,
}

impl Sender {
    pub(super) async fn new(server: &Server) -> Result<Self, Error> {
        let mut connection = server.sqlx().await?;
        sqlx::raw_sql(TABLES).execute(&mut connection).await?;
        Ok(Self { connection })
    }

    pub(super) async fn send(&mut self, placed: Placed) -> Result<(), Error> {
        sqlx::query(INSERT)
            .bind(1_i64)
            .bind(Utc::now())
            .bind(Uuid::now_v7())
            .bind(Uuid::new_v4())
            .bind(EVENT_TYPE)
            .bind(Json(&placed))
            .bind(Json(Nothing {}))
            .bind(CHANNEL)
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }
}

/// The child.
pub(crate) async fn receive(url: &str) -> Result<(), Error> {
    let options = child::options(url)?;
    let pool = PgPoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(CHANNEL).await?;
    let mut connection = PgConnection::connect_with(&options).await?;
    let receipts = Receipts::default();
    let noting = receipts.clone();
    let receiving = async move {
        let mut last = 0_i64;
        loop {
            listener.recv().await?;
            for row in sqlx::query(READ_NEW).bind(last).fetch_all(&mut connection).await? {
                last = row.try_get(0)?;
                let placed: Placed = serde_json::from_str(row.try_get_raw(6)?.as_str()?)?;
                noting.note(placed.amount);
            }
        }
    };
    tokio::select! {
        failed = tokio::spawn(receiving) => failed?,
        served = receipts.serve() => served,
    }
}
