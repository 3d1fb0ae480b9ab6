//! The contents of the files. Notes inform: what decides is which process has locked a file, and whether it still gives
//! signs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use highwater::backend::Moment;
use uuid::Uuid;

/// How long a lock that was released for another instance is kept for it.
const RESERVED: Duration = Duration::from_secs(1);
/// The longest takeover bound that can be set.
const BOUND_MAX: Duration = Duration::from_secs(60 * 60);

/// In a subscriber's file: the session that locked it last, and the one it was released for, until when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) holder: Option<Uuid>,
    meant: Option<(Uuid, u128)>,
}

impl Note {
    pub(super) fn held_by(session: Uuid) -> Self {
        Self { holder: Some(session), meant: None }
    }

    pub(super) fn released_for(to: Option<Uuid>) -> Self {
        Self { holder: None, meant: to.map(|to| (to, millis() + RESERVED.as_millis())) }
    }

    pub(super) fn write(self) -> String {
        let holder = self.holder.map_or_else(|| "-".to_owned(), |holder| holder.to_string());
        let meant = self.meant.map_or_else(String::new, |(to, until)| format!(" {to} {until}"));
        format!("{holder}{meant}\n")
    }

    /// What cannot be read says nothing.
    pub(super) fn read(text: &str) -> Self {
        let mut words = text.split_whitespace();
        let holder = words.next().and_then(|word| word.parse().ok());
        let meant = words.next().and_then(|to| to.parse().ok()).zip(words.next().and_then(|until| until.parse().ok()));
        Self { holder, meant }
    }

    /// Whether it is kept for another instance. What lies further ahead than it ever could was written before the clock was
    /// set back, and would keep every instance out until then.
    pub(super) fn is_meant_for_another(self, session: Uuid) -> bool {
        let left = |until: u128| until.saturating_sub(millis());
        self.meant.is_some_and(|(to, until)| to != session && (1..=RESERVED.as_millis()).contains(&left(until)))
    }
}

fn millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

/// In an instance's file: its identity, and a sign of life that is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sign {
    pub(super) session: Uuid,
    /// When it was given, in milliseconds since the machine was started. Others only look whether it changes; its age is for
    /// people.
    pub(super) beat: u64,
    /// After how long without another one the instance itself no longer believes that it leads.
    pub(crate) bound: Duration,
    pub(crate) pid: u32,
}

impl Sign {
    pub(super) fn of(session: Uuid, at: Moment, bound: Duration) -> Self {
        Self { session, beat: at.millis(), bound, pid: std::process::id() }
    }

    /// Always as long: it is written over itself, also when the disk is full.
    pub(super) fn write(self) -> String {
        let Self { session, beat, bound, pid } = self;
        format!("{session} {beat:020} {:010} {pid:010}\n", bound.as_millis())
    }

    /// An earlier version gave none.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let session = words.next()?.parse().ok()?;
        let (beat, bound) = (words.next()?.parse().ok()?, Duration::from_millis(words.next()?.parse().ok()?));
        Some(Self { session, beat, bound: bound.min(BOUND_MAX), pid: words.next()?.parse().ok()? })
    }

    pub(crate) fn age(self) -> Duration {
        Duration::from_millis(Moment::now().millis().saturating_sub(self.beat))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_file_can_be_read_again() {
        let (one, other) = (Uuid::now_v7(), Uuid::now_v7());
        for note in [
            Note::default(),
            Note::held_by(one),
            Note { holder: None, meant: Some((other, 17)) },
            Note { holder: Some(one), meant: Some((other, millis())) },
        ] {
            assert_eq!(Note::read(&note.write()), note);
        }
        assert_eq!(Note::read(""), Note::default());
        assert_eq!(Note::read("\0\u{ffff} nonsense 12"), Note::default());
    }

    #[test]
    fn a_sign_can_be_read_again_and_is_always_as_long() {
        let sign = Sign::of(Uuid::now_v7(), Moment::now(), Duration::from_secs(5));
        assert_eq!(Sign::read(&sign.write()), Some(sign));
        assert!(sign.age() < Duration::from_secs(60));
        let other = Sign { beat: u64::MAX, bound: BOUND_MAX, pid: u32::MAX, ..sign };
        assert_eq!(Sign::read(&other.write()), Some(other));
        assert_eq!(sign.write().len(), other.write().len());
        assert_eq!(other.age(), Duration::ZERO, "the clock of another time namespace");
        assert_eq!(Note::read(&sign.write()).holder, Some(sign.session), "an earlier version can read who it is");
        for text in ["", "nonsense", &Note::held_by(sign.session).write()] {
            assert_eq!(Sign::read(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_was_released_for_an_instance_is_kept_for_it_for_a_while() {
        let (one, other) = (Uuid::now_v7(), Uuid::now_v7());
        let note = Note { holder: None, meant: Some((one, millis() + 1_000)) };
        assert!(note.is_meant_for_another(other) && !note.is_meant_for_another(one));
        assert!(!Note { meant: Some((one, millis() - 1)), ..note }.is_meant_for_another(other));
        let set_back = millis() + 3_600_000;
        assert!(!Note { meant: Some((one, set_back)), ..note }.is_meant_for_another(other), "no longer than ever");
    }
}
