//! The raw limit of appending: plain inserts into a plain table, by the fastest means at hand.
//!
//! The table has our columns and nothing of our safety: no check of versions, no unique ids, no index but the primary
//! key. A second one has our indexes, to show what those alone cost.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::PgConnection;
use tokio::sync::Mutex;
use tokio_postgres::{Client, Statement, types};
use uuid::Uuid;

use crate::Error;
use crate::json::Json;
use crate::payload::{self, EVENT_TYPE, Placed};
use crate::server::Server;

pub(crate) const TABLES: &str = include_str!("../sql/raw_tables.sql");
const INSERT: &str = include_str!("../sql/raw_insert.sql");
const INSERT_INDEXED: &str = include_str!("../sql/raw_insert_indexed.sql");
const INSERT_MANY: &str = include_str!("../sql/raw_insert_many.sql");
const INSERT_MANY_INDEXED: &str = include_str!("../sql/raw_insert_many_indexed.sql");

/// `{}`, as our metadata is when there is none.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Nothing {}

/// Which of the two tables.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Table {
    Plain,
    Indexed,
}

/// Connections with everything prepared.
pub(crate) struct Raw {
    placed: Placed,
    clients: Vec<Prepared>,
    /// Each is used by one caller only; the lock is never waited for.
    connections: Vec<Mutex<PgConnection>>,
}

struct Prepared {
    client: Client,
    insert: [Statement; 2],
    insert_many: [Statement; 2],
}

impl Raw {
    /// Creates the tables, opens the connections and prepares the statements.
    pub(crate) async fn new(server: &Server, clients: usize, connections: usize) -> Result<Self, Error> {
        let mut raw = Self { placed: payload::sample()?, clients: Vec::new(), connections: Vec::new() };
        server.tokio_postgres().await?.batch_execute(TABLES).await?;
        for _ in 0..clients {
            let client = server.tokio_postgres().await?;
            let insert = [client.prepare(INSERT).await?, client.prepare(INSERT_INDEXED).await?];
            let insert_many = [client.prepare(INSERT_MANY).await?, client.prepare(INSERT_MANY_INDEXED).await?];
            raw.clients.push(Prepared { client, insert, insert_many });
        }
        for _ in 0..connections {
            raw.connections.push(Mutex::new(server.sqlx().await?));
        }
        Ok(raw)
    }

    /// One event, by tokio-postgres.
    pub(crate) async fn insert(self: Arc<Self>, client: usize, table: Table) -> Result<usize, Error> {
        let Prepared { client, insert, .. } = &self.clients[client];
        client
            .execute(
                &insert[table as usize],
                &[
                    &1_i64,
                    &Utc::now(),
                    &Uuid::now_v7(),
                    &Uuid::new_v4(),
                    &EVENT_TYPE,
                    &types::Json(&self.placed),
                    &types::Json(Nothing {}),
                ],
            )
            .await?;
        Ok(1)
    }

    /// One event, by sqlx.
    pub(crate) async fn insert_by_sqlx(self: Arc<Self>, connection: usize) -> Result<usize, Error> {
        let mut connection = self.connections[connection].lock().await;
        sqlx::query(INSERT)
            .bind(1_i64)
            .bind(Utc::now())
            .bind(Uuid::now_v7())
            .bind(Uuid::new_v4())
            .bind(EVENT_TYPE)
            .bind(Json(&self.placed))
            .bind(Json(Nothing {}))
            .execute(&mut *connection)
            .await?;
        Ok(1)
    }

    /// Many events of one stream in one statement, by tokio-postgres.
    pub(crate) async fn insert_many(
        self: Arc<Self>,
        client: usize,
        table: Table,
        count: usize,
    ) -> Result<usize, Error> {
        let Prepared { client, insert_many, .. } = &self.clients[client];
        let Columns { versions, created_at, ids, streams } = Columns::new(count);
        client
            .execute(
                &insert_many[table as usize],
                &[
                    &versions,
                    &created_at,
                    &ids,
                    &streams,
                    &vec![EVENT_TYPE; count],
                    &vec![types::Json(&self.placed); count],
                    &vec![types::Json(Nothing {}); count],
                ],
            )
            .await?;
        Ok(count)
    }

    /// Many events of one stream in one statement, by sqlx.
    pub(crate) async fn insert_many_by_sqlx(self: Arc<Self>, connection: usize, count: usize) -> Result<usize, Error> {
        let mut connection = self.connections[connection].lock().await;
        let Columns { versions, created_at, ids, streams } = Columns::new(count);
        sqlx::query(INSERT_MANY)
            .bind(versions)
            .bind(created_at)
            .bind(ids)
            .bind(streams)
            .bind(vec![EVENT_TYPE; count])
            .bind(vec![Json(&self.placed); count])
            .bind(vec![Json(Nothing {}); count])
            .execute(&mut *connection)
            .await?;
        Ok(count)
    }
}

/// What differs from event to event.
struct Columns {
    versions: Vec<i64>,
    created_at: Vec<DateTime<Utc>>,
    ids: Vec<Uuid>,
    streams: Vec<Uuid>,
}

impl Columns {
    fn new(count: usize) -> Self {
        Self {
            versions: (1..).take(count).collect(),
            created_at: (0..count).map(|_| Utc::now()).collect(),
            ids: (0..count).map(|_| Uuid::now_v7()).collect(),
            streams: vec![Uuid::new_v4(); count],
        }
    }
}
