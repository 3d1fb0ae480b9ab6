//! The event bus: what applications subscribe to.

mod dead_letters;
mod entry;
mod health;
mod life;
mod live_view;
mod problem;
mod reporter;
mod requests;
mod subscription;
mod unled;
mod waiting;

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use self::entry::Entry;
use crate::delivery::driver::{Control, Driver, Parts, Start};
use crate::delivery::status::{Short, Status};
use crate::delivery::tail::Tail;
use crate::kinds::warn_of_missing_kinds;
use crate::lock::lock;
use crate::{
    Backend, Backoff, BusError, Coordinator, Error, Filter, InstanceMode, IntoSubscriber, Invalid, LocalCoordinator,
    MemoryEventStore, ProjectorCoordinator, ReadLimit, ReliableDeliveryConfig, StartAt, StateIs, Subscriber,
    Transactional,
};

pub(crate) use requests::check_text;
pub(crate) use unled::named;

pub use dead_letters::DeadLetterQueue;
pub use health::Health;
pub use live_view::{LiveView, ViewOptions, ViewSnapshot};
pub use problem::Problem;
pub use requests::Filed;
pub use subscription::Subscription;
pub use waiting::{CaughtUp, Waited};

/// The event bus in memory.
pub type MemoryEventBus = EventBus<MemoryEventStore>;

/// Delivers events to subscribers: every event from their checkpoint on, in order, at least once, through restarts and lost
/// connections; to transactional projections exactly once.
///
/// Clones share everything. A subscriber runs until it is unsubscribed or the bus is shut down; dropping the bus or a
/// [`Subscription`] stops nothing.
///
/// ```
/// use highwater::{MemoryTx, prelude::*};
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// enum Order { Placed { cents: i64 } }
///
/// struct Revenue;
///
/// impl TransactionalProjection<Order, MemoryTx> for Revenue {
///     fn subscriber_id(&self) -> &str { "projection:revenue" }
///     async fn apply(&self, tx: &mut MemoryTx, event: &Event<Order>) -> Result<(), BoxError> {
///         let Order::Placed { cents } = event.data;
///         let before = tx.get("revenue").and_then(|value| value.as_i64()).unwrap_or(0);
///         tx.put("revenue", before + cents);
///         Ok(())
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = MemoryEventStore::new();
/// let bus = MemoryEventBus::new(store.clone());
/// bus.subscribe(Revenue).await?;
///
/// let done = store.append(&Append::to(stream_id("order", "17")).event(Order::Placed { cents: 1299 })).await?;
/// bus.wait_for("projection:revenue", &done).await?;     // read your own writes
/// assert_eq!(store.document("revenue"), Some(1299.into()));
/// bus.shutdown().await?;
/// # Ok::<(), highwater::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct EventBus<B> {
    store: B,
    bus: Bus,
}

/// A bus without the type of its store: everything but subscribing. Every [`EventBus`] is one.
#[derive(Clone)]
pub struct Bus {
    inner: Arc<Inner>,
}

struct Inner {
    config: ReliableDeliveryConfig,
    /// Settings that contradict the coordinator are refused when something is subscribed.
    settings: Result<(), Invalid>,
    shared: Arc<Parts>,
    state: Mutex<BusState>,
    /// Something is to be checked before its time.
    nudge: Notify,
    /// For how long there has been something in the log that readers wait for.
    unsettled: Mutex<Short>,
    /// What other processes have been told of the subscribers here.
    said: reporter::Said,
}

#[derive(Default)]
struct BusState {
    entries: HashMap<Arc<str>, Arc<Entry>>,
    /// What serves all subscribers and views: tail, writer, requests, reporter. Started with the first.
    services: Vec<JoinHandle<()>>,
    views: HashMap<Uuid, live_view::ViewEntry>,
    shut_down: bool,
}

/// How long giving leadership back may take when the time for stopping is used up.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// How long to wait for the end of the log to be known, when a subscriber wants to start there.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait between two looks at it: at first, and at most.
const LOOK_AT_END: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// Among how many numbers the last event is looked for then: those after it were rolled back.
const LAST_AMONG: usize = 32;

impl<B: Transactional> EventBus<B> {
    /// A bus over a store, with the defaults: for one instance. Nothing happens before something is subscribed.
    #[must_use]
    pub fn new(store: B) -> Self {
        Self::with_config(store, ReliableDeliveryConfig::default())
    }

