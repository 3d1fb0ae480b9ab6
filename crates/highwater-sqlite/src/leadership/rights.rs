//! Which accounts may lock: the folder of locks and the files in it are opened here and nowhere else.
//!
//! Accounts that may write the database may lock, and others may not even read. What is in the folder's place or in a file's
//! is not trusted before it was opened and checked: in a folder that other accounts can write to they may have put a link
//! there, so that we write a note over a file of ours, or a folder of theirs, so that they decide which instance leads.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RawMode, Stat, Uid, fchmod, fchown, fstat, mkdir, openat, unlinkat,
};
use rustix::fs::{CWD, renameat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The rights of the owner alone, and of the group as well: of folders and of files.
const FOLDER: (RawMode, RawMode) = (0o700, 0o770);
const FILE: (RawMode, RawMode) = (0o600, 0o660);

const ROOT: u32 = 0;

/// The decision about an account that wants to lock.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Something that is not as it has to be; the sentence says what, and what to do.
    Untrusted(String),
    /// The system says no.
    Failed(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Self {
        Self::Failed(error.into())
    }
}

/// The owners of a database's locks: as with SQLite's own `-wal`, the accounts that may write the file.
#[derive(Debug, Clone, Copy)]
struct Owners {
    user: u32,
    /// The group, if it may write the database.
    group: Option<u32>,
}

/// The owner of a file, and which accounts may use it.
#[derive(Debug, Clone, Copy)]
struct FileRights {
    user: u32,
    group: u32,
    mode: RawMode,
}

impl Owners {
    fn of(database: &Path) -> io::Result<Self> {
        let found = std::fs::metadata(database)?;
        Ok(Self { user: found.uid(), group: (found.mode() & 0o020 != 0).then(|| found.gid()) })
    }

    fn mode(self, (alone, shared): (RawMode, RawMode)) -> RawMode {
        if self.group.is_some() { shared } else { alone }
    }

    /// Whether what is there may be used; rights that are too wide are taken away where we may.
    fn accept(self, opened: &OwnedFd, path: &Path, modes: (RawMode, RawMode)) -> Result<(), Refusal> {
        let (found, wanted) = (fstat(opened)?, self.mode(modes));
        let seen = FileRights { user: found.st_uid, group: found.st_gid, mode: found.st_mode & 0o777 };
        if self.judge(geteuid().as_raw(), seen, wanted, path)? {
            return self.adjust(opened, &found, wanted);
        }
        Ok(())
    }

    /// The same, without a look at anything: whether it is ours to adjust.
    fn judge(
        self,
        me: u32,
        FileRights { user, group, mode }: FileRights,
        wanted: RawMode,
        path: &Path,
    ) -> Result<bool, Refusal> {
        let path = path.display();
        if user != me && user != self.user && self.group != Some(group) {
            return Err(Refusal::Untrusted(format!(
                "{path} belongs to the user with id {user}, which is neither this process's ({me}) nor the database's ({}): \
                 find out who put it there, then remove it, or give it to the database's owner",
                self.user
            )));
        }
        if me == ROOT || user == me {
            return Ok(true);
        }
        if mode & !wanted != 0 {
            return Err(Refusal::Untrusted(format!(
                "{path} can be used by others (its rights are {mode:o}): run chmod {wanted:o} {path}"
            )));
        }
        Ok(false)
    }

    /// Makes it as it should be: it may have been made by an earlier version, under a narrow `umask`, or by root.
    fn adjust(self, opened: &OwnedFd, found: &Stat, mut wanted: RawMode) -> Result<(), Refusal> {
        let user = (geteuid().as_raw() == ROOT && found.st_uid != self.user).then_some(self.user);
        let group = self.group.filter(|group| found.st_gid != *group);
        if user.is_some() || group.is_some() {
            match fchown(opened, user.map(Uid::from_raw), group.map(Gid::from_raw)) {
                // A group that we are not in: what is not shared with it does no harm.
                Err(Errno::PERM) => wanted &= FOLDER.0,
                changed => changed?,
            }
        }
        if found.st_mode & 0o777 != wanted {
            fchmod(opened, Mode::from_raw_mode(wanted))?;
        }
        Ok(())
    }
}

/// The folder of locks, open. What is opened in it is opened relative to this: no account can put another in its place
/// meanwhile.
#[derive(Debug)]
pub(super) struct OpenFolder {
    folder: OwnedFd,
    path: PathBuf,
    owners: Owners,
}

impl OpenFolder {
    /// The folder at a path, for the locks of a database; `None` where there is none.
    pub(super) fn open(path: &Path, database: &Path) -> Result<Option<Self>, Refusal> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match openat(CWD, path, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(None),
            // A link is one or the other, depending on the system.
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(in_the_way(path, "a folder")),
            Err(error) => return Err(error.into()),
        };
        let owners = Owners::of(database)?;
        owners.accept(&folder, path, FOLDER)?;
        Ok(Some(Self { folder, path: path.to_owned(), owners }))
    }

    /// The same; made where there is none.
    pub(super) fn create(path: &Path, database: &Path) -> Result<Self, Refusal> {
        match mkdir(path, Mode::from_raw_mode(FOLDER.0)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let opened = Self::open(path, database)?;
        opened.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound).into())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A file to be locked, made where there is none.
    pub(super) fn file(&self, name: &str) -> Result<File, Refusal> {
        self.writable(name, OFlags::CREATE)
    }

    /// A file to be locked that no other process can have open.
    pub(super) fn new_file(&self, name: &str) -> Result<File, Refusal> {
        match unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        self.writable(name, OFlags::CREATE | OFlags::EXCL)
    }

    fn writable(&self, name: &str, how: OFlags) -> Result<File, Refusal> {
        let mode = Mode::from_raw_mode(self.owners.mode(FILE));
        let file = self.regular(name, OFlags::RDWR | how, mode)?;
        self.owners.accept(&file, &self.path(name), FILE)?;
        Ok(file.into())
    }

    /// A file that is there, to be read.
    pub(super) fn read(&self, name: &str) -> Result<File, Refusal> {
        self.regular(name, OFlags::RDONLY, Mode::empty()).map(File::from)
    }

    fn regular(&self, name: &str, how: OFlags, mode: Mode) -> Result<OwnedFd, Refusal> {
        // Opening a pipe would wait for its other end.
        let flags = how | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match openat(self.folder.as_fd(), name, flags, mode) {
            Ok(file) => file,
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Err(in_the_way(&self.path(name), "a file")),
            Err(error) => return Err(error.into()),
        };
        let found = fstat(&file)?;
        // A second name may be that of any other file of ours. One that was just removed has none.
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || found.st_nlink > 1 {
            return Err(in_the_way(&self.path(name), "a file with one name"));
        }
        Ok(file)
    }

    /// Gives a file the name of another one, which has none from then on.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), Refusal> {
        Ok(renameat(&self.folder, from, &self.folder, to)?)
    }

    /// The names of all files in it.
    pub(super) fn names(&self) -> Result<Vec<String>, Refusal> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.folder)? {
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    }
}

