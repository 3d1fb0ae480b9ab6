//! Requests to subscribers: filed in the store, done by the leader, and waited for here.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use highwater::backend::{Backend, Backoff, Request};
use highwater::operations::{RequestOutcome, leader_of};
use highwater::{Bus, BusError, Error, ReliableDeliveryConfig};
use serde_json::json;
use tokio::time::Instant;
use uuid::Uuid;

use crate::failure::{Exit, Failure, note};
use crate::output::Output;
use crate::{times, words};

/// How long to wait before looking again: at first, and at most.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// Who files a request, and how long to wait for it.
#[derive(Debug, Args)]
pub(crate) struct RequestOptions {
    /// How long to wait for it to be done; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = times::seconds())]
    pub(crate) wait: u64,
    /// Who asks, for the record
    #[arg(long, value_name = "NAME", default_value_t = default_name())]
    pub(crate) by: String,
}

pub(crate) fn default_name() -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    user.filter(|user| !user.trim().is_empty()).unwrap_or_else(|| format!("process {}", std::process::id()))
}

/// A bus that nothing is subscribed to: enough to ask for things.
pub(crate) fn bus(store: &dyn Backend) -> Result<Bus, Error> {
    Bus::over(store, ReliableDeliveryConfig::default())
}

impl RequestOptions {
    /// Waits for what was filed, and says what came of it.
    pub(crate) async fn finish(
        &self,
        store: &dyn Backend,
        filed: &[Uuid],
        done: impl Fn(u64) -> String,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + Duration::from_secs(self.wait);
        let (mut sum, mut open, mut told) = (RequestOutcome::default(), 0, BTreeSet::new());
        for id in filed {
            let request = wait_for(store, *id, deadline, &mut told).await?;
            if out.json {
                out.value(&shown(&request))?;
            }
            match request.outcome {
                Some(outcome) => {
                    sum.done += outcome.done;
                    sum.failed += outcome.failed;
                    sum.error = outcome.error.or(sum.error);
                }
                None => open += 1,
            }
        }
        out.flush()?;
        self.conclude(&sum, open, &done(sum.done), out)
    }

    fn conclude(&self, sum: &RequestOutcome, open: u64, done: &str, out: &mut Output) -> Result<(), Failure> {
        if !out.json && (sum.done > 0 || (open == 0 && sum.failed == 0 && sum.error.is_none())) {
            out.line(done)?;
            out.flush()?;
        }
        let because = sum.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
        if sum.failed > 0 {
            return Err(Failure::refused(format!("{} failed again{because}", words::number(sum.failed))));
        }
        if sum.error.is_some() {
            return Err(Failure::refused(format!("it could not be done{because}")));
        }
        match (open, self.wait) {
            (0, _) => Ok(()),
            (open, 0) => {
                note(&format!("{} open; the subscriber's leader does it", words::count(open, "request")));
                Ok(())
            }
            (open, seconds) => Err(Failure::refused(format!(
                "{} not carried out within {seconds} s; what is filed stays filed, and is done once the subscriber runs",
                words::count(open, "request")
            ))),
        }
    }
}

/// The request with its outcome, or as it is when the time is over. Reports it when there is no leader to do it, or none
/// may.
async fn wait_for(
    store: &dyn Backend,
    id: Uuid,
    deadline: Instant,
    told: &mut BTreeSet<String>,
) -> Result<Request, Failure> {
    let mut pause = Backoff::new(LOOK_AGAIN.0, LOOK_AGAIN.1);
    loop {
        let request = store.request(id).await?.ok_or(Error::NotFound { what: "request", id })?;
        if request.outcome.is_some() {
            return Ok(request);
        }
        if !told.contains(&request.subscriber_id)
            && let Some(why) = what_it_waits_for(store, &request.subscriber_id).await?
        {
            note(&why);
            told.insert(request.subscriber_id.clone());
        }
        if Instant::now() >= deadline {
            return Ok(request);
        }
        tokio::time::sleep_until(deadline.min(Instant::now() + pause.next_delay())).await;
    }
}

/// Why what was asked of a subscriber is not done at once, if that is known.
pub(crate) async fn what_it_waits_for(store: &dyn Backend, id: &str) -> Result<Option<String>, Failure> {
    if !store.paused(&[id.to_owned()]).await?.is_empty() {
        let resume = words::quoted(id);
        return Ok(Some(format!("{id} is paused: it is done once `highwater resume {resume}` is run")));
    }
    let nobody = leader_of(store, id).await?.is_none();
    Ok(nobody.then(|| format!("no instance leads for {id} at the moment: it is done once an instance does")))
}

fn shown(request: &Request) -> serde_json::Value {
    let outcome = request.outcome.as_ref();
    json!({
        "request": request.id.to_string(),
        "subscriber": request.subscriber_id,
        "kind": request.kind.name(),
        "by": request.requested_by,
        "finished_at": outcome.and_then(|outcome| outcome.finished_at).map(words::exact),
        "done": outcome.map(|outcome| outcome.done),
        "failed": outcome.map(|outcome| outcome.failed),
        "error": outcome.and_then(|outcome| outcome.error.as_deref()),
    })
}

/// Refuses a subscriber that is not there, before anything is asked.
pub(crate) async fn must_exist(store: &dyn Backend, subscriber_id: &str) -> Result<(), Failure> {
    match store.checkpoint(subscriber_id).await? {
        Some(_) => Ok(()),
        None => Err(Error::Bus(BusError::UnknownSubscriber(subscriber_id.to_owned())).into()),
    }
}

/// Nothing that was asked for is there.
pub(crate) fn nothing(what: &str) -> Failure {
    Failure::new(Exit::NotFound, format!("there is no {what}"))
}
