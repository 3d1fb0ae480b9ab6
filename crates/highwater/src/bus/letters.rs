//! Working on dead letters, and everything else that is asked of subscribers, from any process.

use std::time::Duration;

use chrono::Utc;
use tokio::time::Instant;
use uuid::Uuid;

use super::Bus;
use crate::{
    Ask, Backoff, BusError, DeadLetter, DeadLetterDetail, DeadLetterQuery, Error, Invalid, Request, RequestOutcome,
};

/// How long to wait before looking at a request again: at first, and at most.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

impl Bus {
    /// The dead letters: to inspect, replay and discard them.
    #[must_use]
    pub fn dead_letters(&self) -> DeadLetterQueue<'_> {
        DeadLetterQueue { bus: self, by: None }
    }

    /// Pauses a subscriber, durably and for all instances, wherever it runs.
    ///
    /// # Errors
    /// [`BusError::UnknownSubscriber`](crate::BusError::UnknownSubscriber), and when it cannot be stored.
    pub async fn pause(&self, subscriber_id: &str) -> Result<(), Error> {
        self.set_paused(subscriber_id, true).await
    }

    /// Resumes a subscriber, wherever it runs; one that is halted in this process resumes as well.
    ///
    /// # Errors
    /// [`BusError::UnknownSubscriber`](crate::BusError::UnknownSubscriber), and when it cannot be stored.
    pub async fn resume(&self, subscriber_id: &str) -> Result<(), Error> {
        self.set_paused(subscriber_id, false).await?;
        if let Some(entry) = self.inner.entry(subscriber_id) {
            entry.control.send_modify(|control| control.resumed += 1);
        }
        Ok(())
    }

    async fn set_paused(&self, subscriber_id: &str, paused: bool) -> Result<(), Error> {
        crate::subscriber::check_id(subscriber_id)?;
        let entry = self.inner.entry(subscriber_id);
        let mut deadline = entry.as_ref().map(|_| Instant::now() + self.inner.config.wait_timeout);
        // A subscriber that was only just subscribed here may not have its checkpoint yet.
        while !self.backend().set_paused(subscriber_id, paused).await? {
            match deadline {
                Some(at) if Instant::now() < at => tokio::time::sleep(LOOK_AGAIN.0).await,
                _ => return Err(Error::Bus(BusError::UnknownSubscriber(subscriber_id.to_owned()))),
            }
            deadline = deadline.filter(|_| self.inner.entry(subscriber_id).is_some());
        }
        if let Some(entry) = entry {
            entry.control.send_modify(|control| {
                control.paused = paused;
                control.touched += 1;
            });
        }
        Ok(())
    }

    /// Files a request, durably. The subscriber's task does it, wherever that runs.
    pub(super) async fn file(&self, subscriber_id: &str, ask: Ask, by: Option<&str>) -> Result<Filed<'_>, Error> {
        crate::subscriber::check_id(subscriber_id)?;
        if self.backend().checkpoint(subscriber_id).await?.is_none() && self.inner.entry(subscriber_id).is_none() {
            return Err(Error::Bus(BusError::UnknownSubscriber(subscriber_id.to_owned())));
        }
        let by = by.map_or_else(|| format!("process {}", std::process::id()), str::to_owned);
        check_text("requested_by", &by)?;
        if let Ask::Discard { reason, .. } = &ask {
            check_text("reason", reason)?;
        }
        let request = Request {
            id: Uuid::now_v7(),
            subscriber_id: subscriber_id.to_owned(),
            ask,
            requested_by: by,
            requested_at: Utc::now(),
            outcome: None,
        };
        self.backend().file_request(&request).await?;
        self.inner.nudge.notify_one();
        Ok(Filed { bus: self, id: request.id, asked: request.ask.name() })
    }
}

/// Refuses what could not be stored.
pub(crate) fn check_text(name: &'static str, text: &str) -> Result<(), Invalid> {
    if text.trim().is_empty() || text.len() > 8 << 10 || text.contains('\0') {
        let reason = "it must have between 1 and 8,192 bytes, and no NUL character".to_owned();
        return Err(Invalid::Setting { name, reason });
    }
    Ok(())
}

