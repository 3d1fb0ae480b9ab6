//! Where appends wait whose streams another transaction holds, so that no other caller waits with them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::Error;
use highwater::backend::{Prepared, QueuedAppend, lock};
use sqlx::postgres::PgConnection;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use uuid::Uuid;

use super::lane::NOT_SENT;
use super::{announce, costs_the_connection};
use crate::connect::Abandoned;
use crate::error::{failed, in_time};
use crate::own_pool::{ANSWER_TIMEOUT, OwnPool};
use crate::sql::Sql;
use crate::wakeups::Announcer;
use crate::write::{self, Alone};

/// Appends that wait on the server at a time, each on a dedicated connection. The others wait for these.
const WAITING_MAX: usize = 2;
/// How much longer than its time an append waits for the server's answer, which gives up first.
const ANSWER_MARGIN: Duration = Duration::from_secs(5);

pub(super) struct WaitingRoom {
    own_pool: OwnPool,
    sql: Arc<Sql>,
    announcer: Announcer,
    timeout: Duration,
    places: Arc<Semaphore>,
    /// The sessions of those that were not answered in time.
    abandoned: Arc<Abandoned>,
    /// One for each append that is here: no more than the queue has.
    room: Arc<Semaphore>,
    /// Streams that were found held, with how many appends wait for them. Further appends to them come here at once
    /// instead of holding up a group.
    held: Arc<Mutex<HashMap<Uuid, usize>>>,
}

impl WaitingRoom {
    pub(super) fn new(own_pool: OwnPool, sql: Arc<Sql>, announcer: Announcer, timeout: Duration, max: usize) -> Self {
        let (places, room) = (Arc::new(Semaphore::new(WAITING_MAX)), Arc::new(Semaphore::new(max)));
        Self { own_pool, sql, announcer, timeout, places, abandoned: Arc::default(), room, held: Arc::default() }
    }

    /// Notes that these streams are held.
    pub(super) fn hold(&self, streams: &[Uuid]) {
        let mut held = lock(&self.held);
        for stream in streams {
            held.entry(*stream).or_default();
        }
    }

    /// Takes the callers concerned out of the backlog.
    pub(super) fn take_held(&self, backlog: &mut VecDeque<QueuedAppend>) -> Vec<QueuedAppend> {
        let held = lock(&self.held);
        if held.is_empty() {
            return Vec::new();
        }
        let concerned = |request: &QueuedAppend| request.streams().any(|stream| held.contains_key(&stream));
        let (concerned, rest): (Vec<_>, Vec<_>) = std::mem::take(backlog).into_iter().partition(concerned);
        *backlog = rest.into();
        concerned
    }

    /// Lets an append wait until its streams are free, its time is up, or its caller goes. Where too many wait already, the caller
    /// is told at once.
    pub(super) fn admit(&self, request: QueuedAppend) {
        let Ok(room) = self.room.clone().try_acquire_owned() else {
            let held = request.append.held(Duration::ZERO);
            return request.answer(Err(held));
        };
        let streams: Vec<Uuid> = request.streams().collect();
        {
            let mut held = lock(&self.held);
            for stream in &streams {
                *held.entry(*stream).or_default() += 1;
            }
        }
        let leave = Leave { held: self.held.clone(), streams };
        let (own_pool, sql, announcer) = (self.own_pool.clone(), self.sql.clone(), self.announcer.clone());
        let (places, abandoned, timeout) = (self.places.clone(), self.abandoned.clone(), self.timeout);
        tokio::spawn(async move {
            let QueuedAppend { append, mut answer } = request;
            let waiting = wait(&own_pool, &sql, &places, &abandoned, &append, timeout);
            let result = tokio::select! {
                result = waiting => result,
                // Its caller has gone; nothing has been stored, or it is whole.
                () = answer.closed() => return,
            };
            drop((leave, room));
            if let Ok(appended) = &result {
                announce(&announcer, [appended]);
            }
            QueuedAppend { append, answer }.answer(result);
        });
    }
}

async fn wait(
    own_pool: &OwnPool,
    sql: &Sql,
    places: &Semaphore,
    abandoned: &Abandoned,
    append: &Prepared,
    timeout: Duration,
) -> Result<highwater::Appended, Error> {
    let started = Instant::now();
    let held = || append.held(started.elapsed());
    let Ok(place) = tokio::time::timeout(timeout, places.acquire()).await else { return Err(held()) };
    let _place = place.expect("the semaphore is never closed");
    let mut lent = own_pool.lend().await?;
    if let Some(found) = at_work(abandoned, lent.kept.connection(), sql).await? {
        lent.give_back();
        return Err(Error::Unavailable { action: NOT_SENT, source: found.into() });
    }
    let under_way = abandoned.unless_done(lent.kept.known);
    let left = timeout.saturating_sub(started.elapsed()).max(Duration::from_millis(1));
    let storing = write::store_alone(lent.kept.connection(), sql, append, Some(left));
    let stored = tokio::time::timeout(left + ANSWER_MARGIN, storing).await;
    // Without an answer the statement is still under way on it: it is closed.
    let stored = stored.map_err(|elapsed| Error::UnknownOutcome { source: elapsed.into() })?;
    if !matches!(&stored, Alone::Answered(Err(Error::UnknownOutcome { .. }))) {
        under_way.done();
    }
    if !matches!(&stored, Alone::Answered(Err(error)) if costs_the_connection(error)) {
        lent.give_back();
    }
    match stored {
        Alone::Answered(answer) => answer,
        Alone::Held => Err(held()),
    }
}

/// What the sessions do that were given up, if there are as many at work as may wait.
async fn at_work(abandoned: &Abandoned, connection: &mut PgConnection, sql: &Sql) -> Result<Option<String>, Error> {
    in_time(ANSWER_TIMEOUT, "see in time whether earlier appends are still at work", async {
        let looked = abandoned.at_work(connection, sql, WAITING_MAX).await;
        looked.map_err(|e| failed("see whether earlier appends are still at work", e))
    })
    .await
}

/// Forgets that streams are held, with the last append that waits for them.
struct Leave {
    held: Arc<Mutex<HashMap<Uuid, usize>>>,
    streams: Vec<Uuid>,
}

impl Drop for Leave {
    fn drop(&mut self) {
        let mut held = lock(&self.held);
        for stream in &self.streams {
            if let Some(waiting) = held.get_mut(stream) {
                *waiting = waiting.saturating_sub(1);
                if *waiting == 0 {
                    held.remove(stream);
                }
            }
        }
    }
}
