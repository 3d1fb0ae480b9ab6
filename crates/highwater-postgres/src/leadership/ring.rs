//! Watching one other instance, on a connection that waits for its lock: when that instance dies, the server grants it at
//! once, and no instance has to wait for the next sweep. Each watches the next in a ring, so all are watched.
//!
//! It waits again and again, and never for long: the snapshot of a statement that waits keeps vacuum from removing anything in
//! the whole database.

use std::sync::Arc;
use std::time::Duration;

use highwater::Error;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::key::Key;
use crate::connect::Connector;
use crate::error::{failed, in_time};
use crate::sql::Sql;

/// How long to wait before watching again after something went wrong, or after an alarm: by then it is known whom.
const AGAIN: Duration = Duration::from_secs(1);

/// How long one statement waits; less than what the server calls a lock that is waited for long.
const WAIT: Duration = Duration::from_millis(900);

pub(super) struct Watcher {
    pub(super) connector: Connector,
    pub(super) sql: Arc<Sql>,
    pub(super) schema: String,
    pub(super) neighbour: watch::Receiver<Option<Uuid>>,
    pub(super) alarm: Arc<Notify>,
}

impl Watcher {
    /// For as long as there is an instance to watch for.
    pub(super) async fn run(mut self) {
        loop {
            let neighbour = *self.neighbour.borrow_and_update();
            let watching = async {
                match neighbour {
                    Some(neighbour) => {
                        match self.watch(neighbour).await {
                            Ok(()) => self.alarm.notify_one(),
                            Err(error) => tracing::debug!(%error, "cannot watch another instance"),
                        }
                        tokio::time::sleep(AGAIN).await;
                    }
                    None => std::future::pending().await,
                }
            };
            let mut changes = self.neighbour.clone();
            tokio::select! {
                () = watching => {}
                // A connection that waits is closed; the server checks every second whether the client is still there.
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Returns when the session is gone.
    async fn watch(&self, session: Uuid) -> Result<(), Error> {
        let failed = |e| failed("watch another instance", e);
        let mut connection = self.connector.connect("neighbour", Some(Duration::ZERO)).await?;
        let setting_up = async {
            for setting in [&self.sql.watch_client, &self.sql.neighbour_session] {
                sqlx::query(setting.clone()).execute(&mut connection).await.map_err(failed)?;
            }
            Ok(())
        };
        in_time(self.connector.timeout(), "watch another instance", setting_up).await?;
        let key = Key::instance(&self.schema, session);
        loop {
            let waiting = sqlx::query_scalar(self.sql.instance_watch.clone())
                .bind(key.high)
                .bind(key.low)
                .bind(i32::try_from(WAIT.as_millis()).unwrap_or(i32::MAX));
            let asking = async { waiting.fetch_one(&mut connection).await.map_err(failed) };
            if in_time(WAIT + self.connector.timeout(), "watch another instance", asking).await? {
                return Ok(());
            }
        }
    }
}
