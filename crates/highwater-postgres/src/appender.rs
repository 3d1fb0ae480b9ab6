//! Group commit: one task that stores whatever concurrent callers have asked for while the groups before were committing.
//!
//! No timer and no added delay: a lone call goes out at once. A few lanes, each a connection, work side by side, so that
//! one group is put together and sent while another waits for the disk; no two of them ever work on the same stream. Each
//! caller gets an answer of its own. Dropping a caller's future takes back its append if it is still in the queue; if it is
//! under way it is stored whole or not at all, as if the caller had waited. The task ends when the last handle of the
//! store is gone and everything is answered.
//!
//! ```text
//! callers ──► queue ──► group ──► lane: one statement, one commit ──► answers
//!                                   │ conflict: its callers singly, the rest again; double, deadlock: everybody singly
//!                                   └ stream held by another transaction: its callers wait in the waiting room
//! ```

mod group;
mod lane;
mod waiting;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use highwater::{Appended, Error};
use sqlx::PgPool;
use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::config::PgConfig;
use crate::connect::Connector;
use crate::sql::Sql;
use crate::wakeups::Announcer;
use crate::write::Prepared;
use lane::{Done, Lane};
use waiting::WaitingRoom;

/// Events that must at least be waiting before a group goes out beside another.
const SIDE_BY_SIDE_MIN: usize = 64;

/// How many turns others get at most before the next group is made up.
const PATIENCE_MAX: u32 = 64;

/// One caller's append, and where the answer goes.
struct Request {
    append: Prepared,
    answer: oneshot::Sender<Result<Appended, Error>>,
}

impl Request {
    fn answer(self, answer: Result<Appended, Error>) {
        // The caller may have gone. Its append is what it is; there is nobody to tell.
        drop(self.answer.send(answer));
    }

    fn streams(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.append.streams.iter().map(|(stream, _)| *stream)
    }
}

/// The callers' end.
#[derive(Debug, Clone)]
pub(crate) struct Appender {
    queue: mpsc::Sender<Request>,
    timeout: Duration,
}

impl Appender {
    /// Starts the task.
    pub(crate) fn start(
        connector: &Connector,
        pool: PgPool,
        sql: &Arc<Sql>,
        config: &PgConfig,
        announcer: &Announcer,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(config.append_queue_max);
        let lane = || Lane::new(connector.clone(), sql.clone(), announcer.clone(), config.append_timeout);
        let task = Task {
            queue: receiver,
            backlog: VecDeque::new(),
            backlog_max: config.append_queue_max,
            idle: (0..config.append_connections_max).map(|_| lane()).collect(),
            in_flight: HashSet::new(),
            in_flight_events: 0,
            waiting: WaitingRoom::new(pool, sql.clone(), announcer.clone(), config.append_timeout),
            events_max: config.group_events_max,
            bytes_max: config.group_bytes_max,
            patience: PATIENCE_MAX,
        };
        tokio::spawn(task.run());
        Self { queue: sender, timeout: config.append_timeout }
    }

    /// Waits for a place in the queue, then for the answer.
    pub(crate) async fn append(&self, append: Prepared) -> Result<Appended, Error> {
        let (answer, answered) = oneshot::channel();
        let request = Request { append, answer };
        let gone = || Error::Unavailable { action: "append", source: "the appender has stopped".into() };
        match self.queue.try_send(request) {
            Ok(()) => {}
            Err(TrySendError::Closed(_)) => return Err(gone()),
            Err(TrySendError::Full(request)) => match self.queue.send_timeout(request, self.timeout).await {
                Ok(()) => {}
                Err(SendTimeoutError::Closed(_)) => return Err(gone()),
                Err(SendTimeoutError::Timeout(_)) => return Err(Error::Overloaded { waited: self.timeout }),
            },
        }
        // The task answers every request it takes; it only breaks off when the runtime is shut down under it, and then
        // the statement may have been sent.
        answered.await.unwrap_or_else(|gone| Err(Error::UnknownOutcome { source: gone.into() }))
    }
}

