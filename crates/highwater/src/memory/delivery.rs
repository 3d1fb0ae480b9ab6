//! What delivery keeps in memory: one lock around everything, and one per subscriber for its fenced transactions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use uuid::Uuid;

use crate::lock::lock;
use crate::{DeadLetter, DeadLetterAttempt, Error, Fence, Refused, Report, Request, Term};

/// How long to wait for a transaction that holds a checkpoint.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct MemoryDelivery {
    state: Mutex<DeliveryState>,
    /// Held for as long as a fenced transaction is open.
    locks: Mutex<HashMap<String, Arc<AsyncMutex<()>>>>,
}

#[derive(Debug, Default)]
pub(super) struct DeliveryState {
    pub(super) checkpoints: BTreeMap<String, Row>,
    pub(super) terms: u64,
    pub(super) paused: BTreeSet<String>,
    pub(super) reports: BTreeMap<String, Report>,
    pub(super) dead_letters: BTreeMap<Uuid, DeadLetter>,
    pub(super) attempts: HashMap<Uuid, Vec<DeadLetterAttempt>>,
    pub(super) requests: Vec<Request>,
    pub(super) documents: BTreeMap<String, Value>,
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) global_sequence: u64,
    pub(super) event_id: Option<Uuid>,
    pub(super) updated_at: DateTime<Utc>,
    pub(super) term: Term,
    pub(super) setup_version: Option<u32>,
    /// The life of the log that its position comes from. None outlives that.
    pub(super) life: u64,
}

impl MemoryDelivery {
    /// No panic can happen between two changes that belong together, so a poisoned lock guards a sound state.
    pub(super) fn state(&self) -> MutexGuard<'_, DeliveryState> {
        lock(&self.state)
    }

    /// Locks a subscriber's checkpoint against every other writer. Its holder may be frozen, so the wait has an end.
    pub(super) async fn lock(&self, subscriber_id: &str) -> Result<OwnedMutexGuard<()>, Error> {
        let lock = {
            let mut locks = lock(&self.locks);
            locks.entry(subscriber_id.to_owned()).or_default().clone()
        };
        tokio::time::timeout(LOCK_TIMEOUT, lock.lock_owned()).await.map_err(|elapsed| Error::Unavailable {
            action: "write a checkpoint: another transaction holds it",
            source: elapsed.into(),
        })
    }
}

impl DeliveryState {
    /// A term that was never given before.
    pub(super) fn new_term(&mut self) -> Term {
        self.terms += 1;
        Term { number: self.terms, nonce: Uuid::now_v7() }
    }

    /// The row that a fence lets one write.
    pub(super) fn fenced(&mut self, fence: &Fence) -> Result<&mut Row, Refused> {
        match self.checkpoints.get_mut(&*fence.subscriber_id) {
            None => Err(Refused::Missing),
            Some(row) if row.term != fence.term => Err(Refused::Superseded { term: row.term.number }),
            Some(row) if row.life != fence.incarnation => Err(Refused::Interrupted),
            Some(row) => Ok(row),
        }
    }

    /// Records what became of a dead letter.
    pub(super) fn attempted(&mut self, dead_letter: Uuid, by: &str, outcome: &str, detail: Option<&str>) {
        let detail = detail.map(str::to_owned);
        let attempt = DeadLetterAttempt { at: Utc::now(), by: by.to_owned(), outcome: outcome.to_owned(), detail };
        self.attempts.entry(dead_letter).or_default().push(attempt);
    }
}
