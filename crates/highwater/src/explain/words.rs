//! Causes in sentences.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{Cause, Explanation};
use crate::bus::named;
use crate::log::{end_of_writers, named_writers};
use crate::{DeadLetter, Leader, LeaderHold, OpenWriter};

/// Characters of a statement or an error that are shown.
const SHOWN_MAX: usize = 300;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subscriber = &self.subscriber;
        let (id, state) = (&subscriber.subscriber_id, subscriber.state());
        match subscriber.lease {
            true => write!(f, "{id} is a lease, {state}.")?,
            false => write!(f, "{id} is {state}, at {} of {}.", subscriber.checkpoint, self.head)?,
        }
        self.causes.iter().try_for_each(|cause| write!(f, "\n{cause}"))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CaughtUp { checkpoint, alone: true } => {
                write!(f, "It has handled everything, up to {checkpoint}. There is nothing to do.")
            }
            Self::CaughtUp { checkpoint, alone: false } => {
                write!(f, "It has got to the end of the log, at {checkpoint}, and is not behind.")
            }
            Self::CatchingUp { lag_events, rate, time_left } => catching_up(f, *lag_events, *rate, *time_left),
            Self::WaitingForWriters { lag_events, frontier, head, writers } => {
                match lag_events {
                    0 => write!(f, "It has handled everything that is settled, up to {frontier}")?,
                    _ => write!(f, "The log is settled up to {frontier}, as far as can be told")?,
                }
                waiting(f, *head, writers)
            }
            Self::Lease { holder, acquired_at } => lease(f, holder.as_ref(), *acquired_at),
            Self::NobodyLeads { last: None, .. } => f.write_str(
                "No instance processes for it, and none is known to have. Start an instance that subscribes it.",
            ),
            Self::NobodyLeads { last: Some(leader), last_seen } => write!(
                f,
                "Nobody processes for it. {} did so last, since {}, and was last seen {}: it ended without a word, or \
                 could not be reached any more. Start an instance that subscribes it, and look why that one ended.",
                Who(leader),
                When(leader.since),
                Ago(*last_seen),
            ),
            Self::LockHeld { holders } => write!(
                f,
                "Nobody can lead: {} has its lock and does not lead. An instance may be about to lead, or be stuck: check its log. \
                 End any other session.",
                named(holders),
            ),
            Self::MovedByHand { checkpoint, at, leader } => write!(
                f,
                "Its checkpoint was put to {checkpoint} by hand {}, by process {} on {}, and no instance has processed for it \
                 since. Start an instance that subscribes it.",
                Ago(*at),
                leader.instance.pid,
                leader.instance.host,
            ),
            Self::Stopped { at, leader } => {
                let who = leader.as_ref().map_or_else(|| "Its leader".to_owned(), |leader| Who(leader).to_string());
                write!(f, "{who} stopped it in good order {}. Start an instance that subscribes it.", Ago(*at))
            }
            Self::Uncoordinated { leader, last_seen } => write!(
                f,
                "{} processes for it without coordination, so it cannot be told whether it still runs; it was last seen \
                 {}. Look at that process, or run it with InstanceMode::Coordinated.",
                Who(leader),
                Ago(*last_seen),
            ),
            Self::NotMoving { since, lag_events, leader } => {
                let who = leader.as_ref().map_or_else(|| "Its leader".to_owned(), |leader| Who(leader).to_string());
                write!(
                    f,
                    "{who} leads, but has not moved since {} ({}), with up to {lag_events} events to handle. A handler may \
                     hang, or the process be stopped or cut off: look at it, and restart it if it does not answer.",
                    When(*since),
                    Ago(*since),
                )
            }
            Self::Retrying { global_sequence, failures, next_at, error } => write!(
                f,
                "Event {global_sequence} has failed {failures} times and is retried at {}: {}. Fix what it fails at; if \
                 it keeps failing it goes the way the subscriber's failure policy says.",
                When(*next_at),
                shown(error.as_deref().unwrap_or("no error was told")),
            ),
            Self::Halted { reason } => {
                write!(f, "It is halted: {}. Fix the cause, then resume it or restart the process.", shown(reason))
            }
            Self::Paused => f.write_str("An operator paused it. Resume it, and it continues from where it is."),
            Self::Disconnected { error } => write!(
                f,
                "Its leader cannot work with the store: {}. It retries until it can; look at the connection between them.",
                shown(error.as_deref().unwrap_or("no error was told")),
            ),
            Self::ParkedStreams { count, first } => {
                write!(f, "{count} {} behind an event that failed", plural(*count, "stream waits", "streams wait"))?;
                if let Some(first) = first {
                    write!(f, ", the first of them {first}")?;
                }
                f.write_str(". Replay the stream once what it fails at is fixed, or discard the event in front.")
            }
            Self::DeadLetters { count, first } => dead_letters(f, *count, first.as_deref()),
            Self::OpenRequests { count } => write!(
                f,
                "{count} {} for the leader. It begins once an instance leads and no pause holds.",
                plural(*count, "request (replay, discard, rebuild) waits", "requests (replay, discard, rebuild) wait"),
            ),
            Self::PushDegraded { reason } => write!(
                f,
                "Other processes' events are found by polling alone: {}. Nothing is lost by that, it only takes longer.",
                shown(reason)
            ),
        }
    }
}