struct Task {
    queue: mpsc::Receiver<Request>,
    /// Taken from the queue, not yet under way.
    backlog: VecDeque<Request>,
    /// Above this nothing more is taken from the queue; what lanes give back may exceed it by the size of their groups.
    backlog_max: usize,
    idle: Vec<Lane>,
    /// The streams that lanes are working on, and how many events.
    in_flight: HashSet<Uuid>,
    in_flight_events: usize,
    waiting: WaitingRoom,
    events_max: usize,
    bytes_max: usize,
    /// How many turns others get before a group is made up.
    patience: u32,
}

impl Task {
    async fn run(mut self) {
        let mut busy = FuturesUnordered::new();
        let mut open = true;
        loop {
            self.fill();
            while let Some((lane, group)) = self.next_group() {
                busy.push(lane.store(group));
            }
            tokio::select! {
                // What is done makes room for what is new.
                biased;
                Some(done) = busy.next() => {
                    let (answered, events) = (done.answered, done.events);
                    self.take_back(done);
                    if busy.is_empty() && answered > 1 && events < SIDE_BY_SIDE_MIN {
                        self.let_callers_run(answered).await;
                    }
                }
                request = self.queue.recv(), if open && self.backlog.len() < self.backlog_max => match request {
                    Some(request) => self.backlog.push_back(request),
                    None => open = false,
                },
                // Nothing under way, nobody left who could ask, and then nothing is left to do: a lane would be idle.
                else => return,
            }
        }
    }

    /// Takes in whatever is waiting.
    fn fill(&mut self) {
        while self.backlog.len() < self.backlog_max {
            match self.queue.try_recv() {
                Ok(request) => self.backlog.push_back(request),
                Err(_) => break,
            }
        }
    }

    /// Those who were just answered may have more to ask: lets them run before the next group is made up, or the quickest
    /// of them would go out alone and the others wait for the disk twice. Not a delay: whoever is ready to run runs, then it
    /// is our turn again; and it gives up soon where callers do not come back.
    async fn let_callers_run(&mut self, answered: usize) {
        let before = self.backlog.len();
        for _ in 0..self.patience {
            self.fill();
            if self.backlog.len() >= before + answered {
                break;
            }
            tokio::task::yield_now().await;
        }
        let came_back = self.backlog.len() > before;
        self.patience = if came_back { (self.patience * 2).min(PATIENCE_MAX) } else { (self.patience / 2).max(1) };
    }

    /// A group for a lane that has nothing to do, if there are both.
    fn next_group(&mut self) -> Option<(Lane, Vec<Request>)> {
        if self.idle.is_empty() || self.backlog.is_empty() || !self.worth_a_lane() {
            return None;
        }
        for request in self.waiting.take_held(&mut self.backlog) {
            self.waiting.admit(request);
        }
        let group = group::take(&mut self.backlog, &self.in_flight, self.events_max, self.bytes_max);
        if group.is_empty() {
            return None;
        }
        self.in_flight.extend(group.iter().flat_map(Request::streams));
        self.in_flight_events += events(&group);
        Some((self.idle.pop()?, group))
    }

    /// Alone always. Beside others only what is of their size: less would cost the disk a write and the server a statement
    /// that it shares with the next group for nothing.
    fn worth_a_lane(&self) -> bool {
        self.in_flight_events == 0 || events(&self.backlog) >= SIDE_BY_SIDE_MIN.max(self.in_flight_events / 2)
    }

    fn take_back(&mut self, done: Done) {
        for stream in done.streams {
            self.in_flight.remove(&stream);
        }
        self.in_flight_events -= done.events;
        self.waiting.hold(&done.held);
        for request in done.wait {
            self.waiting.admit(request);
        }
        for request in done.again.into_iter().rev() {
            self.backlog.push_front(request);
        }
        self.idle.push(done.lane);
    }
}

fn events<'a>(requests: impl IntoIterator<Item = &'a Request>) -> usize {
    requests.into_iter().map(|request| request.append.records.len()).sum()
}

/// After the commit: the highest number of what was newly stored.
fn announce<'a>(announcer: &Announcer, answers: impl IntoIterator<Item = &'a Appended>) {
    let new = answers.into_iter().filter(|answer| !answer.repeated);
    if let Some(highest) = new.map(|answer| answer.global_sequence).max() {
        announcer.announce(highest);
    }
}
