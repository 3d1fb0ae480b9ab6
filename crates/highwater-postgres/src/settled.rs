//! How far the order is known to be settled, for all readers of a store: nothing can appear at or below that any more.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use highwater::backend::lock;

/// How long after the database was asked to store a proof it is asked again.
const STORE_INTERVAL: Duration = Duration::from_secs(5);

/// The highest position that any reader has proved, and the life of the server that it was proved in. It stays true for as
/// long as that life lasts, so a reader that begins starts from here, whatever transactions are open by then.
#[derive(Debug, Default)]
pub(crate) struct Settled(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    life: u64,
    to: u64,
    /// How far the database has stored it, for processes that come later, and when it was last asked to.
    stored: u64,
    asked: Option<Instant>,
}

impl Settled {
    /// What is known about this life of the server; 0 when nothing is.
    pub(crate) fn to(&self, life: u64) -> u64 {
        let known = lock(&self.0);
        if known.life == life { known.to } else { 0 }
    }

    /// A reader has proved it.
    pub(crate) fn raise(&self, life: u64, to: u64) {
        let mut known = lock(&self.0);
        if known.life != life {
            *known = Known { life, ..Known::default() };
        }
        known.to = known.to.max(to);
    }

    /// Whether the database is to store a proof now: readers have proved more, and it was not asked for a while. Only one reader
    /// is told so.
    pub(crate) fn is_to_be_stored(&self, life: u64) -> bool {
        let mut known = lock(&self.0);
        let due = known.asked.is_none_or(|asked| asked.elapsed() >= STORE_INTERVAL);
        let due = due && known.life == life && known.to > known.stored;
        if due {
            known.asked = Some(Instant::now());
        }
        due
    }

    /// The database has stored it up to there.
    pub(crate) fn stored(&self, life: u64, to: u64) {
        let mut known = lock(&self.0);
        if known.life == life {
            known.stored = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_proved_counts_for_its_own_life_of_the_server_and_never_goes_back() {
        let settled = Settled::default();
        settled.raise(7, 10);
        settled.raise(7, 5);
        assert_eq!((settled.to(7), settled.to(8)), (10, 0));
        settled.raise(8, 3);
        assert_eq!((settled.to(7), settled.to(8)), (0, 3));
    }

    #[test]
    fn the_database_is_asked_once_for_what_it_has_not_stored() {
        let settled = Settled::default();
        assert!(!settled.is_to_be_stored(7), "nothing was proved");
        settled.raise(7, 10);
        assert!(!settled.is_to_be_stored(8) && settled.is_to_be_stored(7));
        assert!(!settled.is_to_be_stored(7), "it was just asked");
        settled.raise(8, 10);
        settled.stored(8, 10);
        assert!(!settled.is_to_be_stored(8), "it has it");
    }
}
