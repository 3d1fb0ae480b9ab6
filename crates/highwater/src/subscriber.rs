//! From what an application wrote to what the engine hands events to: the types end here.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::config::check_label;
use crate::delivery::handling::{Failure, TimeBudget, call, unpanicked};
use crate::kinds::check_kinds;
use crate::observer::{NO_RESET, making_tables};
use crate::{
    BoxError, BoxFuture, Event, EventObserver, EventTypes, Invalid, OpenTx, Record, StateIs, SubscriberOptions,
    Transactional, TransactionalProjection, Upcasters, codec,
};

/// What can be subscribed: a [`Projection`](crate::Projection) or any other [`EventObserver`], a
/// [`TransactionalProjection`], either of them in an [`Arc`], or a function by [`observer_fn`].
///
/// `Kind` is only there to tell these apart and is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be subscribed to this bus",
    label = "implements neither `Projection<D>` nor `EventObserver<D>` nor `TransactionalProjection<D, Tx>` for the bus's transactions",
    note = "`D` is the enum of its events, and must implement `serde::Deserialize`",
    note = "a `Projection<D>` says where it keeps its state: `const STATE: StateIs`; for state in memory there is `bus.live_view()`",
    note = "a transactional projection must be written for the transaction of the bus's store: `PgTx`, `SqliteTx` or `MemoryTx`",
    note = "for a closure: `observer_fn(\"projection:name\", |event: Event<MyEvent>| async move {{ Ok(()) }})`"
)]
pub trait IntoSubscriber<B: Transactional, Kind> {
    /// Makes a subscriber of it.
    ///
    /// # Errors
    /// When its name or its enum cannot be used.
    fn into_subscriber(self) -> Result<Subscriber, Invalid>;
}

/// Something that events can be delivered to, without its types.
pub struct Subscriber {
    pub(crate) id: Arc<str>,
    pub(crate) options: SubscriberOptions,
    /// What it wants, by the names that its enum knows.
    pub(crate) types: EventTypes,
    /// The version of the tables that it is written for; none for one that is not handed transactions.
    pub(crate) version: Option<u32>,
    /// Where it keeps its state.
    pub(crate) state: StateIs,
    pub(crate) handler: Handler,
}

pub(crate) enum Handler {
    /// At least once, one by one.
    Each(Box<dyn HandleEach>),
    /// Exactly once, in a transaction of the backend.
    Within(Box<dyn HandleWithin>),
}

pub(crate) trait HandleEach: Send + Sync {
    /// Delivers events one by one, until one fails or something else is to be done. Returns how many were handled.
    fn handle<'a>(
        &'a self,
        records: &'a [Record],
        decoder: Decoder<'a>,
        budget: &'a mut TimeBudget<'_>,
    ) -> BoxFuture<'a, (usize, Option<Failure>)>;
    fn reset(&self) -> BoxFuture<'_, Result<(), BoxError>>;
}

pub(crate) trait HandleWithin: Send + Sync {
    fn handle<'a>(
        &'a self,
        tx: &'a mut OpenTx,
        records: &'a [Record],
        decoder: Decoder<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>>;
    /// Whether there was anything to make.
    fn setup<'a>(&'a self, tx: &'a mut OpenTx) -> BoxFuture<'a, Result<bool, BoxError>>;
    fn reset<'a>(&'a self, tx: &'a mut OpenTx) -> BoxFuture<'a, Result<(), BoxError>>;
}

/// How records become events.
#[derive(Clone, Copy)]
pub(crate) struct Decoder<'a> {
    pub(crate) types: &'a EventTypes,
    pub(crate) upcasters: &'a Upcasters,
}

impl Decoder<'_> {
    /// `None`: not for this subscriber.
    fn decode<D: DeserializeOwned>(&self, record: &Record) -> Result<Option<Event<D>>, BoxError> {
        Ok(codec::decode_kept(record, self.types, self.upcasters)?)
    }
}

