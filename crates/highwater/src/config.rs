//! What can be chosen about delivery.

use std::convert::identity;
use std::time::Duration;

use crate::repair::REPAIR_LABEL;
use crate::{EventTypes, Invalid};

/// How long a position goes unstored at most that moved only past events the subscriber does not want.
pub(crate) const UNWANTED_INTERVAL: Duration = Duration::from_millis(100);

/// How a bus delivers events to its subscribers. What a subscriber may choose for itself is in [`SubscriberOptions`].
///
/// ```
/// use highwater::{CheckpointMode, ReliableDeliveryConfig};
/// use std::time::Duration;
///
/// let config = ReliableDeliveryConfig {
///     checkpoint_mode: CheckpointMode::Batched { size: 500, interval: Duration::from_millis(200) },
///     ..ReliableDeliveryConfig::default()
/// };
/// assert_eq!(config.max_retries, 3);
/// assert!(config.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ReliableDeliveryConfig {
    /// How often an event that failed is retried before it becomes a dead letter: 3 means four attempts. Default: 3.
    pub max_retries: u32,
    /// How long to wait before the first retry; each later one waits twice as long. Default: 1 s.
    pub initial_retry_delay: Duration,
    /// How long to wait at most. Default: 60 s.
    pub max_retry_delay: Duration,
    /// How much of each delay is left to chance, so that many that failed together do not come back together: 0 none of
    /// it, 1 all of it. Chance only ever shortens. Default: 0.2.
    pub retry_jitter: f64,
    /// How long a handler may take for one event (or for one batch of a transactional projection, which is redone one by one
    /// then) before that counts as a failure. Default: no limit.
    pub handler_timeout: Option<Duration>,
    /// When checkpoints are stored. Default: in batches of 4,000 events or 100 ms, and at once when there is nothing more to
    /// do; see [`CheckpointMode`].
    pub checkpoint_mode: CheckpointMode,
    /// Events read at once while catching up; progress is stored at least this often. Default: 4,000.
    pub catch_up_batch_size: usize,
    /// Bytes read at once while catching up, unless a single event is larger. A subscriber that catches up holds four such
    /// pages at most: the one it works on, and three that wait or are being read. Default: 4 MiB.
    pub catch_up_batch_bytes_max: usize,
    /// Events that the shared tail keeps for subscribers that are a little behind. Default: 10,000.
    pub tail_events_max: usize,
    /// Bytes that the shared tail keeps. Default: 16 MiB.
    pub tail_bytes_max: usize,
    /// How often to look for new events, requests and pauses without a hint. Default: 1 s.
    pub poll_interval: Duration,
    /// Parked events of one stream; one more halts the subscriber. Default: 1,000.
    pub parked_per_stream_max: u64,
    /// Parked events in all; one more halts the subscriber. Default: 10,000.
    pub parked_max: u64,
    /// How long dead letters are kept after they were resolved. Default: 30 days.
    pub dead_letter_retention: Duration,
    /// How long [`EventBus::wait_for`](crate::Bus::wait_for) waits. Default: 30 s.
    pub wait_timeout: Duration,
    /// How long [`EventBus::shutdown`](crate::Bus::shutdown) waits for current events. Default: 10 s.
    pub shutdown_timeout: Duration,
    /// How far a subscriber may be behind before the bus does not call itself healthy any more. Default: 60 s.
    pub healthy_lag_max: Duration,
    /// Whether several instances share the work. Default: [`InstanceMode::SingleInstance`].
    pub instance_mode: InstanceMode,
    /// How they share it, with [`InstanceMode::Coordinated`].
    pub coordination: CoordinatorConfig,
}

/// How the instances of a bus, or of a [`Coordinator`](crate::Coordinator) that is used by itself, share the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorConfig {
    /// After how long an instance that is silent, because it hangs or is cut off, no longer leads; one that dies loses
    /// leadership at once. Default: 5 s.
    pub takeover_bound: Duration,
    /// How often an instance that stands by tries to take over. Default: 100 ms.
    pub standby_interval: Duration,
    /// Whether an instance that leads more than its share releases some to those that lead less. Default: yes.
    pub spread: bool,
    /// By what subscribers can prefer this instance; see [`SubscriberOptions::prefers`]. Not `repair`, under which
    /// checkpoints are moved by hand. Default: nothing.
    pub instance_label: Option<String>,
}

