//! What this instance wants and what it leads.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use uuid::Uuid;

use super::Want;
use super::guard::Name;
use crate::Claim;
use crate::lock::lock;

/// How long something is led before it may be moved on: what moves must not move back and forth.
const SETTLED: Duration = Duration::from_secs(1);
/// How long an instance that did not collect what was released for it is left alone: it may only be late.
const IDLE: Duration = Duration::from_secs(5);
/// How long a leader that was asked and did not release is left alone.
const BUSY: Duration = Duration::from_secs(10);
/// How long an instance that released stands back, so that the intended one gets it.
const STAND_BACK: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Roll {
    state: Mutex<RollState>,
    /// Something is wanted, led or released.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct RollState {
    wanted: HashMap<Name, Wanting>,
    led: HashMap<Name, Led>,
    stands_back: HashMap<Name, Instant>,
    /// What was released for which session and when, until that is seen to lead it.
    released: HashMap<Name, (Uuid, Instant)>,
    /// Sessions that did not collect what was released for them, and until when nothing is.
    idle: HashMap<Uuid, Instant>,
}

#[derive(Debug)]
struct Wanting {
    callers: usize,
    prefers: Option<String>,
}

#[derive(Debug)]
struct Led {
    since: Instant,
    /// It would refuse to release.
    stays: bool,
    /// It was asked and has not released: it is busy with one event, or nothing listens. Not asked again until then.
    busy_until: Option<Instant>,
    asked: watch::Sender<Option<Uuid>>,
}

impl Roll {
    /// No panic can happen between two changes that belong together, so a poisoned lock guards a sound state.
    fn state(&self) -> MutexGuard<'_, RollState> {
        lock(&self.state)
    }

    /// Until it is dropped, a subscriber is wanted.
    pub(super) fn want(self: &Arc<Self>, claim: &Claim) -> Wanted {
        let prefers = claim.prefers.clone();
        let mut state = self.state();
        let wanting = state.wanted.entry(claim.subscriber_id.clone()).or_insert(Wanting { callers: 0, prefers });
        wanting.callers += 1;
        drop(state);
        self.changed.notify_one();
        Wanted { roll: self.clone(), name: claim.subscriber_id.clone() }
    }

    /// Everything that is wanted, and with it what is led.
    pub(super) fn wants(&self) -> Vec<Want> {
        let state = self.state();
        let want = |(name, wanting): (&Name, &Wanting)| Want {
            subscriber_id: name.to_string(),
            prefers: wanting.prefers.clone(),
        };
        let mut wants: Vec<Want> = state.wanted.iter().map(want).collect();
        wants.sort();
        wants
    }

    /// What is wanted and not led here.
    pub(super) fn awaited(&self) -> Vec<Name> {
        let state = self.state();
        state.wanted.keys().filter(|name| !state.led.contains_key(*name)).cloned().collect()
    }

    /// Until when to stand back for another instance.
    pub(super) fn stands_back(&self, name: &str) -> Option<Instant> {
        let mut state = self.state();
        state.stands_back.retain(|_, until| *until > Instant::now());
        state.stands_back.get(name).copied()
    }

    /// What is led here and would not be released.
    pub(super) fn stays(&self) -> HashSet<Name> {
        let now = Instant::now();
        let stays = |led: &Led| led.stays || led.busy_until.is_some_and(|until| until > now);
        self.state().led.iter().filter(|(_, led)| stays(led)).map(|(name, _)| name.clone()).collect()
    }

    /// A session was seen to lead these.
    pub(super) fn seen_leading(&self, session: Uuid, leads: &[String]) {
        let collected = |name: &Name, to: Uuid| to == session && leads.iter().any(|led| **led == **name);
        self.state().released.retain(|name, (to, _)| !collected(name, *to));
    }

    /// Whether a session collects what is released for it, as far as is known.
    pub(super) fn collects(&self, session: Uuid) -> bool {
        let mut state = self.state();
        state.idle.retain(|_, until| *until > Instant::now());
        !state.idle.contains_key(&session)
    }

    /// Requests that a subscriber is released, if it is led here and has been for a while. Returns whether it was asked.
    pub(super) fn ask(&self, name: &str, to: Uuid) -> bool {
        let state = self.state();
        let Some(led) = state.led.get(name).filter(|led| led.since.elapsed() >= SETTLED) else { return false };
        led.asked.send_if_modified(|asked| asked.replace(to).is_none())
    }

    /// Withdraws requests that were not carried out. Others are requested in their place, for a while.
    pub(super) fn take_back_asked(&self) {
        for led in self.state().led.values_mut() {
            if led.asked.send_if_modified(|asked| asked.take().is_some()) {
                led.busy_until = Some(Instant::now() + BUSY);
            }
        }
    }
}

