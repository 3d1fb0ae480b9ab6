//! The database: a PostgreSQL cluster or a file, and what can be done to it.

use std::path::{Path, PathBuf};

use highwater::BoxError;

use crate::base::Place;
use crate::ground::{Cluster, Disk, Link};
use crate::schedule::Store;

/// Room for a SQLite database and its log.
const FILE_DISK_MIB: u64 = 1_024;

/// The database.
pub(crate) enum Servers {
    Cluster(Cluster),
    File { file: PathBuf, disk: Disk },
}

impl Servers {
    pub(crate) fn start(store: Store, folder: &Path, private: bool, replica: bool) -> Result<Self, BoxError> {
        match store {
            Store::Postgres => Ok(Self::Cluster(Cluster::start(folder, private, replica)?)),
            Store::Sqlite => {
                let place = folder.join("disk");
                let disk = if private { Disk::mount(&place, FILE_DISK_MIB)? } else { Disk::shared(&place)? };
                Ok(Self::File { file: disk.path().join("chaos.db"), disk })
            }
        }
    }

    /// As the experiment's director reaches it: past all links.
    pub(crate) fn place(&self) -> Place {
        match self {
            Self::Cluster(cluster) => {
                let hosts: Vec<String> = cluster.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
                Place::Postgres { url: url(&hosts.join(",")) }
            }
            Self::File { file, .. } => Place::Sqlite { file: file.clone() },
        }
    }

    /// As an instance reaches it.
    pub(crate) fn url_through(&self, link: &Link) -> String {
        url(&link.hosts())
    }

    pub(crate) fn primary_url(&self) -> Option<String> {
        match self {
            Self::Cluster(cluster) => Some(cluster.primary_url()),
            Self::File { .. } => None,
        }
    }

    pub(crate) fn ports(&self) -> Option<Vec<u16>> {
        match self {
            Self::Cluster(cluster) => Some(cluster.ports()),
            Self::File { .. } => None,
        }
    }

    pub(crate) fn restart(&mut self) -> Result<(), BoxError> {
        Ok(self.cluster()?.restart()?)
    }

    pub(crate) fn crash(&mut self) -> Result<(), BoxError> {
        Ok(self.cluster()?.crash()?)
    }

    /// Waits until a server that recovers by itself has done so.
    pub(crate) fn recover(&mut self) -> Result<(), BoxError> {
        Ok(self.cluster()?.recover()?)
    }

    pub(crate) fn lose_replica(&mut self) -> Result<(), BoxError> {
        Ok(self.cluster()?.lose_replica()?)
    }

    pub(crate) fn promote(&mut self) -> Result<(), BoxError> {
        Ok(self.cluster()?.promote()?)
    }

    pub(crate) fn fill_disk(&mut self) -> Result<(), BoxError> {
        match self {
            Self::Cluster(cluster) => Ok(cluster.fill_disk()?),
            Self::File { disk, .. } => Ok(disk.fill().map(drop)?),
        }
    }

    /// Everything is as it was in the beginning.
    pub(crate) fn repair(&mut self) -> Result<(), BoxError> {
        match self {
            Self::Cluster(cluster) => Ok(cluster.repair()?),
            Self::File { disk, .. } => Ok(disk.free()?),
        }
    }

    fn cluster(&mut self) -> Result<&mut Cluster, BoxError> {
        match self {
            Self::Cluster(cluster) => Ok(cluster),
            Self::File { .. } => Err("a file has no server".into()),
        }
    }
}

/// The account and the database are those of throwaway servers.
fn url(hosts: &str) -> String {
    format!("postgres://highwater@{hosts}/postgres")
}
