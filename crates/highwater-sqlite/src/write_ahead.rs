//! The write-ahead log, brought back into the database beside the callers.
//!
//! SQLite does that by itself in the commit that makes the log too long, and that caller waits for thousands of pages. A task does
//! it sooner, on its own connection, in a way that no reader and no writer waits for. A commit then finds little left to bring back,
//! and the next one begins the log anew. Nothing depends on it: where the task cannot, commits do all of it, as before.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sqlx::sqlite::SqliteConnection;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::connect::Connector;
use crate::sql;

/// After how many events. An event of a new stream changes three or four pages, and a commit brings back at
/// [`AUTOCHECKPOINT`](crate::connect::AUTOCHECKPOINT).
const EVENTS: usize = 500;

#[derive(Debug)]
pub(crate) struct WriteAhead {
    events: AtomicUsize,
    due: Arc<Notify>,
    task: JoinHandle<()>,
}

impl WriteAhead {
    pub(crate) fn start(connector: &Connector) -> Self {
        let due = Arc::<Notify>::default();
        let task = tokio::spawn(bring_back(connector.clone(), due.clone()));
        Self { events: AtomicUsize::new(0), due, task }
    }

    /// So many events more are in it.
    pub(crate) fn grew(&self, events: usize) {
        if self.events.fetch_add(events, Ordering::Relaxed) + events >= EVENTS {
            self.events.store(0, Ordering::Relaxed);
            self.due.notify_one();
        }
    }
}

impl Drop for WriteAhead {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whenever it is due. Ends with the store.
async fn bring_back(connector: Connector, due: Arc<Notify>) {
    let mut kept: Option<SqliteConnection> = None;
    loop {
        due.notified().await;
        let bringing = async {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => connector.connect_writer().await?,
            };
            sqlx::query(sql::write_ahead_back).execute(&mut connection).await?;
            Ok::<_, sqlx::Error>(connection)
        };
        match bringing.await {
            Ok(connection) => kept = Some(connection),
            Err(error) => tracing::debug!(%error, "the write-ahead log is left to the next commits"),
        }
    }
}
