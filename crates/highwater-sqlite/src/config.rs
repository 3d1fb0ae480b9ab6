//! What can be chosen.

use std::time::Duration;

use highwater::{Invalid, Limits, Upcasters};

/// The settings of a [`SqliteEventStore`](crate::SqliteEventStore).
///
/// ```
/// use highwater_sqlite::{SqliteConfig, Synchronous};
/// let config = SqliteConfig { synchronous: Synchronous::Normal, ..SqliteConfig::default() };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Debug, Clone)]
pub struct SqliteConfig {
    /// Whether a file that is not there is created. Default: yes.
    pub create: bool,
    /// What a commit survives. Default: everything, a loss of power included.
    pub synchronous: Synchronous,
    /// Whether a network file system is accepted. Locks and shared memory do not work on most of them, and an acknowledged
    /// append may be lost: only where it is known to be safe. Default: no.
    pub allow_network_file_system: bool,
    /// How old events are brought up to date. Default: not at all.
    pub upcasters: Upcasters,
    /// How large things may be.
    pub limits: Limits,
    /// Appends that may wait for the appender; further callers wait for a place. Default: 4,096.
    pub append_queue_max: usize,
    /// How long a caller waits for a place in that queue, and how long the appender waits for another transaction: each at
    /// most this long. Default: 10 s.
    pub append_timeout: Duration,
    /// Events that are committed together at most, unless one append has more. Default: 1,000.
    pub group_events_max: usize,
    /// Bytes that are committed together at most, unless one append has more. Default: 8 MiB.
    pub group_bytes_max: usize,
    /// Connections for reading, and for users of [`pool`](crate::SqliteEventStore::pool). Default: 4.
    pub pool_connections_max: u32,
    /// How often to check whether another process has written, while a reader waits for it. Default: 8 ms.
    pub watch_interval: Duration,
}

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synchronous {
    /// A crash of the machine and a loss of power. Each commit waits for the disk.
    Full,
    /// A crash of the process. A crash of the machine may undo the last commits, acknowledged ones included; what is left is
    /// whole and in order.
    Normal,
}

impl Default for SqliteConfig {
    fn default() -> Self {
        Self {
            create: true,
            synchronous: Synchronous::Full,
            allow_network_file_system: false,
            upcasters: Upcasters::new(),
            limits: Limits::default(),
            append_queue_max: 4_096,
            append_timeout: Duration::from_secs(10),
            group_events_max: 1_000,
            group_bytes_max: 8 << 20,
            pool_connections_max: 4,
            watch_interval: Duration::from_millis(8),
        }
    }
}

impl SqliteConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// The first that cannot work.
    pub fn validate(&self) -> Result<(), Invalid> {
        let at_least_one = [
            ("append_queue_max", self.append_queue_max),
            ("group_events_max", self.group_events_max),
            ("group_bytes_max", self.group_bytes_max),
            ("pool_connections_max", self.pool_connections_max as usize),
            ("limits.event_bytes_max", self.limits.event_bytes_max),
            ("limits.append_events_max", self.limits.append_events_max),
            ("limits.append_bytes_max", self.limits.append_bytes_max),
        ];
        if let Some((name, _)) = at_least_one.into_iter().find(|(_, value)| *value == 0) {
            return Err(Invalid::Setting { name, reason: "it must be at least 1".to_owned() });
        }
        for (name, value) in [("append_timeout", self.append_timeout), ("watch_interval", self.watch_interval)] {
            if value < Duration::from_millis(1) || value > Duration::from_secs(86_400) {
                let reason = "it must lie between a millisecond and a day".to_owned();
                return Err(Invalid::Setting { name, reason });
            }
        }
        Ok(())
    }
}
