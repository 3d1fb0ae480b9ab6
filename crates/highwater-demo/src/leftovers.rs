//! What demos leave that were killed: nobody was there any more to remove it. The next one does, or says how.
//!
//! A folder is locked for as long as its demo lives, and the system takes the lock back however that ends. A process number
//! would say less: it may be another's by now, or one of another container that shares the folder.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _};

use crate::database::APPLICATION;
use crate::{DemoError, Place, sql};

/// How the folders are called that go with their demo. What is kept is called otherwise, and never touched.
const FOLDER: &str = "highwater-demo-run-";
/// How the schemas are called that do.
const SCHEMA: &str = "highwater_demo_run_";

/// Something that an earlier demo left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leftover {
    /// A temporary folder. It is removed now.
    Removed(PathBuf),
    /// A temporary folder that could not be removed.
    Stuck {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A schema. It is left alone: whose it is, a user who may look there can tell.
    Schema(String),
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed(folder) => write!(f, "removed {}, which a demo that was killed had left", folder.display()),
            Self::Stuck { folder, reason } => {
                write!(f, "a demo that was killed left {}, which cannot be removed: {reason}", folder.display())
            }
            Self::Schema(schema) => write!(
                f,
                "the schema {schema} is of a demo that is not connected any more; to remove it: DROP SCHEMA {schema} CASCADE"
            ),
        }
    }
}

/// Looks for what earlier demos left in such a place, and removes temporary folders.
///
/// # Errors
/// When it cannot be looked for.
pub async fn clear(place: &Place) -> Result<Vec<Leftover>, DemoError> {
    match place {
        Place::Sqlite { folder: Some(_), .. } => {
            let folder = std::env::temp_dir();
            sweep(&folder).map_err(DemoError::io(format!("look for what is left in {}", folder.display())))
        }
        Place::Sqlite { .. } => Ok(Vec::new()),
        Place::Postgres { url, .. } => {
            let found = schemas(url).await.map_err(DemoError::sql("look for what is left in the database"))?;
            Ok(found.into_iter().map(Leftover::Schema).collect())
        }
    }
}

/// The names of a temporary folder and of a schema that nobody has.
pub(crate) fn names(keep: bool) -> (String, String) {
    let unique = format!("{}_{:08x}", std::process::id(), fastrand::u32(..));
    match keep {
        true => (format!("highwater-demo-{unique}"), format!("highwater_demo_{unique}")),
        false => (format!("{FOLDER}{unique}"), format!("{SCHEMA}{unique}")),
    }
}

/// Makes a folder that is locked until what this returns is dropped.
pub(crate) fn make_locked(folder: &Path) -> io::Result<File> {
    // Under another name until it is locked: nobody may take it for one that was left.
    let unlocked = folder.with_extension("new");
    fs::DirBuilder::new().mode(0o700).create(&unlocked)?;
    let locked = File::open(&unlocked).and_then(|lock| {
        lock.lock()?;
        fs::rename(&unlocked, folder)?;
        Ok(lock)
    });
    match locked {
        Ok(lock) => Ok(lock),
        Err(error) => fs::remove_dir(&unlocked).and(Err(error)),
    }
}

fn sweep(folder: &Path) -> io::Result<Vec<Leftover>> {
    let mut left = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_ours = entry.file_name().to_str().is_some_and(|name| is_unique(name, FOLDER));
        if is_ours && entry.file_type()?.is_dir() {
            left.extend(remove(entry.path()));
        }
    }
    Ok(left)
}

/// Whether it is called as such a folder, and not only similarly.
fn is_unique(name: &str, prefix: &str) -> bool {
    let unique = name.strip_prefix(prefix).and_then(|unique| unique.split_once('_'));
    unique.is_some_and(|(pid, random)| {
        pid.parse::<u32>().is_ok() && random.len() == 8 && random.chars().all(|c| c.is_ascii_hexdigit())
    })
}

/// Removes a folder, unless its demo lives or it is another user's.
fn remove(folder: PathBuf) -> Option<Leftover> {
    let locked = match File::open(&folder) {
        Ok(opened) => opened.try_lock().map(|()| opened),
        Err(error) => Err(TryLockError::Error(error)),
    };
    // Kept until it is removed: another demo may look as well.
    let removed = match locked {
        Ok(_lock) => fs::remove_dir_all(&folder),
        Err(TryLockError::WouldBlock) => return None,
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::PermissionDenied => return None,
        Err(TryLockError::Error(error)) => Err(error),
    };
    match removed {
        Ok(()) => Some(Leftover::Removed(folder)),
        // Another demo was faster, or it ended by itself.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Leftover::Stuck { folder, reason: error.to_string() }),
    }
}

/// Schemas of demos that are not connected.
async fn schemas(url: &str) -> Result<Vec<String>, sqlx::Error> {
    let mut connection: PgConnection = PgConnectOptions::from_str(url)?.connect().await?;
    let found = sqlx::query_scalar(sql::SCHEMAS_LEFT).bind(APPLICATION).fetch_all(&mut connection).await;
    connection.close().await?;
    let found: Vec<String> = found?;
    Ok(found.into_iter().filter(|schema| is_unique(schema, SCHEMA)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_dead_demos_go_and_nothing_else() {
        let temporary = std::env::temp_dir().join(format!("highwater-test-leftovers-{}", std::process::id()));
        fs::create_dir(&temporary).unwrap();
        let named = |keep| temporary.join(names(keep).0);
        let (dead, alive, kept, file, other) =
            (named(false), named(false), named(true), named(false), temporary.join(format!("{FOLDER}1_mine")));
        drop(make_locked(&dead).unwrap());
        fs::write(dead.join("shop.db"), "orders").unwrap();
        let lock = make_locked(&alive).unwrap();
        drop(make_locked(&kept).unwrap());
        fs::write(&file, "").unwrap();
        fs::create_dir(&other).unwrap();
        assert_eq!(sweep(&temporary).unwrap(), [Leftover::Removed(dead.clone())]);
        assert!(!dead.exists());
        assert!([&alive, &kept, &file, &other].into_iter().all(|path| path.exists()));
        assert_eq!(sweep(&temporary).unwrap(), []);
        drop(lock);
        assert_eq!(sweep(&temporary).unwrap(), [Leftover::Removed(alive)]);
        fs::remove_dir_all(temporary).unwrap();
    }
}
