//! Why a subscriber is where it is, in words, for observers outside.

mod words;

use std::time::Duration;

use chrono::{DateTime, Utc};

pub(crate) use self::words::{Span, shown};
use crate::repair::REPAIR_LABEL;
use crate::{
    Backend, BusError, DeadLetter, DeadLetterQuery, Error, Leader, LeaderHold, LeaseOverview, LockHolder, OpenWriter,
    Overview, Report, StreamId, SubscriberOverview, SubscriptionState,
};

/// As [`EventStore::explain`](crate::EventStore::explain), where a leader that is behind and does not move is named after another
/// time than ten seconds.
///
/// # Errors
/// As there.
pub async fn explain_with_patience(
    store: &dyn Backend,
    subscriber_id: &str,
    patience: Duration,
) -> Result<Explanation, Error> {
    crate::subscriber::check_id(subscriber_id)?;
    let mut overview = Overview::read(store, Some(subscriber_id), patience).await?;
    let lease = overview.leases.pop();
    let subscriber = lease.as_ref().map(LeaseOverview::explained).or_else(|| overview.subscribers.pop());
    let subscriber = subscriber.ok_or_else(|| Error::Bus(BusError::UnknownSubscriber(subscriber_id.to_owned())))?;
    let open = if subscriber.dead_letters > 0 {
        store.dead_letters(&DeadLetterQuery::of(subscriber_id)).await?
    } else {
        Vec::new()
    };
    let mut causes = match lease {
        Some(lease) => vec![Cause::Lease { holder: lease.holder, acquired_at: lease.acquired_at }],
        None => causes(&overview, &subscriber, &open),
    };
    if !subscriber.is_led() {
        let holders = store.lock_holders(&[subscriber_id.to_owned()]).await?;
        // Before anything else: no instance that is started can do anything about it.
        causes.splice(..0, (!holders.is_empty()).then_some(Cause::LockHeld { holders }));
    }
    Ok(Explanation { frontier: overview.frontier, head: overview.head, subscriber, causes })
}

/// Why a subscriber is where it is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// How it stands.
    pub subscriber: SubscriberOverview,
    /// Up to where the log is settled.
    pub frontier: u64,
    /// The highest committed event, settled or not.
    pub head: u64,
    /// Everything that matters, the most important first; one at least.
    pub causes: Vec<Cause>,
}

/// A reason why a subscriber is where it is. Shown, it is a sentence or two, which also say what to do.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// It has handled everything that is settled.
    CaughtUp {
        /// Where that is.
        checkpoint: u64,
        /// Whether that is all there is to say: then there is nothing to do.
        alone: bool,
    },
    /// It is behind, and works on it.
    CatchingUp {
        /// At most so many events.
        lag_events: u64,
        /// Events per second.
        rate: f64,
        /// How long it will take; none when that is unknown.
        time_left: Option<Duration>,
    },
    /// What is committed behind where the log is settled waits for transactions to end.
    WaitingForWriters {
        /// At most so many events that it has still to handle before it waits for them itself.
        lag_events: u64,
        /// Up to where the log is settled.
        frontier: u64,
        /// The highest event behind that.
        head: u64,
        /// The transactions, the oldest first, as far as they may be seen.
        writers: Vec<OpenWriter>,
    },
    /// It is a lease and no subscriber.
    Lease {
        /// The present or last holder; `None` when none is known.
        holder: Option<Leader>,
        /// When it was last acquired.
        acquired_at: DateTime<Utc>,
    },
    /// It has no leader.
    NobodyLeads {
        /// The last leader; `None` when none is known.
        last: Option<Leader>,
        /// The time of its last report or checkpoint.
        last_seen: DateTime<Utc>,
    },
    /// A session holds its lock and does not lead, which keeps every instance from leading.
    LockHeld {
        /// The session, as far as that can be seen.
        holders: Vec<LockHolder>,
    },
    /// Its checkpoint was moved by hand while it had no leader, and no instance has continued.
    MovedByHand {
        /// Where to.
        checkpoint: u64,
        /// When.
        at: DateTime<Utc>,
        /// The process that did it.
        leader: Leader,
    },
    /// It was unsubscribed or shut down, in good order, and no instance has continued.
    Stopped {
        /// When.
        at: DateTime<Utc>,
        /// The last leader.
        leader: Option<Leader>,
    },
    /// Its leader runs without coordination: whether it still does cannot be told.
    Uncoordinated {
        /// The leader.
        leader: Leader,
        /// The time of its last report or checkpoint.
        last_seen: DateTime<Utc>,
    },
    /// Its leader is behind, and makes no progress.
    NotMoving {
        /// Since when.
        since: DateTime<Utc>,
        /// At most so many events.
        lag_events: u64,
        /// The leader.
        leader: Option<Leader>,
    },
    /// An event has failed, and is retried.
    Retrying {
        /// The event's place in the log.
        global_sequence: u64,
        /// How often it has failed.
        failures: u32,
        /// When it is retried.
        next_at: DateTime<Utc>,
        /// What it failed with.
        error: Option<String>,
    },
    /// It has stopped in front of an event.
    Halted {
        /// Why.
        reason: String,
    },
    /// An operator paused it.
    Paused,
    /// Its leader meets errors of the store.
    Disconnected {
        /// What the store said.
        error: Option<String>,
    },
    /// Streams wait behind events that failed.
    ParkedStreams {
        /// How many.
        count: u64,
        /// The first of them in the order of the log, if it is among the first dead letters.
        first: Option<Box<StreamId>>,
    },
    /// Events that it could not handle wait to be dealt with.
    DeadLetters {
        /// How many.
        count: u64,
        /// The first of them in the order of the log.
        first: Option<Box<DeadLetter>>,
    },
    /// Something was asked for and is not done yet.
    OpenRequests {
        /// How many things; a hundred when there are more.
        count: u64,
    },
    /// Other processes' events are found by polling alone.
    PushDegraded {
        /// Why.
        reason: String,
    },
}

