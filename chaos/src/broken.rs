//! Engines that break one promise each, so that it can be shown that the checker notices.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use highwater::backend::{
    Backend, Begun, BoxFuture, Candidate, Checkpoint, CheckpointWrite, Checkpoints, Closed, Closing, Fence, HeldLock,
    Instance, Leadership, LeadershipSettings, Log, NewDeadLetter, OpenTx, Opening, Page, Position, ReadLimit, Refused,
    Taken, Transactional, View, Want, Wrapper, lock,
};
use highwater::{Append, Appended, Claim, Error, Filter, Limits};
use highwater_postgres::{PgEventStore, PgTx};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use uuid::Uuid;

use crate::base::{Base, OpenFor as Open, Place, Statements};

/// How long handling takes after the checkpoint was stored: time for a crash.
const HANDLING: Duration = Duration::from_millis(25);
/// How long a reader that skips holes waits for one.
const HOLE_PATIENCE: Duration = Duration::from_millis(100);
/// What lies between two writes that should have been one: time for a crash.
const BETWEEN: Duration = Duration::from_secs(1);

/// What is wrong with an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Flaw {
    /// An instance that was ever given a lock believes to have it for ever, and takes whatever term there is for its own.
    NoFencing,
    /// The checkpoint is stored before the event is handled.
    CheckpointFirst,
    /// A number that is missing for a while is taken for one that will never come.
    SkipsHoles,
    /// The checkpoint moves on first, and the dead letter is written afterwards.
    LooseDeadLetter,
    /// A server that has recovered is taken for the one it was before.
    OneLife,
    /// An append that is sent again is acknowledged because it can be seen, whether or not a replica has it.
    TrustsRepeats,
}

/// PostgreSQL with a flaw.
#[derive(Clone)]
pub struct Broken {
    inner: PgEventStore,
    flaw: Flaw,
    /// Where readers wait at a hole, and since when.
    waiting: Arc<Mutex<Option<(u64, Instant)>>>,
}

impl Broken {
    /// The store, with that flaw.
    #[must_use]
    pub fn new(inner: PgEventStore, flaw: Flaw) -> Self {
        Self { inner, flaw, waiting: Arc::default() }
    }

    /// The fence as it is, or with the term that happens to hold.
    async fn fence(&self, fence: &Fence) -> Result<Fence, Error> {
        let mut fence = fence.clone();
        if self.flaw == Flaw::NoFencing
            && let Some(checkpoint) = self.inner.checkpoint(&fence.subscriber_id).await?
        {
            fence.term = checkpoint.term;
        }
        if self.flaw == Flaw::OneLife
            && let Some(checkpoint) = self.inner.checkpoint(&fence.subscriber_id).await?
        {
            fence.incarnation = checkpoint.incarnation;
        }
        Ok(fence)
    }

    /// All lives are one.
    fn forget_life(&self, incarnation: &mut u64) {
        if self.flaw == Flaw::OneLife {
            *incarnation = 1;
        }
    }

    /// The answer to an append of which every event can be seen.
    async fn seen(&self, append: &Append) -> Result<Option<Appended>, Error> {
        let mut positions = Vec::new();
        for new in append.checked(&Limits::default())?.iter() {
            let Some(seen) = self.inner.record(new.id).await? else { return Ok(None) };
            positions.push(Position { stream_version: seen.stream_version, global_sequence: seen.global_sequence });
        }
        Ok(Appended::new(positions, true))
    }

    /// The place before the next event, once a hole has been waited for long enough.
    async fn beyond_the_hole(&self, after: u64) -> Result<Option<u64>, Error> {
        let next = sqlx::query_scalar(include_str!("../sql/postgres/next_event.sql"))
            .bind(after as i64)
            .fetch_one(self.inner.pool());
        let next: Option<i64> = next.await.map_err(unavailable)?;
        let mut waiting = lock(&self.waiting);
        let Some(next) = next else {
            *waiting = None;
            return Ok(None);
        };
        let since = match *waiting {
            Some((place, since)) if place == after => since,
            _ => Instant::now(),
        };
        *waiting = Some((after, since));
        Ok((since.elapsed() > HOLE_PATIENCE).then_some(next as u64 - 1))
    }

