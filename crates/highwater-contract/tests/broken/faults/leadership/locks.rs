//! Locks that do not do what they should while they are held, or when they are released.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::backend::{BoxFuture, Candidate, HeldLock, Instance, Leadership, LeadershipSettings};
use tokio::sync::watch;
use uuid::Uuid;

use super::{Lock, Quirk, Quirky, Tried, Waited};
use crate::faulty::{Fault, Sound};

/// What is wrong with a lock. Each method does the right thing unless an oddity has it do something else.
pub(crate) trait Oddity: Send + Sync + 'static {
    /// What becomes of a lock that an instance gets.
    fn got(&self, lock: Lock) -> Lock {
        lock
    }

    fn is_held(&self, lock: &dyn HeldLock) -> bool {
        lock.is_held()
    }

    fn lost(&self, lock: &dyn HeldLock) -> watch::Receiver<bool> {
        lock.lost()
    }

    fn release(&self, lock: Lock, to: Option<Uuid>) -> BoxFuture<'static, ()> {
        lock.release(to)
    }

    fn dropped(&self, lock: Lock) {
        drop(lock);
    }
}

pub(super) struct Odd {
    pub(super) lock: Option<Lock>,
    pub(super) oddity: Arc<dyn Oddity>,
}

impl HeldLock for Odd {
    fn session(&self) -> Option<Uuid> {
        self.lock.as_ref().and_then(|lock| lock.session())
    }

    fn is_held(&self) -> bool {
        self.lock.as_ref().is_some_and(|lock| self.oddity.is_held(&**lock))
    }

    fn lost(&self) -> watch::Receiver<bool> {
        let lock = self.lock.as_ref().expect("it is there until the end");
        self.oddity.lost(&**lock)
    }

    fn release(mut self: Box<Self>, to: Option<Uuid>) -> BoxFuture<'static, ()> {
        let lock = self.lock.take().expect("it is there until the end");
        self.oddity.release(lock, to)
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.take() {
            self.oddity.dropped(lock);
        }
    }
}

/// A backend whose locks all have an oddity.
pub(crate) struct Holds(Arc<dyn Oddity>);

impl Holds {
    pub(crate) fn new(oddity: impl Oddity) -> Self {
        Self(Arc::new(oddity))
    }
}

impl Fault for Holds {
    fn candidate(&self, sound: &Sound, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate> {
        let quirk = Holds(Arc::clone(&self.0));
        Box::new(Quirky { sound: sound.memory.candidate(instance, settings).into(), quirk })
    }
}

impl Quirk for Holds {
    fn try_hold<'a>(&'a self, sound: &'a Arc<dyn Candidate>, id: &'a str) -> Tried<'a> {
        Box::pin(async move { Ok(sound.try_hold(id).await?.map(|lock| self.odd(lock))) })
    }

    fn hold<'a>(&'a self, sound: &'a Arc<dyn Candidate>, id: &'a str) -> Waited<'a> {
        Box::pin(async move { Ok(self.odd(sound.hold(id).await?)) })
    }
}

impl Holds {
    fn odd(&self, lock: Lock) -> Lock {
        Box::new(Odd { lock: Some(self.0.got(lock)), oddity: Arc::clone(&self.0) })
    }
}

/// Waits for a word that does not come when the leader panics.
pub(crate) struct KeepsWhatIsDropped;

impl Oddity for KeepsWhatIsDropped {
    fn dropped(&self, lock: Lock) {
        std::mem::forget(lock);
    }
}

/// Says that it has given it back.
pub(crate) struct KeepsWhatIsReleased;

impl Oddity for KeepsWhatIsReleased {
    fn release(&self, lock: Lock, _: Option<Uuid>) -> BoxFuture<'static, ()> {
        std::mem::forget(lock);
        Box::pin(async {})
    }
}

/// Says so before it has.
pub(crate) struct ReleasesLater;

impl Oddity for ReleasesLater {
    fn release(&self, lock: Lock, to: Option<Uuid>) -> BoxFuture<'static, ()> {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            lock.release(to).await;
        });
        Box::pin(async {})
    }
}

/// Leaves it to the leader to ask.
#[derive(Default)]
pub(crate) struct NeverSaysThatItIsLost(watch::Sender<bool>);

impl Oddity for NeverSaysThatItIsLost {
    fn lost(&self, _: &dyn HeldLock) -> watch::Receiver<bool> {
        self.0.subscribe()
    }
}

/// Remembers that it got it.
pub(crate) struct SaysThatItIsHeldForEver;

impl Oddity for SaysThatItIsHeldForEver {
    fn is_held(&self, _: &dyn HeldLock) -> bool {
        true
    }
}

/// Holds leases that nobody renews.
pub(crate) struct LeadsForAWhile;

impl Oddity for LeadsForAWhile {
    fn got(&self, lock: Lock) -> Lock {
        let expiring = Expiring { lock: Arc::new(Mutex::new(Some(lock))), over: Arc::default() };
        let (lock, over) = (Arc::clone(&expiring.lock), Arc::clone(&expiring.over));
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            over.send_replace(true);
            drop(lock.lock().expect("nobody panics with it").take());
        });
        Box::new(expiring)
    }
}

struct Expiring {
    lock: Arc<Mutex<Option<Lock>>>,
    over: Arc<watch::Sender<bool>>,
}

impl Expiring {
    fn take_lock(&self) -> Option<Lock> {
        self.lock.lock().expect("nobody panics with it").take()
    }
}

impl HeldLock for Expiring {
    fn session(&self) -> Option<Uuid> {
        self.lock.lock().expect("nobody panics with it").as_ref().and_then(|lock| lock.session())
    }

    fn is_held(&self) -> bool {
        self.lock.lock().expect("nobody panics with it").as_ref().is_some_and(|lock| lock.is_held())
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }

    fn release(self: Box<Self>, to: Option<Uuid>) -> BoxFuture<'static, ()> {
        match self.take_lock() {
            Some(lock) => lock.release(to),
            None => Box::pin(async {}),
        }
    }
}

impl Drop for Expiring {
    fn drop(&mut self) {
        drop(self.take_lock());
    }
}
