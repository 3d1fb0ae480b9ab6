//! How everything stands, seen from any process: from what is stored, without a bus and without the subscribers' code.

mod ends;
mod lease;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};

pub(crate) use self::ends::ends;
use self::ends::read_on;
pub use self::lease::LeaseOverview;
use crate::delivery::status::Ends;
use crate::leadership::hold_of;
use crate::{
    Backend, Checkpoint, DeadLetterQuery, Error, Filter, Leader, LeaderHold, OpenWriter, ReadLimit, Report,
    RequestKind, SubscriptionState, Unfinished,
};

/// For how long a leader may be behind without moving before that is reported.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// For how long a reported rate counts: a subscriber that moves reports every second, and stores its checkpoint as often.
const RATE_LASTS: Duration = Duration::from_secs(5);

/// How a log and all its subscribers stand.
///
/// ```
/// use highwater::prelude::*;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = MemoryEventStore::new();
/// for subscriber in store.overview().await?.subscribers {
///     println!("{} {} {}", subscriber.subscriber_id, subscriber.state(), subscriber.lag_events);
/// }
/// # Ok::<(), highwater::Error>(()) }).unwrap();
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    /// Up to where the log is settled, as far as can be told: while writers are open that were not seen to begin, and numbers
    /// are missing that were rolled back, there may be more.
    pub frontier: u64,
    /// The highest committed event, settled or not.
    pub head: u64,
    /// The transactions that readers wait for; only looked for when `head` is beyond `frontier`.
    pub open_writers: Vec<OpenWriter>,
    /// The filling that is not finished: then this is only half of a store, and takes nothing.
    pub filling: Option<Unfinished>,
    /// All that have ever been started, by name.
    pub subscribers: Vec<SubscriberOverview>,
    /// The leases that applications have acquired by hand, by name; see [`Coordinator`](crate::Coordinator). They have no
    /// position in the log, and are never behind.
    pub leases: Vec<LeaseOverview>,
}

/// How one subscriber stands.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SubscriberOverview {
    /// The subscriber.
    pub subscriber_id: String,
    /// Whether it is a lease and no subscriber: only in an [`Explanation`](crate::Explanation) of one.
    pub lease: bool,
    /// Where it continues.
    pub checkpoint: u64,
    /// When that was last written.
    pub checkpoint_at: DateTime<Utc>,
    /// The number of the term that holds.
    pub term: u64,
    /// How many numbers lie between its checkpoint and the highest committed event: at most so many events.
    pub lag_events: u64,
    /// The age of the oldest event beyond its checkpoint, whether it wants that or not; zero when there is none. While it is
    /// held back, that of the oldest transaction that it waits for.
    pub lag: Duration,
    /// Whether it has handled everything that is settled, and what is committed beyond that waits for open transactions.
    pub held_back: bool,
    /// The present or last leader; `None` when none is known.
    pub leader: Option<Leader>,
    /// Whether an operator paused it.
    pub paused: bool,
    /// Its leader's report: only if it still counts. A report that it has stopped or halted counts until another instance leads.
    pub report: Option<Report>,
    /// Events that it handles per second; zero when that is not reported, or there has been no report for a while.
    pub rate: f64,
    /// How long it will take at this rate; none when that is unknown, or when it is held back.
    pub time_left: Option<Duration>,
    /// Open dead letters.
    pub dead_letters: u64,
    /// Streams that wait behind one of them.
    pub parked_streams: u64,
    /// What operators asked for and is not done yet; a hundred when there are more.
    pub open_requests: u64,
    /// The last error that was reported, by whichever leader.
    pub last_error: Option<String>,
    /// Since when it has not moved although it could have, if that is longer than it should be.
    pub still_since: Option<DateTime<Utc>>,
}