    async fn bury_loosely(
        &self,
        tx: OpenTx,
        fence: &Fence,
        dead_letter: &NewDeadLetter,
        from: u64,
    ) -> Result<Closed, Error> {
        let advance = Closing::Advance { from, to: dead_letter.global_sequence, event_id: Some(dead_letter.event_id) };
        let closed = self.inner.commit(tx, fence, advance).await?;
        tokio::time::sleep(BETWEEN).await;
        let mut apart = self.inner.begin().await?;
        let state = if dead_letter.error_message.is_some() { "dead" } else { "parked" };
        sqlx::query(include_str!("../sql/postgres/loose_dead_letter.sql"))
            .bind(&*fence.subscriber_id)
            .bind(dead_letter.event_id)
            .bind(dead_letter.global_sequence as i64)
            .bind(dead_letter.stream_id)
            .bind(&dead_letter.event_type)
            .bind(&dead_letter.error_message)
            .bind(dead_letter.retry_count as i32)
            .bind(state)
            .bind(dead_letter.parks)
            .execute(&mut **apart.tx())
            .await
            .map_err(unavailable)?;
        apart.commit().await?;
        Ok(closed)
    }
}

fn unavailable(source: sqlx::Error) -> Error {
    Error::Unavailable { action: "do what a broken engine does", source: source.into() }
}

impl Base for Broken {
    const SQL: Statements = PgEventStore::SQL;
    const CAN_BE_ASYNCHRONOUS: bool = PgEventStore::CAN_BE_ASYNCHRONOUS;

    async fn open(place: &Place, _name: &str) -> Result<Self, Error> {
        Err(Error::Unfit { reason: format!("{place:?}: say which flaw it has") })
    }

    async fn within(tx: &mut PgTx, sql: &'static str, values: &[&str]) -> Result<(), sqlx::Error> {
        PgEventStore::within(tx, sql, values).await
    }

    async fn make_asynchronous(tx: &mut PgTx) -> Result<(), sqlx::Error> {
        PgEventStore::make_asynchronous(tx).await
    }

    async fn insert_asynchronously(&self, events: &str) -> Result<u64, sqlx::Error> {
        self.inner.insert_asynchronously(events).await
    }

    async fn before_effect(&self, subscriber_id: &str, global_sequence: u64) {
        if self.flaw != Flaw::CheckpointFirst {
            return;
        }
        // Broken as it is, it does not mind when that fails.
        if let Ok(mut apart) = self.inner.begin().await {
            let store = sqlx::query(include_str!("../sql/postgres/checkpoint_first.sql"))
                .bind(subscriber_id)
                .bind(global_sequence as i64)
                .execute(&mut **apart.tx());
            drop(store.await);
            drop(apart.commit().await);
        }
        tokio::time::sleep(HANDLING).await;
    }

    async fn append_held(&self, append: &Append, held: Open) -> Result<Option<Appended>, Error> {
        self.inner.append_held(append, held).await
    }
}

impl Wrapper for Broken {
    fn inner(&self) -> &dyn Backend {
        &self.inner
    }

