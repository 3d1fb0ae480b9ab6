//! The file that an instance's life writes down.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use highwater::backend::lock;
use rustix::time::{ClockId, clock_gettime};

use crate::record::{Entry, Life};

/// Microseconds of the machine's monotonic clock.
#[must_use]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// Where a life is written down.
#[must_use]
pub fn path(folder: &Path, life: Life) -> PathBuf {
    folder.join(format!("{life}.journal"))
}

/// Writes entries, each with one write, so that a SIGKILL leaves whole lines. Clones share the file.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Mutex<File>>);

impl Journal {
    /// Opens the file of a life.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(folder: &Path, life: Life) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path(folder, life))?;
        Ok(Self(Arc::new(Mutex::new(file))))
    }

    /// Writes one entry. An experiment whose instances cannot write down what they do proves nothing: it ends there.
    pub fn write(&self, entry: &Entry) {
        let mut line = serde_json::to_vec(entry).unwrap_or_else(|error| abort(&error));
        line.push(b'\n');
        let mut file = lock(&self.0);
        file.write_all(&line).unwrap_or_else(|error| abort(&error));
    }
}

fn abort(error: &dyn std::error::Error) -> ! {
    eprintln!("the journal cannot be written, so nothing could be proved any more: {error}");
    std::process::abort()
}
