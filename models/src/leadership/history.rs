//! What has come of it all, as nobody inside can see it.

use std::fmt;

use super::EVENTS;

/// A set of events.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Events(u8);

impl Events {
    /// Whether an event is in it.
    #[must_use]
    pub fn contains(self, event: u8) -> bool {
        self.0 & (1 << event) != 0
    }

    /// In either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Handles an event. Says whether it is new.
    pub(super) fn insert(&mut self, event: u8) -> bool {
        let new = !self.contains(event);
        self.0 |= 1 << event;
        new
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries((1..=EVENTS).filter(|event| self.contains(*event))).finish()
    }
}

/// What happened that must, or must not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// Events that were handled, once or more, and whose effects are there.
    pub handled: Events,
    /// Events with a dead letter.
    pub dead_letters: Events,
    /// Events whose transactional effects are there.
    pub effects: Events,
    /// Events whose transactional effects are there more than once.
    pub twice: Events,
    /// Something was written with a term that was superseded.
    pub two_writers: bool,
    /// The checkpoint moved back.
    pub went_back: bool,
    /// An instance took over and began where the checkpoint was not.
    pub began_elsewhere: bool,
    /// An instance was fenced before there was any fault.
    pub fenced_undisturbed: bool,
}
