//! Filling a store in memory.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use chrono::Utc;
use uuid::Uuid;

use super::MemoryEventStore;
use super::delivery::Row;
use crate::lock::lock;
use crate::transfer::{Batch, TransferError, check_records};
use crate::{
    BoxFuture, DeadLetterDetail, Error, FilledCheckpoint, Filling, Invalid, Record, Request, Transfer, Unfinished,
    Wakeups,
};

/// Whether the store is being filled. Checked under the lock of what is to be written, and changed under both.
#[derive(Debug, Default)]
pub(super) struct MemoryFillings(Mutex<FillingState>);

#[derive(Debug, Default)]
struct FillingState {
    unfinished: Option<Unfinished>,
    /// A filling is under way.
    taken: bool,
}

impl MemoryFillings {
    /// No panic can happen between two changes that belong together, so a poisoned lock guards a sound state.
    fn state(&self) -> MutexGuard<'_, FillingState> {
        lock(&self.0)
    }

    /// Whether others may write.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.state().unfinished.clone().map_or(Ok(()), |unfinished| Err(unfinished.into_error()))
    }
}

impl MemoryEventStore {
    /// What the store holds, in words; `None` when it is empty.
    fn found(&self) -> Option<String> {
        let (state, events) = (self.delivery.state(), self.log.state().records.len());
        let (checkpoints, dead_letters, requests) =
            (state.checkpoints.len(), state.dead_letters.len(), state.requests.len());
        (events + checkpoints + dead_letters + requests > 0).then(|| {
            format!("{events} events, {checkpoints} checkpoints, {dead_letters} dead letters and {requests} requests")
        })
    }

    /// Takes out everything that delivery has.
    fn clear_delivery(&self) {
        let mut state = self.delivery.state();
        state.checkpoints.clear();
        state.paused.clear();
        state.dead_letters.clear();
        state.attempts.clear();
        state.requests.clear();
    }

    fn drop_filling(&self) {
        self.clear_delivery();
        self.log.state().clear();
        *self.filling.state() = FillingState::default();
    }
}

impl Transfer for MemoryEventStore {
    fn fill<'a>(&'a self, source: &'a str) -> BoxFuture<'a, Result<Box<dyn Filling>, Error>> {
        Box::pin(async move {
            let mut state = self.filling.state();
            match &state.unfinished {
                Some(unfinished) if state.taken || unfinished.source != source => {
                    return Err(unfinished.clone().into_error());
                }
                Some(_) => {}
                None => {
                    let unfinished = Unfinished { source: source.to_owned(), since: Utc::now(), filled_to: 0 };
                    state.unfinished = Some(unfinished);
                    drop(state);
                    // Writers that were active when the store was locked have ended by now, and are visible.
                    let found = self.found();
                    state = self.filling.state();
                    if let Some(found) = found {
                        *state = FillingState::default();
                        return Err(Error::Transfer(TransferError::NotEmpty { found }));
                    }
                }
            }
            state.taken = true;
            drop(state);
            self.clear_delivery();
            Ok(Box::new(MemoryFilling { store: self.clone(), over: false }) as Box<dyn Filling>)
        })
    }

    fn filling(&self) -> BoxFuture<'_, Result<Option<Unfinished>, Error>> {
        Box::pin(async { Ok(self.filling.state().unfinished.clone()) })
    }

    fn abandon(&self) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async {
            let mut state = self.filling.state();
            let Some(unfinished) = state.unfinished.clone() else { return Ok(false) };
            if state.taken {
                return Err(unfinished.into_error());
            }
            state.taken = true;
            drop(state);
            self.drop_filling();
            Ok(true)
        })
    }

    fn count_events(&self, up_to: u64) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move { Ok(self.log.state().count(up_to) as u64) })
    }
}

struct MemoryFilling {
    store: MemoryEventStore,
    /// It was finished or abandoned.
    over: bool,
}

impl MemoryFilling {
    fn twice(what: &str, which: impl std::fmt::Display) -> Error {
        Invalid::Filling(format!("{what} {which} is there already")).into()
    }