    /// A bus over a store, coordinated with other instances as [`instance_mode`](ReliableDeliveryConfig::instance_mode)
    /// says. Subscribing is refused where [`coordination`](ReliableDeliveryConfig::coordination) is set and nothing is coordinated.
    #[must_use]
    pub fn with_config(store: B, config: ReliableDeliveryConfig) -> Self {
        let (coordinator, settings): (Arc<dyn ProjectorCoordinator>, _) = match config.instance_mode {
            InstanceMode::SingleInstance => {
                let settings = config.without_coordination("it is for InstanceMode::Coordinated");
                (Arc::new(LocalCoordinator::new(&store)), settings)
            }
            InstanceMode::Coordinated => (Arc::new(Coordinator::with_config(&store, &config.coordination)), Ok(())),
        };
        Self { bus: Bus::with(&store, coordinator, config, settings), store }
    }

    /// A bus with a custom coordinator, which is closed with it and decides in place of `instance_mode` and `coordination`:
    /// subscribing is refused where these are set. There is no way to have no coordinator: [`LocalCoordinator`] says that a
    /// single process runs.
    #[must_use]
    pub fn with_coordinator(
        store: B,
        config: ReliableDeliveryConfig,
        coordinator: Arc<dyn ProjectorCoordinator>,
    ) -> Self {
        let settings = config.without_coordination("the bus was given a coordinator, which decides that");
        Self { bus: Bus::with(&store, coordinator, config, settings), store }
    }

    /// The store that events come from.
    #[must_use]
    pub fn store(&self) -> &B {
        &self.store
    }

    /// Starts delivering to a subscriber, from its checkpoint on, or from where its options say when it has none. Returns
    /// as soon as it is started, or stands by because another instance processes; [`Subscription::state`] says which, and
    /// [`Subscription::caught_up`] waits for more.
    ///
    /// # Errors
    /// [`BusError::AlreadySubscribed`](crate::BusError::AlreadySubscribed) when this bus has one of that name; [`Error::Invalid`] for a name, an enum or a setting
    /// that cannot be used, and for [state in memory](StateIs::InMemory) on a store that outlives it; [`Error::NoSession`] when a pooler keeps instances from being coordinated;
    /// [`Error::ShutDown`]; and when the store cannot be reached.
    pub async fn subscribe<Kind>(&self, subscriber: impl IntoSubscriber<B, Kind>) -> Result<Subscription, Error> {
        self.bus.start(subscriber.into_subscriber()?).await
    }
}

/// Once a subscriber is live: whether there are streams of the kinds that it asks for. Ends with its driver.
async fn look_for_kinds(entry: Arc<Entry>, parts: Arc<Parts>, filter: Filter) {
    let mut status = entry.status.clone();
    if status.wait_for(|status| status.state.is_live()).await.is_ok() {
        warn_of_missing_kinds(&entry.id, &*parts.backend, &filter).await;
    }
}

/// What does not depend on the type of the store's transactions.
impl<B> Deref for EventBus<B> {
    type Target = Bus;

    fn deref(&self) -> &Bus {
        &self.bus
    }
}

impl Bus {
    /// A bus that nothing can be subscribed to, over any store: enough to wait for subscribers and to steer them.
    ///
    /// # Errors
    /// [`Error::Invalid`] for settings that cannot be used, `instance_mode` and `coordination` among them: it leads nothing.
    pub fn over(store: &dyn Backend, config: ReliableDeliveryConfig) -> Result<Self, Error> {
        config.validate()?;
        config.without_coordination("nothing can be subscribed to this bus, so it leads nothing")?;
        Ok(Self::with(store, Arc::new(LocalCoordinator::new(store)), config, Ok(())))
    }

    fn with(
        store: &dyn Backend,
        coordinator: Arc<dyn ProjectorCoordinator>,
        config: ReliableDeliveryConfig,
        settings: Result<(), Invalid>,
    ) -> Self {
        let tail = Arc::new(Tail::new(&config));
        let shared = Arc::new(Parts { tail, writer: Arc::default(), backend: store.shared(), coordinator });
        let (state, unsettled) = (Mutex::default(), Mutex::default());
        let said = reporter::Said::default();
        Self { inner: Arc::new(Inner { config, settings, shared, state, nudge: Notify::new(), unsettled, said }) }
    }

    /// Creates or upgrades whatever is needed, as the store's own `initialize` does. May be called any number of times.
    ///
    /// # Errors
    /// As the store's.
    pub async fn initialize(&self) -> Result<(), Error> {
        self.backend().initialize().await
    }

