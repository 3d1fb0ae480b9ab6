//! Working on dead letters, from any process.

use uuid::Uuid;

use super::Bus;
use super::requests::Filed;
use crate::{DeadLetter, DeadLetterDetail, DeadLetterQuery, Error, RequestKind};

impl Bus {
    /// The dead letters: to inspect, replay and discard them.
    #[must_use]
    pub fn dead_letters(&self) -> DeadLetterQueue<'_> {
        DeadLetterQueue { bus: self, by: None }
    }
}

/// The dead letters of a bus, worked on in an operator's name.
///
/// ```no_run
/// # use highwater::operations::DeadLetterQuery;
/// # use highwater::MemoryEventBus;
/// # async fn example(bus: MemoryEventBus) -> Result<(), highwater::Error> {
/// let dead_letters = bus.dead_letters().by("anna");
/// for dead_letter in dead_letters.list(&DeadLetterQuery::of("projection:orders")).await? {
///     println!("{} {}: {:?}", dead_letter.global_sequence, dead_letter.event_type, dead_letter.error_message);
/// }
/// let outcome = dead_letters.replay_all("projection:orders").await?.done().await?;
/// println!("{} replayed, {} failed again", outcome.done, outcome.failed);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct DeadLetterQueue<'a> {
    bus: &'a Bus,
    by: Option<String>,
}

impl<'a> DeadLetterQueue<'a> {
    /// In whose name: it is recorded with everything that is done.
    #[must_use]
    pub fn by(self, who: impl Into<String>) -> Self {
        Self { by: Some(who.into()), ..self }
    }

    /// A page of dead letters. The next one is after the last one's [`cursor`](DeadLetter::cursor).
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn list(&self, query: &DeadLetterQuery) -> Result<Vec<DeadLetter>, Error> {
        self.bus.backend().dead_letters(query).await
    }

    /// How many there are.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn count(&self, query: &DeadLetterQuery) -> Result<u64, Error> {
        self.bus.backend().count_dead_letters(query).await
    }

    /// One dead letter with its event's payload and what has been done with it.
    ///
    /// # Errors
    /// [`Error::NotFound`], and when it cannot be read.
    pub async fn show(&self, dead_letter: Uuid) -> Result<DeadLetterDetail, Error> {
        let found = self.bus.backend().dead_letter(dead_letter).await?;
        found.ok_or(Error::NotFound { what: "dead letter", id: dead_letter })
    }

    /// Requests a replay of one dead letter. The head of a parked stream takes those behind it along.
    ///
    /// # Errors
    /// [`Error::NotFound`], and when the request cannot be filed.
    pub async fn replay(&self, dead_letter: Uuid) -> Result<Filed<'a>, Error> {
        let subscriber_id = self.show(dead_letter).await?.dead_letter.subscriber_id;
        self.bus.file(&subscriber_id, RequestKind::Replay { dead_letter }, self.by.as_deref()).await
    }

    /// Requests a replay of the dead letters of one stream, in order.
    ///
    /// # Errors
    /// [`BusError::UnknownSubscriber`](crate::BusError::UnknownSubscriber), and when the request cannot be filed.
    pub async fn replay_stream(&self, subscriber_id: &str, stream_id: Uuid) -> Result<Filed<'a>, Error> {
        self.bus.file(subscriber_id, RequestKind::ReplayStream { stream_id }, self.by.as_deref()).await
    }

    /// Requests a replay of all dead letters of a subscriber, in order.
    ///
    /// # Errors
    /// [`BusError::UnknownSubscriber`](crate::BusError::UnknownSubscriber), and when the request cannot be filed.
    pub async fn replay_all(&self, subscriber_id: &str) -> Result<Filed<'a>, Error> {
        self.bus.file(subscriber_id, RequestKind::ReplayAll, self.by.as_deref()).await
    }

    /// Requests that one dead letter is discarded, with a reason.
    ///
    /// # Errors
    /// [`Error::NotFound`], and when the request cannot be filed.
    pub async fn discard(&self, dead_letter: Uuid, reason: impl Into<String>) -> Result<Filed<'a>, Error> {
        let subscriber_id = self.show(dead_letter).await?.dead_letter.subscriber_id;
        let kind = RequestKind::Discard { dead_letter, reason: reason.into() };
        self.bus.file(&subscriber_id, kind, self.by.as_deref()).await
    }

    /// Asks for a projection to be rebuilt from the beginning, wherever it runs.
    ///
    /// # Errors
    /// [`BusError::UnknownSubscriber`](crate::BusError::UnknownSubscriber), and when the request cannot be filed.
    pub async fn rebuild(&self, subscriber_id: &str) -> Result<Filed<'a>, Error> {
        self.bus.file(subscriber_id, RequestKind::Rebuild, self.by.as_deref()).await
    }
}
