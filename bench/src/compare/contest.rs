//! What the scenarios share: the server, databases, and taking turns.

use std::collections::BTreeMap;

use driver::Ask;
use tokio_postgres::Client;

use super::entrants::{Entrant, Field};
use super::process::Process;
use super::progress::Progress;
use super::results::Row;
use super::sizes::Sizes;
use crate::Error;
use crate::server::{Server, connect};

/// One run.
pub(super) struct Contest<'a> {
    pub(super) server: &'a Server,
    pub(super) field: &'a Field,
    pub(super) sizes: Sizes,
    pub(super) progress: Progress,
    /// To the server's own database.
    pub(super) admin: Client,
}

/// What is measured in a case.
pub(super) struct Case<'a> {
    pub(super) name: &'a str,
    pub(super) unit: &'a str,
    pub(super) higher_is_better: bool,
}

impl Case<'_> {
    pub(super) fn row(&self, entrant: &Entrant) -> Row {
        Row {
            case: self.name.to_owned(),
            contestant: entrant.id.clone(),
            unit: self.unit.to_owned(),
            higher_is_better: self.higher_is_better,
            samples: Vec::new(),
            note: None,
            distribution: Vec::new(),
            at: None,
        }
    }

    /// A row that says why there is nothing in it.
    pub(super) fn without(&self, entrant: &Entrant, reason: impl Into<String>) -> Row {
        Row { note: Some(reason.into()), ..self.row(entrant) }
    }
}

impl<'a> Contest<'a> {
    pub(super) async fn new(
        server: &'a Server,
        field: &'a Field,
        sizes: Sizes,
        progress: Progress,
    ) -> Result<Self, Error> {
        Ok(Self { server, field, sizes, progress, admin: connect(server.url()).await? })
    }

    /// The URL of a database of that name.
    pub(super) fn url(&self, database: &str) -> Result<String, Error> {
        let url = self.server.url();
        let (head, query) = url.split_once('?').unwrap_or((url, ""));
        let (authority, _) = head.rsplit_once('/').ok_or("a URL without a database")?;
        let mark = if query.is_empty() { "" } else { "?" };
        Ok(format!("{authority}/{database}{mark}{query}"))
    }

    /// A new database, empty. One of the name that is left from an earlier try goes.
    pub(super) async fn database(&self, name: &str) -> Result<String, Error> {
        self.drop_database(name).await?;
        self.admin.batch_execute(&format!("CREATE DATABASE \"{name}\"")).await?;
        self.url(name)
    }

    pub(super) async fn drop_database(&self, name: &str) -> Result<(), Error> {
        Ok(self.admin.batch_execute(&format!("DROP DATABASE IF EXISTS \"{name}\" WITH (FORCE)")).await?)
    }

    /// Writes out what earlier measurements left, so that it falls into none.
    pub(super) async fn settle(&self) -> Result<(), Error> {
        Ok(self.admin.batch_execute("CHECKPOINT").await?)
    }

    /// A database of its own for every entrant of a scenario, laid out by them. Settings share one, where `shared`.
    pub(super) async fn stalls(&self, scenario: &str, entrants: &[Entrant], shared: bool) -> Result<Stalls, Error> {
        let mut stalls = Stalls::default();
        for entrant in entrants {
            let owner = if shared { &entrant.base } else { &entrant.id };
            let database = format!("{scenario}_{owner}");
            if let Some(reason) = stalls.failed.get(owner.as_str()).cloned() {
                stalls.failed.insert(entrant.id.clone(), reason);
                continue;
            }
            let url = match stalls.databases.contains(&database) {
                true => self.url(&database)?,
                false => {
                    let url = self.database(&database).await?;
                    stalls.databases.push(database);
                    url
                }
            };
            let is_new = !stalls.urls.values().any(|known| *known == url);
            let laid_out = async {
                let mut process = Process::start(entrant, &url)?;
                if is_new {
                    process.ask(Ask::Prepare).await?;
                }
                Ok::<_, Error>(process)
            };
            match laid_out.await {
                Ok(process) => {
                    stalls.processes.insert(entrant.id.clone(), process);
                    stalls.urls.insert(entrant.id.clone(), url);
                }
                Err(error) => {
                    stalls.failed.insert(entrant.id.clone(), format!("failed: {error}"));
                }
            }
        }
        Ok(stalls)
    }

    /// Ends the processes and drops the databases.
    pub(super) async fn clear(&self, stalls: Stalls) -> Result<(), Error> {
        for process in stalls.processes.into_values() {
            process.end().await?;
        }
        for database in &stalls.databases {
            self.drop_database(database).await?;
        }
        Ok(())
    }
}

/// Where the entrants of a scenario are.
#[derive(Default)]
pub(super) struct Stalls {
    pub(super) processes: BTreeMap<String, Process>,
    pub(super) urls: BTreeMap<String, String>,
    /// Those that failed, and why: they are not asked again in this scenario.
    pub(super) failed: BTreeMap<String, String>,
    databases: Vec<String>,
}

impl Stalls {
    /// Asks an entrant, unless it has failed; then, or if it fails now, the reason.
    pub(super) async fn ask(&mut self, entrant: &Entrant, ask: Ask) -> Result<driver::Answer, String> {
        if let Some(reason) = self.failed.get(&entrant.id) {
            return Err(reason.clone());
        }
        let Some(process) = self.processes.get_mut(&entrant.id) else {
            return Err("failed: it has no process".to_owned());
        };
        match process.ask(ask).await {
            Ok(answer) => Ok(answer),
            Err(error) => {
                let reason = format!("failed: {error}");
                self.failed.insert(entrant.id.clone(), reason.clone());
                Err(reason)
            }
        }
    }
}