impl Default for ReliableDeliveryConfig {
    fn default() -> Self {
        Self {
            max_retries: 3,
            initial_retry_delay: Duration::from_secs(1),
            max_retry_delay: Duration::from_secs(60),
            retry_jitter: 0.2,
            handler_timeout: None,
            checkpoint_mode: CheckpointMode::default(),
            catch_up_batch_size: 4_000,
            catch_up_batch_bytes_max: 4 << 20,
            tail_events_max: 10_000,
            tail_bytes_max: 16 << 20,
            poll_interval: Duration::from_secs(1),
            parked_per_stream_max: 1_000,
            parked_max: 10_000,
            dead_letter_retention: Duration::from_secs(30 * 24 * 60 * 60),
            wait_timeout: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(10),
            healthy_lag_max: Duration::from_secs(60),
            instance_mode: InstanceMode::SingleInstance,
            coordination: CoordinatorConfig::default(),
        }
    }
}

impl Default for CoordinatorConfig {
    fn default() -> Self {
        Self {
            takeover_bound: Duration::from_secs(5),
            standby_interval: Duration::from_millis(100),
            spread: true,
            instance_label: None,
        }
    }
}

impl CoordinatorConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// The first that cannot work.
    pub fn validate(&self) -> Result<(), Invalid> {
        if !(Duration::from_millis(300)..=Duration::from_secs(60 * 60)).contains(&self.takeover_bound) {
            return refuse("takeover_bound", "it must lie between 300 milliseconds and an hour");
        }
        if !(Duration::from_millis(5)..=self.takeover_bound).contains(&self.standby_interval) {
            return refuse("standby_interval", "it must lie between 5 milliseconds and takeover_bound");
        }
        check_label("instance_label", self.instance_label.as_deref())
    }
}

impl ReliableDeliveryConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// The first that cannot work.
    pub fn validate(&self) -> Result<(), Invalid> {
        let counts = [
            ("catch_up_batch_size", self.catch_up_batch_size),
            ("catch_up_batch_bytes_max", self.catch_up_batch_bytes_max),
            ("tail_events_max", self.tail_events_max),
            ("tail_bytes_max", self.tail_bytes_max),
            ("checkpoint_mode.size", self.checkpoint_mode.size()),
        ];
        if let Some((name, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return refuse(name, "it must be at least 1");
        }
        let year = Duration::from_secs(366 * 24 * 60 * 60);
        let times = [
            ("initial_retry_delay", self.initial_retry_delay),
            ("max_retry_delay", self.max_retry_delay),
            ("poll_interval", self.poll_interval),
            ("wait_timeout", self.wait_timeout),
            ("shutdown_timeout", self.shutdown_timeout),
            ("healthy_lag_max", self.healthy_lag_max),
            ("handler_timeout", self.handler_timeout.unwrap_or(year)),
            ("checkpoint_mode.interval", self.checkpoint_mode.interval()),
        ];
        if let Some((name, _)) = times.into_iter().find(|(_, t)| *t < Duration::from_millis(1) || *t > year) {
            return refuse(name, "it must lie between a millisecond and a year");
        }
        if self.max_retry_delay < self.initial_retry_delay {
            return refuse("max_retry_delay", "it must not be shorter than initial_retry_delay");
        }
        if !(0.0..=1.0).contains(&self.retry_jitter) {
            return refuse("retry_jitter", "it must lie between 0 and 1");
        }
        if self.dead_letter_retention > 100 * year {
            return refuse("dead_letter_retention", "it must not be longer than a hundred years");
        }
        self.coordination.validate()
    }

    /// Refuses what would be ignored where the bus does not coordinate, with the reason why it does not.
    pub(crate) fn without_coordination(&self, because: &str) -> Result<(), Invalid> {
        let reason = format!("{because}: leave it at its default");
        if self.instance_mode != InstanceMode::default() {
            return refuse("instance_mode", &reason);
        }
        if self.coordination != CoordinatorConfig::default() {
            return refuse("coordination", &reason);
        }
        Ok(())
    }
}

fn refuse(name: &'static str, reason: &str) -> Result<(), Invalid> {
    Err(Invalid::Setting { name, reason: reason.to_owned() })
}

