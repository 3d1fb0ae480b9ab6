//! Pauses and requests: how any process files them, and how they arrive, by one query for all subscribers of a bus.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Bus, Inner};
use crate::{Backoff, BusError, Error, Invalid, Request, RequestKind, RequestOutcome};

/// How long to wait before looking at a request again: at first, and at most.
const LOOK_AT_REQUEST: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// How often resolved dead letters are checked for those that have been kept long enough.
const PURGE_INTERVAL: Duration = Duration::from_secs(60 * 60);

impl Bus {
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

    /// That there is such a subscriber, here or in the store. A lease is none.
    async fn must_know(&self, subscriber_id: &str) -> Result<(), Error> {
        crate::subscriber::check_id(subscriber_id)?;
        let known = self.inner.entry(subscriber_id).is_some()
            || self.backend().checkpoint(subscriber_id).await?.is_some_and(|found| !found.is_lease());
        known.then_some(()).ok_or_else(|| Error::Bus(BusError::UnknownSubscriber(subscriber_id.to_owned())))
    }

    async fn set_paused(&self, subscriber_id: &str, paused: bool) -> Result<(), Error> {
        self.must_know(subscriber_id).await?;
        let entry = self.inner.entry(subscriber_id);
        let mut deadline = entry.as_ref().map(|_| Instant::now() + self.inner.config.wait_timeout);
        let mut pause = Backoff::new(LOOK_AT_REQUEST.0, LOOK_AT_REQUEST.1);
        // A subscriber that was only just subscribed here may not have its checkpoint yet.
        while !self.backend().set_paused(subscriber_id, paused).await? {
            match deadline {
                Some(at) if Instant::now() < at => tokio::time::sleep(pause.next_delay()).await,
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
    pub(super) async fn file(
        &self,
        subscriber_id: &str,
        kind: RequestKind,
        by: Option<&str>,
    ) -> Result<Filed<'_>, Error> {
        self.must_know(subscriber_id).await?;
        let by = by.map_or_else(|| format!("process {}", std::process::id()), str::to_owned);
        check_text("requested_by", &by)?;
        if let RequestKind::Discard { reason, .. } = &kind {
            check_text("reason", reason)?;
        }
        let request = Request {
            id: Uuid::now_v7(),
            subscriber_id: subscriber_id.to_owned(),
            kind,
            requested_by: by,
            requested_at: Utc::now(),
            outcome: None,
        };
        self.backend().file_request(&request).await?;
        self.inner.nudge.notify_one();
        Ok(Filed { bus: self, id: request.id, kind: request.kind.name() })
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

/// A request that has been filed. It is carried out whether a caller waits for it or not.
#[derive(Debug)]
pub struct Filed<'a> {
    bus: &'a Bus,
    id: Uuid,
    kind: &'static str,
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
        let mut pause = Backoff::new(LOOK_AT_REQUEST.0, LOOK_AT_REQUEST.1);
        loop {
            let request = self.bus.backend().request(self.id).await?;
            let request = request.ok_or(Error::NotFound { what: "request", id: self.id })?;
            match request.outcome {
                Some(RequestOutcome { done: 0, failed: 0, error: Some(reason), .. }) => {
                    return Err(Error::Bus(BusError::RequestFailed { kind: self.kind, reason }));
                }
                Some(outcome) => return Ok(outcome),
                None if Instant::now() >= deadline => {
                    let reason = format!(
                        "it was not carried out within {timeout:?}; it stays filed, and is done once the subscriber runs"
                    );
                    return Err(Error::Bus(BusError::RequestFailed { kind: self.kind, reason }));
                }
                None => {
                    self.bus.inner.not_within(&request.subscriber_id, "done() of a request")?;
                    tokio::time::sleep(pause.next_delay()).await;
                }
            }
        }
    }
}

/// Polls until the bus is shut down: also when no handle to it is left.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut purged: Option<Instant> = None;
    let mut troubled = false;
    loop {
        match read_requests(&inner).await {
            Ok(()) => troubled = false,
            // The subscribers log it as well; here it would be logged every second.
            Err(error) if !troubled => {
                troubled = true;
                tracing::warn!(%error, "cannot look for requests and pauses; retrying");
            }
            Err(_) => {}
        }
        if !troubled && purged.is_none_or(|purged| purged.elapsed() >= PURGE_INTERVAL) {
            purged = Some(Instant::now());
            if let Err(error) = purge(&inner).await {
                tracing::warn!(%error, "cannot delete resolved dead letters; retrying in an hour");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(inner.config.poll_interval) => {}
            () = inner.nudge.notified() => {}
        }
    }
}

async fn read_requests(inner: &Inner) -> Result<(), Error> {
    let ids = inner.ids();
    if ids.is_empty() {
        return Ok(());
    }
    let backend = &inner.shared.backend;
    // Before the query: a subscriber that is paused or resumed here meanwhile is newer than the answer.
    let touched: HashMap<String, u64> =
        (ids.iter()).filter_map(|id| Some((id.clone(), inner.entry(id)?.control.borrow().touched))).collect();
    let paused = backend.paused(&ids).await?;
    let requests = backend.open_requests(&ids).await?;
    for id in ids {
        let Some(entry) = inner.entry(&id) else { continue };
        let paused = paused.contains(&id);
        let mine: Vec<_> = requests.iter().filter(|request| request.subscriber_id == id).cloned().collect();
        entry.control.send_if_modified(|control| {
            let current = touched.get(&id) == Some(&control.touched);
            let paused = if current { paused } else { control.paused };
            let same = control.paused == paused && control.requests == mine;
            (control.paused, control.requests) = (paused, mine);
            !same
        });
    }
    Ok(())
}

async fn purge(inner: &Inner) -> Result<(), Error> {
    for id in inner.ids() {
        let Some(entry) = inner.entry(&id) else { continue };
        let Ok(retention) = chrono::TimeDelta::from_std(entry.config.dead_letter_retention) else { continue };
        let count = inner.shared.backend.purge_dead_letters(&id, Utc::now() - retention).await?;
        if count > 0 {
            tracing::info!(subscriber_id = id, count, "deleted dead letters that were resolved long ago");
        }
    }
    Ok(())
}
