//! The temporary folder of one server, and its port.
//!
//! The name of the folder, `highwater-pg-<process id of the owner>-<port>`, reserves the port: a server that is stopped
//! for a while must find it free again. The owner holds a lock on the folder for as long as it lives, so that others can
//! tell a folder that is in use from one that was left behind. Choosing a port and removing what was left behind happen
//! under a lock on the parent folder, by one process at a time.

use std::collections::HashSet;
use std::fs::{self, File, Permissions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::poll::poll;
use crate::{Error, account, process};

const PREFIX: &str = "highwater-pg-";

/// Below the range from which Linux by default takes the local ports of outgoing connections (32768 and up). From
/// inside it, any client could be given the port of a server that is being restarted.
const PORTS: std::ops::Range<u16> = 20_000..32_768;

/// With even a tenth of the range free, that many guesses all fail about once in 10^45 times.
const GUESSES_MAX: usize = 1_000;

/// Others hold the parent's lock for as long as it takes to delete what killed tests left behind.
const PARENT_LOCK_WAIT_MAX: Duration = Duration::from_secs(60);

/// A folder that exists until this is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    port: u16,
    /// Never read: the lock goes when the file is closed, be it by the end of the process.
    _lock: File,
}

impl Folder {
    /// Creates a folder below `parent` and reserves a port, after removing folders whose owners are dead.
    pub(crate) fn reserve(parent: &Path) -> Result<Self, Error> {
        let one_at_a_time = lock_parent(parent)?;
        let mut taken = HashSet::new();
        for (path, pid, port) in folders_below(parent)? {
            match remove_if_left_behind(&path, pid) {
                Ok(true) => continue,
                Ok(false) => {}
                // Another user's leftovers are no reason not to start.
                Err(error) => eprintln!("throwaway-postgres: {error}"),
            }
            taken.insert(port);
        }
        let port = free_port(&taken)?;
        let path = parent.join(format!("{PREFIX}{}-{port}", std::process::id()));
        fs::create_dir(&path).map_err(Error::io(format!("create {}", path.display())))?;
        let folder = Self { _lock: open_folder(&path)?, path, port };
        // The server may run under another account, which only has to pass through.
        fs::set_permissions(&folder.path, Permissions::from_mode(0o711))
            .map_err(Error::io(format!("set the mode of {}", folder.path.display())))?;
        folder._lock.lock().map_err(Error::io(format!("lock {}", folder.path.display())))?;
        drop(one_at_a_time);
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("throwaway-postgres: cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Whether a server could listen on the port now.
pub(crate) fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// The file by which PostgreSQL guards a data folder: first the server's process id, further down its state.
///
/// A server that crashed leaves it behind.
pub(crate) fn postmaster_file(data_dir: &Path) -> Result<Option<String>, Error> {
    let path = data_dir.join("postmaster.pid");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("read {}", path.display()))(error)),
    }
}

fn open_folder(path: &Path) -> Result<File, Error> {
    File::open(path).map_err(Error::io(format!("open {}", path.display())))
}

fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn lock_parent(parent: &Path) -> Result<File, Error> {
    let file = open_folder(parent)?;
    let locked = poll(PARENT_LOCK_WAIT_MAX, || Ok(try_lock(&file)?.then_some(())))
        .and_then(|locked| locked.ok_or_else(|| io::Error::other("another process has held the lock for a minute")));
    locked.map_err(Error::io(format!("lock {}", parent.display())))?;
    Ok(file)
}

/// Path, owner and port of every folder here that is named like ours.
fn folders_below(parent: &Path) -> Result<Vec<(PathBuf, u32, u16)>, Error> {
    let cannot_list = || Error::io(format!("list {}", parent.display()));
    let mut folders = Vec::new();
    for entry in fs::read_dir(parent).map_err(cannot_list())? {
        let entry = entry.map_err(cannot_list())?;
        if let Some((pid, port)) = entry.file_name().to_str().and_then(owner_and_port) {
            folders.push((entry.path(), pid, port));
        }
    }
    Ok(folders)
}

fn owner_and_port(name: &str) -> Option<(u32, u16)> {
    let (pid, port) = name.strip_prefix(PREFIX)?.split_once('-')?;
    Some((pid.parse().ok()?, port.parse().ok()?))
}

/// Removes a folder of this user's, if its owner and its server are dead. Says whether it is gone.
fn remove_if_left_behind(path: &Path, owner: u32) -> Result<bool, Error> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(Error::io(format!("look at {}", path.display()))(error)),
    };
    let ours = metadata.is_dir() && metadata.uid() == account::effective_uid()?;
    if !ours || process::is_running(owner) {
        return Ok(false);
    }
    // An owner in another container has an id that means nothing here, but the lock does.
    let lock = open_folder(path)?;
    if !try_lock(&lock).map_err(Error::io(format!("lock {}", path.display())))? {
        return Ok(false);
    }
    // The kernel has told the server to end, but it may still be about to.
    let postmaster = postmaster_file(&path.join(crate::cluster::DATA))?;
    let postmaster = postmaster.and_then(|text| text.lines().next()?.parse().ok());
    if postmaster.is_some_and(process::is_running) {
        return Ok(false);
    }
    fs::remove_dir_all(path).map_err(Error::io(format!("remove {}, left behind", path.display())))?;
    Ok(true)
}

fn free_port(taken: &HashSet<u16>) -> Result<u16, Error> {
    let guess = |n| PORTS.start + (RandomState::new().hash_one(n) % PORTS.len() as u64) as u16;
    let mut guesses = (0..GUESSES_MAX).map(guess);
    guesses.find(|port| !taken.contains(port) && is_free(*port)).ok_or_else(|| {
        let source = io::Error::from(io::ErrorKind::AddrInUse);
        Error::io(format!("find a free port in {PORTS:?} on 127.0.0.1"))(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_making_are_recognised() {
        assert_eq!(owner_and_port("highwater-pg-17-20001"), Some((17, 20_001)));
        for name in ["highwater-pg-17", "highwater-pg-17-20001-x", "highwater-pg--1", "highwater-17-20001"] {
            assert_eq!(owner_and_port(name), None, "{name}");
        }
    }
}