fn in_the_way(path: &Path, expected: &str) -> Refusal {
    let path = path.display();
    Refusal::Untrusted(format!(
        "{path} is not {expected}, but a link or something else, and is not followed: find out who put it there, then remove it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: u32 = 1_000;
    const COLLEAGUE: u32 = 1_001;
    const STRANGER: u32 = 1_002;
    const TEAM: u32 = 50;

    fn judged(owners: Owners, me: u32, user: u32, group: u32, mode: RawMode) -> Result<bool, String> {
        let seen = FileRights { user, group, mode };
        let judged = owners.judge(me, seen, owners.mode(FOLDER), Path::new("/srv/shop.db-locks"));
        judged.map_err(|refusal| match refusal {
            Refusal::Untrusted(why) => why,
            Refusal::Failed(error) => error.to_string(),
        })
    }

    #[test]
    fn the_locks_of_a_database_are_its_owners_alone() {
        let owners = Owners { user: OWNER, group: None };
        assert_eq!(judged(owners, OWNER, OWNER, TEAM, 0o755), Ok(true), "ours, and made narrower");
        assert_eq!(judged(owners, ROOT, OWNER, TEAM, 0o755), Ok(true), "root may");
        let strangers = judged(owners, OWNER, STRANGER, TEAM, 0o700).unwrap_err();
        assert!(strangers.contains("user with id 1002") && strangers.contains("remove it"), "{strangers}");
        judged(owners, ROOT, STRANGER, TEAM, 0o700).expect_err("nor does root trust a stranger");
        let wide = judged(owners, COLLEAGUE, OWNER, TEAM, 0o777).unwrap_err();
        assert!(wide.contains("run chmod 700 /srv/shop.db-locks"), "{wide}");
    }

    #[test]
    fn who_shares_a_database_with_a_group_shares_its_locks_with_that_group() {
        let owners = Owners { user: OWNER, group: Some(TEAM) };
        assert_eq!(judged(owners, COLLEAGUE, OWNER, TEAM, 0o770), Ok(false));
        assert_eq!(judged(owners, OWNER, COLLEAGUE, TEAM, 0o770), Ok(false), "whichever came first");
        judged(owners, OWNER, STRANGER, STRANGER, 0o770).expect_err("a stranger's is not the group's");
        let wide = judged(owners, COLLEAGUE, OWNER, TEAM, 0o775).unwrap_err();
        assert!(wide.contains("run chmod 770"), "{wide}");
    }
}