/// A subscriber is wanted for as long as this is there.
#[derive(Debug)]
pub(super) struct Wanted {
    roll: Arc<Roll>,
    name: Name,
}

impl Wanted {
    /// From now on it is led.
    pub(super) fn led(self) -> Entry {
        let asked = watch::Sender::new(None);
        let heard = asked.subscribe();
        let mut state = self.roll.state();
        let now = Instant::now();
        if let Some((to, _)) = state.released.remove(&self.name).filter(|(_, at)| *at + 2 * STAND_BACK > now) {
            // So soon again, and that one was not seen to lead it.
            state.idle.insert(to, now + IDLE);
        }
        state.led.insert(self.name.clone(), Led { since: now, stays: false, busy_until: None, asked });
        drop(state);
        self.roll.changed.notify_one();
        Entry { wanted: self, heard }
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        let mut state = self.roll.state();
        if let Some(wanting) = state.wanted.get_mut(&self.name) {
            wanting.callers -= 1;
            if wanting.callers == 0 {
                state.wanted.remove(&self.name);
            }
        }
        drop(state);
        self.roll.changed.notify_one();
    }
}

/// A subscriber is led for as long as this is there.
#[derive(Debug)]
pub(super) struct Entry {
    wanted: Wanted,
    heard: watch::Receiver<Option<Uuid>>,
}

impl Entry {
    /// The session that it is to be released for, if any.
    pub(super) fn yields_to(&self) -> Option<Uuid> {
        *self.heard.borrow()
    }

    /// Announces whether it would not be released at the moment. The next look is early enough: with events that fail it
    /// changes all the time.
    pub(super) fn stays(&self, stays: bool) {
        if let Some(led) = self.wanted.roll.state().led.get_mut(&self.wanted.name).filter(|led| self.is(led)) {
            led.stays = stays;
        }
    }

    /// Whether this is what is led: what was lost may still be around when the same name is led again.
    fn is(&self, led: &Led) -> bool {
        led.asked.subscribe().same_channel(&self.heard)
    }

    pub(super) fn asked(&self) -> watch::Receiver<Option<Uuid>> {
        self.heard.clone()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let yielded = self.yields_to();
        let mut state = self.wanted.roll.state();
        if state.led.get(&self.wanted.name).is_some_and(|led| self.is(led)) {
            state.led.remove(&self.wanted.name);
        }
        if let Some(to) = yielded {
            let now = Instant::now();
            state.stands_back.insert(self.wanted.name.clone(), now + STAND_BACK);
            state.released.insert(self.wanted.name.clone(), (to, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_just_got_is_kept_and_what_was_released_is_left_alone() {
        let (roll, to) = (Arc::new(Roll::default()), Uuid::now_v7());
        let entry = roll.want(&Claim::of("a")).led();
        assert!(!roll.ask("a", to), "it was just got");
        tokio::time::advance(SETTLED).await;
        assert!(roll.ask("a", to) && entry.yields_to() == Some(to));
        assert!(!roll.ask("a", to), "once is enough");
        assert!(roll.stands_back("a").is_none());
        drop(entry);
        assert!(roll.stands_back("a").is_some(), "it is left to the one it was released for");
        tokio::time::advance(STAND_BACK).await;
        assert!(roll.stands_back("a").is_none(), "for a while");
        drop(roll.want(&Claim::of("b")).led());
        assert!(roll.stands_back("b").is_none(), "what was released for nobody is free for all");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_more_is_released_for_an_instance_that_does_not_collect_it_for_a_while() {
        let (roll, to) = (Arc::new(Roll::default()), Uuid::now_v7());
        let yielded = async || {
            let entry = roll.want(&Claim::of("a")).led();
            tokio::time::advance(SETTLED).await;
            assert!(roll.ask("a", to) && entry.yields_to() == Some(to));
        };
        yielded().await;
        assert!(roll.collects(to), "it has a while to do so");
        tokio::time::advance(STAND_BACK).await;
        yielded().await;
        assert!(!roll.collects(to), "it came back at once");
        tokio::time::advance(IDLE).await;
        assert!(roll.collects(to), "it may be well again");
        yielded().await;
        assert!(roll.collects(to), "that was long ago");
        roll.seen_leading(to, &["a".to_owned()]);
        yielded().await;
        assert!(roll.collects(to), "it had it meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_for_in_vain_is_not_asked_for_again_at_once() {
        let (roll, to) = (Arc::new(Roll::default()), Uuid::now_v7());
        let entry = roll.want(&Claim::of("a")).led();
        tokio::time::advance(SETTLED).await;
        assert!(roll.ask("a", to) && roll.stays().is_empty());
        roll.take_back_asked();
        assert_eq!((entry.yields_to(), roll.stays().len()), (None, 1));
        tokio::time::advance(BUSY).await;
        assert!(roll.stays().is_empty() && roll.ask("a", to));
    }
}
