//! The files that are locked.

use std::collections::HashSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use highwater::Error;
use md5::{Digest, Md5};
use uuid::Uuid;

/// How long a lock that was let go for somebody is kept for them.
const RESERVED: Duration = Duration::from_secs(1);
/// How the names of the instances' files begin.
const INSTANCE: &str = "instance-";
/// How often a file is opened again because it was replaced meanwhile.
const REPLACED_MAX: u32 = 10;

/// The folder of locks of one database.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

/// What stands in a file: who locked it last, and for whom it was let go, until when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Note {
    holder: Option<Uuid>,
    meant: Option<(Uuid, u128)>,
}

impl Note {
    fn write(self) -> String {
        let holder = self.holder.map_or_else(|| "-".to_owned(), |holder| holder.to_string());
        let meant = self.meant.map_or_else(String::new, |(to, until)| format!(" {to} {until}"));
        format!("{holder}{meant}\n")
    }

    /// What cannot be read says nothing.
    fn read(text: &str) -> Self {
        let mut words = text.split_whitespace();
        let holder = words.next().and_then(|word| word.parse().ok());
        let meant = words.next().and_then(|to| to.parse().ok()).zip(words.next().and_then(|until| until.parse().ok()));
        Self { holder, meant }
    }

    /// Whether it is kept for somebody else. What lies further ahead than it ever could was written before the clock was set
    /// back, and would keep everybody out until then.
    fn is_meant_for_another(self, session: Uuid) -> bool {
        let left = |until: u128| until.saturating_sub(millis());
        self.meant.is_some_and(|(to, until)| to != session && (1..=RESERVED.as_millis()).contains(&left(until)))
    }
}

fn millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

impl Folder {
    /// The folder of a database, by the one path that all processes know it by.
    pub(crate) fn beside(database: &Path) -> Self {
        let mut name = database.as_os_str().to_owned();
        name.push("-locks");
        Self(name.into())
    }

    pub(crate) fn create(&self) -> Result<(), Error> {
        std::fs::create_dir_all(&self.0).map_err(|error| self.failed("create the folder of locks", &error))
    }

    fn failed(&self, action: &'static str, error: &io::Error) -> Error {
        let source = format!("{}: {error}", self.0.display()).into();
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::Denied { action, source },
            _ => Error::Unavailable { action, source },
        }
    }

    fn leader(&self, subscriber_id: &str) -> PathBuf {
        // Names may hold what file names may not.
        let hash: String = Md5::digest(subscriber_id).iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.join(format!("leader-{hash}"))
    }

    fn instance(&self, place: usize) -> PathBuf {
        self.0.join(format!("{INSTANCE}{place}"))
    }

    /// Gets a subscriber's lock for a session, if it is free and not kept for another.
    pub(super) fn lead(&self, subscriber_id: &str, session: Uuid) -> Result<Option<Lock>, Error> {
        let locked = Lock::get(self.leader(subscriber_id), session, true);
        locked.map_err(|error| self.failed("lock a file for leadership", &error))
    }

    /// Gets the lock of whoever fills the store.
    pub(crate) fn fill(&self) -> Result<Option<Lock>, Error> {
        let locked = Lock::get(self.0.join("filling"), Uuid::now_v7(), false);
        locked.map_err(|error| self.failed("lock a file for filling the store", &error))
    }

    /// Gets a place among the instances.
    pub(super) fn enter(&self, session: Uuid) -> Result<Lock, Error> {
        for place in 0.. {
            let locked = Lock::get(self.instance(place), session, false);
            if let Some(lock) = locked.map_err(|error| self.failed("lock a file for this instance", &error))? {
                return Ok(lock);
            }
        }
        unreachable!("there is always another place")
    }

    /// The sessions of all instances that live.
    pub(super) fn alive(&self) -> Result<HashSet<Uuid>, Error> {
        self.sessions().map_err(|error| self.failed("see which instances live", &error))
    }

    fn sessions(&self) -> io::Result<HashSet<Uuid>> {
        let mut alive = HashSet::new();
        // All there are: somebody may have removed one from the middle.
        let entries = match std::fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(alive),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if !entry.file_name().as_encoded_bytes().starts_with(INSTANCE.as_bytes()) {
                continue;
            }
            match session_if_locked(&entry.path()) {
                Ok(session) => alive.extend(session),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(alive)
    }

    /// The session that has a subscriber's lock, or had it when it died: whether it lives is told by its own.
    pub(super) fn holder(&self, subscriber_id: &str) -> Option<Uuid> {
        // One that is not there, or cannot be read, is held by nobody that could be named.
        let text = std::fs::read_to_string(self.leader(subscriber_id)).unwrap_or_default();
        Note::read(&text).holder
    }
}

