//! Who takes part in the cases of delivery: a bus, and subscribers that do as they are told and note what they are given.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use highwater::backend::{Log, Transactional, lock};
use highwater::{
    Append, BoxError, CheckpointMode, Event, EventBus, FailurePolicy, Permanent, Projection, ReliableDeliveryConfig,
    StateIs, SubscriberOptions, Subscription, SubscriptionState, TransactionalProjection,
};
use tokio::sync::watch;
use uuid::Uuid;

use crate::Harness;
use crate::support::{Ledger, delivered, deposits, eventually, store, within};
use crate::transactions::Tx;

/// Delivery without long waits.
pub(crate) fn config() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig {
        max_retries: 2,
        initial_retry_delay: Duration::from_millis(1),
        max_retry_delay: Duration::from_millis(4),
        poll_interval: Duration::from_millis(20),
        wait_timeout: Duration::from_secs(20),
        checkpoint_mode: CheckpointMode::Synchronous,
        ..ReliableDeliveryConfig::default()
    }
}

/// The same in batches. The interval is so long that only counts and idleness end a batch.
pub(crate) fn batched(size: usize) -> ReliableDeliveryConfig {
    let checkpoint_mode = CheckpointMode::Batched { size, interval: Duration::from_secs(60) };
    ReliableDeliveryConfig { checkpoint_mode, ..config() }
}

pub(crate) fn bus<B: Transactional>(store: &B) -> EventBus<B> {
    EventBus::with_config(store.clone(), config())
}

/// Shuts a bus down that nothing keeps from it.
pub(crate) async fn end<B: Transactional>(bus: EventBus<B>) {
    within("a shutdown", bus.shutdown()).await.expect("all stop in time");
}

/// Stores so many deposits in one stream, and says where they are in the log.
pub(crate) async fn fill<L: Log>(log: &L, stream_id: Uuid, count: usize) -> Vec<u64> {
    let done = store(log, &deposits(stream_id, count)).await;
    done.positions.iter().map(|place| place.global_sequence).collect()
}

/// Stores one event, and says where it is in the log.
pub(crate) async fn one<L: Log>(log: &L, stream_id: Uuid, event: Ledger) -> u64 {
    store(log, &Append::to(stream_id).event(event)).await.global_sequence
}

/// Waits until a subscription is in a state.
pub(crate) async fn in_state(subscription: &Subscription, what: &str, wanted: impl Fn(&SubscriptionState) -> bool) {
    eventually(what, || std::future::ready(wanted(&subscription.state()))).await;
}

pub(crate) fn is_halted(state: &SubscriptionState) -> bool {
    matches!(state, SubscriptionState::Halted { .. })
}

/// Something that is shut until it is opened.
#[derive(Clone)]
pub(crate) struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    pub(crate) fn shut() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    async fn pass(&self) {
        let mut opened = self.0.subscribe();
        opened.wait_for(|open| *open).await.expect("the gate holds its own sender");
    }
}