    fn put_records(&self, records: &[Record]) -> Result<(), Error> {
        let mut log = self.store.log.state();
        check_records(records, log.head(), |stream_id| log.version(stream_id))?;
        if let Some(known) = records.iter().find(|record| log.contains(record.id)) {
            return Err(Self::twice("event", known.id));
        }
        records.iter().for_each(|record| log.put(record.clone()));
        let head = log.head();
        drop(log);
        self.store.filling.state().unfinished.iter_mut().for_each(|unfinished| unfinished.filled_to = head);
        Ok(())
    }

    fn put_checkpoints(&self, checkpoints: &[FilledCheckpoint]) -> Result<(), Error> {
        let mut state = self.store.delivery.state();
        let mut known: HashSet<&str> = state.checkpoints.keys().map(String::as_str).collect();
        if let Some(twice) = checkpoints.iter().find(|checkpoint| !known.insert(&checkpoint.subscriber_id)) {
            return Err(Self::twice("the checkpoint of", &twice.subscriber_id));
        }
        let life = self.store.log.life();
        for FilledCheckpoint { subscriber_id, global_sequence, event_id, updated_at, paused } in checkpoints {
            let term = state.new_term();
            let (global_sequence, event_id, updated_at) = (*global_sequence, *event_id, *updated_at);
            // Read models do not move, so none is set up here.
            let row = Row { global_sequence, event_id, updated_at, term, setup_version: None, life };
            state.checkpoints.insert(subscriber_id.clone(), row);
            if *paused {
                state.paused.insert(subscriber_id.clone());
            }
        }
        Ok(())
    }

    fn put_dead_letters(&self, details: &[DeadLetterDetail]) -> Result<(), Error> {
        let mut state = self.store.delivery.state();
        let mut ids: HashSet<Uuid> = state.dead_letters.keys().copied().collect();
        let mut events: HashSet<(&str, Uuid)> =
            state.dead_letters.values().map(|known| (known.subscriber_id.as_str(), known.event_id)).collect();
        for DeadLetterDetail { dead_letter, .. } in details {
            if !ids.insert(dead_letter.id) || !events.insert((&dead_letter.subscriber_id, dead_letter.event_id)) {
                return Err(Self::twice("dead letter", dead_letter.id));
            }
        }
        for DeadLetterDetail { dead_letter, attempts, .. } in details {
            state.dead_letters.insert(dead_letter.id, dead_letter.clone());
            if !attempts.is_empty() {
                state.attempts.insert(dead_letter.id, attempts.clone());
            }
        }
        Ok(())
    }

    fn put_requests(&self, requests: &[Request]) -> Result<(), Error> {
        let mut state = self.store.delivery.state();
        let mut ids: HashSet<Uuid> = state.requests.iter().map(|known| known.id).collect();
        if let Some(twice) = requests.iter().find(|request| !ids.insert(request.id)) {
            return Err(Self::twice("request", twice.id));
        }
        state.requests.extend_from_slice(requests);
        Ok(())
    }
}

impl Filling for MemoryFilling {
    fn filled_to(&self) -> u64 {
        self.store.log.state().head()
    }

    fn put<'a>(&'a mut self, batch: Batch<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            batch.check()?;
            match batch {
                Batch::Records(records) => self.put_records(records),
                Batch::Checkpoints(checkpoints) => self.put_checkpoints(checkpoints),
                Batch::DeadLetters(dead_letters) => self.put_dead_letters(dead_letters),
                Batch::Requests(requests) => self.put_requests(requests),
            }
        })
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            self.over = true;
            *self.store.filling.state() = FillingState::default();
            self.store.announce(self.filled_to());
            Ok(())
        })
    }

    fn abandon(mut self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            self.over = true;
            self.store.drop_filling();
            Ok(())
        })
    }
}

/// The next caller may resume it.
impl Drop for MemoryFilling {
    fn drop(&mut self) {
        if !self.over {
            self.store.filling.state().taken = false;
        }
    }
}
