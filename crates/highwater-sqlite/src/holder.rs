//! Which process has the database's write lock, or the lock on a file of ours. SQLite does not tell; the kernel does.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The byte of the shared memory that a writer locks (`WAL_WRITE_LOCK` of SQLite's file format).
const WRITE_LOCK: u64 = 120;

/// How often the list is read: it comes in pieces, and while others lock and unlock, a line may fall between two.
const LOOKS: u32 = 5;

/// The process that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockingProcess {
    pub(crate) pid: u32,
}

impl LockingProcess {
    /// The process that writes to a database right now, as far as it can be seen from here: processes of other containers
    /// may be invisible. Nothing is opened, which would drop our own locks.
    pub(crate) fn of(database: &Path) -> Option<Self> {
        let mut shared = database.as_os_str().to_owned();
        shared.push("-shm");
        let inode = std::fs::metadata(Path::new(&shared)).ok()?.ino();
        (0..LOOKS).find_map(|_| {
            let locks = std::fs::read_to_string("/proc/locks").ok()?;
            locks.lines().find_map(|line| writer(line, inode)).map(|pid| Self { pid })
        })
    }

    /// The processes that hold a lock on a whole file, as far as they can be seen from here.
    pub(crate) fn of_file(path: &Path) -> Vec<Self> {
        let Ok(inode) = std::fs::metadata(path).map(|found| found.ino()) else { return Vec::new() };
        let look = |_| {
            let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
            let mut pids: Vec<u32> = locks.lines().filter_map(|line| owner(line, inode)).collect();
            pids.sort_unstable();
            pids.dedup();
            (!pids.is_empty()).then(|| pids.into_iter().map(|pid| Self { pid }).collect())
        };
        (0..LOOKS).find_map(look).unwrap_or_default()
    }

    /// What the process is called.
    pub(crate) fn name(self) -> Option<String> {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.pid)).ok()?;
        Some(name.trim_end().to_owned())
    }
}

/// `1: FLOCK ADVISORY WRITE 4711 08:01:1234 0 EOF`; what waits for it has an arrow before its kind.
fn owner(line: &str, inode: u64) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "FLOCK", _, _, pid, file, ..] = words[..] else { return None };
    pid.parse().ok().filter(|_| file.rsplit(':').next().and_then(|inode| inode.parse().ok()) == Some(inode))
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

/// Whether a process is stopped, by SIGSTOP or a debugger: it does nothing, and so does not end what it has begun.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Its name, in brackets, may hold anything.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    matches!(state, Some("T" | "t"))
}

/// `process 4711 (sqlite3)`
impl fmt::Display for LockingProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == std::process::id() {
            return write!(f, "this very process ({})", self.pid);
        }
        write!(f, "process {}", self.pid)?;
        if let Some(name) = self.name() {
            write!(f, " ({name})")?;
        }
        if is_stopped(self.pid) {
            write!(f, ", which is stopped: continue it (kill -CONT {0}) or end it (kill -KILL {0}),", self.pid)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_has_locked_a_whole_file_is_its_owner_and_one_that_waits_is_not() {
        assert_eq!(owner("5: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF", 1234), Some(4711));
        assert_eq!(
            owner("5: FLOCK  ADVISORY  READ 4711 08:01:1234 0 EOF", 1234),
            Some(4711),
            "it keeps others out as well"
        );
        for other in [
            "5: FLOCK  ADVISORY  WRITE 4711 08:01:1235 0 EOF",
            "5: -> FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF",
            "5: POSIX  ADVISORY  WRITE 4711 08:01:1234 0 EOF",
            "",
        ] {
            assert_eq!(owner(other, 1234), None, "{other}");
        }
    }

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