    fn shared(&self) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }

    fn append<'a>(&'a self, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let seen = if self.flaw == Flaw::TrustsRepeats { self.seen(append).await? } else { None };
            match seen {
                Some(appended) => Ok(appended),
                None => self.inner.append(append).await,
            }
        })
    }

    fn read_all<'a>(&'a self, after: u64, filter: &'a Filter, limit: ReadLimit) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let mut page = self.inner.read_all(after, filter, limit).await?;
            self.forget_life(&mut page.incarnation);
            if self.flaw != Flaw::SkipsHoles || page.complete_to > after || !page.records.is_empty() {
                return Ok(page);
            }
            match self.beyond_the_hole(after).await? {
                Some(complete_to) => Ok(Page { complete_to, ..page }),
                None => Ok(page),
            }
        })
    }

    fn take_over<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        Box::pin(async move {
            let mut taken = self.inner.take_over(claim).await?;
            self.forget_life(&mut taken.checkpoint.incarnation);
            Ok(taken)
        })
    }

    fn store_checkpoints<'a>(
        &'a self,
        writes: &'a [CheckpointWrite],
    ) -> BoxFuture<'a, Result<Vec<Option<Refused>>, Error>> {
        Box::pin(async move {
            let mut writes = writes.to_vec();
            for write in &mut writes {
                write.fence = self.fence(&write.fence).await?;
            }
            self.inner.store_checkpoints(&writes).await
        })
    }

    fn checkpoint<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Checkpoint>, Error>> {
        Box::pin(async move {
            let mut checkpoint = self.inner.checkpoint(subscriber_id).await?;
            if let Some(checkpoint) = &mut checkpoint {
                self.forget_life(&mut checkpoint.incarnation);
            }
            Ok(checkpoint)
        })
    }

    fn begin<'a>(
        &'a self,
        fence: &'a Fence,
        opening: Opening,
        dead_letter: Option<Uuid>,
    ) -> BoxFuture<'a, Result<Begun, Error>> {
        Box::pin(async move { Backend::begin(&self.inner, &self.fence(fence).await?, opening, dead_letter).await })
    }

    fn commit<'a>(
        &'a self,
        tx: OpenTx,
        fence: &'a Fence,
        closing: Closing<'a>,
    ) -> BoxFuture<'a, Result<Closed, Error>> {
        Box::pin(async move {
            let fence = self.fence(fence).await?;
            match closing {
                Closing::Bury { dead_letter, from } if self.flaw == Flaw::LooseDeadLetter => {
                    self.bury_loosely(tx, &fence, dead_letter, from).await
                }
                closing => self.inner.commit(tx, &fence, closing).await,
            }
        })
    }

    fn candidate(&self, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate> {
        let candidate = self.inner.candidate(instance, settings);
        if self.flaw == Flaw::NoFencing { Box::new(Trusting(candidate)) } else { candidate }
    }
}

impl Transactional for Broken {
    type Tx = PgTx;
}

/// A candidate whose locks are never lost, as far as it can tell.
struct Trusting(Box<dyn Candidate>);

struct TrustingHeldLock {
    inner: Box<dyn HeldLock>,
    lost: watch::Sender<bool>,
}

fn trusting(inner: Box<dyn HeldLock>) -> Box<dyn HeldLock> {
    Box::new(TrustingHeldLock { inner, lost: watch::channel(false).0 })
}

impl Candidate for Trusting {
    fn ready(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.0.ready()
    }

    fn try_hold<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> {
        Box::pin(async move { Ok(self.0.try_hold(subscriber_id).await?.map(trusting)) })
    }

    fn hold<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Box<dyn HeldLock>, Error>> {
        Box::pin(async move { Ok(trusting(self.0.hold(subscriber_id).await?)) })
    }

    fn view<'a>(&'a self, wants: &'a [Want]) -> BoxFuture<'a, Result<View, Error>> {
        self.0.view(wants)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.close()
    }
}

impl HeldLock for TrustingHeldLock {
    fn session(&self) -> Option<Uuid> {
        self.inner.session()
    }

    fn is_held(&self) -> bool {
        true
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.lost.subscribe()
    }

    fn release(self: Box<Self>, to: Option<Uuid>) -> BoxFuture<'static, ()> {
        self.inner.release(to)
    }
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broken").field("flaw", &self.flaw).finish_non_exhaustive()
    }
}
