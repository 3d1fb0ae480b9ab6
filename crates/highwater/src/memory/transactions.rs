//! Fenced transactions in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::Utc;
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use super::MemoryEventStore;
use super::delivery::DeliveryState;
use crate::{
    Append, Backend, Begun, BoxFuture, Closed, Closing, DeadLetter, DeadLetterState, Error, Fence, NewDeadLetter,
    OpenTx, Opening, Term, Transactional,
};

/// A transaction in memory: what a [`TransactionalProjection`](crate::TransactionalProjection) is handed. Its read model
/// is a set of JSON documents in the store, which [`MemoryEventStore::document`] shows.
#[derive(Debug)]
pub struct MemoryTx {
    store: MemoryEventStore,
    changes: BTreeMap<String, Option<Value>>,
    appends: Vec<Append>,
    _lock: OwnedMutexGuard<()>,
}

impl MemoryTx {
    /// A document, with the changes made here.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value> {
        match self.changes.get(key) {
            Some(changed) => changed.clone(),
            None => self.store.document(key),
        }
    }

    /// Writes a document.
    pub fn put(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        self.changes.insert(key.into(), Some(value.into()));
    }

    /// Deletes a document.
    pub fn remove(&mut self, key: impl Into<String>) {
        self.changes.insert(key.into(), None);
    }

    /// Adds an append, to be stored with everything else.
    pub fn append(&mut self, append: Append) {
        self.appends.push(append);
    }
}

impl MemoryEventStore {
    /// A document that a transactional projection wrote.
    #[must_use]
    pub fn document(&self, key: &str) -> Option<Value> {
        self.delivery.state().documents.get(key).cloned()
    }

    /// All documents whose key starts so, by key.
    #[must_use]
    pub fn documents(&self, prefix: &str) -> Vec<(String, Value)> {
        let state = self.delivery.state();
        let found = state.documents.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        found.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

impl Transactional for MemoryEventStore {
    type Tx = MemoryTx;
}

impl Backend for MemoryEventStore {
    fn shared(&self) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }

    /// There is nothing to do.
    fn initialize(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn begin<'a>(
        &'a self,
        fence: &'a Fence,
        _: Opening,
        dead_letter: Option<Uuid>,
    ) -> BoxFuture<'a, Result<Begun, Error>> {
        Box::pin(async move {
            let _lock = self.delivery.lock(&fence.subscriber_id).await?;
            let mut state = self.delivery.state();
            self.filling.check()?;
            let global_sequence =
                state.fenced(fence).map_err(|why| why.into_error(&fence.subscriber_id))?.global_sequence;
            let is_open = |id| state.dead_letters.get(&id).is_some_and(|dead_letter| dead_letter.state.is_open());
            let dead_letter_open = dead_letter.is_none_or(is_open);
            drop(state);
            let tx =
                OpenTx::new(MemoryTx { store: self.clone(), changes: BTreeMap::new(), appends: Vec::new(), _lock });
            Ok(Begun { tx, global_sequence, dead_letter_open })
        })
    }

    fn commit<'a>(
        &'a self,
        tx: OpenTx,
        fence: &'a Fence,
        closing: Closing<'a>,
    ) -> BoxFuture<'a, Result<Closed, Error>> {
        Box::pin(async move {
            let tx: MemoryTx = tx.into_inner()?;
            let mut state = self.delivery.state();
            self.filling.check()?;
            state.check(fence, &closing)?;
            if !tx.appends.is_empty() {
                self.append_together(&tx.appends).map_err(|error| Error::Aborted { source: error.into() })?;
            }
            for (key, changed) in &tx.changes {
                match changed {
                    Some(value) => state.documents.insert(key.clone(), value.clone()),
                    None => state.documents.remove(key),
                };
            }
            if matches!(closing, Closing::Remove { .. }) {
                self.leadership.forget(&fence.subscriber_id);
            }
            Ok(state.close(fence, closing))
        })
    }

    fn rollback(&self, tx: OpenTx, _unsure: bool) -> BoxFuture<'_, ()> {
        Box::pin(async move { drop(tx) })
    }

    /// Memory has no troubles.
    fn is_outage(&self, _: &(dyn std::error::Error + 'static)) -> bool {
        false
    }
}

impl DeliveryState {
    /// Everything that can speak against a closing, before the first change.
    fn check(&mut self, fence: &Fence, closing: &Closing<'_>) -> Result<(), Error> {
        let row = self.fenced(fence).map_err(|why| why.into_error(&fence.subscriber_id))?;
        let (Closing::Advance { from, .. } | Closing::Bury { from, .. }) = closing else { return Ok(()) };
        if row.global_sequence != *from {
            let term = Some(row.term.number);
            return Err(Error::Fenced { subscriber_id: fence.subscriber_id.to_string(), term });
        }
        Ok(())
    }

