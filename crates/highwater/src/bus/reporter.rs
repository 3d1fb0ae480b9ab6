//! What the leaders in this process say of themselves, kept where other processes can see it.

mod passed_by;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use passed_by::Begun;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{CLOSE_TIMEOUT, Entry, Inner};
use crate::Filter;
use crate::delivery::cut;
use crate::delivery::status::Ends;
use crate::{Error, Report, SubscriptionState};

/// How soon important changes are reported, and how often at most anything is: all subscribers together.
const TELL_INTERVAL: Duration = Duration::from_millis(250);
/// How often the position of a moving subscriber is reported.
const MOVE_INTERVAL: Duration = Duration::from_secs(1);
/// How long to leave the store alone that has not taken a report.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(2);

/// The last report of each subscriber, and its time.
#[derive(Debug, Default)]
pub(super) struct Said(Mutex<HashMap<Arc<str>, (Report, Instant)>>);

/// Tells what has changed, until the bus is shut down. One that nothing happens to says nothing.
pub(super) async fn run(inner: Arc<Inner>) {
    loop {
        let told = inner.tell(|entry| if entry.control.borrow().stop { None } else { report(entry) }).await;
        let pause = match told {
            Ok(()) => TELL_INTERVAL,
            // It informs, and nothing depends on it; trouble with the store is reported elsewhere.
            Err(error) => {
                tracing::debug!(%error, "cannot report how subscribers are; retrying");
                TROUBLE_INTERVAL
            }
        };
        tokio::time::sleep(pause).await;
    }
}

impl Inner {
    async fn tell(&self, report: impl Fn(&Entry) -> Option<Report>) -> Result<(), Error> {
        let entries: Vec<_> = self.state().entries.values().cloned().collect();
        self.tell_of(&entries, report).await
    }

    /// Stores the reports that have changed, in one statement.
    async fn tell_of(&self, entries: &[Arc<Entry>], report: impl Fn(&Entry) -> Option<Report>) -> Result<(), Error> {
        // For as long as it is being stored: the last report must not be overtaken by an earlier one.
        let mut said = self.said.0.lock().await;
        let push_degraded = self.shared.backend.push_degraded().map(|reason| cut(&reason));
        let (mut news, mut begun) = (Vec::new(), Vec::new());
        for entry in entries {
            let Some(report) = report(entry) else { continue };
            let report = Report { push_degraded: push_degraded.clone(), ..report };
            let before = said.get(&entry.id);
            if before.is_none_or(|(before, at)| is_news(before, &report, at.elapsed())) {
                if before.is_none_or(|(before, _)| before.term != report.term) {
                    begun.extend(Begun::of(entry));
                }
                news.push((entry.id.clone(), report));
            }
        }
        if news.is_empty() {
            return Ok(());
        }
        // Before the reports of the leaders before are overwritten.
        passed_by::compare(&self.shared.backend, begun).await?;
        let reports: Vec<Report> = news.iter().map(|(_, report)| report.clone()).collect();
        self.shared.backend.store_reports(&reports).await?;
        let now = Instant::now();
        said.extend(news.into_iter().map(|(id, report)| (id, (report, now))));
        Ok(())
    }

    /// Reports subscribers that have led here as stopped, if that can be stored soon.
    pub(super) async fn last_words(&self, entries: &[Arc<Entry>]) {
        let stopped = |entry: &Entry| {
            let report = Report { state: SubscriptionState::Stopped, rate: 0.0, ..of(entry)? };
            Some(report)
        };
        match tokio::time::timeout(CLOSE_TIMEOUT, self.tell_of(entries, stopped)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "cannot report that subscribers have stopped"),
            Err(_) => tracing::debug!("it could not be reported in time that subscribers have stopped"),
        }
    }
}

