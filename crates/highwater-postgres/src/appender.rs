//! Group commit: one task that stores whatever concurrent callers have asked for while the groups before were committing.
//!
//! No timer and no added delay: a lone call goes out at once. A few lanes, each a connection, work side by side, so that
//! one group is put together and sent while another waits for the disk; no two of them ever work on the same stream. Each
//! caller gets its own answer. Dropping a caller's future withdraws its append if it is still in the queue; if it is under
//! way it is stored whole or not at all, as if the caller had waited. The task ends when the last handle of the store is
//! gone and everything is answered; nothing that a server answers ends it before.
//!
//! ```text
//! callers ──► queue ──► group ──► lane: one statement, one commit ──► answers
//!                                   │ conflict: its callers singly, the rest again; double, deadlock: all singly
//!                                   └ stream held by another transaction: its callers wait in the waiting room
//! ```

mod lane;
mod waiting;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use highwater::backend::{AppendQueue, Appender, Backlog, QueuedAppend};
use highwater::{Appended, Error};
use uuid::Uuid;

use crate::config::PgConfig;
use crate::connect::Connector;
use crate::own_pool::OwnPool;
use crate::sql::Sql;
use crate::wakeups::Announcer;
use lane::{Done, Lane};
use waiting::WaitingRoom;

/// Events that must at least be waiting before a group goes out beside another.
const SIDE_BY_SIDE_MIN: usize = 64;

/// Starts the task, and gives the callers' end of its queue.
pub(crate) fn start(
    connector: &Connector,
    own_pool: &OwnPool,
    sql: &Arc<Sql>,
    config: &PgConfig,
    announcer: &Announcer,
) -> AppendQueue {
    let lanes = Lanes {
        connector: connector.clone(),
        own_pool: own_pool.clone(),
        sql: sql.clone(),
        announcer: announcer.clone(),
        timeout: config.append_timeout,
        count: config.append_connections_max,
        queue_max: config.append_queue_max,
        events_max: config.group_events_max,
        bytes_max: config.group_bytes_max,
    };
    AppendQueue::start(config.append_queue_max, config.append_timeout, lanes)
}

struct Lanes {
    connector: Connector,
    own_pool: OwnPool,
    sql: Arc<Sql>,
    announcer: Announcer,
    timeout: Duration,
    count: usize,
    queue_max: usize,
    events_max: usize,
    bytes_max: usize,
}

impl Appender for Lanes {
    async fn run(&self, backlog: &mut Backlog) {
        let Self { connector, own_pool, sql, announcer, timeout, queue_max, .. } = self;
        let lane = || Lane::new(connector.clone(), sql.clone(), announcer.clone(), *timeout);
        let task = Task {
            backlog,
            idle: (0..self.count).map(|_| lane()).collect(),
            in_flight: HashSet::new(),
            in_flight_events: 0,
            waiting: WaitingRoom::new(own_pool.clone(), sql.clone(), announcer.clone(), *timeout, *queue_max),
            events_max: self.events_max,
            bytes_max: self.bytes_max,
        };
        task.run().await;
    }
}

struct Task<'a> {
    backlog: &'a mut Backlog,
    idle: Vec<Lane>,
    /// The streams that lanes are working on, and how many events.
    in_flight: HashSet<Uuid>,
    in_flight_events: usize,
    waiting: WaitingRoom,
    events_max: usize,
    bytes_max: usize,
}

impl Task<'_> {
    async fn run(mut self) {
        let mut busy = FuturesUnordered::new();
        loop {
            self.backlog.fill();
            while let Some((lane, group)) = self.next_group() {
                busy.push(lane.store(group));
            }
            tokio::select! {
                // What is done makes room for what is new.
                biased;
                Some(done) = busy.next() => {
                    let (answered, events) = (done.answered, done.events);
                    self.finish(done);
                    if busy.is_empty() && answered > 1 && events < SIDE_BY_SIDE_MIN {
                        self.backlog.let_callers_run(answered).await;
                    }
                }
                true = self.backlog.arrived() => {}
                // Nothing under way, no caller left, and then nothing is left to do: a lane would be idle.
                else => return,
            }
        }
    }

    /// A group for a lane that has nothing to do, if there are both.
    fn next_group(&mut self) -> Option<(Lane, Vec<QueuedAppend>)> {
        if self.idle.is_empty() || self.backlog.waiting.is_empty() || !self.worth_a_lane() {
            return None;
        }
        for request in self.waiting.take_held(&mut self.backlog.waiting) {
            self.waiting.admit(request);
        }
        let group = self.backlog.take_group(&self.in_flight, self.events_max, self.bytes_max);
        if group.is_empty() {
            return None;
        }
        self.in_flight.extend(group.iter().flat_map(QueuedAppend::streams));
        self.in_flight_events += events(&group);
        Some((self.idle.pop()?, group))
    }

    /// Alone always. Beside others only what is of their size: less would cost the disk a write and the server a statement
    /// that it shares with the next group for nothing.
    fn worth_a_lane(&self) -> bool {
        self.in_flight_events == 0 || events(&self.backlog.waiting) >= SIDE_BY_SIDE_MIN.max(self.in_flight_events / 2)
    }

    fn finish(&mut self, done: Done) {
        for stream in done.streams {
            self.in_flight.remove(&stream);
        }
        self.in_flight_events -= done.events;
        self.waiting.hold(&done.held);
        for request in done.wait {
            self.waiting.admit(request);
        }
        for request in done.again.into_iter().rev() {
            self.backlog.waiting.push_front(request);
        }
        // The last one is the first to be given a group.
        let place = if done.lane.is_waiting() { 0 } else { self.idle.len() };
        self.idle.insert(place, done.lane);
    }
}

fn events<'a>(requests: impl IntoIterator<Item = &'a QueuedAppend>) -> usize {
    requests.into_iter().map(|request| request.append.records.len()).sum()
}

/// Whether a connection is not used again after an error. A session remembers what a rule made of a statement, also when the
/// rule is gone.
fn costs_the_connection(error: &Error) -> bool {
    matches!(
        error,
        Error::UnknownOutcome { .. } | Error::Unavailable { .. } | Error::Altered { .. } | Error::NotPrimary { .. }
    )
}

/// After the commit: the highest number of what was newly stored.
fn announce<'a>(announcer: &Announcer, answers: impl IntoIterator<Item = &'a Appended>) {
    let new = answers.into_iter().filter(|answer| !answer.repeated);
    if let Some(highest) = new.map(|answer| answer.global_sequence).max() {
        announcer.announce(highest);
    }
}
