//! Read your own writes: waiting for a subscriber, from any process.

use std::time::Duration;

use tokio::time::Instant;

use super::{Bus, Entry};
use crate::{
    Backoff, BusError, Checkpoint, DeadLetter, DeadLetterQuery, DeadLetterState, Error, GlobalSequence,
    IntoGlobalSequence, LeaderHold, SubscriptionState,
};

/// How long to wait before looking at a checkpoint again: at first, and at most.
const LOOK_AT_CHECKPOINT: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// How long to wait for the first checkpoint of a subscriber that this bus does not have. One that another instance is just
/// starting has it by then.
const KNOWN_WITHIN: Duration = Duration::from_millis(500);

/// A subscriber has reached the awaited event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waited {
    /// Its stored checkpoint.
    pub checkpoint: u64,
    /// The dead letter of the event that was waited for, if it could not be handled and is still open: the read model does
    /// not show it.
    pub dead_letter: Option<DeadLetter>,
}

/// A subscriber has handled everything that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaughtUp {
    /// The first of its dead letters that are still open, if it has any: the read model does not show those events.
    pub dead_letter: Option<DeadLetter>,
}

impl CaughtUp {
    /// That it could handle everything: what is read of it now is all there is.
    ///
    /// # Errors
    /// [`BusError::DeadLetters`] with the first event that it could not handle, and why.
    pub fn without_dead_letters(self) -> Result<(), Error> {
        let Some(first) = self.dead_letter else { return Ok(()) };
        let reason = first.error_message.unwrap_or_else(|| "it waits behind an earlier event of its stream".to_owned());
        let DeadLetter { subscriber_id, global_sequence, event_type, .. } = first;
        Err(Error::Bus(BusError::DeadLetters { subscriber_id, global_sequence, event_type, reason }))
    }
}

/// What a subscriber lacks.
struct Missing {
    /// How far it is.
    reached: Option<u64>,
    /// The tables that it has, where they are not those of its code here.
    tables: Option<OtherTables>,
}

/// Tables of another version than the code here is written for.
#[derive(Clone, Copy)]
pub(super) struct OtherTables {
    found: Option<u32>,
    wanted: u32,
}

impl OtherTables {
    /// Versions never go down: waiting is no use.
    pub(super) fn are_newer(self) -> bool {
        self.found > Some(self.wanted)
    }

    pub(super) fn into_error(self, subscriber_id: &str) -> Error {
        let (subscriber_id, Self { found, wanted }) = (subscriber_id.to_owned(), self);
        Error::Bus(BusError::OtherTables { subscriber_id, found, wanted })
    }
}

impl Missing {
    fn into_error(self, subscriber_id: &str, wanted: u64, waited: Duration) -> Error {
        if let Some(tables) = self.tables {
            return tables.into_error(subscriber_id);
        }
        let (subscriber_id, reached) = (subscriber_id.to_owned(), self.reached);
        Error::Bus(BusError::NotReached { subscriber_id, wanted, reached, waited })
    }
}

impl Entry {
    /// The tables that it has, where they are not those of its code here.
    pub(super) fn other_tables(&self, found: Option<&Checkpoint>) -> Option<OtherTables> {
        let tables = OtherTables { found: found?.setup_version, wanted: self.version? };
        (tables.found != Some(tables.wanted)).then_some(tables)
    }
}

impl Bus {
    /// Waits until a subscriber's stored checkpoint has reached an event, wherever the subscriber runs: `&appended`, or a
    /// [`GlobalSequence`]. The answer says whether that event went to the dead letters; of earlier ones it says nothing, as
    /// [`caught_up`](crate::Subscription::caught_up) does.
    ///
    /// # Errors
    /// [`BusError::NotReached`] after [`wait_timeout`](crate::ReliableDeliveryConfig::wait_timeout), with how far it is;
    /// [`BusError::UnknownSubscriber`] within a second when no instance has ever started it;
    /// [`BusError::OtherTables`] after that time when it is subscribed on this bus, and its tables are of another version;
    /// [`BusError::WaitsForItself`] inside the subscriber's own handler.
    pub async fn wait_for(&self, subscriber_id: &str, event: impl IntoGlobalSequence) -> Result<Waited, Error> {
        self.wait_for_within(subscriber_id, event, self.inner.config.wait_timeout).await
    }

