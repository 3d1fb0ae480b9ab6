//! Leadership in memory: a table of locks, shared by the buses of one process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use uuid::Uuid;

use super::MemoryEventStore;
use crate::lock::lock;
use crate::{
    BoxFuture, Candidate, Claim, Error, HeldLock, Instance, Leader, LeaderHold, Leadership, LeadershipSettings,
    LockHolder, Member, View, Want,
};

/// How long a lock that was released for an instance is kept for it.
const RESERVED: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct MemoryLocks {
    state: Mutex<LocksState>,
    /// A lock is free again.
    freed: Notify,
}

#[derive(Debug, Default)]
struct LocksState {
    /// By the lock's name: the session that holds it, and the number of its hold.
    locks: HashMap<String, (Uuid, u64)>,
    holds: u64,
    reserved: HashMap<String, (Uuid, Instant)>,
    members: BTreeMap<Uuid, (Instance, Vec<Want>)>,
    leaders: BTreeMap<String, (Instance, DateTime<Utc>, Option<Uuid>)>,
}

impl MemoryLocks {
    /// No panic can happen between two changes that belong together, so a poisoned lock guards a sound state.
    fn state(&self) -> MutexGuard<'_, LocksState> {
        lock(&self.state)
    }

    pub(super) fn took_over(&self, claim: &Claim) {
        let leader = (claim.instance.clone(), Utc::now(), claim.session);
        self.state().leaders.insert(claim.subscriber_id.to_string(), leader);
    }

    /// The subscriber is gone, and so is its leader.
    pub(super) fn forget(&self, subscriber_id: &str) {
        self.state().leaders.remove(subscriber_id);
    }

    /// Acquires the lock if it is free. Each hold has another number.
    fn acquire(&self, name: &str, session: Uuid) -> Option<u64> {
        let mut state = self.state();
        let kept = |(meant, until): &(Uuid, Instant)| *meant != session && *until > Instant::now();
        if state.locks.contains_key(name) || state.reserved.get(name).is_some_and(kept) {
            return None;
        }
        state.reserved.remove(name);
        state.holds += 1;
        let hold_number = state.holds;
        state.locks.insert(name.to_owned(), (session, hold_number));
        Some(hold_number)
    }

    fn give_back(&self, name: &str, hold_number: u64, to: Option<Uuid>) {
        let mut state = self.state();
        if state.locks.get(name).is_some_and(|(_, current)| *current == hold_number) {
            state.locks.remove(name);
            if let Some(to) = to {
                state.reserved.insert(name.to_owned(), (to, Instant::now() + RESERVED));
            }
            drop(state);
            self.freed.notify_waiters();
        }
    }

    fn leave(&self, session: Uuid) {
        let mut state = self.state();
        state.members.remove(&session);
        state.locks.retain(|_, (holder, _)| *holder != session);
        drop(state);
        self.freed.notify_waiters();
    }
}

impl Leadership for MemoryEventStore {
    fn candidate(&self, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate> {
        Box::new(MemoryCandidate {
            locks: self.leadership.clone(),
            instance: instance.clone(),
            session: Uuid::now_v7(),
            standby_interval: settings.standby_interval,
            gone: watch::Sender::new(false),
        })
    }

    fn leaders(&self) -> BoxFuture<'_, Result<Vec<Leader>, Error>> {
        Box::pin(async {
            // Terms are the checkpoints': a reset raises them without a change of leader.
            let terms: HashMap<String, u64> = {
                let state = self.delivery.state();
                state.checkpoints.iter().map(|(id, row)| (id.clone(), row.term.number)).collect()
            };
            let state = self.leadership.state();
            let leaders = state.leaders.iter().filter_map(|(id, (instance, since, session))| {
                let hold = match session {
                    // Another instance may have the lock by now, and not the term yet.
                    Some(session) if state.locks.get(id).is_some_and(|(holder, _)| holder == session) => {
                        LeaderHold::Held
                    }
                    Some(_) => LeaderHold::Gone,
                    None => LeaderHold::Unknown,
                };
                let (subscriber_id, instance) = (id.clone(), instance.clone());
                Some(Leader { subscriber_id, instance, since: *since, term: *terms.get(id)?, hold })
            });
            Ok(leaders.collect())
        })
    }

