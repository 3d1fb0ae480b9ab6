//! The one public struct of this backend.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use highwater::backend::AppendQueue;
use highwater::{Error, Invalid};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::sync::{Mutex, Semaphore};

use crate::appender;
use crate::checkpoints::Writer;
use crate::config::PgConfig;
use crate::connect::{self, Connector, Resting, Server};
use crate::error::{failed, in_time};
use crate::hosts::{self, Hosts, Watch};
use crate::own_pool::{ANSWER_TIMEOUT, OwnPool};
use crate::reader::Readers;
use crate::schema::SchemaName;
use crate::settled::Settled;
use crate::sql::Sql;
use crate::transactions;
use crate::wakeups::PgWakeups;

/// How long a connection of the pool may take to come back.
const RETURNED_WITHIN_MS: usize = 5;

/// What the application's connections are for, as the server sees it.
const APPLICATION: &str = "application";

/// How long it may take to learn why no connection could be had.
const REASON_WITHIN: Duration = Duration::from_secs(1);

/// An event store on PostgreSQL. Clones share everything.
///
/// It keeps two connections for appending, a few for reading in order, a pool for the transactions of delivery, a small one
/// for the application and another for the rest, and one each for checkpoints and for sending and receiving wake-ups; all are
/// opened when they are first needed, and opened again when they are lost.
#[derive(Clone)]
pub struct PgEventStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: PgConfig,
    pub(crate) schema: SchemaName,
    pub(crate) sql: Arc<Sql>,
    pub(crate) own_pool: OwnPool,
    /// For the application, which may leave a connection inside a transaction: a cancelled `begin` does, in the driver as it
    /// is. The store's own writes must not end up there.
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
    pub(crate) wakeups: PgWakeups,
    looking: Mutex<()>,
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
        Self::connect_to_any(options, config).await
    }

    /// Connects with the driver's own options, for applications that build them.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    pub async fn connect_to(options: PgConnectOptions, config: PgConfig) -> Result<Self, Error> {
        Self::connect_to_any(vec![options], config).await
    }

    /// The same for several hosts of one cluster, of which one is the primary.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    pub async fn connect_to_any(options: Vec<PgConnectOptions>, config: PgConfig) -> Result<Self, Error> {
        config.validate()?;
        let schema = SchemaName::new(&config.schema)?;
        let sql = Arc::new(Sql::new(&schema));
        let hosts = Hosts::new(options)?;
        let connector = Connector::new(hosts.clone(), sql.clone(), config.connect_timeout);
        let watch = match hosts.are_several() {
            true => Some(Watch::start(connector.clone(), connector.connect("watch", None).await?)),
            false => None,
        };
        let pool = match pool_options(&hosts, &sql, &config, false)
            .connect_with(hosts.options(hosts.primary(), None))
            .await
            .map_err(|e| failed("connect", e))
        {
            Ok(pool) => pool,
            Err(error) => return Err(reason(error, &connector).await),
        };
        let server = who_answers(&pool, &connector).await?;
        let direct = direct(&connector, &server, &config).await?;
        let deliveries = transactions::pool(&hosts, &sql, &config, config.transaction_connections_max);
        let closings = transactions::pool(&hosts, &sql, &config, transactions::CLOSINGS_MAX);
        let application = pool_options(&hosts, &sql, &config, true)
            .connect_lazy_with(hosts.options(hosts.primary(), Some(APPLICATION)));
        let delivering = Some(transactions::PURPOSE);
        let led =
            [(&pool, None), (&application, Some(APPLICATION)), (&deliveries, delivering), (&closings, delivering)];
        hosts.lead(led.map(|(pool, purpose)| (pool.clone(), purpose)).to_vec());
        let wakeups = PgWakeups::new(connector.clone(), direct.clone(), sql.clone(), schema.channel());
        let settled: Arc<Settled> = Arc::default();
        let readers = Readers::new(
            connector.clone(),
            sql.clone(),
            config.read_connections_max,
            config.connect_timeout,
            settled.clone(),
        );
        let checkpoints = Writer::new(connector.clone(), sql.clone(), config.connect_timeout, settled.clone());
        let appender = appender::start(&connector, pool.clone(), &sql, &config, &wakeups.announcer());
        let pool_connections_max = config.pool_connections_max as usize;
        let inner = Inner {
            config,
            schema,
            sql,
            own_pool: OwnPool::new(pool),
            application_pool: application,
            deliveries,
            closings,
            readers,
            connector,
            direct,
            settled,
            checkpoints,
            appender,
            wakeups,
            looking: Mutex::default(),
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

    /// Runs a periodic query: one after the other, so that an idle instance needs one connection for all of it.
    pub(crate) async fn look<T>(
        &self,
        action: &'static str,
        looking: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        in_time(ANSWER_TIMEOUT, action, async {
            let _one_by_one = self.inner.looking.lock().await;
            let looked = looking.await;
            // The driver reclaims connections in a separate task: the next caller would be given another one.
            for _ in 0..RETURNED_WITHIN_MS {
                if self.inner.own_pool.rests() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            looked
        })
        .await
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

fn pool_options(hosts: &Hosts, sql: &Arc<Sql>, config: &PgConfig, for_application: bool) -> PgPoolOptions {
    let (sql, several) = (sql.clone(), hosts.are_several());
    let resting = Resting::default();
    let opening = resting.clone();
    connect::pool_options(config.pool_connections_max, config.connect_timeout, hosts.doubts().clone(), resting.clone())
        // What a busy moment has left over is closed.
        .after_release(move |_, _| Box::pin(std::future::ready(Ok(resting.returned()))))
        .after_connect(move |connection, _| {
            opening.opened();
            let sql = sql.clone();
            Box::pin(async move {
                // Refused right after this, with a reason. An error here would be retried until the time-out.
                if connect::fit(connection.server_version_num()).is_err() {
                    return Ok(());
                }
                match for_application {
                    true => connect::set_up_for_application(connection, &sql).await?,
                    false => connect::set_up(connection, &sql, None).await?,
                }
                connect::insist_on_primary(connection, &sql, several).await
            })
        })
}

/// A pool tries until the time is up, and keeps to itself what it was told meanwhile: that is asked for once more.
async fn reason(error: Error, connector: &Connector) -> Error {
    if !matches!(error, Error::Unavailable { .. }) {
        return error;
    }
    match tokio::time::timeout(REASON_WITHIN, connector.connect("connect", None)).await {
        Ok(Err(reason)) => reason,
        Ok(Ok(_)) | Err(_) => error,
    }
}

async fn who_answers(pool: &PgPool, connector: &Connector) -> Result<Server, Error> {
    let mut connection = pool.acquire().await.map_err(|e| failed("connect", e))?;
    connect::fit(connection.server_version_num())?;
    connector.look(&mut connection).await
}

/// The way for connections that need a dedicated session. It must lead to the store's database.
async fn direct(connector: &Connector, server: &Server, config: &PgConfig) -> Result<Connector, Error> {
    let Some(url) = &config.leadership_url else { return Ok(connector.clone()) };
    let refused = |reason: String| Error::from(Invalid::Setting { name: "leadership_url", reason });
    let options = hosts::parse(url).ok_or_else(|| refused(hosts::FORM.to_owned()))?;
    let direct = connector.by_way_of(Hosts::new(options)?);
    let mut connection = direct.connect("leadership", None).await?;
    match direct.look(&mut connection).await?.differs_from(server) {
        Some(difference) => Err(refused(format!("it leads to another place than the store's own URL: {difference}"))),
        None => Ok(direct),
    }
}

impl fmt::Debug for PgEventStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgEventStore").field("schema", &self.inner.config.schema).finish_non_exhaustive()
    }
}
