//! A disk that can be full.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Error, run};

/// How often a server may write something between our look and the end of all room.
const FILL_TRIES: usize = 100;

/// A folder; where it may be, a file system of its own in memory, which is gone after drop.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    /// The size in MiB, if it is a file system of its own.
    mounted: Option<u64>,
    full: bool,
}

impl Disk {
    /// Makes the folder a file system of its own, of that size in MiB.
    pub fn mount(path: &Path, mib: u64) -> Result<Self, Error> {
        make(path)?;
        let options = format!("size={mib}m,mode=0711");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path))?;
        Ok(Self { path: path.to_owned(), mounted: Some(mib), full: false })
    }

    /// A folder on the disk of the machine, which cannot be filled.
    pub(crate) fn shared(path: &Path) -> Result<Self, Error> {
        make(path)?;
        // A server has an account of its own, which has to get through.
        let set = fs::set_permissions(path, Permissions::from_mode(0o711));
        set.map_err(Error::io(format!("set the mode of {}", path.display())))?;
        Ok(Self { path: path.to_owned(), mounted: None, full: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves no room at all, and says how many bytes were free: the disk is made as small as what is on it.
    pub fn fill(&mut self) -> Result<u64, Error> {
        if self.mounted.is_none() {
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
    pub fn free(&mut self) -> Result<(), Error> {
        if let (Some(mib), true) = (self.mounted, self.full) {
            self.resize(&format!("{mib}m"))?;
            self.full = false;
        }
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
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

fn make(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(Error::io(format!("create {}", path.display())))
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted.is_some()
            && let Err(error) = run(Command::new("umount").arg(&self.path))
        {
            tracing::warn!(error = %error, "a disk of the experiment stays mounted");
        }
    }
}
