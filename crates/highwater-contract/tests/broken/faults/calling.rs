//! Faults by which callers get in each other's way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::backend::{BoxFuture, Log};
use highwater::{Append, Appended, Error, ExpectedVersion, MemoryEventStore};
use uuid::Uuid;

use crate::faulty::{Fault, Sound};

/// Stores the appends of a group one after the other, and after the first that fails no other.
#[derive(Default)]
pub(crate) struct FailsAsAGroup(Mutex<Option<Arc<AtomicBool>>>);

impl Fault for FailsAsAGroup {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let group = Arc::clone(self.0.lock().expect("nobody panics with it").get_or_insert_default());
            tokio::task::yield_now().await;
            // The first to continue closes the group.
            self.0.lock().expect("nobody panics with it").take_if(|open| Arc::ptr_eq(open, &group));
            if group.load(Ordering::SeqCst) {
                return Err(Error::Unavailable { action: "store the group", source: "one of it failed".into() });
            }
            let answer = sound.memory.append(append).await;
            group.fetch_or(answer.is_err(), Ordering::SeqCst);
            answer
        })
    }
}

/// Checks everything first, and then stores event by event: a caller that gives up leaves a part.
pub(crate) struct StoresOnTheWay;

impl Fault for StoresOnTheWay {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let records = sound.records(append)?;
            let known: Vec<Uuid> = sound.everything().await?.into_iter().map(|record| record.id).collect();
            if append.event_ids().any(|id| known.contains(&id)) || sound.check_expectations(append).await.is_err() {
                return sound.memory.append(append).await;
            }
            let mut positions = Vec::new();
            for record in records {
                positions.extend(sound.memory.append(&Append::to(record.stream_id).record(record)).await?.positions);
                tokio::task::yield_now().await;
            }
            Ok(Appended::new(positions, false).expect("it has events"))
        })
    }
}

/// Takes a lock that nobody gives back when the call is given up.
#[derive(Default)]
pub(crate) struct StaysLockedWhenGivenUp(AtomicBool);

impl Fault for StaysLockedWhenGivenUp {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            while self.0.swap(true, Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            tokio::task::yield_now().await;
            let answer = sound.memory.append(append).await;
            self.0.store(false, Ordering::SeqCst);
            answer
        })
    }
}

/// Stores what was given up a second time, under new ids.
pub(crate) struct StoresTwiceWhenGivenUp;

/// Notices that a call was given up.
struct GivenUp {
    copy: Append,
    memory: MemoryEventStore,
    answered: bool,
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if !self.answered {
            let (copy, memory) = (self.copy.clone(), self.memory.clone());
            tokio::spawn(async move { memory.append(&copy).await });
        }
    }
}

impl Fault for StoresTwiceWhenGivenUp {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let copy = sound.changed(
                append,
                |_| ExpectedVersion::Any,
                |records| {
                    records.iter_mut().for_each(|record| record.id = Uuid::now_v7());
                },
            )?;
            let mut given_up = GivenUp { copy, memory: sound.memory.clone(), answered: false };
            tokio::task::yield_now().await;
            let answer = sound.memory.append(append).await;
            given_up.answered = true;
            answer
        })
    }
}
