//! Connections for transactions in which handlers work.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;

use crate::checkpoints::LOCK_TIMEOUT;
use crate::config::PgConfig;
use crate::connect;
use crate::hosts::Hosts;
use crate::sql::Sql;

/// What these connections are for, as the server sees it.
pub(crate) const PURPOSE: &str = "deliver";
/// How long a handler may leave its transaction idle, doing something else.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(60);
/// How long a connection that comes back may take to roll back. If it takes longer, it is busy with an abandoned statement.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(250);

/// Connections for closings in which no handler works. They take a moment each, so a few are enough for all subscribers; and
/// handlers that hang must not keep other subscribers' dead letters from being written.
pub(crate) const CLOSINGS_MAX: u32 = 2;

/// A pool of so many connections, which it opens when they are first needed.
pub(crate) fn pool(hosts: &Hosts, sql: &Arc<Sql>, config: &PgConfig, connections_max: u32) -> PgPool {
    // Waiting for an abandoned statement would keep the subscriber's checkpoint locked.
    connect::pool_options(hosts, sql, connections_max, config.connect_timeout, RELEASE_TIMEOUT, |connection, sql| {
        Box::pin(connect::set_up_for_delivery(connection, sql, LOCK_TIMEOUT, IDLE_IN_TRANSACTION))
    })
    .connect_lazy_with(hosts.options(hosts.primary(), Some(PURPOSE)))
}
