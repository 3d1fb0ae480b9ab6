//! Any backend, with trouble in between: calls that are not made, answers that are lost, processes that die.

use std::fmt;
use std::sync::Arc;

use highwater::backend::{
    Backend, Begun, BoxFuture, Checkpoint, CheckpointWrite, Closed, Closing, DeadLetter, DeadLetterDetail,
    DeadLetterQuery, Fence, Finding, Leader, LockHolder, OpenTx, OpenWriter, Opening, Page, Planned, ReadLimit, Record,
    Refused, Report, Request, StreamPage, StreamRead, Taken, Transactional, Unfinished, Wrapper,
};
use highwater::{Append, Appended, BoxError, Claim, Error, Filter};
use uuid::Uuid;

/// A call that is about to be made.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Call<'a> {
    /// To store events.
    Append,
    /// To read, or to ask where the log is.
    Read,
    /// To make an instance the leader.
    TakeOver,
    /// To store checkpoints.
    StoreCheckpoints(&'a [CheckpointWrite]),
    /// To open a fenced transaction.
    Begin(&'a Fence),
    /// To close one.
    Commit(&'a Fence, Closing<'a>),
    /// To say how a subscriber is.
    Report(&'a [Report]),
    /// To look at checkpoints, dead letters or requests.
    Inspect,
    /// To pause a subscriber or to file a request.
    Request,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is made.
    Through,
    /// It is not made, and that is said.
    Fail,
    /// It is not made, because the server is another one than before.
    Interrupt,
    /// It is made, and nobody hears what came of it.
    Lose,
    /// It is not made, and nothing is ever said: as if the process had died there.
    Die,
}

type Judge = dyn Fn(Call<'_>) -> Verdict + Send + Sync;

/// A backend in front of which a function decides what becomes of every call. Its transactions are those of the backend
/// behind it.
#[derive(Clone)]
pub struct Flaky<B> {
    inner: B,
    judge: Arc<Judge>,
}

impl<B: Transactional> Flaky<B> {
    /// Puts a judge in front of a backend.
    pub fn new(inner: B, judge: impl Fn(Call<'_>) -> Verdict + Send + Sync + 'static) -> Self {
        Self { inner, judge: Arc::new(judge) }
    }

    /// The backend behind.
    #[must_use]
    pub fn inner(&self) -> &B {
        &self.inner
    }

    async fn pass<T>(&self, call: Call<'_>, made: BoxFuture<'_, Result<T, Error>>) -> Result<T, Error> {
        match (self.judge)(call) {
            Verdict::Through => made.await,
            Verdict::Fail => Err(unavailable("it was not let through")),
            Verdict::Interrupt => Err(interrupted()),
            Verdict::Lose => {
                let _lost = made.await?;
                Err(unavailable("the answer was lost"))
            }
            Verdict::Die => {
                drop(made);
                std::future::pending().await
            }
        }
    }
}

fn unavailable(why: &str) -> Error {
    Error::Unavailable { action: "get through to the backend", source: why.into() }
}

fn interrupted() -> Error {
    Error::Interrupted { reason: "the server is another one".to_owned() }
}

/// Locks are not in doubt here, nor is filling a store: what hangs on them is.
impl<B: Transactional> Wrapper for Flaky<B> {
    fn inner(&self) -> &dyn Backend {
        &self.inner
    }

    fn shared(&self) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }

    fn append<'a>(&'a self, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(self.pass(Call::Append, self.inner.append(append)))
    }

    fn read_stream(&self, stream_id: Uuid, read: StreamRead) -> BoxFuture<'_, Result<StreamPage, Error>> {
        Box::pin(self.pass(Call::Read, self.inner.read_stream(stream_id, read)))
    }

    fn read_all<'a>(&'a self, after: u64, filter: &'a Filter, limit: ReadLimit) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(self.pass(Call::Read, self.inner.read_all(after, filter, limit)))
    }

    fn record(&self, event_id: Uuid) -> BoxFuture<'_, Result<Option<Record>, Error>> {
        Box::pin(self.pass(Call::Read, self.inner.record(event_id)))
    }

    fn head(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(self.pass(Call::Read, self.inner.head()))
    }

    fn life(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(self.pass(Call::Read, self.inner.life()))
    }

    fn frontier(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(self.pass(Call::Read, self.inner.frontier()))
    }

    fn open_writers(&self) -> BoxFuture<'_, Result<Vec<OpenWriter>, Error>> {
        Box::pin(self.pass(Call::Read, self.inner.open_writers()))
    }

    fn newest_schema_version<'a>(&'a self, event_type: &'a str) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        Box::pin(self.pass(Call::Read, self.inner.newest_schema_version(event_type)))
    }

    fn take_over<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        Box::pin(self.pass(Call::TakeOver, self.inner.take_over(claim)))
    }

    fn store_checkpoints<'a>(
        &'a self,
        writes: &'a [CheckpointWrite],
    ) -> BoxFuture<'a, Result<Vec<Option<Refused>>, Error>> {
        Box::pin(self.pass(Call::StoreCheckpoints(writes), self.inner.store_checkpoints(writes)))
    }

    fn checkpoint<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Checkpoint>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.checkpoint(subscriber_id)))
    }

    fn checkpoints(&self) -> BoxFuture<'_, Result<Vec<Checkpoint>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.checkpoints()))
    }

    fn set_paused<'a>(&'a self, subscriber_id: &'a str, paused: bool) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(self.pass(Call::Request, self.inner.set_paused(subscriber_id, paused)))
    }

    fn paused<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.paused(subscriber_ids)))
    }

    fn store_reports<'a>(&'a self, reports: &'a [Report]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.pass(Call::Report(reports), self.inner.store_reports(reports)))
    }

    fn reports(&self) -> BoxFuture<'_, Result<Vec<Report>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.reports()))
    }

    fn leaders(&self) -> BoxFuture<'_, Result<Vec<Leader>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.leaders()))
    }

    fn lock_holders<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<LockHolder>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.lock_holders(subscriber_ids)))
    }

    fn parked<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Vec<(Uuid, u64)>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.parked(subscriber_id)))
    }

    fn dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<Vec<DeadLetter>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.dead_letters(query)))
    }

    fn count_dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.count_dead_letters(query)))
    }

    fn dead_letter(&self, id: Uuid) -> BoxFuture<'_, Result<Option<DeadLetterDetail>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.dead_letter(id)))
    }

    fn file_request<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.pass(Call::Request, self.inner.file_request(request)))
    }

    fn open_requests<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<Request>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.open_requests(subscriber_ids)))
    }

    fn request(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Request>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.request(id)))
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.diagnose()))
    }

    fn planned(&self) -> BoxFuture<'_, Result<Vec<Planned>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.planned()))
    }

    fn filling(&self) -> BoxFuture<'_, Result<Option<Unfinished>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.filling()))
    }

    fn count_events(&self, up_to: u64) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(self.pass(Call::Read, self.inner.count_events(up_to)))
    }

    fn all_open_requests<'a>(
        &'a self,
        after: Option<&'a Request>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Request>, Error>> {
        Box::pin(self.pass(Call::Inspect, self.inner.all_open_requests(after, limit)))
    }

    fn begin<'a>(
        &'a self,
        fence: &'a Fence,
        opening: Opening,
        dead_letter: Option<Uuid>,
    ) -> BoxFuture<'a, Result<Begun, Error>> {
        Box::pin(self.pass(Call::Begin(fence), self.inner.begin(fence, opening, dead_letter)))
    }

    fn commit<'a>(
        &'a self,
        tx: OpenTx,
        fence: &'a Fence,
        closing: Closing<'a>,
    ) -> BoxFuture<'a, Result<Closed, Error>> {
        Box::pin(async move {
            let unknown = |why: &str| Error::UnknownOutcome { source: BoxError::from(why) };
            match (self.judge)(Call::Commit(fence, closing)) {
                Verdict::Through => self.inner.commit(tx, fence, closing).await,
                Verdict::Fail => {
                    self.inner.rollback(tx, false).await;
                    Err(unknown("it was not let through"))
                }
                Verdict::Interrupt => {
                    self.inner.rollback(tx, false).await;
                    Err(interrupted())
                }
                Verdict::Lose => {
                    let _lost = self.inner.commit(tx, fence, closing).await?;
                    Err(unknown("the answer was lost"))
                }
                Verdict::Die => {
                    self.inner.rollback(tx, false).await;
                    std::future::pending().await
                }
            }
        })
    }
}

impl<B: Transactional> Transactional for Flaky<B> {
    type Tx = B::Tx;
}

impl<B> fmt::Debug for Flaky<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flaky").finish_non_exhaustive()
    }
}
