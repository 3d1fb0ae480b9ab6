//! A connection to the primary that does nothing but to notice when it is the primary no more.
//!
//! With several hosts only. A holder of a dedicated connection finds out by itself; a pool does not: it would try the old
//! address until its time-out, every time.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use tokio::task::JoinHandle;

use crate::connect::Connector;

/// How often to look, and how often to search.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long the primary may take to say that it is one. Then others are asked as well.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Ends when it is dropped.
pub(crate) struct Watch(JoinHandle<()>);

impl Watch {
    pub(crate) fn start(connector: Connector, connection: PgConnection) -> Self {
        Self(tokio::spawn(watch(connector, connection)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn watch(connector: Connector, connection: PgConnection) {
    let mut connection = Some(connection);
    loop {
        tokio::time::sleep(INTERVAL).await;
        if let Some(open) = &mut connection {
            let wrong = match tokio::time::timeout(ANSWER_MAX, connector.still_primary(open)).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(elapsed) => elapsed.to_string(),
            };
            tracing::warn!(error = wrong, "the primary is lost; looking for it on all hosts");
            connector.hosts().doubts().raise();
        }
        connection = match connector.connect("watch", None).await {
            Ok(open) => Some(open),
            Err(error) => {
                tracing::debug!(%error, "the primary is not found yet");
                None
            }
        };
    }
}
