//! Where the file lies, and whether that is a place for a database.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use highwater::{Error, Invalid};
use rustix::fs::{Access, StatFs, access, statfs};
use rustix::io::Errno;

/// File systems that reach over a network or into another program, by the numbers that Linux knows them by.
#[cfg(any(target_os = "linux", test))]
const NETWORK: [(u64, &str); 12] = [
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "afs"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x7461_636f, "ocfs2"),
    (0x0116_1970, "gfs2"),
];

/// A path from a URL (`sqlite:shop.db`, `sqlite:///var/lib/shop.db`) or from a path as it is.
pub(crate) fn parse(url: &str) -> Result<PathBuf, Invalid> {
    let refused = |reason: &str| Invalid::Setting { name: "database", reason: reason.to_owned() };
    let path = match url.strip_prefix("sqlite:") {
        None if url.contains("://") => {
            return Err(refused("a SQLite URL looks like sqlite:shop.db or sqlite:///var/shop.db"));
        }
        None => PathBuf::from(url),
        Some(rest) => {
            let rest = rest.strip_prefix("//").unwrap_or(rest);
            if rest.contains(['?', '#']) {
                return Err(refused("a SQLite URL takes no parameters; settings are in SqliteConfig (write ? as %3F)"));
            }
            PathBuf::from(decoded(rest).ok_or_else(|| refused("a % in the URL is not followed by two hex digits"))?)
        }
    };
    let text = path.as_os_str().as_encoded_bytes();
    if text.is_empty() || text.contains(&0) {
        return Err(refused("there is no path in it; a SQLite URL looks like sqlite:shop.db"));
    }
    if text.starts_with(b":memory:") {
        return Err(refused("a database in memory is seen by one connection only; use highwater's MemoryEventStore"));
    }
    Ok(path)
}

/// Resolves %XX.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok().filter(|digits| !digits.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

/// The one path that all processes know a file by, whether it is there yet or not. Nothing is opened: closing an ordinary
/// handle to a database drops the locks that SQLite holds on it in this process.
pub(crate) fn canonical(path: &Path) -> Result<PathBuf, Error> {
    let shown = path.display();
    match path.canonicalize() {
        Ok(canonical) if canonical.is_dir() => {
            Err(Error::Unfit { reason: format!("{shown} is a folder, and a database is a file") })
        }
        Ok(canonical) => Ok(canonical),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !path.is_symlink() => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let folder = folder.canonicalize().map_err(|error| cannot_open(path, error))?;
            let name = path.file_name().ok_or_else(|| Error::Unfit { reason: format!("{shown} names no file") })?;
            Ok(folder.join(name))
        }
        Err(error) => Err(cannot_open(path, error)),
    }
}

pub(crate) fn cannot_open(path: &Path, error: std::io::Error) -> Error {
    let source = format!("{}: {error}", path.display()).into();
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => Error::Denied { action: "open the database", source },
        _ => Error::Unavailable { action: "open the database", source },
    }
}

/// Whether a file can be a database where it is.
pub(crate) fn check(path: &Path, create: bool, allow_network: bool) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let there = path.exists();
    if !there && !create {
        let source = format!("there is no file {}", path.display()).into();
        return Err(Error::Unavailable { action: "open the database", source });
    }
    // Beside the file come the write-ahead log, the shared memory and the folder of locks.
    writable(folder, Access::WRITE_OK | Access::EXEC_OK)?;
    if there {
        writable(path, Access::READ_OK | Access::WRITE_OK)?;
        one_name(path)?;
    }
    let found = statfs(folder).map_err(|error| cannot_open(folder, error.into()))?;
    judge(path, network_of(&found), allow_network)
}

/// What a file system is called, if it reaches over a network or into another program.
#[cfg(target_os = "linux")]
fn network_of(found: &StatFs) -> Option<&'static str> {
    network(found.f_type as u64)
}

#[cfg(not(target_os = "linux"))]
fn network_of(found: &StatFs) -> Option<&'static str> {
    // Numbers say nothing lasting there, but the mount knows whether it is local.
    const MNT_LOCAL: u32 = 0x1000;
    (found.f_flags & MNT_LOCAL == 0).then_some("not local")
}

