//! Handlers that fail, panic or hang: which events concern them follows from the event, not from chance at the time.

use std::collections::HashSet;
use std::future;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use highwater::backend::lock;
use highwater::{BoxError, Permanent};
use uuid::Uuid;

/// While this file is there, no subscriber handles events that are poison.
#[must_use]
pub fn poison_path(folder: &Path) -> PathBuf {
    folder.join("poison")
}

/// While this file is there, nobody waits for the disk who does not have to.
#[must_use]
pub fn asynchronous_path(folder: &Path) -> PathBuf {
    folder.join("asynchronous")
}

/// What becomes of an event in a shaky handler: of four thousand events so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fine,
    /// Not handled for as long as the poison works.
    Poison,
    /// The same, and says that retrying is no use.
    PermanentPoison,
    /// The first attempt of a process fails.
    Fails,
    /// The first attempt of a process panics.
    Panics,
    /// The first attempt of a process does not come back.
    Hangs,
}

impl Fate {
    fn of(id: Uuid) -> Self {
        // The lower half of an id is drawn by chance.
        match id.as_u64_pair().1 % 4_000 {
            0..2 => Self::Poison,
            2..4 => Self::PermanentPoison,
            4..12 => Self::Fails,
            12..16 => Self::Panics,
            16..18 => Self::Hangs,
            _ => Self::Fine,
        }
    }
}

/// A shaky handler's memory.
#[derive(Debug)]
pub(super) struct Shaky {
    poison: PathBuf,
    /// Where dead letters are what is wrong there are more of them: what would fail once never succeeds.
    brittle: bool,
    tried: Mutex<HashSet<Uuid>>,
}

impl Shaky {
    pub(super) fn new(folder: &Path, brittle: bool) -> Self {
        Self { poison: poison_path(folder), brittle, tried: Mutex::default() }
    }

    /// Fails, panics or hangs if it is this event's turn.
    pub(super) async fn before(&self, id: Uuid) -> Result<(), BoxError> {
        let first = || lock(&self.tried).insert(id);
        match Fate::of(id) {
            Fate::Poison if self.poison.exists() => Err("poison".into()),
            Fate::PermanentPoison if self.poison.exists() => Err(Permanent::new("poison, and permanent").into()),
            Fate::Fails if self.brittle => Err(Permanent::new("brittle").into()),
            Fate::Fails if first() => Err("fails the first time".into()),
            Fate::Panics if first() => panic!("panics the first time"),
            Fate::Hangs if first() => future::pending().await,
            _ => Ok(()),
        }
    }
}