    /// How events are delivered where a subscriber does not say otherwise.
    #[must_use]
    pub fn config(&self) -> &ReliableDeliveryConfig {
        &self.inner.config
    }

    /// The store that events come from.
    #[must_use]
    pub fn backend(&self) -> &dyn Backend {
        &*self.inner.shared.backend
    }

    /// Starts delivering to a subscriber; see [`EventBus::subscribe`].
    async fn start(&self, subscriber: Subscriber) -> Result<Subscription, Error> {
        let config = subscriber.options.over(&self.inner.config);
        config.validate()?;
        self.inner.settings.clone()?;
        let id = subscriber.id.clone();
        if subscriber.state == StateIs::InMemory && self.backend().is_durable() {
            return Err(Invalid::StateInMemory { subscriber_id: id.to_string() }.into());
        }
        let (control, heard) = watch::channel(Control::default());
        let (told, status) = watch::channel(Status::new());
        let entry = Arc::new(Entry::new(id.clone(), control, status, config.clone(), subscriber.version));
        self.inner.enter(&entry)?;
        // From here on the name is taken; a caller that stops waiting for us releases it.
        let guard = Entering { inner: &self.inner, id: Some(&id) };
        self.inner.shared.coordinator.ready().await?;
        let start = match subscriber.options.start {
            StartAt::Beginning => Start::after(0),
            StartAt::After(position) => Start::after(position),
            // Not if it has been somewhere before: that counts, and the end may take a while to be known.
            StartAt::End if self.backend().checkpoint(&id).await?.is_some() => Start::after(0),
            StartAt::End => self.end().await?,
        };
        let paused = self.backend().paused(&[id.to_string()]).await?;
        entry.control.send_modify(|control| control.paused = !paused.is_empty());
        let kinds = subscriber.options.kinds.clone();
        let driver = Driver::new(self.inner.shared.clone(), subscriber, config, start, heard, told);
        {
            let mut state = self.inner.state();
            if state.shut_down {
                return Err(Error::ShutDown);
            }
            self.start_services(&mut state);
            *entry.task() = Some(tokio::spawn(driver.run()).abort_handle());
            if kinds.is_some() {
                tokio::spawn(look_for_kinds(entry.clone(), self.inner.shared.clone(), Filter { kinds, ..Filter::ALL }));
            }
        }
        guard.done();
        self.inner.nudge.notify_one();
        Ok(Subscription::new(self.clone(), entry))
    }

    /// Everything that this bus delivers to.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<Subscription> {
        let mut entries: Vec<_> = self.inner.state().entries.values().cloned().collect();
        entries.sort_by(|a, b| a.id.cmp(&b.id));
        entries.into_iter().map(|entry| Subscription::new(self.clone(), entry)).collect()
    }

    /// The subscription of that name, if this bus has it.
    #[must_use]
    pub fn subscription(&self, subscriber_id: &str) -> Option<Subscription> {
        let entry = self.inner.state().entries.get(subscriber_id).cloned()?;
        Some(Subscription::new(self.clone(), entry))
    }

    /// Stops all subscribers: each finishes its current event, stores its checkpoint and releases leadership to another
    /// instance. Calling it again is harmless.
    ///
    /// # Errors
    /// [`BusError::ShutdownTimedOut`](crate::BusError::ShutdownTimedOut) when some were not done within
    /// [`shutdown_timeout`](ReliableDeliveryConfig::shutdown_timeout). They were aborted: what was in hand is delivered
    /// again at the next start. [`BusError::WaitsForItself`](crate::BusError::WaitsForItself) inside a handler of this bus.
    pub async fn shutdown(&self) -> Result<(), Error> {
        let entries: Vec<_> = {
            let mut state = self.inner.state();
            state.entries.values().try_for_each(|entry| entry.not_within("shutdown()"))?;
            state.shut_down = true;
            state.entries.values().cloned().collect()
        };
        let deadline = tokio::time::Instant::now() + self.inner.config.shutdown_timeout;
        let stopped = self.inner.stop(&entries).await;
        self.inner.last_words(&entries).await;
        // The other instances notice by themselves that one which cannot release in time is gone.
        let closing = self.inner.shared.coordinator.close();
        let patience = deadline.max(tokio::time::Instant::now() + CLOSE_TIMEOUT);
        if tokio::time::timeout_at(patience, closing).await.is_err() {
            tracing::warn!("leadership could not be released in time; it ends with the connection");
        }
        // Not before: subscribers store their last checkpoints through them.
        let mut state = self.inner.state();
        state.views.drain().for_each(|(_, view)| view.abort());
        state.services.drain(..).for_each(|service| service.abort());
        state.entries.clear();
        stopped
    }

    fn start_services(&self, state: &mut BusState) {
        if !state.services.is_empty() {
            return;
        }
        let shared = &self.inner.shared;
        state.services = vec![
            tokio::spawn(shared.tail.clone().run(shared.backend.clone())),
            tokio::spawn(shared.writer.clone().run(shared.backend.clone())),
            tokio::spawn(requests::run(self.inner.clone())),
            tokio::spawn(reporter::run(self.inner.clone())),
        ];
    }

    /// Where the log is settled now, with the event there. While writers are open it may take a moment until that is known.
    async fn end(&self) -> Result<Start, Error> {
        let mut pause = Backoff::new(LOOK_AT_END.0, LOOK_AT_END.1);
        let look = async {
            loop {
                let frontier = self.backend().frontier().await?;
                if frontier > 0 || self.backend().head().await? == 0 {
                    // Numbers that were rolled back are no events.
                    let back = ReadLimit::events(LAST_AMONG);
                    let from = frontier.saturating_sub(LAST_AMONG as u64);
                    match self.backend().read_all(from, &Filter::ALL, back).await {
                        Ok(page) if page.complete_to >= frontier => {
                            let last = page.records.iter().rfind(|record| record.global_sequence <= frontier);
                            return Ok(Start { after: frontier, event: last.map(|last| last.id) });
                        }
                        // The log is another one by now, or its end is large.
                        Ok(_) | Err(Error::Interrupted { .. }) => {}
                        // That concerns those who want the event.
                        Err(Error::Damaged { .. }) => return Ok(Start::after(frontier)),
                        Err(error) => return Err(error),
                    }
                }
                tokio::time::sleep(pause.next_delay()).await;
            }
        };
        match tokio::time::timeout(END_TIMEOUT, look).await {
            Ok(end) => end,
            Err(_) => Err(Error::Unavailable {
                action: "tell where the log ends",
                source: "a transaction that appends has been open all the time; open_writers() says which".into(),
            }),
        }
    }
}

