//! How far the order is known to be settled, for all readers of a store: nothing can appear at or below that any more.

use std::sync::Mutex;

use highwater::backend::lock;

/// The highest position that any reader has proved, and the life of the server that it was proved in. It stays true for as
/// long as that life lasts, so a reader that begins starts from here, whatever transactions are open by then.
#[derive(Debug, Default)]
pub(crate) struct Settled(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    life: u64,
    to: u64,
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
            *known = Known { life, to: 0 };
        }
        known.to = known.to.max(to);
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
}
