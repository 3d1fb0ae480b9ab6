//! The files that are locked.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use highwater::Error;
use highwater::backend::{LockHolder, Moment};
use md5::{Digest, Md5};
use uuid::Uuid;

use super::notes::{Note, Sign};
use super::rights::{OpenFolder, Refusal};
use crate::holder::LockingProcess;
use crate::opened::{Identity, identity};

/// How the names of the instances' files begin, and of those that are about to become another.
const INSTANCE: &str = "instance-";
const NEXT: &str = "next-";
/// How often a file is opened again because it was replaced meanwhile.
const REPLACED_MAX: u32 = 10;

/// The folder of locks of one database.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    path: PathBuf,
    database: PathBuf,
}

/// What came of trying for a lock.
#[derive(Debug)]
pub(super) enum Attempt {
    Got(Lock),
    /// It was released for another instance, which has not come for it yet.
    Reserved,
    Held(LockHolderNote),
}

/// The holder of a lock: a session, unless it has not recorded that yet, on one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LockHolderNote {
    pub(super) session: Option<Uuid>,
    pub(super) file: Identity,
}

fn leader(subscriber_id: &str) -> String {
    // Names may hold what file names may not.
    let hash: String = Md5::digest(subscriber_id).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("leader-{hash}")
}

impl Folder {
    /// The folder of a database, by the one path that all processes know it by.
    pub(crate) fn beside(database: &Path) -> Self {
        let mut name = database.as_os_str().to_owned();
        name.push("-locks");
        Self { path: name.into(), database: database.to_owned() }
    }

    pub(crate) fn create(&self) -> Result<(), Error> {
        let created = OpenFolder::create(&self.path, &self.database);
        created.map(drop).map_err(self.failed("create the folder of locks"))
    }

