//! The file that a store has opened, and whether it is still the one that others find by its name.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use highwater::Error;

use crate::place::cannot_open;

/// A file, whatever it is called: device and inode.
pub(crate) type Identity = (u64, u64);

pub(crate) fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino())
}

/// A file that was opened by a path.
#[derive(Debug, Clone)]
pub(crate) struct OpenedFile {
    path: PathBuf,
    identity: Identity,
}

impl OpenedFile {
    /// The file that has this path now, just after it was opened.
    pub(crate) fn at(path: &Path) -> Result<Self, Error> {
        let found = std::fs::metadata(path).map_err(|error| cannot_open(path, error))?;
        Ok(Self { path: path.to_owned(), identity: identity(&found) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is the file of that path. SQLite does not look, and would write to one that has no name any more: no other
    /// process, and not even this one after a restart, would find what was acknowledged.
    pub(crate) fn still_has_its_name(&self) -> Result<(), Error> {
        match std::fs::metadata(&self.path) {
            Ok(named) if identity(&named) == self.identity => return Ok(()),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(cannot_open(&self.path, error)),
            _ => {}
        }
        Err(Error::Unfit {
            reason: format!(
                "{} is not the file that this process has open: that one was removed, renamed or replaced, and nothing more is \
                 written to it, because no other process would find it; put it back, or stop every process that has it open, \
                 put the file in place that is to be used, and start them again",
                self.path.display()
            ),
        })
    }
}
