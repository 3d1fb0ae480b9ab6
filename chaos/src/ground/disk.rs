//! A disk that can be full.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Error, run};

/// Enough for a short life of a database, its log and a copy that is being made; small enough to be filled in a moment.
const SIZE: &str = "1536m";

/// What takes up the room.
const BALLAST: &str = "ballast";

const CHUNK: usize = 1024 * 1024;

/// A folder; where it may be, a file system of its own in memory.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    mounted: bool,
}

impl Disk {
    pub(super) fn new(path: PathBuf, private: bool) -> Result<Self, Error> {
        let cannot = |action: &str| Error::io(format!("{action} {}", path.display()));
        fs::create_dir_all(&path).map_err(cannot("create"))?;
        if private {
            let options = format!("size={SIZE},mode=0711");
            run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path))?;
        } else {
            // A server has an account of its own, which has to get through.
            fs::set_permissions(&path, Permissions::from_mode(0o711)).map_err(cannot("set the mode of"))?;
        }
        Ok(Self { path, mounted: private })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves no room at all, and says how many bytes that took.
    pub(super) fn fill(&self) -> Result<u64, Error> {
        if !self.mounted {
            return Err(Error::SharedDisk);
        }
        let path = self.ballast();
        let filled = File::options().create(true).append(true).open(&path).and_then(|mut file| {
            let before = file.metadata()?.len();
            let chunk = vec![0; CHUNK];
            loop {
                match file.write_all(&chunk) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                        return Ok(file.metadata()?.len() - before);
                    }
                    Err(error) => return Err(error),
                }
            }
        });
        filled.map_err(Error::io(format!("fill {}", path.display())))
    }

    /// Undoes [`fill`](Self::fill). Does nothing if there is nothing to undo.
    pub(super) fn free(&self) -> Result<(), Error> {
        let path = self.ballast();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(format!("remove {}", path.display()))(error))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.ballast().exists()
    }

    fn ballast(&self) -> PathBuf {
        self.path.join(BALLAST)
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
