//! Who is compared, and how each is started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use driver::About;
use tokio::process::Command;

use super::results::{Contestant, Kind};
use super::stores::{self, HIGHWATER, HIGHWATER_COORDINATED, HIGHWATER_TRANSACTIONS, RAW_SQLX, RAW_TOKIO};
use crate::Error;

/// A contestant with its settings.
#[derive(Debug, Clone)]
pub(super) struct Entrant {
    /// What rows call it: the contestant's name, with `-best` where it is at its best.
    pub(super) id: String,
    /// The contestant's own name: those that differ in settings alone share a database.
    pub(super) base: String,
    pub(super) kind: Kind,
    pub(super) about: About,
    /// `default` or `best`.
    pub(super) settings: &'static str,
    /// The program and its first arguments.
    command: Vec<OsString>,
}

impl Entrant {
    pub(super) fn command(&self, url: &str) -> Vec<OsString> {
        let mut command = self.command.clone();
        command.extend(["serve", url, self.settings].map(OsString::from));
        command
    }

    pub(super) fn is_best(&self) -> bool {
        self.settings == BEST
    }

    pub(super) fn is_ours(&self) -> bool {
        self.kind == Kind::Highwater
    }

    /// The raw drivers at their best differ only where events are followed.
    pub(super) fn is_raw_at_its_best(&self) -> bool {
        self.kind == Kind::Raw && self.is_best()
    }

    fn at_its_best(&self) -> Option<Self> {
        let id = format!("{}-best", self.base);
        self.about.best.as_ref().map(|_| Self { id, settings: BEST, ..self.clone() })
    }
}

const BEST: &str = "best";

/// Everybody.
pub(super) struct Field {
    /// In every scenario that they can take part in: Highwater first.
    pub(super) entrants: Vec<Entrant>,
    /// Highwater as one of several instances: for failover.
    pub(super) coordinated: Entrant,
    /// Highwater on transactions of the application's: for what is lost.
    pub(super) transactions: Entrant,
    /// For the report, with those that could not be built.
    pub(super) contestants: Vec<Contestant>,
}

impl Field {
    /// Builds every peer there is, and asks everybody what it is.
    pub(super) async fn gather(peers: &Path, told: impl Fn(&str)) -> Result<Self, Error> {
        let coordinated = ours(HIGHWATER_COORDINATED, Kind::Highwater).await?;
        let transactions = ours(HIGHWATER_TRANSACTIONS, Kind::Highwater).await?;
        let mut entrants = vec![ours(HIGHWATER, Kind::Highwater).await?];
        entrants.push(ours(RAW_TOKIO, Kind::Raw).await?);
        entrants.push(ours(RAW_SQLX, Kind::Raw).await?);
        let mut missing = Vec::new();
        for folder in folders(peers)? {
            let id = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            told(&format!("building {id}"));
            match peer(&folder, &id).await {
                Ok(entrant) => entrants.push(entrant),
                Err(reason) => {
                    told(&format!("{id} is not measured: {reason}"));
                    let not_measured = Some(reason.to_string());
                    missing.push(Contestant { id, kind: Kind::Peer, about: None, not_measured });
                }
            }
        }
        let entrants: Vec<_> =
            entrants.iter().flat_map(|one| [Some(one.clone()), one.at_its_best()]).flatten().collect();
        let special = [&coordinated, &transactions];
        let contestant = |entrant: &Entrant| Contestant {
            id: entrant.id.clone(),
            kind: entrant.kind,
            about: Some(entrant.about.clone()),
            not_measured: None,
        };
        let contestants = entrants.iter().chain(special).map(contestant).chain(missing).collect();
        Ok(Self { entrants, coordinated, transactions, contestants })
    }
}

/// A contestant that this program is.
async fn ours(id: &str, kind: Kind) -> Result<Entrant, Error> {
    let command = [std::env::current_exe()?.into_os_string(), stores::MARK.into(), id.into()];
    entrant(id, kind, command.into()).await
}

async fn peer(folder: &Path, id: &str) -> Result<Entrant, Error> {
    let run = folder.join("run").into_os_string();
    let built = Command::new(&run).arg("build").stdin(Stdio::null()).output().await?;
    if !built.status.success() {
        let words = String::from_utf8_lossy(&built.stderr);
        let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it did not say why");
        return Err(format!("it could not be built: {last}").into());
    }
    entrant(id, Kind::Peer, vec![run]).await
}

async fn entrant(id: &str, kind: Kind, command: Vec<OsString>) -> Result<Entrant, Error> {
    let said = Command::new(&command[0]).args(&command[1..]).arg("about").stdin(Stdio::null()).output().await?;
    if !said.status.success() {
        return Err(format!("it cannot be started: {}", String::from_utf8_lossy(&said.stderr).trim()).into());
    }
    let about = serde_json::from_slice(&said.stdout)?;
    Ok(Entrant { id: id.to_owned(), base: id.to_owned(), kind, about, settings: "default", command })
}

/// The folders of the peers, by name.
fn folders(peers: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(peers)? {
        let path = entry?.path();
        if path.join("run").is_file() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder with a `run` of these lines.
    fn folder(name: &str, lines: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("highwater-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let run = folder.join("run");
        std::fs::write(&run, format!("#!/bin/sh\n{lines}\n")).unwrap();
        std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).unwrap();
        folder
    }

    #[tokio::test]
    async fn a_peer_that_cannot_be_built_or_started_says_why() {
        let unbuilt = folder("unbuilt", "echo working; echo first >&2; echo 'no such registry' >&2; exit 1");
        let reason = peer(&unbuilt, "x").await.unwrap_err().to_string();
        assert_eq!(reason, "it could not be built: no such registry");
        let unstarted = folder("unstarted", "[ $1 = build ] || { echo 'no python' >&2; exit 1; }");
        let reason = peer(&unstarted, "x").await.unwrap_err().to_string();
        assert_eq!(reason, "it cannot be started: no python");
        for folder in [unbuilt, unstarted] {
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
}