/// What a subscriber that leads here says of itself; nothing while it is only about to.
fn report(entry: &Entry) -> Option<Report> {
    let report = of(entry)?;
    let state = match entry.state() {
        SubscriptionState::Starting | SubscriptionState::Standby { .. } => return None,
        SubscriptionState::Retrying { term, global_sequence, failures, next_at, error } => {
            SubscriptionState::Retrying { term, global_sequence, failures, next_at, error: cut(&error).into() }
        }
        SubscriptionState::Disconnected { error } => {
            let error = cut(&error);
            let state = SubscriptionState::Disconnected { error: error.as_str().into() };
            return Some(Report { state, last_error: Some(error), ..report });
        }
        SubscriptionState::Halted { reason } => SubscriptionState::Halted { reason: cut(&reason).into() },
        state => state,
    };
    Some(Report { state, ..report })
}

/// A report of a subscriber led here, without its state.
fn of(entry: &Entry) -> Option<Report> {
    let status = entry.status.borrow();
    Some(Report {
        subscriber_id: entry.id.to_string(),
        term: status.term?,
        state: SubscriptionState::Stopped,
        position: status.handled,
        rate: status.progress(Ends::default(), Duration::ZERO).rate,
        last_error: status.last_error.as_deref().map(cut),
        push_degraded: None,
        reads: status.reads.as_ref().map(|(filter, _)| Filter::clone(filter)),
        reported_at: Utc::now(),
    })
}

/// Whether something matters that has changed, or something moves that was not told of for a while.
fn is_news(before: &Report, now: &Report, since: Duration) -> bool {
    let same = before.term == now.term
        && is_same(&before.state, &now.state)
        && before.last_error == now.last_error
        && before.push_degraded == now.push_degraded;
    let moved = before.position != now.position && since >= MOVE_INTERVAL;
    // Once, when it has come to rest.
    let rests = before.position == now.position && before.rate > 0.0 && now.rate == 0.0;
    !same || moved || rests
}

/// The time of the next retry follows from the number of failures, and is computed whenever it is shown.
fn is_same(before: &SubscriptionState, now: &SubscriptionState) -> bool {
    let failing = |state: &SubscriptionState| match state {
        SubscriptionState::Retrying { global_sequence, failures, .. } => Some((*global_sequence, *failures)),
        _ => None,
    };
    before == now || failing(before).is_some_and(|before| Some(before) == failing(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(position: u64, rate: f64) -> Report {
        Report {
            subscriber_id: "projection:orders".to_owned(),
            term: 7,
            state: SubscriptionState::Live { term: 7 },
            position,
            rate,
            last_error: None,
            push_degraded: None,
            reads: None,
            reported_at: Utc::now(),
        }
    }

    #[test]
    fn who_is_idle_says_nothing() {
        assert!(!is_news(&live(5, 0.0), &live(5, 0.0), Duration::from_secs(3600)));
    }

    #[test]
    fn who_moves_says_so_once_a_second_and_once_when_it_rests() {
        assert!(!is_news(&live(5, 10.0), &live(6, 12.0), Duration::from_millis(900)));
        assert!(is_news(&live(5, 10.0), &live(6, 12.0), Duration::from_secs(1)));
        assert!(!is_news(&live(6, 12.0), &live(6, 11.0), Duration::from_secs(10)));
        assert!(is_news(&live(6, 12.0), &live(6, 0.0), Duration::ZERO));
    }

    #[test]
    fn what_matters_is_said_at_once() {
        let before = live(5, 0.0);
        let retrying = |failures, seconds| {
            let next_at = Utc::now() + Duration::from_secs(seconds);
            Report {
                state: SubscriptionState::Retrying {
                    term: 7,
                    global_sequence: 6,
                    failures,
                    next_at,
                    error: "no".into(),
                },
                ..live(5, 0.0)
            }
        };
        for now in [
            Report { term: 8, ..before.clone() },
            Report { last_error: Some("no room".to_owned()), ..before.clone() },
            Report { push_degraded: Some("a pooler".to_owned()), ..before.clone() },
            Report { state: SubscriptionState::Halted { reason: "no room".into() }, ..before.clone() },
            retrying(1, 1),
        ] {
            assert!(is_news(&before, &now, Duration::ZERO), "{now:?}");
        }
        assert!(is_news(&retrying(1, 1), &retrying(2, 1), Duration::ZERO));
        assert!(!is_news(&retrying(1, 1), &retrying(1, 2), Duration::ZERO), "the same wait, reckoned anew");
    }
}
