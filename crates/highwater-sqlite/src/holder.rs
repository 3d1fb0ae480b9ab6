//! Which process has the database's write lock. SQLite does not tell; the kernel does.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The byte of the shared memory that whoever writes has locked (`WAL_WRITE_LOCK` of SQLite's file format).
const WRITE_LOCK: u64 = 120;

/// How often the list is looked at: it comes in pieces, and while others lock and unlock, a line may fall between two.
const LOOKS: u32 = 5;

/// The process that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
}

impl Holder {
    /// Whoever writes to a database right now, as far as it can be seen from here: other containers may have processes that
    /// cannot. Nothing is opened, which would drop locks of our own.
    pub(crate) fn of(database: &Path) -> Option<Self> {
        let mut shared = database.as_os_str().to_owned();
        shared.push("-shm");
        let inode = std::fs::metadata(Path::new(&shared)).ok()?.ino();
        (0..LOOKS).find_map(|_| {
            let locks = std::fs::read_to_string("/proc/locks").ok()?;
            locks.lines().find_map(|line| writer(line, inode)).map(|pid| Self { pid })
        })
    }
}

/// `1: POSIX ADVISORY WRITE 4711 08:01:1234 120 120`; what waits for it has an arrow before its kind.
fn writer(line: &str, inode: u64) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "POSIX" | "OFDLCK", _, "WRITE", pid, file, first, last] = words[..] else { return None };
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().unwrap_or(u64::MAX));
    // The device is not compared: some file systems have several for one.
    let is_it = file.rsplit(':').next()?.parse() == Ok(inode) && (first..=last).contains(&WRITE_LOCK);
    pid.parse().ok().filter(|_| is_it)
}

/// `process 4711 (sqlite3)`
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == std::process::id() {
            return write!(f, "this very process ({})", self.pid);
        }
        match std::fs::read_to_string(format!("/proc/{}/comm", self.pid)) {
            Ok(name) => write!(f, "process {} ({})", self.pid, name.trim_end()),
            Err(_) => write!(f, "process {}", self.pid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_the_byte_for_writing_is_taken_for_a_writer() {
        assert_eq!(writer("1: POSIX  ADVISORY  WRITE 4711 08:01:1234 120 120", 1234), Some(4711));
        assert_eq!(writer("1: POSIX  ADVISORY  WRITE 4711 08:01:1234 120 127", 1234), Some(4711), "who repairs, too");
        for other in [
            "1: POSIX  ADVISORY  WRITE 4711 08:01:1235 120 120",
            "1: POSIX  ADVISORY  READ 4711 08:01:1234 120 120",
            "1: POSIX  ADVISORY  WRITE 4711 08:01:1234 121 121",
            "1: -> POSIX  ADVISORY  WRITE 4711 08:01:1234 120 120",
            "1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF",
            "",
        ] {
            assert_eq!(writer(other, 1234), None, "{other}");
        }
    }
}
