//! The wall clock of an instance, which can be wrong.

use std::fs;
use std::path::{Path, PathBuf};

use super::Error;

/// For programs with threads.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// Debian has a folder for each architecture here; others put it here directly.
const LIBRARIES: &str = "/usr/lib";

/// What the wall clock of one instance shows, relative to the right time. The monotonic clock is not concerned: no machine
/// moves that.
#[derive(Debug)]
pub struct Clock {
    library: PathBuf,
    offset: PathBuf,
}

impl Clock {
    /// A clock that is right; its offset is kept in a file in `dir`. `None` without libfaketime, which Debian's package of
    /// that name has.
    pub fn new(dir: &Path, number: u32) -> Result<Option<Self>, Error> {
        let Some(library) = find_library()? else {
            return Ok(None);
        };
        let clock = Self { library, offset: dir.join(format!("clock-{number}")) };
        clock.set(0)?;
        Ok(Some(clock))
    }

    /// What a process has to have in its environment to go by this clock.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, String)> {
        let variables = [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.offset.display().to_string()),
            // Or else a change would be noticed seconds later.
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            // It has had both names.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        variables.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    /// From now on the clock is wrong by so many seconds.
    pub fn set(&self, seconds: i64) -> Result<(), Error> {
        let cannot = || Error::io(format!("write {}", self.offset.display()));
        // Nobody may read half of it.
        let new = self.offset.with_extension("new");
        fs::write(&new, format!("{seconds:+}\n")).map_err(cannot())?;
        fs::rename(&new, &self.offset).map_err(cannot())
    }
}

fn find_library() -> Result<Option<PathBuf>, Error> {
    let cannot = || Error::io(format!("list {LIBRARIES}"));
    let mut folders = vec![PathBuf::from(LIBRARIES)];
    for entry in fs::read_dir(LIBRARIES).map_err(cannot())? {
        folders.push(entry.map_err(cannot())?.path());
    }
    Ok(folders.into_iter().map(|folder| folder.join(LIBRARY)).find(|path| path.is_file()))
}
