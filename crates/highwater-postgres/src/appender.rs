//! Group commit: one task that stores whatever concurrent callers have asked for while the group before was committing.
//!
//! No timer and no added delay: a lone call goes out at once. Each caller gets an answer of its own. Dropping a caller's
//! future takes back its append if it is still in the queue; if it is under way it is stored whole or not at all, as if
//! the caller had waited. The task ends when the last handle of the store is gone and the queue is empty.
//!
//! ```text
//! callers ──► queue ──► group ──► one statement, one commit ──► answers
//!                         │ conflict: its callers singly, the rest again; double, deadlock: everybody singly
//!                         └ stream held by another transaction: its callers wait in the waiting room, the rest goes on
//! ```

mod group;
mod waiting;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use highwater::{Appended, Error};
use sqlx::PgPool;
use sqlx::postgres::PgConnection;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::config::PgConfig;
use crate::connect::Connector;
use crate::error::{Shared, append_failed, is_lost, sqlstate};
use crate::sql::Sql;
use crate::wakeups::Announcer;
use crate::write::{self, Alone, IDLE_MAX, Outcome, Prepared};
use waiting::WaitingRoom;

/// How long a group may wait for a row that another transaction is inserting. Streams that exist are never waited for;
/// this is for two transactions that create the same one.
const HELD_MAX: Duration = Duration::from_millis(50);

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
        connector: Connector,
        pool: PgPool,
        sql: Arc<Sql>,
        config: &PgConfig,
        announcer: Announcer,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(config.append_queue_max);
        let task = Task {
            queue: receiver,
            backlog: VecDeque::new(),
            connector,
            connection: None,
            waiting: WaitingRoom::new(pool, sql.clone(), announcer.clone(), config.append_timeout),
            sql,
            announcer,
            events_max: config.group_events_max,
            bytes_max: config.group_bytes_max,
            timeout: config.append_timeout,
        };
        tokio::spawn(task.run());
        Self { queue: sender, timeout: config.append_timeout }
    }

    /// Waits for a place in the queue, then for the answer.
    pub(crate) async fn append(&self, append: Prepared) -> Result<Appended, Error> {
        let (answer, answered) = oneshot::channel();
        let request = Request { append, answer };
        let gone = || Error::Unavailable { action: "append", source: "the appender has stopped".into() };
        match tokio::time::timeout(self.timeout, self.queue.send(request)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(gone()),
            Err(_) => return Err(Error::Overloaded { waited: self.timeout }),
        }
        // The task answers every request it takes; it only breaks off when the runtime is shut down under it, and then
        // the statement may have been sent.
        answered.await.unwrap_or_else(|gone| Err(Error::UnknownOutcome { source: gone.into() }))
    }
}

struct Task {
    queue: mpsc::Receiver<Request>,
    /// Taken from the queue, not yet stored. Never more than the queue holds.
    backlog: VecDeque<Request>,
    connector: Connector,
    connection: Option<Owned>,
    waiting: WaitingRoom,
    sql: Arc<Sql>,
    announcer: Announcer,
    events_max: usize,
    bytes_max: usize,
    timeout: Duration,
}

struct Owned {
    connection: PgConnection,
    used: Instant,
}

impl Task {
    async fn run(mut self) {
        loop {
            if self.backlog.is_empty() {
                match self.queue.recv().await {
                    Some(request) => self.backlog.push_back(request),
                    None => return,
                }
            }
            while self.backlog.len() < self.queue.max_capacity() {
                match self.queue.try_recv() {
                    Ok(request) => self.backlog.push_back(request),
                    Err(_) => break,
                }
            }
            for request in self.waiting.take_held(&mut self.backlog) {
                self.waiting.admit(request);
            }
            let group = group::take(&mut self.backlog, self.events_max, self.bytes_max);
            if !group.is_empty() {
                self.store(group).await;
            }
        }
    }