fn lease(f: &mut fmt::Formatter<'_>, holder: Option<&Leader>, acquired_at: DateTime<Utc>) -> fmt::Result {
    f.write_str("It is a lease, which an application acquired by hand, and no subscriber. ")?;
    match holder {
        Some(holder) if holder.hold == LeaderHold::Held => {
            write!(f, "{} has held it since {}. There is nothing to do.", Who(holder), When(holder.since))
        }
        Some(holder) if holder.hold == LeaderHold::Unknown => write!(
            f,
            "{} acquired it at {} without coordination, so it cannot be told whether it still holds it. Look at that process, \
             or run it with InstanceMode::Coordinated.",
            Who(holder),
            When(holder.since),
        ),
        Some(holder) => write!(
            f,
            "No instance holds it. {} did last, and acquired it at {}. The next instance that acquires it gets it; if none does \
             any more, remove it.",
            Who(holder),
            When(holder.since),
        ),
        None => write!(
            f,
            "No instance is known to hold it; it was last acquired at {}. If none acquires it any more, remove it.",
            When(acquired_at),
        ),
    }
}

fn catching_up(f: &mut fmt::Formatter<'_>, lag_events: u64, rate: f64, time_left: Option<Duration>) -> fmt::Result {
    write!(f, "It is catching up: up to {lag_events} events are left")?;
    match time_left {
        Some(left) => write!(f, ", which takes about {} at {rate:.0} events a second. Wait for it.", Span(left)),
        None => f.write_str(", and how fast it progresses is not known yet. Look again in a few seconds."),
    }
}

fn waiting(f: &mut fmt::Formatter<'_>, head: u64, writers: &[OpenWriter]) -> fmt::Result {
    write!(f, "; what comes after that, up to {head}, waits for ")?;
    if writers.is_empty() {
        return f.write_str("a transaction that has ended by now. Look again.");
    }
    let what = plural(writers.len() as u64, "a transaction that is still open", "transactions that are still open");
    let end = end_of_writers(writers);
    let (first, rest) = end.split_at(1);
    write!(f, "{what}: {}. {}{rest}.", named_writers(writers), first.to_uppercase())
}

fn dead_letters(f: &mut fmt::Formatter<'_>, count: u64, first: Option<&DeadLetter>) -> fmt::Result {
    write!(f, "{count} {} open", plural(count, "dead letter is", "dead letters are"))?;
    if let Some(first) = first {
        let error = first.error_message.as_deref().unwrap_or("it waits behind another");
        write!(
            f,
            ", the first for event {} ({}, {}): {}",
            first.global_sequence,
            first.event_type,
            Ago(first.created_at),
            shown(error)
        )?;
    }
    f.write_str(". Replay them once that is fixed, or discard them.")
}

fn plural<'a>(count: u64, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// Cut, in one line, and without a full stop at its end.
pub(crate) fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_end_matches('.');
    match line.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// A leader by its process.
struct Who<'a>(&'a Leader);

impl fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instance = &self.0.instance;
        write!(f, "Process {} on {}", instance.pid, instance.host)?;
        instance.label.as_ref().map_or(Ok(()), |label| write!(f, " ({label})"))
    }
}

/// A time to the second.
struct When(DateTime<Utc>);

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.format("%Y-%m-%d %H:%M:%S UTC"))
    }
}

/// How long ago something was.
struct Ago(DateTime<Utc>);

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ago", Span((Utc::now() - self.0).to_std().unwrap_or_default()))
    }
}

/// A length of time, in the unit that suits it.
pub(crate) struct Span(pub(crate) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0 => write!(f, "{} ms", self.0.as_millis()),
            seconds @ 1..120 => write!(f, "{seconds} s"),
            seconds @ 120..7_200 => write!(f, "{} min", seconds / 60),
            seconds @ 7_200..172_800 => write!(f, "{} h", seconds / 3_600),
            seconds => write!(f, "{} days", seconds / 86_400),
        }
    }
}