/// Who has locked a file. Asking locks it for a moment, together with others who ask.
fn session_if_locked(path: &Path) -> io::Result<Option<Uuid>> {
    let mut file = File::open(path)?;
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            Ok(Note::read(&text).holder)
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// A file that is locked. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    fn get(path: PathBuf, session: Uuid, heed: bool) -> io::Result<Option<Self>> {
        for _ in 0..REPLACED_MAX {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let mut lock = Self { path: path.clone(), file };
            // Somebody may have removed it, and others lock another file of that name.
            if !lock.is_there() {
                continue;
            }
            let mut text = String::new();
            lock.file.read_to_string(&mut text)?;
            if heed && Note::read(&text).is_meant_for_another(session) {
                return Ok(None);
            }
            lock.note(Note { holder: Some(session), meant: None })?;
            return Ok(Some(lock));
        }
        Ok(None)
    }

    /// Over what stood there: whoever reads at the same time must not find nothing.
    fn note(&self, note: Note) -> io::Result<()> {
        let text = note.write();
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)
    }

    /// Whether the file is still the one of that name: what was removed keeps nobody out.
    pub(super) fn is_there(&self) -> bool {
        let identity = |found: &std::fs::Metadata| (found.dev(), found.ino());
        match (self.file.metadata(), std::fs::metadata(&self.path)) {
            (Ok(own), Ok(named)) => identity(&own) == identity(&named),
            _ => false,
        }
    }

    /// Gives it back. With a session, others stand back for a while.
    pub(crate) fn release(self, to: Option<Uuid>) {
        let meant = to.map(|to| (to, millis() + RESERVED.as_millis()));
        // What stands in it informs; the lock itself goes with the file.
        if let Err(error) = self.note(Note { holder: None, meant }) {
            tracing::debug!(%error, path = %self.path.display(), "a lock was given back without a word");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_file_can_be_read_again() {
        let (one, other) = (Uuid::now_v7(), Uuid::now_v7());
        for note in [
            Note::default(),
            Note { holder: Some(one), meant: None },
            Note { holder: None, meant: Some((other, 17)) },
            Note { holder: Some(one), meant: Some((other, millis())) },
        ] {
            assert_eq!(Note::read(&note.write()), note);
        }
        assert_eq!(Note::read(""), Note::default());
        assert_eq!(Note::read("\0\u{ffff} nonsense 12"), Note::default());
    }

    #[test]
    fn what_was_let_go_for_somebody_is_kept_for_them_for_a_while() {
        let (one, other) = (Uuid::now_v7(), Uuid::now_v7());
        let note = Note { holder: None, meant: Some((one, millis() + 1_000)) };
        assert!(note.is_meant_for_another(other) && !note.is_meant_for_another(one));
        assert!(!Note { meant: Some((one, millis() - 1)), ..note }.is_meant_for_another(other));
        let set_back = millis() + 3_600_000;
        assert!(!Note { meant: Some((one, set_back)), ..note }.is_meant_for_another(other), "no longer than ever");
    }
}