impl Inner {
    /// No panic can happen between two changes that belong together, so a poisoned lock guards a sound state.
    fn state(&self) -> MutexGuard<'_, BusState> {
        lock(&self.state)
    }

    fn enter(&self, entry: &Arc<Entry>) -> Result<(), Error> {
        let mut state = self.state();
        if state.shut_down {
            return Err(Error::ShutDown);
        }
        if state.entries.contains_key(&entry.id) {
            return Err(Error::Bus(BusError::AlreadySubscribed(entry.id.to_string())));
        }
        state.entries.insert(entry.id.clone(), entry.clone());
        Ok(())
    }

    /// Stops subscribers, within the deadline. Any number of callers may do so at once, and each waits for the end.
    async fn stop(&self, entries: &[Arc<Entry>]) -> Result<(), Error> {
        for entry in entries {
            entry.control.send_modify(|control| control.stop = true);
        }
        let deadline = tokio::time::Instant::now() + self.config.shutdown_timeout;
        let mut late = Vec::new();
        for entry in entries {
            if tokio::time::timeout_at(deadline, entry.ended()).await.is_err() {
                if let Some(task) = &*entry.task() {
                    task.abort();
                }
                late.push(entry.id.to_string());
            }
        }
        late.sort();
        if late.is_empty() { Ok(()) } else { Err(Error::Bus(BusError::ShutdownTimedOut { subscribers: late })) }
    }

    fn ids(&self) -> Vec<String> {
        self.state().entries.keys().map(ToString::to_string).collect()
    }

    fn entry(&self, subscriber_id: &str) -> Option<Arc<Entry>> {
        self.state().entries.get(subscriber_id).cloned()
    }

    /// Refuses to wait for a subscriber inside its own handler.
    fn not_within(&self, subscriber_id: &str, action: &'static str) -> Result<(), Error> {
        self.entry(subscriber_id).map_or(Ok(()), |entry| entry.not_within(action))
    }
}

/// Gives a name back unless subscribing has come to its end.
struct Entering<'a> {
    inner: &'a Inner,
    id: Option<&'a Arc<str>>,
}

impl Entering<'_> {
    fn done(mut self) {
        self.id = None;
    }
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.inner.state().entries.remove(id);
        }
    }
}

impl<B> fmt::Debug for EventBus<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bus.fmt(f)
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBus").field("subscribers", &self.inner.ids()).finish_non_exhaustive()
    }
}
