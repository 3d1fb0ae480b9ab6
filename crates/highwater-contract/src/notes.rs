//! What the tests beside a backend share: notes to store, and patience with an end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::backend::{Log, Transactional};
use highwater::{
    Append, BoxError, CheckpointMode, Event, EventBus, EventStore, EventTypes, ExpectedVersion, ReliableDeliveryConfig,
    SubscriberOptions, TransactionalProjection, observer_fn, stream_id,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// The events of these tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// Something was noted.
    Noted {
        /// What.
        text: String,
    },
    /// It was struck out again.
    Struck,
}

/// A note of a text.
pub fn note(text: impl Into<String>) -> Note {
    Note::Noted { text: text.into() }
}

/// An append of one event to a fresh stream.
#[must_use]
pub fn one() -> Append {
    Append::to(Uuid::now_v7()).event(note("one"))
}

/// An append of notes to a stream that must be new.
#[must_use]
pub fn new(texts: &[&str]) -> Append {
    let append = Append::to(Uuid::now_v7()).expecting(ExpectedVersion::NoStream);
    append.events(texts.iter().map(|text| note(*text)))
}

/// Stores one event in a stream of its own, and says where.
///
/// # Panics
/// When it cannot be stored.
pub async fn say<L: Log>(log: &L, text: &str) -> u64 {
    let stored = log.append(&Append::to(Uuid::now_v7()).event(note(text))).await;
    stored.expect("nothing speaks against a note").global_sequence
}

/// Every `global_sequence` there is, in the order a reader is given them.
///
/// # Panics
/// When they cannot be read.
pub async fn sequences<S: EventStore>(store: &S) -> Vec<u64> {
    let events = store.read_all_events_since::<Note>(0).collect().await.expect("there are notes, and nothing else");
    events.into_iter().map(|event| event.global_sequence.expect("it was read from a store")).collect()
}

/// Retries within milliseconds.
#[must_use]
pub fn quick() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig {
        initial_retry_delay: Duration::from_millis(2),
        max_retry_delay: Duration::from_millis(20),
        checkpoint_mode: CheckpointMode::Synchronous,
        ..ReliableDeliveryConfig::default()
    }
}

/// How often to do what is worth doing more often: `count` times, multiplied by `HIGHWATER_SOAK`.
#[must_use]
pub fn soak(count: usize) -> usize {
    count * std::env::var("HIGHWATER_SOAK").ok().and_then(|n| n.parse().ok()).unwrap_or(1).max(1)
}

