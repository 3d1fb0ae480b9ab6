//! A file that gets its name once it is complete: half of an export is useless.

use std::io;
use std::path::{Path, PathBuf};

use tokio::fs;

use crate::failure::{Failure, note};

/// A file beside the one that is to be.
pub(super) struct Unfinished {
    pub(super) file: fs::File,
    path: PathBuf,
    to: PathBuf,
}

impl Unfinished {
    pub(super) async fn beside(to: &Path) -> Result<Self, Failure> {
        // A link that leads nowhere is a name that is taken, too.
        if fs::symlink_metadata(to).await.is_ok() {
            return Err(refused(to, &io::ErrorKind::AlreadyExists.into()));
        }
        let name = to.file_name().ok_or_else(|| Failure::usage(format!("{} names no file", to.display())))?;
        let path = to.with_file_name(format!(".{}.{}.unfinished", name.to_string_lossy(), std::process::id()));
        let file = fs::File::create_new(&path).await.map_err(|error| refused(to, &error))?;
        Ok(Self { file, path, to: to.to_owned() })
    }

    /// Gives it its name, unless another file has taken that meanwhile.
    pub(super) async fn publish(&mut self) -> Result<(), Failure> {
        let failed = |error: io::Error| refused(&self.to, &error);
        self.file.sync_all().await.map_err(failed)?;
        match fs::hard_link(&self.path, &self.to).await {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                // Not every file system has links.
                fs::rename(&self.path, &self.to).await.map_err(failed)
            }
            linked => linked.map_err(failed),
        }
    }

    /// What is left of it under its first name goes.
    pub(super) async fn remove(self) {
        if let Err(error) = fs::remove_file(&self.path).await
            && error.kind() != io::ErrorKind::NotFound
        {
            note(&format!("{} could not be removed: {error}", self.path.display()));
        }
    }
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::refused(format!("{shown} is there already; name a new file")),
        _ => Failure::refused(format!("cannot write {shown}: {error}")),
    }
}