    async fn store(&mut self, group: Vec<Request>) {
        if let Err(error) = self.connect().await {
            return refuse(group, error);
        }
        let outcome = {
            let appends: Vec<&Prepared> = group.iter().map(|request| &request.append).collect();
            let owned = self.connection.as_mut().expect("connect() leaves a connection behind");
            let stored = write::store(&mut owned.connection, &self.sql, &appends, None);
            tokio::time::timeout(self.timeout, stored).await
        };
        match outcome {
            Ok(Ok(Outcome::Stored(answers))) => {
                self.used();
                self.announce(answers.iter());
                for (request, answer) in group.into_iter().zip(answers) {
                    request.answer(Ok(answer));
                }
            }
            Ok(Ok(Outcome::Held(streams))) => {
                self.used();
                self.waiting.hold(&streams);
                self.put_back(group);
            }
            Ok(Ok(Outcome::Conflict(heads))) => {
                self.used();
                let (concerned, rest): (Vec<_>, Vec<_>) =
                    group.into_iter().partition(|request| request.append.conflict(&heads).is_some());
                self.put_back(rest);
                self.store_singly(concerned).await;
            }
            Ok(Err(error)) if concerns_some(&error) => self.store_singly(group).await,
            Ok(Err(error)) => {
                if is_lost(&error) || sqlstate(&error).as_deref() == Some("25006") {
                    self.connection = None;
                }
                refuse(group, append_failed(error));
            }
            // Not answered in time. Whether it was stored is open; the connection is not used again.
            Err(elapsed) => {
                self.connection = None;
                refuse(group, Error::UnknownOutcome { source: elapsed.into() });
            }
        }
    }

    /// Those of a group that may go again.
    fn put_back(&mut self, group: Vec<Request>) {
        for request in group.into_iter().rev() {
            self.backlog.push_front(request);
        }
    }

    /// Everybody of a group that cannot be stored as one, one after the other.
    async fn store_singly(&mut self, group: Vec<Request>) {
        let mut group = group.into_iter();
        while let Some(request) = group.next() {
            if let Err(error) = self.connect().await {
                return refuse(std::iter::once(request).chain(group).collect(), error);
            }
            let owned = self.connection.as_mut().expect("connect() leaves a connection behind");
            let stored = write::store_alone(&mut owned.connection, &self.sql, &request.append, None);
            match tokio::time::timeout(self.timeout, stored).await {
                Ok(Alone::Answered(answer)) => {
                    match &answer {
                        Ok(appended) => self.announce(std::iter::once(appended)),
                        Err(Error::UnknownOutcome { .. } | Error::Unavailable { .. } | Error::NotPrimary { .. }) => {
                            self.connection = None;
                        }
                        Err(_) => {}
                    }
                    self.used();
                    request.answer(answer);
                }
                Ok(Alone::Held) => {
                    self.used();
                    self.waiting.admit(request);
                }
                Err(elapsed) => {
                    self.connection = None;
                    request.answer(Err(Error::UnknownOutcome { source: elapsed.into() }));
                }
            }
        }
    }

    /// Makes sure of a connection, before anything is sent on it.
    async fn connect(&mut self) -> Result<(), Error> {
        if let Some(owned) = &mut self.connection
            && owned.used.elapsed() > IDLE_MAX
            && !write::still_there(&mut owned.connection, self.timeout).await
        {
            self.connection = None;
        }
        if self.connection.is_none() {
            let (connection, _) = self.connector.connect("append", Some(HELD_MAX)).await?;
            self.connection = Some(Owned { connection, used: Instant::now() });
        }
        Ok(())
    }

    fn used(&mut self) {
        if let Some(owned) = &mut self.connection {
            owned.used = Instant::now();
        }
    }

    fn announce<'a>(&self, answers: impl Iterator<Item = &'a Appended>) {
        announce(&self.announcer, answers);
    }
}

/// After the commit: the highest number of what was newly stored.
fn announce<'a>(announcer: &Announcer, answers: impl Iterator<Item = &'a Appended>) {
    let new = answers.filter(|answer| !answer.repeated);
    if let Some(highest) = new.map(|answer| answer.global_sequence).max() {
        announcer.announce(highest);
    }
}

/// Errors that somebody in the group brought about, so that the others deserve another try: a unique violation, bad data,
/// a lock, a deadlock, a violated check.
fn concerns_some(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|code| {
        code.starts_with("22")
            || code.starts_with("23")
            || matches!(code.as_str(), "40P01" | "40001" | "55P03" | "54000")
    })
}

fn refuse(group: Vec<Request>, error: Error) {
    let shared = Shared::new(error);
    for request in group {
        request.answer(Err(shared.for_caller()));
    }
}
