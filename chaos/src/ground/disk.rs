//! A disk that can be full.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Error, run};

/// Enough for a short life of a database, its log and a copy that is being made.
const SIZE: &str = "1536m";

/// How often a server may write something between our look and the end of all room.
const FILL_TRIES: usize = 100;

/// A folder; where it may be, a file system of its own in memory.
#[derive(Debug)]
pub(crate) struct Disk {
    path: PathBuf,
    mounted: bool,
    full: bool,
}

impl Disk {
    pub(crate) fn new(path: PathBuf, private: bool) -> Result<Self, Error> {
        let cannot = |action: &str| Error::io(format!("{action} {}", path.display()));
        fs::create_dir_all(&path).map_err(cannot("create"))?;
        if private {
            let options = format!("size={SIZE},mode=0711");
            run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path))?;
        } else {
            // A server has an account of its own, which has to get through.
            fs::set_permissions(&path, Permissions::from_mode(0o711)).map_err(cannot("set the mode of"))?;
        }
        Ok(Self { path, mounted: private, full: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves no room at all, and says how many bytes were free: the disk is made as small as what is on it.
    pub(crate) fn fill(&mut self) -> Result<u64, Error> {
        if !self.mounted {
            return Err(Error::SharedDisk);
        }
        let mut tries_left = FILL_TRIES;
        loop {
            tries_left -= 1;
            let (used, free) = self.room()?;
            match self.resize(&used.to_string()) {
                Ok(()) => {
                    self.full = true;
                    return Ok(free);
                }
                // More was written meanwhile, and nothing is cut off.
                Err(Error::Program { .. }) if tries_left > 0 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Undoes [`fill`](Self::fill). Does nothing if there is nothing to undo.
    pub(crate) fn free(&mut self) -> Result<(), Error> {
        if self.full {
            self.resize(SIZE)?;
            self.full = false;
        }
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    fn resize(&self, size: &str) -> Result<(), Error> {
        run(Command::new("mount").args(["-o", &format!("remount,size={size}")]).arg(&self.path)).map(drop)
    }

    /// How many bytes are used, and how many are free.
    fn room(&self) -> Result<(u64, u64), Error> {
        let said = run(Command::new("stat").args(["--file-system", "--format=%S %b %f"]).arg(&self.path))?;
        let figures: Vec<u64> = said.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
        match figures[..] {
            [block, all, free] => Ok((block * (all - free), block * free)),
            _ => Err(Error::Program { command: "stat --file-system".to_owned(), output: said }),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted
            && let Err(error) = run(Command::new("umount").arg(&self.path))
        {
            tracing::warn!(error = %error, "a disk of the experiment stays mounted");
        }
    }
}
