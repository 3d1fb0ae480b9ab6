//! The one public struct of this backend.

use std::fmt;
use std::sync::Arc;

use highwater::backend::{AppendQueue, KindsWritten};
use highwater::{Error, Invalid};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::Semaphore;

use crate::appender;
use crate::checkpoints::Writer;
use crate::config::PgConfig;
use crate::connect::{self, Connector, Server};
use crate::error::failed;
use crate::hosts::{self, Hosts, Watch};
use crate::own_pool::OwnPool;
use crate::reader::Readers;
use crate::schema::SchemaName;
use crate::settled::Settled;
use crate::sql::Sql;
use crate::transactions;
use crate::wakeups::PgWakeups;

/// What the application's connections are for, as the server sees it.
const APPLICATION: &str = "application";

/// An event store on PostgreSQL. Clones share everything.
///
/// It keeps two connections for appending, a few for reading in order, a pool for the transactions of delivery and one for
/// those without a handler, a small one for the application and another for the rest, and one each for checkpoints and for
/// sending and receiving wake-ups. A coordinator adds one that holds its locks and one that watches its neighbour; several hosts
/// add one that watches the primary. All are opened when they are first needed, and opened again when they are lost.
#[derive(Clone)]
pub struct PgEventStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: PgConfig,
    pub(crate) schema: SchemaName,
    pub(crate) sql: Arc<Sql>,
    pub(crate) own_pool: OwnPool,
    /// The same connections, for what is looked at or reported every now and then.
    pub(crate) housekeeping: OwnPool,
    /// For the application, which may keep all of these connections to itself. What this store asks by itself must not wait
    /// for them.
    pub(crate) application_pool: PgPool,
    pub(crate) deliveries: PgPool,
    /// For fenced transactions in which no handler works.
    pub(crate) closings: PgPool,
    pub(crate) readers: Readers,
    pub(crate) connector: Connector,
    /// The way to a dedicated session.
    pub(crate) direct: Connector,
    pub(crate) settled: Arc<Settled>,
    pub(crate) checkpoints: Writer,
    pub(crate) appender: AppendQueue,
    pub(crate) kinds: KindsWritten,
    pub(crate) wakeups: PgWakeups,
    /// How many may be taken over at once: half of the pool.
    pub(crate) taking_over: Semaphore,
    hosts: Hosts,
    /// With several hosts only.
    _watch: Option<Watch>,
}