    fn lock_holders<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<LockHolder>, Error>> {
        Box::pin(async {
            let state = self.leadership.state();
            let held: BTreeSet<&String> = subscriber_ids.iter().filter(|id| state.locks.contains_key(*id)).collect();
            let pid = Some(std::process::id());
            Ok(held.into_iter().map(|id| LockHolder { pid, ..LockHolder::of(id) }).collect())
        })
    }
}

struct MemoryCandidate {
    locks: Arc<MemoryLocks>,
    instance: Instance,
    session: Uuid,
    standby_interval: Duration,
    gone: watch::Sender<bool>,
}

impl MemoryCandidate {
    fn acquire(&self, subscriber_id: &str) -> Option<Box<dyn HeldLock>> {
        let hold_number = self.locks.acquire(subscriber_id, self.session)?;
        let (locks, gone) = (self.locks.clone(), self.gone.subscribe());
        Some(Box::new(MemoryHeldLock {
            locks,
            name: subscriber_id.to_owned(),
            session: self.session,
            hold_number,
            gone,
        }))
    }

    fn check(&self) -> Result<(), Error> {
        if *self.gone.borrow() { Err(Error::ShutDown) } else { Ok(()) }
    }
}

impl Candidate for MemoryCandidate {
    fn ready(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(std::future::ready(self.check()))
    }

    fn try_hold<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> {
        Box::pin(async move {
            self.check()?;
            Ok(self.acquire(subscriber_id))
        })
    }

    fn hold<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Box<dyn HeldLock>, Error>> {
        Box::pin(async move {
            loop {
                self.check()?;
                // Listened before looked: what is freed in between wakes us as well.
                let freed = self.locks.freed.notified();
                if let Some(held) = self.acquire(subscriber_id) {
                    return Ok(held);
                }
                tokio::select! {
                    () = freed => {}
                    () = tokio::time::sleep(self.standby_interval) => {}
                }
            }
        })
    }

    fn view<'a>(&'a self, wants: &'a [Want]) -> BoxFuture<'a, Result<View, Error>> {
        Box::pin(async move {
            self.check()?;
            let mut state = self.locks.state();
            state.members.insert(self.session, (self.instance.clone(), wants.to_vec()));
            let leads = |session: &Uuid| {
                let held = state.locks.iter().filter(|(_, (holder, _))| holder == session);
                held.map(|(name, _)| name.clone()).collect()
            };
            let member = |(session, (instance, wants)): (&Uuid, &(Instance, Vec<Want>))| Member {
                session: *session,
                instance: instance.clone(),
                wants: wants.clone(),
                leads: leads(session),
            };
            Ok(View { own: Some(self.session), members: state.members.iter().map(member).collect() })
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.locks.leave(self.session);
        self.gone.send_replace(true);
        Box::pin(std::future::ready(()))
    }
}

impl Drop for MemoryCandidate {
    fn drop(&mut self) {
        self.locks.leave(self.session);
    }
}

struct MemoryHeldLock {
    locks: Arc<MemoryLocks>,
    name: String,
    session: Uuid,
    hold_number: u64,
    gone: watch::Receiver<bool>,
}

impl HeldLock for MemoryHeldLock {
    fn session(&self) -> Option<Uuid> {
        Some(self.session)
    }

    fn is_held(&self) -> bool {
        self.locks.state().locks.get(&self.name).is_some_and(|(_, current)| *current == self.hold_number)
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.gone.clone()
    }

    fn release(self: Box<Self>, to: Option<Uuid>) -> BoxFuture<'static, ()> {
        self.locks.give_back(&self.name, self.hold_number, to);
        Box::pin(std::future::ready(()))
    }
}

impl Drop for MemoryHeldLock {
    fn drop(&mut self) {
        self.locks.give_back(&self.name, self.hold_number, None);
    }
}
