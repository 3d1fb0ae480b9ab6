//! Plain SQL in the shop's database, through its own connections: the library has no part in it.

use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{FromRow, Postgres, Sqlite};
use tokio::time::Instant;
use uuid::Uuid;

use crate::{DemoError, Place};

/// How long to wait for other writers of the same file.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before its lock is asked for again, in microseconds: between these two, by chance. SQLite's own way of
/// waiting grows to a tenth of a second, and a writer that waits like that among others that do not never comes first.
const ASK_AGAIN_MICROS: std::ops::Range<u64> = 500..2_500;
/// The code by which SQLite says that another writer has the lock.
const BUSY: i32 = 5;
/// An instance sends one e-mail at a time and looks at nothing else; nobody else asks for more at once either.
const CONNECTIONS_MAX: u32 = 2;

/// What connections to PostgreSQL are called by, before the schema.
pub(crate) const APPLICATION: &str = "highwater demo ";

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
pub enum Database {
    /// On PostgreSQL.
    Postgres(PgPool),
    /// On SQLite.
    Sqlite(SqlitePool),
}

impl Database {
    /// Opens the shop's database, which must exist.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub async fn open(place: &Place) -> Result<Self, DemoError> {
        let opened = match place {
            Place::Postgres { url, schema } => {
                let pool = PgPoolOptions::new().max_connections(CONNECTIONS_MAX);
                pool.connect_with(pg_options(url, schema)?).await.map(Self::Postgres)
            }
            Place::Sqlite { file, .. } => open_file(file).await.map(Self::Sqlite),
        };
        opened.map_err(DemoError::sql("open the shop's database"))
    }

    /// Runs a statement. Says how many rows it changed.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn execute(&self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, sqlx::Error> {
        let (pool, started) = match self {
            Self::Postgres(pool) => return Ok(pg(sql, values).execute(pool).await?.rows_affected()),
            Self::Sqlite(pool) => (pool, Instant::now()),
        };
        loop {
            match sqlite(sql, values).execute(pool).await {
                Ok(done) => return Ok(done.rows_affected()),
                Err(error) => ask_again(error, started).await?,
            }
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
        let (pool, started) = match self {
            Self::Postgres(pool) => return pg(sql, values).fetch_all(pool).await?.iter().map(T::from_row).collect(),
            Self::Sqlite(pool) => (pool, Instant::now()),
        };
        loop {
            match sqlite(sql, values).fetch_all(pool).await {
                Ok(rows) => return rows.iter().map(T::from_row).collect(),
                Err(error) => ask_again(error, started).await?,
            }
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

async fn open_file(file: &Path) -> Result<SqlitePool, sqlx::Error> {
    let started = Instant::now();
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(false)
        .busy_timeout(Duration::ZERO)
        // What a process has written survives its end in any case; this is about the machine's.
        .synchronous(SqliteSynchronous::Normal);
    loop {
        match SqlitePoolOptions::new().max_connections(CONNECTIONS_MAX).connect_with(options.clone()).await {
            Ok(pool) => return Ok(pool),
            Err(error) => ask_again(error, started).await?,
        }
    }
}

/// Waits a little if another writer's lock stood in the way.
async fn ask_again(error: sqlx::Error, started: Instant) -> Result<(), sqlx::Error> {
    if !is_busy(&error) || started.elapsed() > PATIENCE {
        return Err(error);
    }
    tokio::time::sleep(Duration::from_micros(fastrand::u64(ASK_AGAIN_MICROS))).await;
    Ok(())
}

/// The lower eight bits say what kind of error it is.
fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok());
    code.is_some_and(|code| code & 0xff == BUSY)
}

/// How to connect so that the schema's tables need no other name than their own.
pub(crate) fn pg_options(url: &str, schema: &str) -> Result<PgConnectOptions, DemoError> {
    let options = PgConnectOptions::from_str(url).map_err(DemoError::sql("use the database URL"))?;
    Ok(options.application_name(&format!("{APPLICATION}{schema}")).options([("search_path", schema)]))
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
