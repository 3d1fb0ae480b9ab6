//! Which holders give no more signs; pure.
//!
//! Time is counted in the looks of this instance, which are an interval apart at least. So an instance that was frozen itself
//! has not waited meanwhile, no clock is compared with another, and no holder is taken for silent before its bound is over.

use std::collections::HashMap;
use std::time::Duration;

use uuid::Uuid;

use super::files::LockHolderNote;
use super::notes::Sign;
use crate::opened::Identity;

/// What is watched: a session, or a file whose holder has not identified itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Watched {
    Session(Uuid),
    File(Identity),
}

#[derive(Debug)]
struct Observed {
    beat: Option<u64>,
    /// After how many looks without a change it counts as silent.
    patience: u64,
    /// The look at which it was first seen as it is.
    since: u64,
    /// The look at which it was last asked about or seen.
    last: u64,
}

#[derive(Debug)]
pub(super) struct Silence {
    interval: Duration,
    bound: Duration,
    looks: u64,
    observed: HashMap<Watched, Observed>,
}

impl Silence {
    pub(super) fn new(interval: Duration, bound: Duration) -> Self {
        Self { interval, bound, looks: 0, observed: HashMap::new() }
    }

    /// Looks at the signs of all instances. Not more often than once in an interval.
    pub(super) fn observe(&mut self, signs: impl IntoIterator<Item = (Uuid, Option<Sign>)>) {
        self.looks += 1;
        let looks = self.looks;
        for (session, sign) in signs {
            let (beat, patience) = (sign.map(|sign| sign.beat), self.patience(sign));
            let fresh = || Observed { beat, patience, since: looks, last: looks };
            let observed = self.observed.entry(Watched::Session(session)).or_insert_with(fresh);
            if observed.beat != beat || observed.patience != patience {
                *observed = fresh();
            }
            observed.last = looks;
        }
        // What is no longer asked about and what is no longer there.
        self.observed.retain(|_, observed| looks - observed.last <= observed.patience * 2);
    }

    /// The holder's own bound counts if that is longer: it believes that it leads until then.
    fn patience(&self, sign: Option<Sign>) -> u64 {
        let bound = self.bound.max(sign.map_or(Duration::ZERO, |sign| sign.bound));
        let looks = bound.as_nanos().div_ceil(self.interval.as_nanos().max(1));
        u64::try_from(looks).unwrap_or(u64::MAX)
    }

    /// Whether a holder has given no sign for as long as its bound. One of which nothing is known is watched from now on.
    pub(super) fn is_silent(&mut self, holder: LockHolderNote) -> bool {
        let watched = holder.session.map_or(Watched::File(holder.file), Watched::Session);
        let (looks, patience) = (self.looks, self.patience(None));
        // The next look may come at once.
        let fresh = || Observed { beat: None, patience, since: looks + 1, last: looks };
        let observed = self.observed.entry(watched).or_insert_with(fresh);
        observed.last = observed.last.max(looks);
        looks.saturating_sub(observed.since) >= observed.patience
    }

    /// The same of an instance that is known by its session.
    pub(super) fn is_silent_session(&self, session: Uuid) -> bool {
        let observed = self.observed.get(&Watched::Session(session));
        observed.is_some_and(|observed| self.looks.saturating_sub(observed.since) >= observed.patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);
    const BOUND: Duration = Duration::from_secs(1);

    fn sign(session: Uuid, beat: u64) -> (Uuid, Option<Sign>) {
        (session, Some(Sign { session, beat, bound: BOUND, pid: 1 }))
    }

    fn holder(session: Uuid) -> LockHolderNote {
        LockHolderNote { session: Some(session), file: (1, 1) }
    }

    #[test]
    fn who_gives_no_sign_for_as_long_as_the_bound_is_silent_and_not_before() {
        let (mut silence, one) = (Silence::new(INTERVAL, BOUND), Uuid::now_v7());
        silence.observe([sign(one, 7)]);
        for _ in 0..9 {
            silence.observe([sign(one, 7)]);
            assert!(!silence.is_silent(holder(one)));
        }
        silence.observe([sign(one, 7)]);
        assert!(silence.is_silent(holder(one)) && silence.is_silent_session(one));
        silence.observe([sign(one, 8)]);
        assert!(!silence.is_silent(holder(one)) && !silence.is_silent_session(one), "it is back");
    }

    #[test]
    fn who_gives_signs_is_never_silent() {
        let (mut silence, one) = (Silence::new(INTERVAL, BOUND), Uuid::now_v7());
        for beat in 0..100 {
            silence.observe([sign(one, beat / 9)]);
            assert!(!silence.is_silent(holder(one)));
        }
    }

    #[test]
    fn a_holder_with_a_longer_bound_is_given_that() {
        let (mut silence, one) = (Silence::new(INTERVAL, BOUND), Uuid::now_v7());
        let patient = (one, Some(Sign { session: one, beat: 7, bound: BOUND * 3, pid: 1 }));
        silence.observe([patient]);
        for _ in 0..29 {
            silence.observe([patient]);
            assert!(!silence.is_silent(holder(one)));
        }
        silence.observe([patient]);
        assert!(silence.is_silent(holder(one)));
    }

    #[test]
    fn who_cannot_be_seen_at_all_is_silent_after_the_bound() {
        let mut silence = Silence::new(INTERVAL, BOUND);
        let (unknown, nameless) = (holder(Uuid::now_v7()), LockHolderNote { session: None, file: (1, 2) });
        for holder in [unknown, nameless] {
            assert!(!silence.is_silent(holder), "it is watched from now on");
            for _ in 0..10 {
                silence.observe([]);
                assert!(!silence.is_silent(holder));
            }
            silence.observe([]);
            assert!(silence.is_silent(holder));
        }
        assert!(!silence.is_silent(LockHolderNote { session: None, file: (1, 3) }), "another file, another holder");
    }

    #[test]
    fn what_is_not_there_any_more_is_forgotten() {
        let mut silence = Silence::new(INTERVAL, BOUND);
        for _ in 0..100 {
            silence.observe([sign(Uuid::now_v7(), 1)]);
        }
        assert!(silence.observed.len() <= 21, "{}", silence.observed.len());
    }
}
