//! The server that everything runs on: one of our own, durable, thrown away afterwards.

use std::str::FromStr;

use highwater_postgres::{PgConfig, PgEventStore};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};
use throwaway_postgres::ThrowawayPostgres;
use tokio_postgres::{Client, NoTls};

use crate::Error;
use crate::options::{Options, Scenario};

/// What differs from the defaults of a server that waits for the disk. A checkpoint writes for seconds what others have
/// left behind, so it must not fall into a measurement: there is one before each round, and room until the next.
const SETTINGS: [(&str, &str); 3] = [("max_wal_size", "32GB"), ("min_wal_size", "4GB"), ("checkpoint_timeout", "1h")];

/// How much of the write-ahead log is made beforehand, in megabytes: what a round writes, and a little more. To write to a
/// new file of it takes many times as long as to an old one that is used again, as on a server that has run for a while.
const WAL_MEGABYTES: i32 = 3_000;
const WAL_MEGABYTES_QUICK: i32 = 400;

/// A server that is gone when this is dropped.
pub(crate) struct Server {
    url: String,
    _postgres: ThrowawayPostgres,
}

impl Server {
    pub(crate) async fn start(options: &Options) -> Result<Self, Error> {
        let compares = options.scenario == Scenario::Compare;
        let has_many_processes = options.scenario == Scenario::Stores;
        let counts_statements = options.scenario == Scenario::Failover;
        let start = move || {
            let mut builder = ThrowawayPostgres::builder().durable();
            if compares {
                // Every contestant keeps its own, and has databases of its own.
                builder = builder.setting("max_connections", "2000").setting("shared_buffers", "1GB");
            }
            if has_many_processes {
                builder = builder.setting("max_connections", "500");
            }
            if counts_statements {
                builder = builder.setting("shared_preload_libraries", "pg_stat_statements");
            }
            SETTINGS.iter().fold(builder, |builder, (name, value)| builder.setting(*name, *value)).start()
        };
        let postgres = tokio::task::spawn_blocking(start).await??;
        let server = Self { url: postgres.url(), _postgres: postgres };
        let mut connection = server.sqlx().await?;
        for (name, setting) in [("fsync", "SHOW fsync"), ("synchronous_commit", "SHOW synchronous_commit")] {
            let value: String = sqlx::query_scalar(setting).fetch_one(&mut connection).await?;
            if value != "on" {
                return Err(format!("{name} is {value} on this server: its figures would mean nothing").into());
            }
        }
        let megabytes = if options.quick { WAL_MEGABYTES_QUICK } else { WAL_MEGABYTES };
        sqlx::query(include_str!("../sql/fill_wal.sql")).bind(megabytes).execute(&mut connection).await?;
        sqlx::query("CHECKPOINT").execute(&mut connection).await?;
        Ok(server)
    }

    /// A store with everything as it is by default, laid out and ready.
    pub(crate) async fn store(&self) -> Result<PgEventStore, Error> {
        self.store_with(PgConfig::default()).await
    }

    pub(crate) async fn store_with(&self, config: PgConfig) -> Result<PgEventStore, Error> {
        let store = PgEventStore::connect_with(&self.url, config).await?;
        store.initialize().await?;
        Ok(store)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A connection of sqlx, set as the library sets its own: without a log of statements.
    pub(crate) async fn sqlx(&self) -> Result<PgConnection, Error> {
        let options = PgConnectOptions::from_str(&self.url)?.disable_statement_logging();
        Ok(PgConnection::connect_with(&options).await?)
    }

    /// A connection of tokio-postgres.
    pub(crate) async fn tokio_postgres(&self) -> Result<Client, Error> {
        connect(&self.url).await
    }
}

/// A connection of tokio-postgres. It ends with the client; an error reaches the client's user.
pub(crate) async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