/// Everything that matters: first what keeps it from moving, then how far it is, then what else is to be done.
fn causes(overview: &Overview, subscriber: &SubscriberOverview, open: &[DeadLetter]) -> Vec<Cause> {
    let report = subscriber.report.as_ref();
    let mut causes = Vec::new();
    if subscriber.paused {
        causes.push(Cause::Paused);
    }
    causes.extend(absent(subscriber));
    causes.extend(report.and_then(trouble));
    let (lag_events, leader) = (subscriber.lag_events, subscriber.leader.clone());
    causes.extend(subscriber.still_since.map(|since| Cause::NotMoving { since, lag_events, leader }));
    // For a subscriber that is caught up this matters less.
    let mut uncoordinated = uncoordinated(subscriber);
    if lag_events > 0 && !subscriber.held_back {
        causes.extend(uncoordinated.take());
    }
    if overview.head > overview.frontier {
        let (frontier, head, writers) = (overview.frontier, overview.head, overview.open_writers.clone());
        let lag_events = frontier.saturating_sub(subscriber.checkpoint);
        causes.push(Cause::WaitingForWriters { lag_events, frontier, head, writers });
    }
    causes.extend(whereabouts(overview, subscriber));
    if subscriber.parked_streams > 0 {
        let first = open.iter().find(|dead_letter| dead_letter.parks).map(|dead_letter| Box::new(dead_letter.stream()));
        causes.push(Cause::ParkedStreams { count: subscriber.parked_streams, first });
    }
    if subscriber.dead_letters > 0 {
        let first = open.first().cloned().map(Box::new);
        causes.push(Cause::DeadLetters { count: subscriber.dead_letters, first });
    }
    if subscriber.open_requests > 0 {
        causes.push(Cause::OpenRequests { count: subscriber.open_requests });
    }
    let degraded = report.filter(|_| subscriber.is_led()).and_then(|report| report.push_degraded.clone());
    causes.extend(degraded.map(|reason| Cause::PushDegraded { reason }));
    causes.extend(uncoordinated);
    if let [Cause::CaughtUp { alone, .. }] = &mut causes[..] {
        *alone = true;
    }
    causes
}

fn last_seen(subscriber: &SubscriberOverview) -> DateTime<Utc> {
    let reported_at = subscriber.report.as_ref().map(|report| report.reported_at);
    subscriber.checkpoint_at.max(reported_at.unwrap_or(subscriber.checkpoint_at))
}

/// There is no leader.
fn absent(subscriber: &SubscriberOverview) -> Option<Cause> {
    if subscriber.is_led() {
        return None;
    }
    let leader = subscriber.leader.clone();
    Some(match &subscriber.report {
        // What it last said tells more: it has released the subscriber, or its process is to be restarted.
        Some(Report { state: SubscriptionState::Halted { .. }, .. }) => return None,
        Some(Report { state: SubscriptionState::Stopped, reported_at: at, .. }) => match leader {
            Some(leader) if leader.instance.label.as_deref() == Some(REPAIR_LABEL) => {
                Cause::MovedByHand { checkpoint: subscriber.checkpoint, at: *at, leader }
            }
            leader => Cause::Stopped { at: *at, leader },
        },
        _ => Cause::NobodyLeads { last: leader, last_seen: last_seen(subscriber) },
    })
}

/// The leader is failing.
fn trouble(report: &Report) -> Option<Cause> {
    let error = report.last_error.clone();
    match &report.state {
        SubscriptionState::Halted { reason } => Some(Cause::Halted { reason: reason.to_string() }),
        SubscriptionState::Disconnected { .. } => Some(Cause::Disconnected { error }),
        SubscriptionState::Retrying { global_sequence, failures, next_at, .. } => {
            Some(Cause::Retrying { global_sequence: *global_sequence, failures: *failures, next_at: *next_at, error })
        }
        _ => None,
    }
}

fn uncoordinated(subscriber: &SubscriberOverview) -> Option<Cause> {
    let leader = subscriber.leader.clone().filter(|leader| leader.hold == LeaderHold::Unknown)?;
    subscriber.is_led().then(|| Cause::Uncoordinated { leader, last_seen: last_seen(subscriber) })
}

/// How far it is. For a subscriber that is behind for another reason, that reason is enough.
fn whereabouts(overview: &Overview, subscriber: &SubscriberOverview) -> Option<Cause> {
    if subscriber.held_back {
        return None;
    }
    if subscriber.lag_events > 0 {
        let troubled = subscriber.report.as_ref().and_then(trouble).is_some();
        let works = subscriber.is_led() && !subscriber.paused && !troubled && subscriber.still_since.is_none();
        let (lag_events, rate, time_left) = (subscriber.lag_events, subscriber.rate, subscriber.time_left);
        return works.then_some(Cause::CatchingUp { lag_events, rate, time_left });
    }
    let ends_here = overview.head <= overview.frontier;
    ends_here.then_some(Cause::CaughtUp { checkpoint: subscriber.checkpoint, alone: false })
}

#[cfg(test)]
mod tests;
