//! Decide and evolve: state folded from a stream.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::backoff::Backoff;
use crate::{Append, Appended, Error, Event, EventStream, ExpectedVersion, Log, Metadata, StreamId, StreamRead};

/// How often [`execute`](crate::EventStore::execute) decides again when other writers keep being faster. Each time another
/// writer succeeds.
const DECISIONS_MAX: u32 = 100;
/// After how many lost races it steps back for a moment, so that no writer loses all of them.
const PATIENT_AFTER: u32 = 3;
/// How long it steps back at most, the first time and every time.
const STEP_BACK_MIN: Duration = Duration::from_millis(4);
const STEP_BACK_MAX: Duration = Duration::from_millis(20);
/// How often an append is sent again after an unknown outcome.
const RESENDS_MAX: u32 = 3;

/// State that is folded from the events of a stream.
///
/// ```
/// use highwater::prelude::*;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// enum Order { Placed { cents: i64 }, Shipped }
///
/// #[derive(Default)]
/// struct OrderState { placed: bool, shipped: bool }
///
/// impl Evolve for OrderState {
///     type Event = Order;
///     fn evolve(&mut self, event: &Event<Order>) {
///         match event.data {
///             Order::Placed { .. } => self.placed = true,
///             Order::Shipped => self.shipped = true,
///         }
///     }
/// }
///
/// impl OrderState {
///     fn ship(&self) -> Result<Order, &'static str> {
///         if !self.placed { return Err("nothing to ship") }
///         if self.shipped { return Err("shipped already") }
///         Ok(Order::Shipped)
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = MemoryEventStore::new();
/// let order = stream_id("order", "17");
/// store.append(&Append::to(order).event(Order::Placed { cents: 1299 })).await?;
///
/// let done = store.execute(order, |order: &OrderState| order.ship()).await?;
/// assert_eq!(done.unwrap().stream_version, 2);
/// let refused = store.execute(order, |order: &OrderState| order.ship()).await;
/// assert_eq!(refused.unwrap_err().to_string(), "rejected: shipped already");
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not folded from events",
    note = "write `impl Evolve for {Self}`: `type Event` is your enum of events, `evolve` changes the state by one of them; `Default` is the state before the first"
)]
pub trait Evolve: Default + Send {
    /// The events of the stream.
    type Event: Serialize + DeserializeOwned + Send;

    /// Applies one event.
    fn evolve(&mut self, event: &Event<Self::Event>);
}

/// State with the version of the stream that it was folded from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded<S> {
    /// The state.
    pub state: S,
    /// The version of the last event in it; 0 when the stream does not exist.
    pub version: u64,
}

impl<S> Loaded<S> {
    /// What an append that builds on this state expects.
    #[must_use]
    pub fn expected(&self) -> ExpectedVersion {
        ExpectedVersion::Exact(self.version)
    }
}

/// What a decision may come to: an event, several, or none.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no decision: it holds no events `{D}`",
    note = "the closure returns an event, a `Vec` or an array of events, or an `Option` of one"
)]
pub trait Decision<D> {
    /// The events.
    fn into_events(self) -> Vec<D>;
}

impl<D> Decision<D> for D {
    fn into_events(self) -> Vec<D> {
        vec![self]
    }
}

impl<D> Decision<D> for Vec<D> {
    fn into_events(self) -> Self {
        self
    }
}

impl<D> Decision<D> for Option<D> {
    fn into_events(self) -> Vec<D> {
        self.into_iter().collect()
    }
}

impl<D, const N: usize> Decision<D> for [D; N] {
    fn into_events(self) -> Vec<D> {
        self.into_iter().collect()
    }
}

/// Why [`execute`](crate::EventStore::execute) stored nothing.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError<E> {
    /// The decision was no.
    #[error("rejected: {0}")]
    Rejected(E),
    /// The store failed, or others were faster for too long.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Applies what has been appended since.
pub(crate) async fn catch_up<L, S>(log: &L, stream_id: Uuid, loaded: &mut Loaded<S>) -> Result<(), Error>
where
    L: Log + ?Sized,
    S: Evolve,
{
    let mut events = EventStream::of_stream(log, stream_id, StreamRead::forwards(loaded.version + 1));
    while let Some(event) = events.next().await {
        let event = event?;
        loaded.state.evolve(&event);
        loaded.version = event.stream_version;
    }
    Ok(())
}

pub(crate) async fn execute<L, S, F, R, E>(
    log: &L,
    stream: StreamId,
    metadata: Metadata,
    mut decide: F,
) -> Result<Option<Appended>, ExecuteError<E>>
where
    L: Log + ?Sized,
    S: Evolve,
    F: FnMut(&S) -> Result<R, E> + Send,
    R: Decision<S::Event> + Send,
    E: Send,
{
    let mut loaded = Loaded::<S>::default();
    let mut decisions = 0;
    let mut backoff = Backoff::new(STEP_BACK_MIN, STEP_BACK_MAX);
    loop {
        catch_up(log, stream.id(), &mut loaded).await?;
        let events = decide(&loaded.state).map_err(ExecuteError::Rejected)?.into_events();
        if events.is_empty() {
            return Ok(None);
        }
        let append = Append::to(stream).expecting(loaded.expected()).metadata(&metadata).events(events);
        decisions += 1;
        match send(log, &append).await {
            Ok(done) => return Ok(Some(done)),
            Err(Error::Conflict { .. }) if decisions < DECISIONS_MAX => {
                if decisions > PATIENT_AFTER {
                    tokio::time::sleep(backoff.next_delay().mul_f64(fastrand::f64())).await;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends an append, and sends it again while its outcome is unknown: its ids make that safe.
async fn send<L: Log + ?Sized>(log: &L, append: &Append) -> Result<Appended, Error> {
    let mut sent = log.append(append).await;
    for _ in 0..RESENDS_MAX {
        let Err(unknown @ Error::UnknownOutcome { .. }) = sent else { break };
        sent = match log.append(append).await {
            // Not reached this time: that says nothing about the time before.
            Err(error) if error.is_retryable() => Err(unknown),
            known => known,
        };
    }
    sent
}