    fn close(&mut self, fence: &Fence, closing: Closing<'_>) -> Closed {
        let subscriber_id = &*fence.subscriber_id;
        let (mut term, mut stream_id) = (fence.term, None);
        match closing {
            Closing::Advance { to, event_id, .. } => self.advance(subscriber_id, to, event_id),
            Closing::Bury { dead_letter, .. } => {
                self.bury(subscriber_id, dead_letter);
                self.advance(subscriber_id, dead_letter.global_sequence, Some(dead_letter.event_id));
                stream_id = Some(dead_letter.stream_id);
            }
            Closing::Replayed { dead_letter, by } => {
                stream_id = self.resolve(dead_letter, DeadLetterState::Replayed, by, None);
            }
            Closing::Discarded { dead_letter, by, reason } => {
                stream_id = self.resolve(dead_letter, DeadLetterState::Discarded, by, Some(reason));
            }
            Closing::ReplayFailed { dead_letter, by, error } => {
                self.attempted(dead_letter, by, "failed", Some(error));
                stream_id = self.dead_letters.get_mut(&dead_letter).map(|dead_letter| {
                    dead_letter.error_message = Some(error.to_owned());
                    dead_letter.state = DeadLetterState::Dead;
                    dead_letter.retry_count += 1;
                    dead_letter.last_retry_at = Some(Utc::now());
                    dead_letter.stream_id
                });
            }
            Closing::Finished { request, outcome } => {
                if let Some(request) = self.requests.iter_mut().find(|filed| filed.id == request) {
                    request.outcome = Some(crate::RequestOutcome { finished_at: Some(Utc::now()), ..outcome.clone() });
                }
            }
            Closing::SetUp { version } => self.set_up(subscriber_id, Some(version)),
            Closing::Reset { to, by, nonce, setup_version } => {
                term = self.reset(subscriber_id, to, by, nonce);
                self.set_up(subscriber_id, setup_version);
            }
            Closing::Remove { by } => self.remove(subscriber_id, by),
        }
        let parks = |dead_letter: &&DeadLetter| {
            dead_letter.subscriber_id == subscriber_id && dead_letter.parks && dead_letter.state.is_open()
        };
        let parked_left = stream_id.map_or(0, |stream_id| {
            self.dead_letters.values().filter(parks).filter(|dead_letter| dead_letter.stream_id == stream_id).count()
                as u64
        });
        Closed { term, parked_left }
    }

    fn advance(&mut self, subscriber_id: &str, to: u64, event_id: Option<Uuid>) {
        if let Some(row) = self.checkpoints.get_mut(subscriber_id) {
            row.global_sequence = to;
            row.event_id = event_id.or(row.event_id);
            row.updated_at = Utc::now();
        }
    }

    fn bury(&mut self, subscriber_id: &str, new: &NewDeadLetter) {
        let same = |dead_letter: &&DeadLetter| {
            dead_letter.subscriber_id == subscriber_id && dead_letter.event_id == new.event_id
        };
        let known = self.dead_letters.values().find(same).map(|dead_letter| (dead_letter.id, dead_letter.created_at));
        let (id, created_at) = known.unwrap_or_else(|| (Uuid::now_v7(), Utc::now()));
        let dead_letter = DeadLetter {
            id,
            subscriber_id: subscriber_id.to_owned(),
            event_id: new.event_id,
            global_sequence: new.global_sequence,
            stream_id: new.stream_id,
            // Found in the log when it is read.
            stream_name: None,
            event_type: new.event_type.clone(),
            error_message: new.error_message.clone(),
            retry_count: new.retry_count,
            created_at,
            last_retry_at: (new.retry_count > 0).then(Utc::now),
            state: new.state(),
            parks: new.parks,
            resolved_at: None,
            resolved_by: None,
            reason: None,
        };
        self.dead_letters.insert(id, dead_letter);
    }

    /// Closes a dead letter, and says which stream it is of.
    fn resolve(&mut self, dead_letter: Uuid, state: DeadLetterState, by: &str, reason: Option<&str>) -> Option<Uuid> {
        self.attempted(dead_letter, by, state.name(), reason);
        let dead_letter = self.dead_letters.get_mut(&dead_letter)?;
        dead_letter.state = state;
        if state == DeadLetterState::Replayed {
            dead_letter.retry_count += 1;
            dead_letter.last_retry_at = Some(Utc::now());
        }
        dead_letter.resolved_at = Some(Utc::now());
        dead_letter.resolved_by = Some(by.to_owned());
        dead_letter.reason = reason.map(str::to_owned);
        Some(dead_letter.stream_id)
    }

    /// Archives the open dead letters beyond a position.
    fn archive(&mut self, subscriber_id: &str, beyond: u64, by: &str) {
        let open = |dead_letter: &&DeadLetter| {
            dead_letter.subscriber_id == subscriber_id
                && dead_letter.state.is_open()
                && dead_letter.global_sequence > beyond
        };
        let open: Vec<Uuid> = self.dead_letters.values().filter(open).map(|dead_letter| dead_letter.id).collect();
        for dead_letter in open {
            self.resolve(dead_letter, DeadLetterState::Archived, by, None);
        }
    }

    fn remove(&mut self, subscriber_id: &str, by: &str) {
        self.archive(subscriber_id, 0, by);
        self.requests.retain(|request| request.subscriber_id != subscriber_id);
        self.paused.remove(subscriber_id);
        self.reports.remove(subscriber_id);
        self.checkpoints.remove(subscriber_id);
    }

    /// Stores the version of tables that were made, if any were.
    fn set_up(&mut self, subscriber_id: &str, version: Option<u32>) {
        if let Some(row) = self.checkpoints.get_mut(subscriber_id) {
            row.setup_version = version.or(row.setup_version);
            row.updated_at = Utc::now();
        }
    }

    fn reset(&mut self, subscriber_id: &str, to: u64, by: &str, nonce: Uuid) -> Term {
        self.archive(subscriber_id, to, by);
        let term = Term { nonce, ..self.new_term() };
        if let Some(row) = self.checkpoints.get_mut(subscriber_id) {
            row.global_sequence = to;
            row.event_id = None;
            row.term = term;
            row.updated_at = Utc::now();
        }
        term
    }
}
