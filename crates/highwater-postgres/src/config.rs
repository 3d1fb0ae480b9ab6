//! What can be chosen.

use std::fmt;
use std::time::Duration;

use highwater::{Invalid, Limits, Upcasters};

use crate::hosts;
use crate::schema::SchemaName;

/// The settings of a [`PgEventStore`](crate::PgEventStore).
///
/// ```
/// use highwater_postgres::PgConfig;
/// let config = PgConfig { schema: "shop_events".into(), ..PgConfig::default() };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone)]
pub struct PgConfig {
    /// The schema of the library's own tables. Default: `highwater`. Tables of read models are made where the connection's
    /// `search_path` says: applications that share a database set that as well.
    pub schema: String,
    /// How old events are brought up to date. Default: not at all.
    pub upcasters: Upcasters,
    /// How large things may be.
    pub limits: Limits,
    /// Appends that may wait for the appender; further callers wait for a place. And appends that may wait for streams which other
    /// transactions hold; further callers get [`Error::StreamHeld`](highwater::Error::StreamHeld) at once. Default: 4,096.
    pub append_queue_max: usize,
    /// How long a caller waits for a place in that queue, for a stream that another transaction holds, and for the server's
    /// answer: each at most this long. Default: 10 s.
    pub append_timeout: Duration,
    /// Connections that append, side by side. More help where a commit takes long, and make groups smaller. Default: 2.
    pub append_connections_max: usize,
    /// Events that are committed together at most, unless one append has more. Default: 1,000.
    pub group_events_max: usize,
    /// Bytes that are committed together at most, unless one append has more. Default: 8 MiB.
    pub group_bytes_max: usize,
    /// Connections for everything that needs no dedicated connection: reading streams, looking up, appends to streams that
    /// are held. As many again, when they are used, for the application's [`pool`](crate::PgEventStore::pool) and its units
    /// of work. Default: 4.
    pub pool_connections_max: u32,
    /// Connections for the transactions of delivery: one for each transactional subscriber that is busy at the same time.
    /// Default: 8.
    pub transaction_connections_max: u32,
    /// Connections for reading in order. Each serves one reader at a time. Default: 4.
    pub read_connections_max: usize,
    /// How long to wait for a connection. Default: 10 s.
    pub connect_timeout: Duration,
    /// A direct URL to the same database, past any pooler, for the connections that need a dedicated session: leadership and
    /// `LISTEN`. It may name several hosts. Default: none, they use the store's own URL.
    pub leadership_url: Option<String>,
    /// Whether a coordinated instance keeps one more connection that waits for another instance's end, so that a crash is
    /// noticed at once and not at the next sweep. Default: yes.
    pub watch_instances: bool,
}

impl Default for PgConfig {
    fn default() -> Self {
        Self {
            schema: "highwater".to_owned(),
            upcasters: Upcasters::new(),
            limits: Limits::default(),
            append_queue_max: 4_096,
            append_timeout: Duration::from_secs(10),
            append_connections_max: 2,
            group_events_max: 1_000,
            group_bytes_max: 8 << 20,
            pool_connections_max: 4,
            transaction_connections_max: 8,
            read_connections_max: 4,
            connect_timeout: Duration::from_secs(10),
            leadership_url: None,
            watch_instances: true,
        }
    }
}

impl PgConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// The first that cannot work.
    pub fn validate(&self) -> Result<(), Invalid> {
        SchemaName::new(&self.schema)?;
        let at_least_one = [
            ("append_queue_max", self.append_queue_max),
            ("append_connections_max", self.append_connections_max),
            ("group_events_max", self.group_events_max),
            ("group_bytes_max", self.group_bytes_max),
            ("pool_connections_max", self.pool_connections_max as usize),
            ("transaction_connections_max", self.transaction_connections_max as usize),
            ("read_connections_max", self.read_connections_max),
            ("limits.event_bytes_max", self.limits.event_bytes_max),
            ("limits.append_events_max", self.limits.append_events_max),
            ("limits.append_bytes_max", self.limits.append_bytes_max),
        ];
        if let Some((name, _)) = at_least_one.into_iter().find(|(_, value)| *value == 0) {
            return Err(Invalid::Setting { name, reason: "it must be at least 1".to_owned() });
        }
        for (name, value) in [("append_timeout", self.append_timeout), ("connect_timeout", self.connect_timeout)] {
            if value < Duration::from_millis(1) || value > Duration::from_secs(86_400) {
                let reason = "it must lie between a millisecond and a day".to_owned();
                return Err(Invalid::Setting { name, reason });
            }
        }
        if self.leadership_url.as_ref().is_some_and(|url| hosts::parse(url).is_none()) {
            return Err(Invalid::Setting { name: "leadership_url", reason: hosts::FORM.to_owned() });
        }
        Ok(())
    }
}

/// Without the URL, which may hold a password.
impl fmt::Debug for PgConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            schema,
            upcasters,
            limits,
            append_queue_max,
            append_timeout,
            append_connections_max,
            group_events_max,
            group_bytes_max,
            pool_connections_max,
            transaction_connections_max,
            read_connections_max,
            connect_timeout,
            leadership_url,
            watch_instances,
        } = self;
        f.debug_struct("PgConfig")
            .field("schema", schema)
            .field("upcasters", upcasters)
            .field("limits", limits)
            .field("append_queue_max", append_queue_max)
            .field("append_timeout", append_timeout)
            .field("append_connections_max", append_connections_max)
            .field("group_events_max", group_events_max)
            .field("group_bytes_max", group_bytes_max)
            .field("pool_connections_max", pool_connections_max)
            .field("transaction_connections_max", transaction_connections_max)
            .field("read_connections_max", read_connections_max)
            .field("connect_timeout", connect_timeout)
            .field("leadership_url", &leadership_url.as_ref().map(|_| "…"))
            .field("watch_instances", watch_instances)
            .finish()
    }
}