    fn failed(&self, action: &'static str) -> impl Fn(Refusal) -> Error {
        move |refusal| match refusal {
            Refusal::Untrusted(why) => Error::Denied { action, source: why.into() },
            Refusal::Failed(error) => {
                let source = format!("{}: {error}", self.path.display()).into();
                match error.kind() {
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                        Error::Denied { action, source }
                    }
                    _ => Error::Unavailable { action, source },
                }
            }
        }
    }

    fn open(&self) -> Result<OpenFolder, Refusal> {
        let opened = OpenFolder::open(&self.path, &self.database)?;
        opened.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound).into())
    }

    /// Tries for a subscriber's lock, for a session.
    pub(super) fn lead(&self, subscriber_id: &str, session: Uuid) -> Result<Attempt, Error> {
        let got = || {
            let attempt = Lock::get(&self.open()?, &leader(subscriber_id), Some(session))?;
            if let Attempt::Got(lock) = &attempt {
                lock.write(&Note::held_by(session).write())?;
            }
            Ok(attempt)
        };
        got().map_err(self.failed("lock a file for leadership"))
    }

    /// Takes a subscriber's lock from a holder that gives no more signs. The kernel gives its lock to no other process, so
    /// the file is replaced by one that is locked already: the holder finds that its own no longer has a name, and all
    /// others find the new one. `None` when another instance was faster.
    pub(super) fn replace(
        &self,
        subscriber_id: &str,
        silent: LockHolderNote,
        own: &Lock,
        session: Uuid,
    ) -> Result<Option<Lock>, Error> {
        let replaced = || {
            let (folder, named) = (self.open()?, leader(subscriber_id));
            // One for each instance, so that nothing is left lying where one dies here.
            let next = own.name().replace(INSTANCE, NEXT);
            let file = folder.new_file(&next)?;
            let lock = Lock { identity: identity(&file.metadata()?), path: folder.path(&named), file };
            if lock.file.try_lock().is_err() {
                return Ok(None);
            }
            lock.write(&Note::held_by(session).write())?;
            // As late as possible: an instance that comes in between loses the lock again, and is notified.
            if Lock::holder(folder.read(&named)?)? != silent {
                return Ok(None);
            }
            folder.rename(&next, &named)?;
            Ok(lock.is_there().then_some(lock))
        };
        replaced().map_err(self.failed("take a lock from an instance that gives no sign of life"))
    }

    /// Gets the lock for filling the store.
    pub(crate) fn fill(&self) -> Result<Option<Lock>, Error> {
        let got = || {
            let Attempt::Got(lock) = Lock::get(&self.open()?, "filling", None)? else { return Ok(None) };
            lock.write(&Note::held_by(Uuid::now_v7()).write())?;
            Ok(Some(lock))
        };
        got().map_err(self.failed("lock a file for filling the store"))
    }

    /// Gets a place among the instances.
    pub(super) fn enter(&self, sign: Sign) -> Result<Lock, Error> {
        let entered = || {
            let folder = self.open()?;
            for place in 0.. {
                if let Attempt::Got(lock) = Lock::get(&folder, &format!("{INSTANCE}{place}"), None)? {
                    lock.write(&sign.write())?;
                    return Ok(lock);
                }
            }
            unreachable!("there is always another place")
        };
        entered().map_err(self.failed("lock a file for this instance"))
    }

    /// The instances whose processes are there, by session, with their signs of life.
    pub(crate) fn alive(&self) -> Result<HashMap<Uuid, Option<Sign>>, Error> {
        self.instances(true).map_err(self.failed("see which instances live"))
    }

    /// The signs of all instances, also of those that are gone.
    pub(super) fn signs(&self) -> Result<HashMap<Uuid, Option<Sign>>, Error> {
        self.instances(false).map_err(self.failed("see which instances live"))
    }

    fn instances(&self, locked: bool) -> Result<HashMap<Uuid, Option<Sign>>, Refusal> {
        let mut found = HashMap::new();
        let Some(folder) = OpenFolder::open(&self.path, &self.database)? else { return Ok(found) };
        // All there are: one may have been removed from the middle.
        for name in folder.names()?.iter().filter(|name| name.starts_with(INSTANCE)) {
            match folder.read(name).and_then(|file| Ok(text_if(file, locked)?)) {
                Ok(Some(text)) => found.extend(Note::read(&text).holder.map(|session| (session, Sign::read(&text)))),
                Ok(None) => {}
                Err(Refusal::Failed(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// The session that has a subscriber's lock, or had it when it died: its own file tells whether it lives.
    pub(super) fn holder(&self, subscriber_id: &str) -> Option<Uuid> {
        // One that is not there, or cannot be read, has no holder that could be named.
        let file = self.open().and_then(|folder| folder.read(&leader(subscriber_id))).ok()?;
        Lock::holder(file).ok()?.session
    }

    /// The processes that hold a subscriber's lock, according to the kernel: a foreign process writes no note.
    pub(super) fn lock_holders(&self, subscriber_id: &str) -> Vec<LockHolder> {
        let holder = |process: LockingProcess| {
            let (pid, application_name) = (Some(process.pid), process.name());
            let mut holder = LockHolder::of(subscriber_id);
            (holder.pid, holder.application_name) = (pid, application_name);
            holder
        };
        LockingProcess::of_file(&self.path.join(leader(subscriber_id))).into_iter().map(holder).collect()
    }
}

/// The contents of a file; if it is to be `locked`, only while it is. The check locks it for a moment, shared with other
/// checks.
fn text_if(mut file: File, locked: bool) -> io::Result<Option<String>> {
    if locked {
        match file.try_lock_shared() {
            Ok(()) => return Ok(None),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    let mut text = String::new();
    // What is no text says nothing.
    match file.read_to_string(&mut text) {
        Err(error) if error.kind() != io::ErrorKind::InvalidData => Err(error),
        _ => Ok(Some(text)),
    }
}

/// A file that is locked. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    identity: Identity,
    file: File,
}

impl Lock {
    /// Locks a file, and heeds for whom it is meant, if that matters.
    fn get(folder: &OpenFolder, name: &str, session: Option<Uuid>) -> Result<Attempt, Refusal> {
        for _ in 0..REPLACED_MAX {
            let file = folder.file(name)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(Attempt::Held(Self::holder(file)?)),
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            let lock = Self { path: folder.path(name), identity: identity(&file.metadata()?), file };
            // It may have been removed or replaced, and others lock another file of that name.
            if !lock.is_there() {
                continue;
            }
            let Some(session) = session else { return Ok(Attempt::Got(lock)) };
            let text = text_if(lock.file.try_clone()?, false)?.unwrap_or_default();
            let reserved = Note::read(&text).is_meant_for_another(session);
            return Ok(if reserved { Attempt::Reserved } else { Attempt::Got(lock) });
        }
        Err(io::Error::other("the lock files are replaced again and again").into())
    }

    fn holder(file: File) -> io::Result<LockHolderNote> {
        let identity = identity(&file.metadata()?);
        let text = text_if(file, false)?.unwrap_or_default();
        Ok(LockHolderNote { session: Note::read(&text).holder, file: identity })
    }

    fn name(&self) -> String {
        self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Over the previous contents: a concurrent reader must not find it empty.
    fn write(&self, text: &str) -> io::Result<()> {
        self.file.write_all_at(text.as_bytes(), 0)?;
        if self.file.metadata()?.len() == text.len() as u64 {
            return Ok(());
        }
        self.file.set_len(text.len() as u64)
    }

    /// Lets the others see that this instance is there; says since when they can know.
    pub(super) fn give_sign(&self, session: Uuid, bound: Duration) -> io::Result<Moment> {
        let now = Moment::now();
        self.write(&Sign::of(session, now, bound).write())?;
        Ok(now)
    }

    /// Whether the file is still the one of that name: a removed or replaced file keeps no instance out.
    pub(super) fn is_there(&self) -> bool {
        std::fs::symlink_metadata(&self.path).is_ok_and(|named| identity(&named) == self.identity)
    }

    /// Gives it back. With a session, others stand back for a while.
    pub(crate) fn release(self, to: Option<Uuid>) {
        // Its contents inform; the lock itself ends with the file.
        if let Err(error) = self.write(&Note::released_for(to).write()) {
            tracing::debug!(%error, path = %self.path.display(), "a lock was released without a notice");
        }
    }
}