/// The dead letters of a bus, worked on in an operator's name.
///
/// ```no_run
/// # use highwater::{DeadLetterQuery, MemoryEventBus};
/// # async fn example(bus: MemoryEventBus) -> Result<(), highwater::Error> {
/// let letters = bus.dead_letters().by("anna");
/// for letter in letters.list(&DeadLetterQuery::of("projection:orders")).await? {
///     println!("{} {}: {:?}", letter.global_sequence, letter.event_type, letter.error_message);
/// }
/// let outcome = letters.replay_all("projection:orders").await?.done().await?;
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
        self.bus.backend().letters(query).await
    }

    /// How many there are.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn count(&self, query: &DeadLetterQuery) -> Result<u64, Error> {
        self.bus.backend().count_letters(query).await
    }

    /// One dead letter with its event's payload and what has been done with it.
    ///
    /// # Errors
    /// [`Error::NotFound`], and when it cannot be read.
    pub async fn show(&self, letter: Uuid) -> Result<DeadLetterDetail, Error> {
        let found = self.bus.backend().letter(letter).await?;
        found.ok_or(Error::NotFound { what: "dead letter", id: letter })
    }

    /// Requests a replay of one dead letter. The head of a parked stream takes those behind it along.
    ///
    /// # Errors
    /// [`Error::NotFound`], and when the request cannot be filed.
    pub async fn replay(&self, letter: Uuid) -> Result<Filed<'a>, Error> {
        let subscriber_id = self.show(letter).await?.letter.subscriber_id;
        self.bus.file(&subscriber_id, Ask::Replay { letter }, self.by.as_deref()).await
    }

    /// Requests a replay of the dead letters of one stream, in order.
    ///
    /// # Errors
    /// [`BusError::UnknownSubscriber`](crate::BusError::UnknownSubscriber), and when the request cannot be filed.
    pub async fn replay_stream(&self, subscriber_id: &str, stream_id: Uuid) -> Result<Filed<'a>, Error> {
        self.bus.file(subscriber_id, Ask::ReplayStream { stream_id }, self.by.as_deref()).await
    }

    /// Requests a replay of all dead letters of a subscriber, in order.
    ///
    /// # Errors
    /// [`BusError::UnknownSubscriber`](crate::BusError::UnknownSubscriber), and when the request cannot be filed.
    pub async fn replay_all(&self, subscriber_id: &str) -> Result<Filed<'a>, Error> {
        self.bus.file(subscriber_id, Ask::ReplayAll, self.by.as_deref()).await
    }

    /// Requests that one dead letter is discarded, with a reason.
    ///
    /// # Errors
    /// [`Error::NotFound`], and when the request cannot be filed.
    pub async fn discard(&self, letter: Uuid, reason: impl Into<String>) -> Result<Filed<'a>, Error> {
        let subscriber_id = self.show(letter).await?.letter.subscriber_id;
        let ask = Ask::Discard { letter, reason: reason.into() };
        self.bus.file(&subscriber_id, ask, self.by.as_deref()).await
    }

    /// Asks for a projection to be rebuilt from the beginning, wherever it runs.
    ///
    /// # Errors
    /// [`BusError::UnknownSubscriber`](crate::BusError::UnknownSubscriber), and when the request cannot be filed.
    pub async fn rebuild(&self, subscriber_id: &str) -> Result<Filed<'a>, Error> {
        self.bus.file(subscriber_id, Ask::Rebuild, self.by.as_deref()).await
    }
}

/// A request that has been filed. It is carried out whether a caller waits for it or not.
#[derive(Debug)]
pub struct Filed<'a> {
    bus: &'a Bus,
    id: Uuid,
    asked: &'static str,
}

impl Filed<'_> {
    /// The request's id.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Waits until it has been carried out. Dead letters that failed again are counted in the outcome.
    ///
    /// # Errors
    /// [`BusError::RequestFailed`](crate::BusError::RequestFailed) when it could not be carried out at all, or not within
    /// [`wait_timeout`](crate::ReliableDeliveryConfig::wait_timeout): it stays filed then. [`BusError::WaitsForItself`](crate::BusError::WaitsForItself) inside
    /// the subscriber's own handler: it stays filed, and is carried out once the handler has returned.
    pub async fn done(self) -> Result<RequestOutcome, Error> {
        let timeout = self.bus.inner.config.wait_timeout;
        let deadline = Instant::now() + timeout;
        let mut pause = Backoff::new(LOOK_AGAIN.0, LOOK_AGAIN.1);
        loop {
            let request = self.bus.backend().request(self.id).await?;
            let request = request.ok_or(Error::NotFound { what: "request", id: self.id })?;
            match request.outcome {
                Some(RequestOutcome { done: 0, failed: 0, error: Some(reason), .. }) => {
                    return Err(Error::Bus(BusError::RequestFailed { asked: self.asked, reason }));
                }
                Some(outcome) => return Ok(outcome),
                None if Instant::now() >= deadline => {
                    let reason = format!(
                        "it was not carried out within {timeout:?}; it stays filed, and is done once the subscriber runs"
                    );
                    return Err(Error::Bus(BusError::RequestFailed { asked: self.asked, reason }));
                }
                None => {
                    self.bus.inner.not_within(&request.subscriber_id, "done() of a request")?;
                    tokio::time::sleep(pause.next_delay()).await;
                }
            }
        }
    }
}