impl SubscriberOverview {
    /// What it is doing, in a word or two.
    #[must_use]
    pub fn state(&self) -> &'static str {
        let said = self.report.as_ref().map(|report| &report.state);
        match said {
            _ if self.lease && self.is_led() => "held",
            _ if self.lease => "free",
            _ if self.paused => "paused",
            Some(SubscriptionState::Stopped) => "stopped",
            _ if !self.is_led() => "no leader",
            Some(SubscriptionState::Halted { .. }) => "halted",
            Some(SubscriptionState::Retrying { .. }) => "retrying",
            Some(SubscriptionState::Disconnected { .. }) => "disconnected",
            _ if self.still_since.is_some() => "not moving",
            _ if self.held_back => "held back",
            Some(SubscriptionState::Live { .. }) => "live",
            Some(SubscriptionState::CatchingUp { .. }) => "catching up",
            // Not reported yet, or no longer.
            _ if self.lag_events == 0 => "live",
            _ => "catching up",
        }
    }

    /// Whether an instance leads, or may do so where that cannot be told.
    #[must_use]
    pub fn is_led(&self) -> bool {
        hold_of(self.leader.as_ref(), self.report.as_ref()) != LeaderHold::Gone
    }
}

impl Overview {
    /// Looks how everything stands.
    ///
    /// # Errors
    /// When the store cannot be asked.
    pub(crate) async fn of(store: &dyn Backend) -> Result<Self, Error> {
        Self::read(store, None, PATIENCE).await
    }

    /// The same for one subscriber at most, and with a custom patience.
    pub(crate) async fn read(store: &dyn Backend, only: Option<&str>, patience: Duration) -> Result<Self, Error> {
        let mut checkpoints = store.checkpoints().await?;
        let Ends { frontier, head } = ends(store).await?;
        let frontier = read_on(store, frontier, head).await?;
        checkpoints.retain(|checkpoint| only.is_none_or(|only| only == checkpoint.subscriber_id));
        let (leases, checkpoints): (Vec<_>, Vec<_>) = checkpoints.into_iter().partition(Checkpoint::is_lease);
        let mut oldest = HashMap::new();
        let places: BTreeSet<u64> = checkpoints.iter().map(|checkpoint| checkpoint.global_sequence).collect();
        for at in places.range(..head).copied() {
            let page = store.read_all(at, &Filter::ALL, ReadLimit::events(1)).await?;
            oldest.extend(page.records.first().map(|record| (at, record.created_at)));
        }
        let open_writers = if head > frontier { store.open_writers().await? } else { Vec::new() };
        let filling = store.filling().await?;
        let known = Known::of(store, &checkpoints).await?;
        let leases = leases.into_iter().map(|lease| known.lease(lease)).collect();
        let mut subscribers = Vec::with_capacity(checkpoints.len());
        for checkpoint in checkpoints {
            let oldest = oldest.get(&checkpoint.global_sequence).copied();
            let mut subscriber = known.subscriber(checkpoint, Ends { frontier, head }, oldest, patience);
            if subscriber.held_back {
                // What waits cannot be read; it came after the oldest of those that it waits for began.
                subscriber.lag = open_writers.iter().filter_map(|writer| writer.age).max().unwrap_or_default();
            }
            if known.has_dead_letters {
                let id = &subscriber.subscriber_id;
                subscriber.dead_letters = store.count_dead_letters(&DeadLetterQuery::of(id)).await?;
                if subscriber.dead_letters > 0 {
                    subscriber.parked_streams = store.parked(id).await?.len() as u64;
                }
            }
            subscribers.push(subscriber);
        }
        Ok(Self { frontier, head, open_writers, filling, subscribers, leases })
    }
}

/// What is asked for once for all subscribers.
struct Known {
    leaders: HashMap<String, Leader>,
    reports: HashMap<String, Report>,
    paused: HashSet<String>,
    requests: HashMap<String, u64>,
    has_dead_letters: bool,
}

impl Known {
    async fn of(store: &dyn Backend, checkpoints: &[Checkpoint]) -> Result<Self, Error> {
        let ids: Vec<String> = checkpoints.iter().map(|checkpoint| checkpoint.subscriber_id.clone()).collect();
        let leaders = store.leaders().await?.into_iter();
        let reports = store.reports().await?.into_iter();
        let mut requests = HashMap::new();
        let open = store.open_requests(&ids).await?;
        for request in open.into_iter().filter(|request| request.kind != RequestKind::Reread) {
            *requests.entry(request.subscriber_id).or_default() += 1;
        }
        Ok(Self {
            leaders: leaders.map(|leader| (leader.subscriber_id.clone(), leader)).collect(),
            reports: reports.map(|report| (report.subscriber_id.clone(), report)).collect(),
            paused: store.paused(&ids).await?.into_iter().collect(),
            requests,
            // Mostly there are none: then nobody's need to be counted.
            has_dead_letters: store.count_dead_letters(&DeadLetterQuery::default()).await? > 0,
        })
    }