/// What a subscriber does with an event.
pub(crate) enum Act {
    Take,
    Fail(String),
    /// Fails, and says that retrying is no use.
    GiveUp(&'static str),
    Panic(&'static str),
    Hang,
    /// Takes it in as soon as the gate is open.
    Wait(Gate),
}

impl Act {
    pub(crate) fn fail(error: &str) -> Self {
        Self::Fail(error.to_owned())
    }

    async fn play(self) -> Result<(), BoxError> {
        match self {
            Self::Take => Ok(()),
            Self::Fail(error) => Err(error.into()),
            Self::GiveUp(error) => Err(Permanent::new(error).into()),
            Self::Panic(message) => panic!("{message}"),
            Self::Hang => std::future::pending().await,
            Self::Wait(gate) => {
                gate.pass().await;
                Ok(())
            }
        }
    }
}

type Script = dyn Fn(&Event<Ledger>, u32) -> Act + Send + Sync;

/// A role: who it is, and what it does with an event that it is given for the n-th time.
pub(crate) struct Role {
    id: String,
    options: SubscriberOptions,
    script: Box<Script>,
    notes: Mutex<Notes>,
    can_reset: bool,
}

#[derive(Default)]
struct Notes {
    calls: Vec<u64>,
    taken: Vec<u64>,
    attempts: HashMap<u64, u32>,
    resets: usize,
}

impl Role {
    fn new(id: &str) -> Self {
        let (options, notes) = (SubscriberOptions::default(), Mutex::default());
        Self { id: id.to_owned(), options, script: Box::new(|_, _| Act::Take), notes, can_reset: true }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        lock(&self.notes)
    }

    async fn play(&self, event: &Event<Ledger>) -> Result<(), BoxError> {
        let at = event.global_sequence.unwrap_or(0);
        let attempt = {
            let mut notes = self.notes();
            notes.calls.push(at);
            let attempts = notes.attempts.entry(at).or_default();
            *attempts += 1;
            *attempts
        };
        (self.script)(event, attempt).play().await?;
        self.notes().taken.push(at);
        Ok(())
    }
}

/// An ordinary observer.
pub(crate) struct Observer(Role);

/// A transactional projection, which counts every event under its own name and the event's number.
pub(crate) struct Counter<H: Harness> {
    role: Role,
    harness: Arc<H>,
    store: H::Store,
}

macro_rules! roles {
    ($($of:tt)*) => {
        $($of)* {
            /// What it does with an event that it is given for the n-th time.
            pub(crate) fn plays(mut self, script: impl Fn(&Event<Ledger>, u32) -> Act + Send + Sync + 'static) -> Self {
                self.role_mut().script = Box::new(script);
                self
            }

            pub(crate) fn with(mut self, options: SubscriberOptions) -> Self {
                self.role_mut().options = options;
                self
            }

            pub(crate) fn delivery(mut self, config: ReliableDeliveryConfig) -> Self {
                let role = self.role_mut();
                role.options = delivered(role.options.clone(), &config);
                self
            }

            /// It cannot forget anything.
            pub(crate) fn without_reset(mut self) -> Self {
                self.role_mut().can_reset = false;
                self
            }

            pub(crate) fn shared(self) -> Arc<Self> {
                Arc::new(self)
            }

            pub(crate) fn id(&self) -> &str {
                &self.role().id
            }

            /// Every event it was given, as often as it was, in that order.
            pub(crate) fn calls(&self) -> Vec<u64> {
                self.role().notes().calls.clone()
            }

            /// The events it handled, in that order.
            pub(crate) fn taken(&self) -> Vec<u64> {
                self.role().notes().taken.clone()
            }

            pub(crate) fn resets(&self) -> usize {
                self.role().notes().resets
            }

            /// Waits until it has handled so many.
            pub(crate) async fn has_taken(&self, count: usize) {
                let what = format!("{} takes {count} events in", self.id());
                eventually(&what, || std::future::ready(self.taken().len() >= count)).await;
            }
        }
    };
}

roles! { impl Observer }
roles! { impl<H: Harness> Counter<H> }

impl Observer {
    pub(crate) fn new(id: &str) -> Self {
        Self(Role::new(id))
    }

    pub(crate) fn on_failure(mut self, policy: FailurePolicy) -> Self {
        let role = self.role_mut();
        role.options = role.options.clone().on_failure(policy);
        self
    }

    /// Waits until it has been given so many.
    pub(crate) async fn is_called(&self, count: usize) {
        let what = format!("{} is called {count} times", self.id());
        eventually(&what, || std::future::ready(self.calls().len() >= count)).await;
    }

    fn role(&self) -> &Role {
        &self.0
    }

    fn role_mut(&mut self) -> &mut Role {
        &mut self.0
    }
}

impl Projection<Ledger> for Observer {
    const STATE: StateIs = StateIs::Nothing;

    fn subscriber_id(&self) -> &str {
        &self.0.id
    }

    fn options(&self) -> SubscriberOptions {
        self.0.options.clone()
    }

    async fn apply(&self, event: &Event<Ledger>) -> Result<(), BoxError> {
        self.0.play(event).await
    }

    async fn reset(&self) -> Result<(), BoxError> {
        if !self.0.can_reset {
            return Err("it cannot be emptied".into());
        }
        self.0.notes().resets += 1;
        Ok(())
    }
}

impl<H: Harness> Counter<H> {
    pub(crate) fn new(id: &str, harness: &Arc<H>, store: &H::Store) -> Self {
        Self { role: Role::new(id), harness: Arc::clone(harness), store: store.clone() }
    }

    fn role(&self) -> &Role {
        &self.role
    }

    fn role_mut(&mut self) -> &mut Role {
        &mut self.role
    }

    /// What is counted now, under its name: how often by number.
    pub(crate) async fn counts(&self) -> BTreeMap<u64, u64> {
        let prefix = format!("{}/", self.role.id);
        let tallies = self.harness.tallies(&self.store).await.into_iter();
        let own = tallies.filter_map(|(key, count)| Some((key.strip_prefix(&prefix)?.parse().ok()?, count)));
        own.collect()
    }

    /// Checks that these events, and no others, are counted once each.
    pub(crate) async fn assert_counts(&self, events: &[u64]) {
        let wanted: BTreeMap<u64, u64> = events.iter().map(|at| (*at, 1)).collect();
        assert_eq!(self.counts().await, wanted, "every event counts once");
    }
}

impl<H: Harness> TransactionalProjection<Ledger, Tx<H>> for Counter<H> {
    fn subscriber_id(&self) -> &str {
        &self.role.id
    }

    fn options(&self) -> SubscriberOptions {
        self.role.options.clone()
    }

    async fn apply(&self, tx: &mut Tx<H>, event: &Event<Ledger>) -> Result<(), BoxError> {
        // First the count, so that a failure has something to take back.
        let key = format!("{}/{}", self.role.id, event.global_sequence.unwrap_or(0));
        self.harness.tally(&self.store, tx, &key).await?;
        self.role.play(event).await
    }

    async fn reset(&self, tx: &mut Tx<H>) -> Result<(), BoxError> {
        self.harness.clear_tallies(&self.store, tx).await?;
        if !self.role.can_reset {
            return Err("it cannot be emptied".into());
        }
        self.role.notes().resets += 1;
        Ok(())
    }
}