/// Waits until a condition holds.
///
/// # Panics
/// When it does not within twenty seconds.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition().await {
        assert!(Instant::now() < deadline, "did not happen in time: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}

/// What was logged as a warning or an error.
///
/// ```
/// let warnings = highwater_contract::notes::Warnings::default();
/// let _listening = tracing::subscriber::set_default(warnings.clone());
/// assert_eq!(warnings.said(), "");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<String>>);

impl Warnings {
    /// All of it, one value a line.
    #[must_use]
    pub fn said(&self) -> String {
        self.0.lock().expect("nothing panics with it").clone()
    }
}

impl tracing::field::Visit for Warnings {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        *self.0.lock().expect("nothing panics with it") += &format!("{value:?}\n");
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN && metadata.target().starts_with("highwater")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Another program has written a type to streams of one kind, and this one writes it to those of another: the warning does not need
/// both to be written by one program. To be called on a runtime with one thread, with two stores over one log.
pub async fn warns_of_what_another_program_wrote<B: Transactional>(other: B, this: B) {
    let note = |kind: &str| Append::to(stream_id(kind, "1")).event(Note::Noted { text: "of one name".to_owned() });
    other.append(&note("bike")).await.expect("it can be stored");
    let warnings = Warnings::default();
    let _listening = tracing::subscriber::set_default(warnings.clone());
    this.append(&note("customer")).await.expect("it can be stored");
    eventually("it is warned of", async || warnings.said().contains("written to streams of different kinds")).await;
    assert!(warnings.said().contains("customer, bike"), "{}", warnings.said());
}

/// A subscriber's next version reads more than the one before, whose checkpoint has passed some of that: it is warned of, once the
/// subscriber leads, and not where nothing was passed. To be called on a runtime with one thread, with two buses over one log.
pub async fn warns_of_what_was_passed_by<B: Transactional>(before: EventBus<B>, after: EventBus<B>) {
    const SAID: &str = "its checkpoint has passed events that it wants now";
    let stream = Append::to(stream_id("note", "1"));
    let appended = before.store().append(&stream.event(note("first")).event(Note::Struck).event(note("last"))).await;
    let last = appended.expect("it can be stored");
    let reads = |types: &[&str]| SubscriberOptions::new().event_types(EventTypes::only(types.iter().copied()));
    for (id, types) in [("projection:more", &["Noted"][..]), ("projection:same", &["Noted", "Struck"])] {
        let observer = observer_fn(id, |_: Event<Note>| async { Ok(()) }).with_options(reads(types));
        before.subscribe(observer).await.expect("it can be subscribed");
        before.wait_for(id, &last).await.expect("it gets there");
    }
    before.shutdown().await.expect("all stop in time");
    let warnings = Warnings::default();
    let _listening = tracing::subscriber::set_default(warnings.clone());
    for id in ["projection:more", "projection:same", "projection:new"] {
        let observer = observer_fn(id, |_: Event<Note>| async { Ok(()) });
        after.subscribe(observer).await.expect("it can be subscribed");
    }
    eventually("it is warned of", async || warnings.said().contains(SAID)).await;
    after.shutdown().await.expect("all stop in time");
    let said = warnings.said();
    assert!(said.contains("projection:more") && said.contains("Struck"), "{said}");
    assert_eq!(said.matches(SAID).count(), 1, "{said}");
}

/// Another program writes a newer schema version of a type than this one, which was opened without its upcasters. To be called on a
/// runtime with one thread, with two stores over one log.
pub async fn warns_of_an_older_schema_version<B: Transactional>(other: B, this: B) {
    let stream = stream_id("note", "1");
    let newer = Append::to(stream).event(note("newer")).schema_version(2);
    other.append(&newer).await.expect("it can be stored");
    let warnings = Warnings::default();
    let _listening = tracing::subscriber::set_default(warnings.clone());
    this.append(&Append::to(stream).event(note("older"))).await.expect("it can be stored");
    eventually("it is warned of", async || warnings.said().contains("an older schema version of a type")).await;
}

/// Handles everything in a transaction, and writes nothing.
struct Idle(&'static str);

impl<Tx: Send> TransactionalProjection<Note, Tx> for Idle {
    fn subscriber_id(&self) -> &str {
        self.0
    }

    async fn apply(&self, _: &mut Tx, _: &Event<Note>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Two instances of a log, coordinated: the second joins, the work is spread, and the first leaves. All of that is ordinary, so
/// nothing is logged as a warning. To be called on a runtime with one thread.
pub async fn hands_over_without_a_warning<B: Transactional>(first: EventBus<B>, second: EventBus<B>) {
    async fn subscribe<B: Transactional>(bus: &EventBus<B>) {
        for name in ["projection:a", "projection:b"] {
            bus.subscribe(Idle(name)).await.expect("it can be subscribed");
        }
        for name in ["projection:c", "projection:d"] {
            let each = observer_fn(name, |_: Event<Note>| async { Ok(()) });
            bus.subscribe(each).await.expect("it can be subscribed");
        }
    }
    let leads = |bus: &EventBus<B>| bus.subscriptions().iter().filter(|one| one.state().is_live()).count();
    let warnings = Warnings::default();
    let _listening = tracing::subscriber::set_default(warnings.clone());
    subscribe(&first).await;
    eventually("the first leads all", async || leads(&first) == 4).await;
    subscribe(&second).await;
    eventually("each leads two", async || {
        say(first.store(), "meanwhile").await;
        (leads(&first), leads(&second)) == (2, 2)
    })
    .await;
    first.shutdown().await.expect("all stop in time");
    eventually("the second leads all", async || {
        say(second.store(), "meanwhile").await;
        leads(&second) == 4
    })
    .await;
    second.shutdown().await.expect("all stop in time");
    assert_eq!(warnings.said(), "");
}