/// Whether such a file system will do.
fn judge(path: &Path, network: Option<&str>, allow_network: bool) -> Result<(), Error> {
    match network {
        Some(name) if !allow_network => Err(Error::Unfit {
            reason: format!(
                "{} lies on a network file system ({name}), where SQLite's locks and shared memory cannot be relied on \
                 and acknowledged events may be lost; use a local disk, or PostgreSQL, or set allow_network_file_system",
                path.display()
            ),
        }),
        _ => Ok(()),
    }
}

/// Whether a file has no other name. To SQLite each would be a database with its own write-ahead log.
fn one_name(path: &Path) -> Result<(), Error> {
    let names = std::fs::metadata(path).map_err(|error| cannot_open(path, error))?.nlink();
    if names <= 1 {
        return Ok(());
    }
    Err(Error::Unfit {
        reason: format!(
            "{} has {names} names (hard links), and a process that opens it by another one would not see what is written by \
             this one: acknowledged events would be lost; remove the others, or use symbolic links",
            path.display()
        ),
    })
}

fn writable(path: &Path, how: Access) -> Result<(), Error> {
    let denied = |why: String| Error::Denied {
        action: "open the database for writing",
        source: format!("{}: {why}; SQLite writes to the file and to its folder", path.display()).into(),
    };
    match access(path, how) {
        Ok(()) => Ok(()),
        Err(Errno::ROFS) => Err(denied("it lies on a file system that is mounted read-only".to_owned())),
        Err(error) => Err(denied(std::io::Error::from(error).to_string())),
    }
}

#[cfg(any(target_os = "linux", test))]
fn network(kind: u64) -> Option<&'static str> {
    // The numbers have 32 bits; what is above them depends on the sign.
    NETWORK.iter().find(|(number, _)| *number == kind & 0xffff_ffff).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_paths_name_files() {
        for (url, path) in [
            ("sqlite:shop.db", "shop.db"),
            ("sqlite://shop.db", "shop.db"),
            ("sqlite:///var/lib/shop.db", "/var/lib/shop.db"),
            ("sqlite:my%20shop.db", "my shop.db"),
            ("a folder/shop?.db", "a folder/shop?.db"),
        ] {
            assert_eq!(parse(url).unwrap(), Path::new(path), "{url}");
        }
    }

    #[test]
    fn what_names_no_file_is_refused_with_words() {
        for url in [
            "",
            "sqlite:",
            "sqlite://",
            "sqlite::memory:",
            ":memory:",
            "sqlite:a?mode=ro",
            "mysql://x/y",
            "sqlite:%4",
            "sqlite:%+1",
            "sqlite:a%00b",
        ] {
            let Err(Invalid::Setting { name: "database", reason }) = parse(url) else { panic!("{url:?} was taken") };
            assert!(reason.len() > 20, "{url:?}: {reason}");
        }
    }

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        assert_eq!(network(0x6969), Some("nfs"));
        assert_eq!(network(0xff53_4d42), Some("cifs"));
        assert_eq!(network(i64::from(0xff53_4d42_u32.cast_signed()) as u64), Some("cifs"), "as some systems give it");
        assert_eq!(network(0x0102_1997), Some("9p"));
        assert_eq!(network(0x6573_5546), Some("fuse"));
        for local in [0xef53, 0x0102_1994, 0x9123_683e, 0x5846_5342, 0x2fc1_2fc1, 0x794c_7630] {
            assert_eq!(network(local), None, "ext4, tmpfs, btrfs, xfs, zfs, overlay are local");
            judge(Path::new("/shop.db"), network(local), false).unwrap();
        }
    }

    #[test]
    fn a_network_file_system_is_refused_with_words_unless_it_is_forced() {
        let path = Path::new("/mnt/shop.db");
        let refused = judge(path, network(0x6969), false).unwrap_err();
        let said = refused.to_string();
        assert!(matches!(refused, Error::Unfit { .. }));
        for word in ["/mnt/shop.db", "(nfs)", "local disk", "PostgreSQL", "allow_network_file_system"] {
            assert!(said.contains(word), "{said}");
        }
        judge(path, network(0x6969), true).unwrap();
    }
}