impl Subscriber {
    fn new<D: DeserializeOwned>(id: &str, options: SubscriberOptions, handler: Handler) -> Result<Self, Invalid> {
        check_id(id)?;
        check_label("prefers", options.prefers.as_deref())?;
        check_kinds(options.kinds.as_deref())?;
        let known = codec::event_types::<D>()?;
        let types = match &options.event_types {
            Some(wanted) => chosen(known, wanted)?,
            None => known,
        };
        Ok(Self { id: id.into(), options, types, version: None, state: StateIs::Outside, handler })
    }
}

/// Of the types that are known those that are wanted. One that is wanted and not known is a mistake: it would never come.
fn chosen(known: EventTypes, wanted: &EventTypes) -> Result<EventTypes, Invalid> {
    if let (EventTypes::Only(names), EventTypes::Only(wanted)) = (&known, wanted)
        && let Some(unknown) = wanted.iter().find(|wanted| !names.contains(wanted))
    {
        let reason =
            format!("{unknown:?} is none of the events that the subscriber's enum knows: {}", names.join(", "));
        return Err(Invalid::Setting { name: "event_types", reason });
    }
    Ok(known.intersection(wanted.clone()))
}

/// Refuses what cannot be a subscriber's name.
pub(crate) fn check_id(id: &str) -> Result<(), Invalid> {
    if id.is_empty() || id.len() > 255 || id.contains('\0') {
        return Err(Invalid::SubscriberId(id.chars().take(80).collect()));
    }
    Ok(())
}

/// Refuses what cannot be the version of tables: databases store it as a signed number, and 0 is before the first.
fn check_version(version: u32) -> Result<(), Invalid> {
    match i32::try_from(version) {
        Ok(1..) => Ok(()),
        _ => {
            let reason = format!("it is {version}, and must lie between 1 and {}", i32::MAX);
            Err(Invalid::Setting { name: "version", reason })
        }
    }
}

/// Tells the kinds of subscribers apart.
#[derive(Debug)]
#[doc(hidden)]
pub struct Observing<D>(PhantomData<D>);

/// Tells the kinds of subscribers apart.
#[derive(Debug)]
#[doc(hidden)]
pub struct InArc<Kind>(PhantomData<Kind>);

/// Tells the kinds of subscribers apart.
#[derive(Debug)]
#[doc(hidden)]
pub struct InTransaction<D>(PhantomData<D>);

/// Tells the kinds of subscribers apart.
#[derive(Debug)]
#[doc(hidden)]
pub struct Function<D>(PhantomData<D>);

/// What has been subscribed already, for callers that build one themselves.
impl<B: Transactional> IntoSubscriber<B, ()> for Subscriber {
    fn into_subscriber(self) -> Result<Self, Invalid> {
        Ok(self)
    }
}

impl<B, D, O> IntoSubscriber<B, Observing<D>> for O
where
    B: Transactional,
    D: DeserializeOwned + Send + Sync + 'static,
    O: EventObserver<D> + 'static,
{
    fn into_subscriber(self) -> Result<Subscriber, Invalid> {
        observing(Arc::new(self))
    }
}

impl<B, D, O> IntoSubscriber<B, InArc<Observing<D>>> for Arc<O>
where
    B: Transactional,
    D: DeserializeOwned + Send + Sync + 'static,
    O: EventObserver<D> + ?Sized + 'static,
{
    fn into_subscriber(self) -> Result<Subscriber, Invalid> {
        observing(self)
    }
}

fn observing<D, O>(observer: Arc<O>) -> Result<Subscriber, Invalid>
where
    D: DeserializeOwned + Send + Sync + 'static,
    O: EventObserver<D> + ?Sized + 'static,
{
    let (id, options, state) = (observer.subscriber_id().to_owned(), observer.options(), observer.state_is());
    let each = Each { handler: Observed(observer), data: PhantomData::<fn() -> D> };
    Ok(Subscriber { state, ..Subscriber::new::<D>(&id, options, Handler::Each(Box::new(each)))? })
}

