//! Who is compared, and how each is started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use driver::{About, Delivery, Settings, Way};
use tokio::process::Command;

use super::results::{Contestant, Kind};
use super::stores::{
    self, HIGHWATER, HIGHWATER_AGAIN, HIGHWATER_COORDINATED, HIGHWATER_EXECUTE, HIGHWATER_TRANSACTIONS, RAW_SQLX,
    RAW_TOKIO,
};
use crate::Error;

/// A contestant with its settings.
#[derive(Debug, Clone)]
pub(super) struct Entrant {
    /// What rows call it: the contestant's name, with `-fastest` and `+subscriber` where it is so.
    pub(super) id: String,
    /// The contestant's own name.
    pub(super) base: String,
    pub(super) kind: Kind,
    pub(super) about: About,
    pub(super) settings: Settings,
    /// The program and its first arguments.
    command: Vec<OsString>,
}

impl Entrant {
    /// Its process for a database.
    pub(super) fn command(&self, url: &str) -> Result<Vec<OsString>, Error> {
        self.with_settings(&["serve", url])
    }

    /// The server that it has of its own.
    pub(super) fn server(&self, folder: &Path, address: &str) -> Result<Vec<OsString>, Error> {
        self.with_settings(&["server", &folder.to_string_lossy(), address])
    }

    fn with_settings(&self, args: &[&str]) -> Result<Vec<OsString>, Error> {
        let (mut command, settings) = (self.command.clone(), serde_json::to_string(&self.settings)?);
        command.extend(args.iter().map(OsString::from).chain([OsString::from(settings)]));
        Ok(command)
    }

    /// Those that differ in nothing that is stored share a database.
    pub(super) fn stall(&self) -> String {
        let ours = self.kind == Kind::Highwater;
        let mut name = if ours { HIGHWATER.to_owned() } else { self.base.clone() };
        if self.about.installs.is_some() && self.settings.subscriber {
            name += "+subscriber";
        }
        // A server of its own may be set differently.
        if self.about.server && self.settings.way == Way::Fastest {
            name += "-fastest";
        }
        name
    }

    pub(super) fn is_ours(&self) -> bool {
        self.kind == Kind::Highwater
    }

    pub(super) fn is_fastest(&self) -> bool {
        self.settings.way == Way::Fastest
    }

    pub(super) fn delivers(&self, delivery: Delivery) -> bool {
        self.about.deliveries.contains_key(&delivery)
    }

    /// The same as if there were a subscriber. Only where appends pay for that it has another name.
    pub(super) fn with_subscriber(&self) -> Self {
        let mut with = self.clone();
        with.settings.subscriber = true;
        with
    }

    fn renamed(&self, ending: &str) -> Self {
        Self { id: format!("{}{ending}", self.id), ..self.clone() }
    }
}

/// All of them.
pub(super) struct Field {
    /// Each as documented, and in the fastest way if that is another: Highwater first.
    pub(super) entrants: Vec<Entrant>,
    /// Highwater by decisions.
    pub(super) execute: Entrant,
    /// Highwater once more.
    pub(super) again: Entrant,
    /// Highwater as one of several instances: for failover.
    pub(super) coordinated: Entrant,
    /// Highwater on transactions of the application's: for what is lost.
    pub(super) transactions: Entrant,
    /// Those that could not be built.
    missing: Vec<Contestant>,
}

impl Field {
    /// Builds every peer there is, and asks each what it is.
    pub(super) async fn gather(peers: &Path, told: impl Fn(&str)) -> Result<Self, Error> {
        let execute = ours(HIGHWATER_EXECUTE, Kind::Highwater).await?;
        let again = ours(HIGHWATER_AGAIN, Kind::Highwater).await?;
        let coordinated = ours(HIGHWATER_COORDINATED, Kind::Highwater).await?;
        let transactions = ours(HIGHWATER_TRANSACTIONS, Kind::Highwater).await?;
        let mut found = vec![ours(HIGHWATER, Kind::Highwater).await?];
        found.push(ours(RAW_TOKIO, Kind::Raw).await?);
        found.push(ours(RAW_SQLX, Kind::Raw).await?);
        let mut missing = Vec::new();
        for folder in folders(peers)? {
            let id = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            told(&format!("building {id}"));
            match peer(&folder, &id).await {
                Ok(entrant) => found.push(entrant),
                Err(reason) => {
                    told(&format!("{id} is not measured: {reason}"));
                    let not_measured = Some(reason.to_string());
                    missing.push(Contestant { id, kind: Kind::Peer, about: None, not_measured });
                }
            }
        }
        let entrants = found.into_iter().flat_map(ways).collect();
        Ok(Self { entrants, execute, again, coordinated, transactions, missing })
    }

    /// Those whose appends pay for a subscriber, with one.
    pub(super) fn with_subscribers(&self) -> impl Iterator<Item = Entrant> {
        let fastest = self.entrants.iter().filter(|entrant| entrant.is_fastest() && entrant.about.installs.is_some());
        fastest.map(|entrant| entrant.with_subscriber().renamed("+subscriber"))
    }

    /// For the report, in the order of tables.
    pub(super) fn contestants(&self) -> Vec<Contestant> {
        let (ours, others) = self.entrants.iter().partition::<Vec<_>, _>(|entrant| entrant.is_ours());
        let special = [&self.execute, &self.again, &self.transactions, &self.coordinated];
        let mut all: Vec<Entrant> = ours.into_iter().chain(special).cloned().collect();
        for entrant in others {
            all.push(entrant.clone());
            let with = self.with_subscribers().filter(|with| with.base == entrant.base);
            all.extend(with.filter(|with| with.settings.way == entrant.settings.way));
        }
        let contestant = |entrant: Entrant| Contestant {
            id: entrant.id,
            kind: entrant.kind,
            about: Some(entrant.about),
            not_measured: None,
        };
        all.into_iter().map(contestant).chain(self.missing.iter().cloned()).collect()
    }
}

/// As documented and as fast as it can be had; a raw driver has one way only.
fn ways(entrant: Entrant) -> Vec<Entrant> {
    if entrant.about.fastest.is_none() {
        return vec![entrant];
    }
    let mut fastest = if entrant.kind == Kind::Raw { entrant.clone() } else { entrant.renamed("-fastest") };
    // Until the sizes have been tried.
    let connections = entrant.about.pools.get(entrant.about.pools.len() / 2).copied();
    fastest.settings = Settings { way: Way::Fastest, connections, subscriber: false };
    if entrant.kind == Kind::Raw { vec![fastest] } else { vec![entrant, fastest] }
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
    let settings = Settings { way: Way::Documented, connections: None, subscriber: false };
    Ok(Entrant { id: id.to_owned(), base: id.to_owned(), kind, about, settings, command })
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
