//! The queue in front of a backend that stores many callers' appends together.

mod group;

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;

use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::{Appended, Error, Prepared};

/// How many turns others get at most before the next group is made up.
const PATIENCE_MAX: u32 = 64;

/// The callers' end of a bounded queue of appends. Clones share it.
#[derive(Debug, Clone)]
pub struct AppendQueue {
    queue: mpsc::Sender<QueuedAppend>,
    timeout: Duration,
}

/// One caller's append, and where the answer goes.
#[derive(Debug)]
pub struct QueuedAppend {
    /// The append.
    pub append: Prepared,
    /// The caller that waits for it, unless it has gone.
    pub answer: oneshot::Sender<Result<Appended, Error>>,
}

/// What stores the appends of a queue.
pub trait Appender: Send + Sync + 'static {
    /// Answers everything that it takes from the backlog, and ends when the last clone of the queue is gone. May be called
    /// again, after a panic: it remembers nothing from before.
    fn run(&self, backlog: &mut Backlog) -> impl Future<Output = ()> + Send;
}

impl AppendQueue {
    /// A queue for so many appends, whose callers wait so long for a place, and a task in which they are stored. The task
    /// ends when the last clone is gone. A panic in it is an error for the callers whose appends it had taken, and for no
    /// later caller.
    pub fn start(max: usize, timeout: Duration, appender: impl Appender) -> Self {
        let (sender, queue) = mpsc::channel(max);
        let mut backlog = Backlog { queue, open: true, waiting: VecDeque::new(), max, patience: PATIENCE_MAX };
        tokio::spawn(async move {
            while AssertUnwindSafe(appender.run(&mut backlog)).catch_unwind().await.is_err() {
                tracing::error!(
                    "the appender panicked, which is a defect: the appends it had taken are of unknown outcome"
                );
                // One of these may be the cause. Their callers get the error, as those of the appends under way do.
                backlog.waiting.clear();
                // Not before there is something to do, so that it cannot panic without end.
                backlog.arrived().await;
            }
        });
        Self { queue: sender, timeout }
    }

    /// Waits for a place in the queue, then for the answer.
    ///
    /// # Errors
    /// [`Error::Overloaded`] when there was no place in time, and what the answer says.
    pub async fn append(&self, append: Prepared) -> Result<Appended, Error> {
        let (answer, answered) = oneshot::channel();
        let request = QueuedAppend { append, answer };
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
        // Everything that is taken is answered; it only breaks off when the appender panics or the runtime is shut down,
        // and then the statement may have been sent.
        answered.await.unwrap_or_else(|gone| Err(Error::UnknownOutcome { source: gone.into() }))
    }
}

impl QueuedAppend {
    /// Answers the caller.
    pub fn answer(self, answer: Result<Appended, Error>) {
        // The caller may have gone. Its append is what it is; there is no receiver.
        drop(self.answer.send(answer));
    }

    /// The streams it goes to.
    pub fn streams(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.append.streams.iter().map(|(stream, _)| *stream)
    }
}

/// The backend's end of the queue: what has been asked for and is not under way.
#[derive(Debug)]
pub struct Backlog {
    queue: mpsc::Receiver<QueuedAppend>,
    open: bool,
    /// Taken from the queue, the oldest first.
    pub waiting: VecDeque<QueuedAppend>,
    /// Above this nothing more is taken from the queue; what is put back may exceed it.
    max: usize,
    /// How many turns others get before a group is made up.
    patience: u32,
}

impl Backlog {
    /// Takes the next group from the front; what cannot go with it stays, in order.
    ///
    /// Within a group only the first append to a stream may expect anything of it: whether a later one's expectation holds
    /// depends on whether the first is stored. An append that stays behind makes later appends to its streams stay as well,
    /// so that no caller is overtaken for ever. Appends to streams that are `in_flight` stay too. Callers that have gone are
    /// left out.
    pub fn take_group(&mut self, in_flight: &HashSet<Uuid>, events_max: usize, bytes_max: usize) -> Vec<QueuedAppend> {
        group::take_group(&mut self.waiting, in_flight, events_max, bytes_max)
    }

    /// Receives everything that is queued.
    pub fn fill(&mut self) {
        while self.waiting.len() < self.max {
            match self.queue.try_recv() {
                Ok(request) => self.waiting.push_back(request),
                Err(_) => break,
            }
        }
    }

    /// Waits until something has come. False when nothing more will, or when there is no room. May be dropped at any await.
    pub async fn arrived(&mut self) -> bool {
        if !self.open || self.waiting.len() >= self.max {
            return false;
        }
        match self.queue.recv().await {
            Some(request) => self.waiting.push_back(request),
            None => self.open = false,
        }
        self.open
    }

    /// Callers that were just answered may append more: lets them run before the next group is formed, or the quickest of
    /// them would go out alone and the others wait for the disk twice. Not a delay: every ready task runs, then it is our
    /// turn again; and it gives up soon where callers do not come back.
    pub async fn let_callers_run(&mut self, answered: usize) {
        let before = self.waiting.len();
        for _ in 0..self.patience {
            self.fill();
            if self.waiting.len() >= before + answered {
                break;
            }
            tokio::task::yield_now().await;
        }
        let came_back = self.waiting.len() > before;
        self.patience = if came_back { (self.patience * 2).min(PATIENCE_MAX) } else { (self.patience / 2).max(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Append, KindsWritten, Limits, NewRecord, Upcasters};

    /// Answers nothing but by a panic, as often as its caller's event type says.
    struct Panicking;

    impl Appender for Panicking {
        async fn run(&self, backlog: &mut Backlog) {
            loop {
                backlog.fill();
                if backlog.waiting.is_empty() && !backlog.arrived().await {
                    return;
                }
                for request in backlog.take_group(&HashSet::new(), 1, 1) {
                    assert_ne!(request.append.records[0].event_type, "Panics", "as it is told to");
                    request.answer(Err(Error::ShutDown));
                }
            }
        }
    }

    fn append(event_type: &str) -> Prepared {
        let record = NewRecord {
            id: Uuid::now_v7(),
            stream_id: Uuid::now_v7(),
            stream_name: None,
            event_type: event_type.to_owned(),
            schema_version: 1,
            data: "null".to_owned(),
            metadata: "{}".to_owned(),
            created_at: chrono::Utc::now(),
        };
        let append = Append::to(record.stream_id).record(record);
        Prepared::new(&append, &Limits::default(), &Upcasters::default(), &KindsWritten::default()).unwrap()
    }

    #[tokio::test]
    async fn a_panic_in_the_appender_is_an_error_for_its_callers_and_the_next_append_works() {
        let queue = AppendQueue::start(10, Duration::from_secs(5), Panicking);
        for _ in 0..3 {
            let (one, other) = tokio::join!(queue.append(append("Panics")), queue.append(append("Panics")));
            for told in [one, other] {
                assert!(matches!(told, Err(Error::UnknownOutcome { .. })), "{told:?}");
            }
            assert!(matches!(queue.append(append("Fine")).await, Err(Error::ShutDown)), "it answers again");
        }
    }
}
