//! A copy of a database that is in use.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use highwater::Error;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::error::failed;
use crate::sql;
use crate::store::SqliteEventStore;

/// What SQLite keeps beside a database, and takes for a part of it.
const PARTS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// What we keep there.
const LOCKS: &str = "-locks";

/// After so many steps of SQLite, check whether the caller still waits for the copy.
const STEPS: i32 = 1_000;

/// A copy that is being made, under a temporary name. A half-written copy is useless, so it is removed with this: when
/// something fails, and when the caller goes away. What a killed process leaves cannot be mistaken for a backup.
struct Unfinished(PathBuf);

impl Unfinished {
    /// Made here, empty, so that it is known whose it is. Others may read of the copy what they may read of the original.
    fn beside(to: &Path, original: &Path) -> io::Result<Self> {
        let path = with_suffix(to, &format!(".unfinished-{:08x}", fastrand::u32(..)));
        let mode = std::fs::metadata(original)?.mode() & 0o777;
        OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
        Ok(Self(path))
    }

    /// Gives it its name, if that is still free.
    fn finish(self, to: &Path) -> io::Result<()> {
        // No process has it open, so it may be opened like any file.
        File::open(&self.0)?.sync_all()?;
        match renameat_with(CWD, &self.0, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => std::mem::forget(self),
            // Not every file system can do that.
            Err(error) if [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOTSUP].contains(&error) => {
                std::fs::hard_link(&self.0, to)?;
                drop(self);
            }
            Err(error) => return Err(error.into()),
        }
        File::open(to.parent().unwrap_or(Path::new("/")))?.sync_all()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        for path in [self.0.clone(), with_suffix(&self.0, "-journal")] {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    tracing::warn!(%error, path = %path.display(), "an unfinished backup could not be removed");
                }
                _ => {}
            }
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

impl SqliteEventStore {
    /// Writes a consistent copy of the whole database, tables of the application included, to a new file, while others read
    /// and write. They do not wait for it. The copy is compact, and is a database like any other. It gets its name only when
    /// it is complete and on the disk.
    ///
    /// # Errors
    /// [`Error::Unfit`] when the file is there already, or something that would be taken for a part of it;
    /// [`Error::Denied`] where nothing can be written. Then nothing is left of it.
    pub async fn backup(&self, to: impl AsRef<Path>) -> Result<(), Error> {
        let to = to.as_ref();
        let unwritten = |error| unwritten(to, error);
        // With its whole path: what begins with "file:" is no name to SQLite.
        let whole = self.place_of_copy(to)?;
        let unfinished = Unfinished::beside(&whole, &self.inner.path).map_err(unwritten)?;
        // Removed at once when the caller goes away, and once more when SQLite has closed it.
        let at_once = Unfinished(unfinished.0.clone());
        let unfinished = self.copy_into(unfinished).await?;
        std::mem::forget(at_once);
        unfinished.finish(&whole).map_err(unwritten)
    }

    /// The whole path of a copy, if there can be one.
    fn place_of_copy(&self, to: &Path) -> Result<PathBuf, Error> {
        if to.symlink_metadata().is_ok() {
            return Err(taken(to));
        }
        let (Some(name), Some(folder)) = (to.file_name(), to.parent()) else {
            return Err(Error::Unfit { reason: format!("{} names no file", to.display()) });
        };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let whole = folder.canonicalize().map_err(|error| unwritten(to, error))?.join(name);
        let own = |suffix: &str| whole.starts_with(with_suffix(&self.inner.path, suffix));
        if PARTS.iter().any(|part| own(part)) || own(LOCKS) {
            let reason = format!("{} is a name that the database itself uses; name another file", to.display());
            return Err(Error::Unfit { reason });
        }
        for part in PARTS.map(|part| with_suffix(&whole, part)) {
            if part.symlink_metadata().is_ok() {
                let reason = format!(
                    "{} is there, of another database, and would be taken for a part of the copy; remove it if that is \
                     gone, or name another file",
                    part.display()
                );
                return Err(Error::Unfit { reason });
            }
        }
        Ok(whole)
    }

    /// In a separate task, which outlives the caller for as long as SQLite needs to notice that.
    async fn copy_into(&self, unfinished: Unfinished) -> Result<Unfinished, Error> {
        let copy_failed = |e| failed("back up", e);
        let Some(name) = unfinished.0.to_str().map(ToOwned::to_owned) else {
            let reason = format!("{} is not a name that SQLite can take (UTF-8)", unfinished.0.display());
            return Err(Error::Unfit { reason });
        };
        let mut connection = self.inner.connector.connect().await.map_err(copy_failed)?;
        let caller = Arc::new(());
        let waits = Arc::downgrade(&caller);
        let mut handle = connection.lock_handle().await.map_err(copy_failed)?;
        handle.set_progress_handler(STEPS, move || waits.strong_count() > 0);
        drop(handle);
        let copying = tokio::spawn(async move {
            let copied = sqlx::query(sql::backup).bind(name).execute(&mut connection).await;
            copied.map(|_| unfinished).map_err(copy_failed)
        });
        let copied = copying.await;
        drop(caller);
        copied.unwrap_or_else(|error| Err(Error::Unavailable { action: "back up", source: error.into() }))
    }
}

fn taken(to: &Path) -> Error {
    Error::Unfit { reason: format!("{} is there already; name a new file", to.display()) }
}

fn unwritten(to: &Path, error: io::Error) -> Error {
    let (action, source) = ("back up", format!("{}: {error}", to.display()).into());
    match error.kind() {
        ErrorKind::AlreadyExists => taken(to),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::Denied { action, source },
        _ => Error::Unavailable { action, source },
    }
}