    /// The same with another time-out.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    pub async fn wait_for_within(
        &self,
        subscriber_id: &str,
        event: impl IntoGlobalSequence,
        timeout: Duration,
    ) -> Result<Waited, Error> {
        let GlobalSequence(global_sequence) = event.into_global_sequence();
        crate::subscriber::check_id(subscriber_id)?;
        let begun = Instant::now();
        let deadline = begun + timeout;
        let (mut pause, mut told) = (Backoff::new(LOOK_AT_CHECKPOINT.0, LOOK_AT_CHECKPOINT.1), false);
        loop {
            let late = Instant::now() >= deadline;
            // The first look is not cut short: a caller with a time-out of zero still wants an answer.
            let patience = deadline.max(Instant::now() + LOOK_AT_CHECKPOINT.1);
            let looked = tokio::time::timeout_at(patience, self.reached(subscriber_id, global_sequence)).await;
            let looked = looked.unwrap_or_else(|elapsed| {
                Err(Error::Unavailable { action: "read a checkpoint in time", source: elapsed.into() })
            });
            match looked {
                Ok(Ok(waited)) => return Ok(waited),
                Ok(Err(Missing { reached: None, .. }))
                    if (late || begun.elapsed() >= KNOWN_WITHIN) && self.inner.entry(subscriber_id).is_none() =>
                {
                    return Err(Error::Bus(BusError::UnknownSubscriber(subscriber_id.to_owned())));
                }
                Ok(Err(missing)) if late || missing.tables.is_some_and(OtherTables::are_newer) => {
                    return Err(missing.into_error(subscriber_id, global_sequence, timeout));
                }
                Ok(Err(_)) => self.inner.not_within(subscriber_id, "wait_for()")?,
                // A lost connection is no reason to give up before the time is over.
                Err(error) if late || !error.is_retryable() => return Err(error),
                Err(_) => {}
            }
            // Where it runs in this process, it says by itself when it is there.
            tokio::select! {
                () = tokio::time::sleep_until(deadline.min(Instant::now() + pause.next_delay())) => {}
                () = self.there(subscriber_id, global_sequence), if !told => told = true,
            }
        }
    }

    /// What is stored, if it reaches; and else how far it does.
    async fn reached(&self, subscriber_id: &str, global_sequence: u64) -> Result<Result<Waited, Missing>, Error> {
        // A lease is no subscriber.
        let found = self.backend().checkpoint(subscriber_id).await?.filter(|found| !found.is_lease());
        let tables = self.inner.entry(subscriber_id).and_then(|entry| entry.other_tables(found.as_ref()));
        let reached = found.map(|found| found.global_sequence);
        match reached.filter(|reached| *reached >= global_sequence) {
            Some(checkpoint) if tables.is_none() => {
                let dead_letter = self.open_dead_letter(subscriber_id, global_sequence).await?;
                Ok(Ok(Waited { checkpoint, dead_letter }))
            }
            _ => Ok(Err(Missing { reached, tables })),
        }
    }

    /// The checkpoint of a subscriber that this instance does not process for.
    pub(super) async fn stored_elsewhere(&self, entry: &Entry) -> Result<Option<Checkpoint>, Error> {
        if entry.leads() { Ok(None) } else { self.backend().checkpoint(&entry.id).await }
    }

    /// That the leader, which is another instance, has not halted.
    pub(super) async fn not_halted(&self, found: &Checkpoint) -> Result<(), Error> {
        let (subscriber_id, term) = (&found.subscriber_id, found.term.number);
        let reports = self.backend().reports().await?;
        let said = reports.into_iter().find(|said| said.subscriber_id == *subscriber_id && said.term == term);
        match said.map(|said| said.state) {
            Some(SubscriptionState::Halted { reason }) => {
                let (subscriber_id, reason) = (subscriber_id.clone(), format!("halted: {reason}"));
                Err(Error::Bus(BusError::NotRunning { subscriber_id, reason }))
            }
            _ => Ok(()),
        }
    }

    /// A state with the leader, where that is another instance.
    pub(super) fn told(&self, subscriber_id: &str, state: SubscriptionState) -> SubscriptionState {
        match state {
            SubscriptionState::Standby { .. } => {
                let leader = self.inner.shared.coordinator.leader(subscriber_id);
                SubscriptionState::Standby { leader: leader.filter(|leader| leader.hold != LeaderHold::Gone) }
            }
            state => state,
        }
    }

    async fn there(&self, subscriber_id: &str, global_sequence: u64) {
        let Some(entry) = self.inner.entry(subscriber_id) else { return std::future::pending().await };
        let mut status = entry.status.clone();
        if status.wait_for(|status| status.stored >= global_sequence).await.is_err() {
            std::future::pending().await
        }
    }

    async fn open_dead_letter(&self, subscriber_id: &str, global_sequence: u64) -> Result<Option<DeadLetter>, Error> {
        // Dead letters are in the order of the log, so the first after the one before is it, if there is one.
        let found = self.open_dead_letter_after(subscriber_id, global_sequence.saturating_sub(1)).await?;
        Ok(found.filter(|dead_letter| dead_letter.global_sequence == global_sequence))
    }

    /// The first dead letter of a subscriber after an event that is still open.
    pub(super) async fn open_dead_letter_after(
        &self,
        subscriber_id: &str,
        global_sequence: u64,
    ) -> Result<Option<DeadLetter>, Error> {
        let after = crate::DeadLetterCursor { global_sequence, id: uuid::Uuid::max() };
        let states = DeadLetterState::ALL.into_iter().filter(|state| state.is_open()).collect();
        let query = DeadLetterQuery { after: Some(after), limit: 1, states, ..DeadLetterQuery::of(subscriber_id) };
        Ok(self.backend().dead_letters(&query).await?.into_iter().next())
    }
}
