//! A copy of a database that is in use.

use std::io::ErrorKind;
use std::path::Path;

use highwater::Error;

use crate::error::failed;
use crate::sql;
use crate::store::SqliteEventStore;

/// A copy that is being made. What is half written is of no use to anybody, so it goes with this: when something fails, and
/// when the caller goes away.
struct Unfinished<'a>(&'a Path);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(self.0) {
            tracing::warn!(%error, path = %self.0.display(), "an unfinished backup could not be removed");
        }
    }
}

impl SqliteEventStore {
    /// Writes a consistent copy of the whole database, tables of the application included, to a new file, while others read
    /// and write. Nobody waits for it. The copy is compact, and is a database like any other.
    ///
    /// # Errors
    /// [`Error::Unfit`] when the file is there already; [`Error::Denied`] where nothing can be written. Then nothing is left
    /// of it.
    pub async fn backup(&self, to: impl AsRef<Path>) -> Result<(), Error> {
        let to = to.as_ref();
        let shown = to.display();
        let Some(name) = to.to_str() else {
            return Err(Error::Unfit { reason: format!("{shown} is not a name that SQLite can take (UTF-8)") });
        };
        // Made here, empty, so that it is known whose it is: two who back up to one name cannot meet.
        if let Err(error) = std::fs::File::create_new(to) {
            return Err(match error.kind() {
                ErrorKind::AlreadyExists => {
                    Error::Unfit { reason: format!("{shown} is there already; name a new file") }
                }
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    Error::Denied { action: "back up", source: format!("{shown}: {error}").into() }
                }
                _ => Error::Unavailable { action: "back up", source: format!("{shown}: {error}").into() },
            });
        }
        let unfinished = Unfinished(to);
        self.copy_into(name).await.map_err(|e| failed("back up", e))?;
        // Nobody has the copy open, so it may be opened like any file.
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let on_disk = std::fs::File::open(to).and_then(|file| file.sync_all());
        let on_disk = on_disk.and_then(|()| std::fs::File::open(folder)?.sync_all());
        on_disk.map_err(|error| Error::Unavailable { action: "bring the backup to the disk", source: error.into() })?;
        std::mem::forget(unfinished);
        Ok(())
    }

    async fn copy_into(&self, name: &str) -> Result<(), sqlx::Error> {
        let mut connection = self.inner.connector.connect().await?;
        sqlx::query(sql::backup).bind(name).execute(&mut connection).await.map(drop)
    }
}