impl PgEventStore {
    /// Connects with default settings. The URL is as sqlx takes it (`postgres://user:password@host/database?sslmode=…`),
    /// and may name several hosts as libpq has it (`…@host1:5432,host2:5433/…`): the one that is the primary is used, and
    /// looked for again when it is that no more.
    ///
    /// # Errors
    /// When the URL cannot be used or the server does not answer; with several hosts [`Error::NotPrimary`] when some answer
    /// and none of them is the primary.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(url, PgConfig::default()).await
    }

    /// Connects with custom settings.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); [`Error::Invalid`] for a setting that cannot work.
    pub async fn connect_with(url: &str, config: PgConfig) -> Result<Self, Error> {
        let options =
            hosts::parse(url).ok_or_else(|| Invalid::Setting { name: "database", reason: hosts::FORM.to_owned() })?;
        Self::connect_to_any_with(options, config).await
    }

    /// Connects with the driver's own options, for applications that build them.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    pub async fn connect_to_with(options: PgConnectOptions, config: PgConfig) -> Result<Self, Error> {
        Self::connect_to_any_with(vec![options], config).await
    }

    /// The same for several hosts of one cluster, of which one is the primary.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    pub async fn connect_to_any_with(options: Vec<PgConnectOptions>, config: PgConfig) -> Result<Self, Error> {
        config.validate()?;
        let schema = SchemaName::new(&config.schema)?;
        let sql = Arc::new(Sql::new(&schema));
        let hosts = Hosts::new(options)?;
        let connector = Connector::new(hosts.clone(), sql.clone(), config.connect_timeout);
        let watch = match hosts.are_several() {
            true => Some(Watch::start(connector.clone(), connector.connect("watch", None).await?)),
            false => None,
        };
        let own_pool = OwnPool::new(connector.clone(), config.pool_connections_max);
        let server = {
            let mut lent = own_pool.lend().await?;
            let server = connector.read_server(lent.kept.connection()).await?;
            lent.give_back();
            server
        };
        let direct = direct(&connector, &server, &config).await?;
        let deliveries = transactions::pool(&hosts, &sql, &config, config.transaction_connections_max);
        let closings = transactions::pool(&hosts, &sql, &config, transactions::CLOSINGS_MAX);
        let application = connect::pool_options(
            &hosts,
            &sql,
            config.pool_connections_max,
            config.connect_timeout,
            config.connect_timeout / 4,
            |connection, sql| Box::pin(connect::set_up_for_application(connection, sql)),
        )
        .connect_lazy_with(hosts.options(hosts.primary(), Some(APPLICATION)));
        let led =
            [(&application, APPLICATION), (&deliveries, transactions::PURPOSE), (&closings, transactions::PURPOSE)];
        hosts.lead(led.map(|(pool, purpose)| (pool.clone(), purpose)).to_vec());
        let wakeups = PgWakeups::new(connector.clone(), direct.clone(), sql.clone(), schema.channel());
        let settled: Arc<Settled> = Arc::default();
        let readers = Readers::new(connector.clone(), sql.clone(), config.read_connections_max, settled.clone());
        let checkpoints = Writer::new(connector.clone(), sql.clone(), settled.clone());
        let appender = appender::start(&connector, &own_pool, &sql, &config, &wakeups.announcer());
        let pool_connections_max = config.pool_connections_max as usize;
        let inner = Inner {
            config,
            schema,
            sql,
            housekeeping: own_pool.in_turn(),
            own_pool,
            application_pool: application,
            deliveries,
            closings,
            readers,
            connector,
            direct,
            settled,
            checkpoints,
            appender,
            kinds: KindsWritten::default(),
            wakeups,
            taking_over: Semaphore::new((pool_connections_max / 2).max(1)),
            hosts,
            _watch: watch,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What an error on one of the pools means. When it tells that the server is not the primary, connections that were
    /// opened before are not used again.
    pub(crate) fn failed(&self, action: &'static str, error: sqlx::Error) -> Error {
        self.noted(failed(action, error))
    }

    /// The same for an error that is one of ours already.
    pub(crate) fn noted(&self, error: Error) -> Error {
        self.inner.hosts.doubts().note(&error);
        error
    }

    /// The schema that everything lives in.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.inner.config.schema
    }

    /// A pool of this store for the application, for reading models in the same database. It is small, and connects when it
    /// is first used: an application that does much of that should have its own pool.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.inner.application_pool
    }
}

/// The way for connections that need a session of their own. It must lead to where the store is.
async fn direct(connector: &Connector, server: &Server, config: &PgConfig) -> Result<Connector, Error> {
    let Some(url) = &config.leadership_url else { return Ok(connector.clone()) };
    let refused = |reason: String| Error::from(Invalid::Setting { name: "leadership_url", reason });
    let options = hosts::parse(url).ok_or_else(|| refused(hosts::FORM.to_owned()))?;
    let direct = connector.by_way_of(Hosts::new(options)?);
    let mut connection = direct.connect("leadership", None).await?;
    match direct.read_server(&mut connection).await?.differs_from(server) {
        Some(difference) => Err(refused(format!("it leads to another place than the store's own URL: {difference}"))),
        None => Ok(direct),
    }
}

impl fmt::Debug for PgEventStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgEventStore").field("schema", &self.inner.config.schema).finish_non_exhaustive()
    }
}
