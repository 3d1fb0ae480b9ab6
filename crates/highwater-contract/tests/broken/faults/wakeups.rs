//! Faults of waking up.

use highwater::backend::{BoxFuture, Log, Wakeup, Wakeups};
use highwater::{Append, Appended, Error};
use highwater_contract::{Harness, MemoryHarness, OpenAppend};
use tokio::sync::watch;
use uuid::Uuid;

use crate::faulty::{Fault, Sound};

/// Gives hints of its own making.
pub(crate) struct Hints {
    hints: watch::Sender<u64>,
    /// What becomes of the number that is known when another is announced.
    announce: fn(&mut u64, u64),
}

impl Hints {
    pub(crate) fn new(announce: fn(&mut u64, u64)) -> Self {
        Self { hints: watch::Sender::new(0), announce }
    }
}

impl Fault for Hints {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let done = sound.memory.append(append).await?;
            self.announce(sound, done.global_sequence);
            Ok(done)
        })
    }

    fn announce(&self, _: &Sound, global_sequence: u64) {
        self.hints.send_modify(|known| (self.announce)(known, global_sequence));
    }

    fn wakeups(&self, _: &Sound) -> Wakeup {
        Wakeup::new(&self.hints)
    }
}

/// Wakes nobody.
#[derive(Default)]
pub(crate) struct NeverWakes(watch::Sender<u64>);

impl Fault for NeverWakes {
    fn wakeups(&self, _: &Sound) -> Wakeup {
        Wakeup::new(&self.0)
    }
}

/// Announces an append and then stores it.
pub(crate) struct WakesBeforeTheCommit;

impl Fault for WakesBeforeTheCommit {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let events = sound.records(append)?.len() as u64;
            let ids: Vec<Uuid> = append.event_ids().collect();
            let is_new = !sound.everything().await?.iter().any(|record| ids.contains(&record.id));
            if is_new && sound.check_expectations(append).await.is_ok() {
                sound.memory.announce(sound.memory.head().await? + events);
                tokio::task::yield_now().await;
            }
            sound.memory.append(append).await
        })
    }
}

/// Wakes all readers for an append that was refused.
pub(crate) struct WakesForWhatIsRefused;

impl Fault for WakesForWhatIsRefused {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let answer = sound.memory.append(append).await;
            sound.memory.announce(sound.memory.head().await?);
            answer
        })
    }
}

/// Announces a transaction when it begins.
pub(crate) struct WakesForWhatIsOpen;

impl Fault for WakesForWhatIsOpen {
    fn begin<'a>(&'a self, sound: &'a Sound, append: Append) -> BoxFuture<'a, Result<Box<dyn OpenAppend>, Error>> {
        Box::pin(async move {
            sound.memory.announce(sound.memory.head().await? + 1);
            MemoryHarness.begin(&sound.memory, append).await
        })
    }
}