/// Events one by one, to whatever takes them.
struct Each<D, T> {
    handler: T,
    data: PhantomData<fn() -> D>,
}

/// An observer that may be shared.
struct Observed<O: ?Sized>(Arc<O>);

/// Handles one event. The loop around it is the same for all kinds, and needs no box for each event. The event is lent and
/// not given, because moving it costs as much as decoding it: a handler that needs to own it takes it out.
trait HandleOne<D>: Send + Sync {
    fn handle_one<'a>(
        &'a self,
        event: &'a mut Option<Event<D>>,
    ) -> impl Future<Output = Result<(), BoxError>> + Send + 'a;
    fn reset(&self) -> BoxFuture<'_, Result<(), BoxError>>;
}

async fn handle_each<D: DeserializeOwned + Send>(
    handler: &impl HandleOne<D>,
    records: &[Record],
    decoder: Decoder<'_>,
    budget: &mut TimeBudget<'_>,
) -> (usize, Option<Failure>) {
    for (done, record) in records.iter().enumerate() {
        if budget.is_enough() {
            return (done, None);
        }
        let mut event = match unpanicked(|| decoder.decode(record)) {
            Ok(event) => event,
            Err(failure) => return (done, Some(failure)),
        };
        // What is not for this subscriber is done as soon as that is known.
        if event.is_some()
            && let Err(failure) = call(handler.handle_one(&mut event), budget.timeout).await
        {
            return (done, Some(failure));
        }
    }
    (records.len(), None)
}

impl<D, O> HandleOne<D> for Observed<O>
where
    D: Send + Sync,
    O: EventObserver<D> + ?Sized,
{
    async fn handle_one(&self, event: &mut Option<Event<D>>) -> Result<(), BoxError> {
        match event {
            Some(event) => self.0.on_event(event).await,
            None => Ok(()),
        }
    }

    fn reset(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        self.0.reset()
    }
}

impl<D, T> HandleEach for Each<D, T>
where
    D: DeserializeOwned + Send + Sync + 'static,
    T: HandleOne<D>,
{
    fn handle<'a>(
        &'a self,
        records: &'a [Record],
        decoder: Decoder<'a>,
        budget: &'a mut TimeBudget<'_>,
    ) -> BoxFuture<'a, (usize, Option<Failure>)> {
        Box::pin(handle_each(&self.handler, records, decoder, budget))
    }

    fn reset(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        self.handler.reset()
    }
}

impl<B, D, P> IntoSubscriber<B, InTransaction<D>> for P
where
    B: Transactional,
    D: DeserializeOwned + Send + Sync + 'static,
    P: TransactionalProjection<D, B::Tx> + 'static,
{
    fn into_subscriber(self) -> Result<Subscriber, Invalid> {
        transactional::<D, P, B::Tx>(Arc::new(self))
    }
}

impl<B, D, P> IntoSubscriber<B, InArc<InTransaction<D>>> for Arc<P>
where
    B: Transactional,
    D: DeserializeOwned + Send + Sync + 'static,
    P: TransactionalProjection<D, B::Tx> + 'static,
{
    fn into_subscriber(self) -> Result<Subscriber, Invalid> {
        transactional::<D, P, B::Tx>(self)
    }
}

fn transactional<D, P, Tx>(projection: Arc<P>) -> Result<Subscriber, Invalid>
where
    D: DeserializeOwned + Send + Sync + 'static,
    P: TransactionalProjection<D, Tx> + 'static,
    Tx: Send + 'static,
{
    let (id, options, version) = (projection.subscriber_id().to_owned(), projection.options(), projection.version());
    check_version(version)?;
    let handler = Handler::Within(Box::new(Typed { projection, types: PhantomData }));
    Ok(Subscriber { version: Some(version), ..Subscriber::new::<D>(&id, options, handler)? })
}

