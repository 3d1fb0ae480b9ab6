//! Where a contestant's events are: a database of the server's, or a server of its own.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::entrants::Entrant;
use crate::Error;

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A place that is gone when this is dropped, if it is a server of its own.
pub(super) struct Place {
    pub(super) url: String,
    kind: Kind,
}

enum Kind {
    Database(String),
    Server { process: Child, _folder: Folder },
}

/// A folder that is gone when this is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of it is in nobody's way.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

impl Place {
    pub(super) fn database(url: String, name: String) -> Self {
        Self { url, kind: Kind::Database(name) }
    }

    /// Starts the server that an entrant has, on an empty folder.
    pub(super) async fn with_server(entrant: &Entrant, name: &str) -> Result<Self, Error> {
        let folder = std::env::temp_dir().join(format!("highwater-bench-{}-{name}", std::process::id()));
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        let folder = Folder(folder);
        // Nobody else takes it in so short a time.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let command = entrant.server(&folder.0, &address)?;
        let process = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let place = Self { url: format!("http://{address}"), kind: Kind::Server { process, _folder: folder } };
        let started = Instant::now();
        while TcpStream::connect(&address).await.is_err() {
            if started.elapsed() > PATIENCE {
                return Err(format!("its server does not listen within {} s", PATIENCE.as_secs()).into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(place)
    }

    /// The database.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.kind {
            Kind::Database(name) => Some(name),
            Kind::Server { .. } => None,
        }
    }

    /// Ends the server; a database is to be dropped by its name.
    pub(super) async fn end(self) -> Result<Option<String>, Error> {
        match self.kind {
            Kind::Database(name) => Ok(Some(name)),
            Kind::Server { mut process, _folder } => {
                process.kill().await?;
                Ok(None)
            }
        }
    }
}