/// Refuses what cannot be a label; none is none.
pub(crate) fn check_label(name: &'static str, label: Option<&str>) -> Result<(), Invalid> {
    match label {
        Some(REPAIR_LABEL) => {
            refuse(name, "\"repair\" is what checkpoints are moved by hand under: choose another label")
        }
        Some(label) if !(1..=255).contains(&label.len()) || label.contains('\0') => {
            refuse(name, "it must have 1 to 255 bytes and no NUL character")
        }
        _ => Ok(()),
    }
}

/// Whether several instances share the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum InstanceMode {
    /// No coordination: for one instance, or where something else makes sure that there is one. No lock is taken. Started
    /// twice by mistake, the newer instance continues and the older one halts with an error.
    #[default]
    SingleInstance,

    /// For each subscriber one instance processes. The others stand by, and take over when it stops, crashes, hangs or is
    /// cut off.
    Coordinated,
}

/// When checkpoints are stored. Default: [`Batched`](Self::Batched) with 4,000 events or 100 ms.
///
/// ```
/// use highwater::CheckpointMode;
/// use std::time::Duration;
/// let interval = Duration::from_millis(100);
/// assert_eq!(CheckpointMode::default(), CheckpointMode::Batched { size: 4_000, interval });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckpointMode {
    /// After every event: after a crash one event is delivered again at most. A transactional projection gets a
    /// transaction for each event. Catching up costs a statement for each event. For effects that are not idempotent.
    Synchronous,
    /// After so many events, or so long after the first that is not covered yet, and at once when there is nothing more to
    /// do: after a crash `size` events are delivered again at most. A transactional projection gets a transaction for up
    /// to `size` events, and for as many as it does in about `interval`; it still counts each event once.
    Batched {
        /// How many events.
        size: usize,
        /// How long.
        interval: Duration,
    },
}

/// By measurement: checkpoints cost next to nothing while catching up, and callers that wait for a busy subscriber, or for a
/// lock of its transaction, do not wait for long.
impl Default for CheckpointMode {
    fn default() -> Self {
        Self::Batched { size: 4_000, interval: Duration::from_millis(100) }
    }
}

impl CheckpointMode {
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Synchronous => 1,
            Self::Batched { size, .. } => size,
        }
    }

    pub(crate) fn interval(self) -> Duration {
        match self {
            Self::Synchronous => UNWANTED_INTERVAL,
            Self::Batched { interval, .. } => interval,
        }
    }
}

/// What a subscriber may choose. Everything else is as its bus has it.
///
/// ```
/// use highwater::{CheckpointMode, EventTypes, FailurePolicy, StartAt, SubscriberOptions};
/// let options = SubscriberOptions::new()
///     .event_types(EventTypes::only(["Placed"]))
///     .start(StartAt::End)
///     .on_failure(FailurePolicy::ParkStream)
///     .checkpoint_mode(CheckpointMode::Synchronous)
///     .max_retries(10);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SubscriberOptions {
    /// Which of the events it knows it wants. Default: all that its enum knows.
    pub(crate) event_types: Option<EventTypes>,
    /// From streams of which kinds. Default: all, and streams without a name.
    pub(crate) kinds: Option<Vec<String>>,
    /// Where it starts the very first time. Default: at the beginning.
    pub(crate) start: StartAt,
    /// What becomes of an event that it cannot handle. Default: the dead letters.
    pub(crate) on_failure: FailurePolicy,
    /// The [`instance_label`](CoordinatorConfig::instance_label) of instances that should rather process for it, when
    /// one is there. Default: any will do.
    pub(crate) prefers: Option<String>,
    /// Whether it rebuilds itself when the version of its tables has gone up. Default: it halts, and an operator decides.
    pub(crate) rebuild_on_new_version: bool,
    overrides: Overrides,
}