struct Typed<D, P, Tx> {
    projection: Arc<P>,
    types: PhantomData<fn() -> (D, Tx)>,
}

impl<D, P, Tx> HandleWithin for Typed<D, P, Tx>
where
    D: DeserializeOwned + Send + Sync + 'static,
    P: TransactionalProjection<D, Tx>,
    Tx: Send + 'static,
{
    fn handle<'a>(
        &'a self,
        tx: &'a mut OpenTx,
        records: &'a [Record],
        decoder: Decoder<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let tx = tx.get()?;
            if let [record] = records {
                return match decoder.decode(record)? {
                    Some(event) => self.projection.apply(tx, &event).await,
                    None => Ok(()),
                };
            }
            let mut events = Vec::with_capacity(records.len());
            for record in records {
                events.extend(decoder.decode(record)?);
            }
            self.projection.apply_batch(tx, &events).await
        })
    }

    fn setup<'a>(&'a self, tx: &'a mut OpenTx) -> BoxFuture<'a, Result<bool, BoxError>> {
        Box::pin(async move { making_tables(self.projection.setup(tx.get()?)).await })
    }

    fn reset<'a>(&'a self, tx: &'a mut OpenTx) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move { self.projection.reset(tx.get()?).await })
    }
}

/// Makes an observer of a function, for effects outside.
///
/// **State that the function keeps in memory is gone after a restart, and nothing refuses it here**: the checkpoint is stored, so what
/// was handled before is not handed out again. State in memory is for [`live_view`](crate::Bus::live_view).
///
/// ```
/// # use highwater::prelude::*;
/// # #[derive(serde::Serialize, serde::Deserialize)] enum Order { Placed { cents: i64 } }
/// # async fn example(bus: MemoryEventBus) -> Result<(), highwater::Error> {
/// bus.subscribe(observer_fn("projection:log", |event: Event<Order>| async move {
///     println!("{:?}: {}", event.global_sequence, event.event_type);
///     Ok(())
/// }))
/// .await?;
/// # Ok(()) }
/// ```
pub fn observer_fn<D, F, R>(subscriber_id: impl Into<String>, function: F) -> ObserverFn<D, F>
where
    F: Fn(Event<D>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    let options = SubscriberOptions::default();
    ObserverFn { subscriber_id: subscriber_id.into(), options, function, data: PhantomData }
}

/// A function that is handed events; made by [`observer_fn`].
pub struct ObserverFn<D, F> {
    subscriber_id: String,
    options: SubscriberOptions,
    function: F,
    data: PhantomData<fn() -> D>,
}

impl<D, F> ObserverFn<D, F> {
    /// The same with options.
    #[must_use]
    pub fn with_options(self, options: SubscriberOptions) -> Self {
        Self { options, ..self }
    }
}

impl<B, D, F, R> IntoSubscriber<B, Function<D>> for ObserverFn<D, F>
where
    B: Transactional,
    D: DeserializeOwned + Send + Sync + 'static,
    F: Fn(Event<D>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    fn into_subscriber(self) -> Result<Subscriber, Invalid> {
        let (id, options) = (self.subscriber_id.clone(), self.options.clone());
        let each = Each { handler: self, data: PhantomData::<fn() -> D> };
        Subscriber::new::<D>(&id, options, Handler::Each(Box::new(each)))
    }
}

impl<D, F, R> HandleOne<D> for ObserverFn<D, F>
where
    D: Send,
    F: Fn(Event<D>) -> R + Send + Sync,
    R: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    fn handle_one<'a>(
        &'a self,
        event: &'a mut Option<Event<D>>,
    ) -> impl Future<Output = Result<(), BoxError>> + Send + 'a {
        let event = event.take();
        // Called inside, where a panic is caught.
        async move {
            match event {
                Some(event) => (self.function)(event).await,
                None => Ok(()),
            }
        }
    }

    fn reset(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async { Err(NO_RESET.into()) })
    }
}
