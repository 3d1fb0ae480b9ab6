//! A projection with tables of a version.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::backend::{Backend, Transactional, lock};
use highwater::{
    BoxError, BusError, Error, Event, EventBus, GlobalSequence, SubscriberOptions, Subscription, SubscriptionState,
    TransactionalProjection,
};

use crate::Harness;
use crate::checkpoints::stored;
use crate::support::Ledger;
use crate::transactions::Tx;

pub(super) const ID: &str = "projection:model";

/// A projection with tables, which notes what is done with it.
pub(super) struct Model<H: Harness> {
    version: u32,
    options: SubscriberOptions,
    harness: Arc<H>,
    store: H::Store,
    /// How often `setup` fails before it works.
    fails: AtomicU32,
    notes: Arc<Mutex<Vec<String>>>,
}

impl<H: Harness> Model<H> {
    pub(super) fn new(version: u32, harness: &Arc<H>, store: &H::Store) -> Self {
        let (options, fails, notes) = (SubscriberOptions::new(), AtomicU32::new(0), Arc::default());
        Self { version, options, harness: Arc::clone(harness), store: store.clone(), fails, notes }
    }

    pub(super) fn rebuilding(self) -> Self {
        Self { options: self.options.rebuild_on_new_version(), ..self }
    }

    pub(super) fn failing(self, times: u32) -> Self {
        Self { fails: AtomicU32::new(times), ..self }
    }

    fn note(&self, what: String) {
        lock(&self.notes).push(what);
    }
}

impl<H: Harness> TransactionalProjection<Ledger, Tx<H>> for Model<H> {
    fn subscriber_id(&self) -> &str {
        ID
    }

    fn options(&self) -> SubscriberOptions {
        self.options.clone()
    }

    fn version(&self) -> u32 {
        self.version
    }

    async fn setup(&self, tx: &mut Tx<H>) -> Result<(), BoxError> {
        // First the writing, so that a failure has something to take back.
        self.harness.tally(&self.store, tx, &format!("made/{}", self.version)).await?;
        self.note(format!("setup {}", self.version));
        match self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(left) if left % 2 == 0 => panic!("no room for tables"),
            Ok(_) => Err("no room for tables".into()),
            Err(_) => Ok(()),
        }
    }

    async fn apply(&self, tx: &mut Tx<H>, event: &Event<Ledger>) -> Result<(), BoxError> {
        let at = event.global_sequence.unwrap_or(0);
        self.note(format!("event {at}"));
        self.harness.tally(&self.store, tx, &format!("{at}")).await
    }

    async fn reset(&self, tx: &mut Tx<H>) -> Result<(), BoxError> {
        self.note("reset".to_owned());
        self.harness.clear_tallies(&self.store, tx).await
    }
}

pub(super) type Notes = Arc<Mutex<Vec<String>>>;

/// Subscribes it, and gives what it notes.
pub(super) async fn play<H: Harness, B>(bus: &EventBus<B>, model: Model<H>) -> (Subscription, Notes)
where
    B: Transactional<Tx = Tx<H>>,
{
    let notes = Arc::clone(&model.notes);
    (bus.subscribe(model).await.expect("it can be subscribed"), notes)
}

pub(super) fn noted(notes: &Notes) -> Vec<String> {
    lock(notes).clone()
}

pub(super) fn events(places: &[u64]) -> Vec<String> {
    places.iter().map(|at| format!("event {at}")).collect()
}

pub(super) fn counted(made: Option<u32>, places: &[u64]) -> BTreeMap<String, u64> {
    let made = made.map(|version| format!("made/{version}"));
    made.into_iter().chain(places.iter().map(u64::to_string)).map(|key| (key, 1)).collect()
}

/// The events that are counted. Whether emptying also takes what was written in the same transaction is the harness's affair.
pub(super) async fn counts<H: Harness>(harness: &H, store: &H::Store) -> BTreeMap<String, u64> {
    let mut tallies = harness.tallies(store).await;
    tallies.retain(|key, _| !key.starts_with("made/"));
    tallies
}

pub(super) async fn version_of(store: &dyn Backend) -> Option<u32> {
    stored(store, ID).await.and_then(|found| found.setup_version)
}

pub(super) async fn arrives<B>(bus: &EventBus<B>, at: u64) {
    bus.wait_for(ID, GlobalSequence(at)).await.expect("it gets there");
}

/// Which tables a reader is warned of: their version, and the one that its code is written for.
pub(super) async fn refused<B>(bus: &EventBus<B>, at: u64) -> (Option<u32>, u32) {
    match bus.wait_for_within(ID, GlobalSequence(at), Duration::ZERO).await {
        Err(Error::Bus(BusError::OtherTables { found, wanted, .. })) => (found, wanted),
        other => panic!("these tables are not those of the code: {other:?}"),
    }
}

pub(super) fn reason(subscription: &Subscription) -> String {
    match subscription.state() {
        SubscriptionState::Halted { reason } => reason.to_string(),
        other => panic!("it is not halted: {other:?}"),
    }
}
