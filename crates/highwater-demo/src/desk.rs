//! Plain SQL in the shop's database, through connections of its own: the library has no part in it.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{FromRow, Postgres, Sqlite};
use uuid::Uuid;

use crate::{DemoError, Place};

/// How long to wait for another writer of the same file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// An instance sends one e-mail at a time and looks at nothing else; nobody else asks for more at once either.
const CONNECTIONS_MAX: u32 = 2;

/// A parameter of a statement.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// A number.
    Int(i64),
    /// A text.
    Text(&'a str),
    /// An id.
    Id(Uuid),
}

/// Plain SQL in the shop's database. Clones share their connections.
#[derive(Debug, Clone)]
pub enum Desk {
    /// On PostgreSQL.
    Postgres(PgPool),
    /// On SQLite.
    Sqlite(SqlitePool),
}

impl Desk {
    /// Opens the shop's database, which must exist.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub async fn open(place: &Place) -> Result<Self, DemoError> {
        let failed = DemoError::sql("open the shop's database");
        match place {
            Place::Postgres { url, schema } => {
                let pool = PgPoolOptions::new().max_connections(CONNECTIONS_MAX);
                Ok(Self::Postgres(pool.connect_with(pg_options(url, schema)?).await.map_err(failed)?))
            }
            Place::Sqlite { file, .. } => {
                let options = SqliteConnectOptions::new()
                    .filename(file)
                    .create_if_missing(false)
                    .busy_timeout(BUSY_TIMEOUT)
                    // What a process has written survives its end in any case; this is about the machine's.
                    .synchronous(SqliteSynchronous::Normal);
                let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS_MAX);
                Ok(Self::Sqlite(pool.connect_with(options).await.map_err(failed)?))
            }
        }
    }

    /// Runs a statement. Says how many rows it changed.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn execute(&self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, sqlx::Error> {
        match self {
            Self::Postgres(pool) => Ok(pg(sql, values).execute(pool).await?.rows_affected()),
            Self::Sqlite(pool) => Ok(sqlite(sql, values).execute(pool).await?.rows_affected()),
        }
    }

    /// Reads rows.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn rows<T>(&self, sql: &'static str, values: &[Value<'_>]) -> Result<Vec<T>, sqlx::Error>
    where
        T: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow>,
    {
        match self {
            Self::Postgres(pool) => pg(sql, values).fetch_all(pool).await?.iter().map(T::from_row).collect(),
            Self::Sqlite(pool) => sqlite(sql, values).fetch_all(pool).await?.iter().map(T::from_row).collect(),
        }
    }

    /// Closes its connections.
    pub async fn close(&self) {
        match self {
            Self::Postgres(pool) => pool.close().await,
            Self::Sqlite(pool) => pool.close().await,
        }
    }
}

/// How to connect so that the schema's tables need no other name than their own.
pub(crate) fn pg_options(url: &str, schema: &str) -> Result<PgConnectOptions, DemoError> {
    let options = PgConnectOptions::from_str(url).map_err(DemoError::sql("use the database URL"))?;
    Ok(options.application_name("highwater demo").options([("search_path", schema)]))
}

pub(crate) fn pg<'q>(sql: &'static str, values: &'q [Value<'q>]) -> Query<'q, Postgres, PgArguments> {
    values.iter().fold(sqlx::query(sql), |query, value| match value {
        Value::Int(n) => query.bind(*n),
        Value::Text(text) => query.bind(*text),
        Value::Id(id) => query.bind(*id),
    })
}

pub(crate) fn sqlite<'q>(sql: &'static str, values: &'q [Value<'q>]) -> Query<'q, Sqlite, SqliteArguments> {
    values.iter().fold(sqlx::query(sql), |query, value| match value {
        Value::Int(n) => query.bind(*n),
        Value::Text(text) => query.bind(*text),
        Value::Id(id) => query.bind(*id),
    })
}
