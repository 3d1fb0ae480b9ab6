//! The one public struct of this backend.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use highwater::Error;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgPool};

use crate::appender::Appender;
use crate::checkpoints::Writer;
use crate::config::PgConfig;
use crate::connect::{self, Connector};
use crate::deliver;
use crate::error::failed;
use crate::reader::Readers;
use crate::schema::SchemaName;
use crate::sql::Sql;
use crate::wakeups::PgWakeups;

/// An event store on PostgreSQL. Clones share everything.
///
/// It keeps two connections for appending, a few for reading in order, a pool for the transactions of delivery, a small one
/// for the rest, and one each for checkpoints and for sending and receiving wake-ups; all are opened when they are first needed, and opened again when they are lost.
#[derive(Clone)]
pub struct PgEventStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: PgConfig,
    pub(crate) schema: SchemaName,
    pub(crate) sql: Arc<Sql>,
    pub(crate) pool: PgPool,
    pub(crate) deliveries: PgPool,
    pub(crate) readers: Readers,
    pub(crate) connector: Connector,
    /// For connections that need a session of their own.
    pub(crate) leadership: Connector,
    pub(crate) checkpoints: Writer,
    pub(crate) appender: Appender,
    pub(crate) wakeups: PgWakeups,
}

impl PgEventStore {
    /// Connects with default settings. The URL is as sqlx takes it (`postgres://user:password@host/database?sslmode=…`).
    ///
    /// # Errors
    /// When the URL cannot be used or the server does not answer.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(url, PgConfig::default()).await
    }

    /// Connects with settings of one's own.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); [`Error::Invalid`] for a setting that cannot work.
    pub async fn connect_with(url: &str, config: PgConfig) -> Result<Self, Error> {
        // The driver's own words are left out: they may quote the URL, and with it the password.
        let options = PgConnectOptions::from_str(url).map_err(|_| Error::Unavailable {
            action: "use the database URL",
            source: "it is not of the form postgres://user:password@host:port/database".into(),
        })?;
        Self::connect_to(options, config).await
    }

    /// Connects with the driver's own options, for those who build them.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    pub async fn connect_to(options: PgConnectOptions, config: PgConfig) -> Result<Self, Error> {
        config.validate()?;
        let schema = SchemaName::new(&config.schema)?;
        let sql = Arc::new(Sql::new(&schema));
        let pool = pool(&options, &sql, &config).await?;
        let deliveries = deliver::pool(&pool.connect_options(), &sql, &config);
        let connector = Connector::new(&options, sql.clone(), config.connect_timeout);
        let wakeups =
            PgWakeups::new(connector.clone(), pool.connect_options().as_ref().clone(), sql.clone(), schema.channel());
        let readers = Readers::new(connector.clone(), sql.clone(), config.read_connections_max, config.connect_timeout);
        let checkpoints = Writer::new(connector.clone(), sql.clone(), config.connect_timeout);
        let appender = Appender::start(&connector, pool.clone(), &sql, &config, &wakeups.announcer());
        let leadership = connector.clone();
        let inner = Inner {
            config,
            schema,
            sql,
            pool,
            deliveries,
            readers,
            connector,
            leadership,
            checkpoints,
            appender,
            wakeups,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The schema that everything lives in.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.inner.config.schema
    }

    /// The pool of this store, for reading models in the same database. It is small: an application that does much of
    /// that has a pool of its own.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.inner.pool
    }
}

async fn pool(options: &PgConnectOptions, sql: &Arc<Sql>, config: &PgConfig) -> Result<PgPool, Error> {
    let mut options = options.clone().disable_statement_logging();
    if options.get_application_name().is_none() {
        options = options.application_name("highwater");
    }
    let sql = sql.clone();
    connect::pool_options(config.pool_connections_max, config.connect_timeout)
        .after_connect(move |connection, _| {
            let sql = sql.clone();
            Box::pin(async move { connect::set_up(connection, &sql, None).await })
        })
        .connect_with(options)
        .await
        .map_err(|e| failed("connect", e))
}

impl fmt::Debug for PgEventStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgEventStore").field("schema", &self.inner.config.schema).finish_non_exhaustive()
    }
}