    fn lease(&self, checkpoint: Checkpoint) -> LeaseOverview {
        let holder = self.leaders.get(&checkpoint.subscriber_id).cloned();
        let (term, acquired_at) = (checkpoint.term.number, checkpoint.updated_at);
        LeaseOverview { name: checkpoint.subscriber_id, holder, term, acquired_at }
    }

    fn subscriber(
        &self,
        checkpoint: Checkpoint,
        ends: Ends,
        oldest: Option<DateTime<Utc>>,
        patience: Duration,
    ) -> SubscriberOverview {
        let id = checkpoint.subscriber_id;
        let leader = self.leaders.get(&id).cloned();
        let said = self.reports.get(&id).cloned();
        let last_error = said.as_ref().and_then(|report| report.last_error.clone());
        let is_led = hold_of(leader.as_ref(), said.as_ref()) != LeaderHold::Gone;
        // Why it stopped or halted is true until another instance leads.
        let lasts =
            |state: &SubscriptionState| matches!(state, SubscriptionState::Stopped | SubscriptionState::Halted { .. });
        let counts = |report: &Report| report.term == checkpoint.term.number && (is_led || lasts(&report.state));
        let report = said.filter(counts);
        let lag_events = ends.head.saturating_sub(checkpoint.global_sequence);
        let held_back = lag_events > 0 && checkpoint.global_sequence >= ends.frontier;
        let now = Utc::now();
        let is_recent = |at: DateTime<Utc>| (now - at).to_std().map_or(true, |age| age < RATE_LASTS);
        let moves = |report: &&Report| is_recent(report.reported_at) || is_recent(checkpoint.updated_at);
        let rate = report.as_ref().filter(moves).map_or(0.0, |report| report.rate);
        let mut subscriber = SubscriberOverview {
            paused: self.paused.contains(&id),
            open_requests: self.requests.get(&id).copied().unwrap_or_default(),
            subscriber_id: id,
            lease: false,
            checkpoint: checkpoint.global_sequence,
            checkpoint_at: checkpoint.updated_at,
            term: checkpoint.term.number,
            lag_events,
            lag: oldest.filter(|_| lag_events > 0).and_then(|at| (now - at).to_std().ok()).unwrap_or_default(),
            rate,
            time_left: time_left(lag_events, rate).filter(|_| !held_back),
            held_back,
            leader,
            report,
            dead_letters: 0,
            parked_streams: 0,
            last_error,
            still_since: None,
        };
        subscriber.still_since = still_since(&subscriber, oldest, now, patience);
        subscriber
    }
}

fn time_left(lag_events: u64, rate: f64) -> Option<Duration> {
    if lag_events == 0 { Some(Duration::ZERO) } else { Duration::try_from_secs_f64(lag_events as f64 / rate).ok() }
}

/// Since when it has not moved, of what it could have done.
fn still_since(
    subscriber: &SubscriberOverview,
    oldest: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
    patience: Duration,
) -> Option<DateTime<Utc>> {
    let leader = subscriber.leader.as_ref().filter(|_| subscriber.is_led())?;
    let may_rest = matches!(
        subscriber.report.as_ref().map(|report| &report.state),
        Some(SubscriptionState::Halted { .. } | SubscriptionState::Retrying { .. })
    );
    if subscriber.lag_events == 0 || subscriber.held_back || subscriber.paused || may_rest {
        return None;
    }
    let told = subscriber.report.as_ref().map(|report| report.reported_at);
    let since = [Some(subscriber.checkpoint_at), told, Some(leader.since), oldest].into_iter().flatten().max()?;
    (now - since).to_std().is_ok_and(|still| still >= patience).then_some(since)
}

#[cfg(test)]
mod tests;