impl SubscriberOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Of the events it knows, only these.
    #[must_use]
    pub fn event_types(self, types: EventTypes) -> Self {
        Self { event_types: Some(types), ..self }
    }

    /// Only events in streams of these kinds: what stands before the slash of their names, `order` of `order/17`. For enums that
    /// share names of variants with others: `Registered` of a bike is not `Registered` of a customer.
    ///
    /// Streams without a name are of no kind. What was appended to a stream before it had a name is left out too.
    #[must_use]
    pub fn of_kinds<K: Into<String>>(self, kinds: impl IntoIterator<Item = K>) -> Self {
        Self { kinds: Some(kinds.into_iter().map(Into::into).collect()), ..self }
    }

    /// Instances with this label should rather process for it.
    #[must_use]
    pub fn prefers(self, label: impl Into<String>) -> Self {
        Self { prefers: Some(label.into()), ..self }
    }

    /// Where it starts the very first time.
    #[must_use]
    pub fn start(self, start: StartAt) -> Self {
        Self { start, ..self }
    }

    /// What becomes of an event that it cannot handle.
    #[must_use]
    pub fn on_failure(self, on_failure: FailurePolicy) -> Self {
        Self { on_failure, ..self }
    }

    /// When the [version](crate::TransactionalProjection::version) of its tables has gone up, it rebuilds itself: at once, and from
    /// its start. Without this it halts until an operator requests a rebuild, which may take long and leaves readers with an
    /// incomplete read model meanwhile.
    #[must_use]
    pub fn rebuild_on_new_version(self) -> Self {
        Self { rebuild_on_new_version: true, ..self }
    }
}

/// Settings of the bus that a subscriber can have otherwise: each is written once, here.
macro_rules! overrides {
    ($($(#[$about:meta])* $name:ident: $kind:ty = $set:expr,)*) => {
        #[derive(Debug, Clone, Default, PartialEq)]
        struct Overrides {
            $($name: Option<$kind>,)*
        }

        impl SubscriberOptions {
            $(
                $(#[$about])*
                #[must_use]
                pub fn $name(mut self, $name: $kind) -> Self {
                    self.overrides.$name = Some($name);
                    self
                }
            )*

            /// How events are delivered to the subscriber on a bus that is configured like that.
            pub(crate) fn over(&self, bus: &ReliableDeliveryConfig) -> ReliableDeliveryConfig {
                let mut config = bus.clone();
                $(
                    if let Some($name) = self.overrides.$name {
                        config.$name = $set($name);
                    }
                )*
                config
            }
        }
    };
}

overrides! {
    /// As [`ReliableDeliveryConfig::max_retries`], for this subscriber.
    max_retries: u32 = identity,
    /// As [`ReliableDeliveryConfig::initial_retry_delay`], for this subscriber.
    initial_retry_delay: Duration = identity,
    /// As [`ReliableDeliveryConfig::max_retry_delay`], for this subscriber.
    max_retry_delay: Duration = identity,
    /// As [`ReliableDeliveryConfig::retry_jitter`], for this subscriber.
    retry_jitter: f64 = identity,
    /// As [`ReliableDeliveryConfig::handler_timeout`], for this subscriber.
    handler_timeout: Duration = Some,
    /// As [`ReliableDeliveryConfig::checkpoint_mode`], for this subscriber.
    checkpoint_mode: CheckpointMode = identity,
    /// As [`ReliableDeliveryConfig::catch_up_batch_size`], for this subscriber.
    catch_up_batch_size: usize = identity,
    /// As [`ReliableDeliveryConfig::catch_up_batch_bytes_max`], for this subscriber.
    catch_up_batch_bytes_max: usize = identity,
    /// As [`ReliableDeliveryConfig::parked_per_stream_max`], for this subscriber.
    parked_per_stream_max: u64 = identity,
    /// As [`ReliableDeliveryConfig::parked_max`], for this subscriber.
    parked_max: u64 = identity,
    /// As [`ReliableDeliveryConfig::dead_letter_retention`], for this subscriber.
    dead_letter_retention: Duration = identity,
    /// As [`ReliableDeliveryConfig::healthy_lag_max`], for this subscriber.
    healthy_lag_max: Duration = identity,
}

/// Where a subscriber starts the very first time. Later it resumes from its checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartAt {
    /// With the first event there is.
    #[default]
    Beginning,
    /// After everything that is settled when it is subscribed.
    End,
    /// After this `global_sequence`.
    After(u64),
}

/// What becomes of an event that a subscriber cannot handle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailurePolicy {
    /// It becomes a dead letter, and the subscriber continues with the next. Later events of its stream are handled before it: a
    /// replay comes out of order. What updates what earlier events made wants [`ParkStream`](Self::ParkStream).
    #[default]
    DeadLetter,
    /// The subscriber stops in front of it, until it is resumed.
    Halt,
    /// It becomes a dead letter, and so do all later events of its stream, unhandled, until they are replayed in order.
    /// Other streams continue.
    ParkStream,
}
