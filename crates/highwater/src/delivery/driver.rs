//! Carries out what the machine decides. One task a subscriber; everything it does, it does in here.
//!
//! It may be cut off at any await: by a crash, or by a shutdown whose deadline has passed. What was handled and is not in
//! the checkpoint then is delivered again; a transaction that was open leaves nothing behind.

mod handing;
mod leading;
mod reading;
mod setting_up;
mod signals;
mod storing;
mod transacting;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use tokio::sync::{oneshot, watch};
use tracing::Instrument;
use uuid::Uuid;

pub(crate) use self::signals::Signals;
use self::storing::answered;
use super::catch_up::CatchUp;
use super::handling::Failure;
use super::itself;
use super::journal::Journal;
use super::machine::{Inherited, Intent, Machine, Now, Policy, Reaction, Step};
use super::status::{Rate, Status, SubscriptionState};
use super::tail::{Slot, Tail};
use super::writer::{Outcome, Writer};
use crate::config::UNWANTED_INTERVAL;
use crate::kinds::KindsOfTypes;
use crate::subscriber::Handler;
use crate::{
    Backend, Backoff, Error, Filter, ProjectorCoordinator, Record, ReliableDeliveryConfig, Request, Subscriber, chain,
};

/// How often a subscriber that is at work shows where it is. One that waits for something shows it at once.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(1);

/// What operators and the bus want of a subscriber.
#[derive(Debug, Clone, Default)]
pub(crate) struct Control {
    pub(crate) paused: bool,
    pub(crate) stop: bool,
    /// Counts up whenever it is to be resumed.
    pub(crate) resumed: u64,
    /// Counts up whenever this process changes `paused`: what was read from the store before that is out of date.
    pub(crate) touched: u64,
    /// Open requests, the oldest first.
    pub(crate) requests: Vec<Request>,
}

/// Where a subscriber starts when it has never been started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) after: u64,
    /// The event there, where it was found by looking where the log ends.
    pub(crate) event: Option<Uuid>,
}

impl Start {
    pub(crate) const fn after(after: u64) -> Self {
        Self { after, event: None }
    }
}

/// What all subscribers of a bus share.
pub(crate) struct Parts {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) tail: Arc<Tail>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) coordinator: Arc<dyn ProjectorCoordinator>,
}

/// Where events come from.
#[derive(Debug)]
enum Source {
    /// Nowhere yet.
    None,
    CatchUp(CatchUp),
    /// Near the end: the next page decides.
    Near,
    Tail(Slot),
}

pub(crate) struct Driver {
    pub(super) shared: Arc<Parts>,
    pub(super) subscriber: Subscriber,
    pub(super) config: ReliableDeliveryConfig,
    pub(super) start: Start,
    /// Which events are read for it: by the names under which they may be stored, and by the kinds of their streams.
    filter: Arc<Filter>,
    /// Where what it is handed comes from.
    kinds: KindsOfTypes,
    pub(super) machine: Machine,
    source: Source,
    /// Where the tail last had no slot for it.
    turned_away_at: Option<u64>,
    storing: Option<oneshot::Receiver<Outcome>>,
    /// Since when the checkpoint lags behind.
    behind_since: Option<Instant>,
    retry_at: Option<tokio::time::Instant>,
    /// The failure of the event in front.
    failure: Option<Failure>,
    pub(super) signals: Signals,
    /// When it was fenced last: two that take over from each other must not do so at full speed.
    fenced: Option<(tokio::time::Instant, Backoff)>,
    resumed: u64,
    pub(super) requests: VecDeque<Request>,
    status: watch::Sender<Status>,
    trouble: Option<(Arc<str>, Backoff)>,
    rate: Rate,
    /// When it was last shown where it is.
    published: Instant,
    pub(super) journal: Journal,
}

/// However it ends, also when it is aborted: observers must not keep believing what was shown last.
impl Drop for Driver {
    fn drop(&mut self) {
        self.status.send_modify(|status| status.state = SubscriptionState::Stopped);
    }
}

impl Driver {
    pub(crate) fn new(
        shared: Arc<Parts>,
        subscriber: Subscriber,
        config: ReliableDeliveryConfig,
        start: Start,
        control: watch::Receiver<Control>,
        status: watch::Sender<Status>,
    ) -> Self {
        let policy = Policy {
            on_failure: subscriber.options.on_failure,
            max_retries: config.max_retries,
            // While catching up progress is stored after each page at least.
            batch: config.checkpoint_mode.size().min(config.catch_up_batch_size),
            // A batch that is about to run out of time would be redone one by one.
            batch_time: config.checkpoint_mode.interval().min(config.handler_timeout.unwrap_or(Duration::MAX) / 2),
            transactional: matches!(subscriber.handler, Handler::Within(_)),
            parked_per_stream_max: config.parked_per_stream_max,
            parked_max: config.parked_max,
            subscriber_id: subscriber.id.clone(),
            version: subscriber.version,
            rebuilds: subscriber.options.rebuild_on_new_version,
            nonce: Uuid::from_u128(fastrand::u128(..)),
        };
        Self {
            filter: Arc::new(Filter {
                types: shared.backend.upcasters().stored_types(&subscriber.types),
                kinds: subscriber.options.kinds.clone(),
            }),
            kinds: KindsOfTypes::default(),
            journal: Journal::new(&subscriber.id),
            machine: Machine::new(policy),
            shared,
            subscriber,
            config,
            start,
            source: Source::None,
            turned_away_at: None,
            storing: None,
            behind_since: None,
            retry_at: None,
            failure: None,
            signals: Signals::new(control),
            fenced: None,
            resumed: 0,
            requests: VecDeque::new(),
            status,
            trouble: None,
            rate: Rate::new(),
            published: Instant::now(),
        }
    }

    /// Until it is stopped.
    pub(crate) async fn run(mut self) {
        let status = self.status.subscribe();
        let span = self.journal.span();
        let running = async {
            while self.turn().await {}
            self.signals.release().await;
            self.journal.stopped(self.machine.stored());
        };
        itself::running(status, running.instrument(span)).await;
    }

    async fn turn(&mut self) -> bool {
        self.receive_signals();
        // While there are events at hand nothing else waits for the checkpoint that is on its way, and the next one waits for
        // it.
        if let Some(outcome) = answered(&mut self.storing)
            && let Err(trouble) = self.stored(outcome)
        {
            self.trouble(trouble).await;
            return true;
        }
        let now = self.now();
        let step = self.machine.step(now);
        if !self.is_busy(&step, now) {
            self.publish(step == Step::End);
        }
        // Only a step that got an answer from the store clears the error. Reading and storing do so themselves, when they get one.
        let asks_the_store = match step {
            Step::Sleep | Step::Rest | Step::Yield | Step::Read | Step::Store | Step::AwaitStore => false,
            Step::Handle { .. } => matches!(self.subscriber.handler, Handler::Within(_)),
            _ => true,
        };
        if step == Step::End {
            return false;
        }
        // Abandoned where it is when leadership is lost, a handler that hangs and a server that does not answer included:
        // the new leader does it again, and an instance that cannot stand by is useless.
        let lost = self.signals.lost();
        let done = tokio::select! {
            biased;
            done = self.carry_out(step) => done,
            () = lost => Err(Error::Interrupted { reason: "leadership is lost".to_owned() }),
        };
        match done {
            Ok(()) if asks_the_store => self.calm(),
            Ok(()) => {}
            Err(trouble) => self.trouble(trouble).await,
        }
        true
    }

    async fn carry_out(&mut self, step: Step) -> Result<(), Error> {
        match step {
            Step::Lead => self.begin_leading().await,
            Step::Reread => self.reread().await,
            Step::SetUp { anew } => self.set_up(anew).await,
            Step::Read => self.read().await,
            Step::Handle { count } => self.handle(count).await,
            Step::Store => self.store().await,
            Step::AwaitStore => self.await_store().await,
            Step::Bury { park } => self.bury(park).await,
            Step::Park => self.park().await,
            Step::Sleep => self.sleep().await,
            Step::Serve => self.serve().await,
            Step::Yield => self.yield_leadership().await,
            Step::Rest => self.rest().await,
            Step::End => Ok(()),
        }
    }

    /// Receives the bus's signals.
    fn receive_signals(&mut self) {
        if self.signals.has_lost() {
            self.lose();
        }
        if let Some(yielding) = self.signals.asked_to_yield() {
            self.machine.on_asked_to_yield(yielding);
        }
        if self.signals.control.has_changed().unwrap_or(false) {
            self.receive_control();
        }
        self.signals.stays(self.machine.stays());
    }

    /// Receives operators' requests.
    fn receive_control(&mut self) {
        let control = self.signals.control.borrow_and_update().clone();
        self.machine.on_intent(match control {
            Control { stop: true, .. } => Intent::Stop,
            Control { paused: true, .. } => Intent::Pause,
            _ => Intent::Run,
        });
        if control.resumed != self.resumed {
            self.resumed = control.resumed;
            self.machine.on_resumed();
        }
        self.requests = control.requests.into();
    }

    fn now(&mut self) -> Now {
        if self.machine.handled() == self.machine.stored() {
            self.behind_since = None;
        }
        let overdue = self.due().is_some_and(|due| Instant::now() >= due);
        Now { overdue, more: self.has_more(), asked: !self.requests.is_empty() }
    }

    /// When the checkpoint has lagged behind for as long as it may. Where only events were passed that it does not want, a
    /// caller may still wait for it to get there.
    fn due(&self) -> Option<Instant> {
        let interval = self.config.checkpoint_mode.interval();
        let interval = if self.machine.unsaved() == 0 { interval.min(UNWANTED_INTERVAL) } else { interval };
        self.behind_since.map(|since| since + interval)
    }

    /// Whether it continues at once, and was seen a moment ago. Watchers would be woken for every few events, and that costs
    /// more than handling them.
    fn is_busy(&self, step: &Step, now: Now) -> bool {
        let continues = match step {
            Step::Handle { .. } | Step::Store | Step::AwaitStore => true,
            Step::Read => now.more,
            _ => false,
        };
        continues && self.published.elapsed() < PUBLISH_INTERVAL
    }

    /// Shows where it is.
    fn publish(&mut self, over: bool) {
        self.published = Instant::now();
        let (handled, stored) = (self.machine.handled(), self.machine.stored());
        let state = if over { SubscriptionState::Stopped } else { self.state() };
        let rate = self.rate.per_second(Instant::now());
        let front_at = self.machine.current().map(|record| record.created_at);
        let leads = self.machine.leads();
        let is_set_up = leads && self.machine.is_set_up();
        let term = self.machine.term();
        let life = self.machine.fence().ok().filter(|_| leads).map(|fence| fence.incarnation);
        self.status.send_if_modified(|status| {
            let same = status.handled == handled
                && status.stored == stored
                && status.state == state
                && status.life == life
                && status.is_set_up == is_set_up;
            (status.state, status.handled, status.stored, status.rate) = (state, handled, stored, rate);
            (status.leads, status.term, status.life, status.is_set_up) = (leads, term, life, is_set_up);
            (status.front_at, status.at) = (front_at, self.published);
            !same
        });
    }

    fn state(&self) -> SubscriptionState {
        if self.machine.intent() == Intent::Pause {
            return SubscriptionState::Paused;
        }
        if let Some((error, _)) = &self.trouble {
            return SubscriptionState::Disconnected { error: error.clone() };
        }
        if let Some(reason) = self.machine.halted().filter(|_| !self.machine.is_to_be_rebuilt(self.requests.iter())) {
            return SubscriptionState::Halted { reason: reason.clone() };
        }
        if self.machine.is_taking() {
            return if self.machine.stands_by() {
                SubscriptionState::Standby { leader: None }
            } else {
                SubscriptionState::Starting
            };
        }
        let term = self.machine.term().unwrap_or_default();
        if let (true, Some(failure), Some(at)) = (self.machine.is_retrying(), &self.failure, self.retry_at) {
            let left = at.saturating_duration_since(tokio::time::Instant::now());
            return SubscriptionState::Retrying {
                term,
                global_sequence: self.current().map_or(0, |record| record.global_sequence),
                failures: self.machine.failures(),
                next_at: Utc::now() + left,
                error: failure.error.clone(),
            };
        }
        match self.source {
            Source::Tail(_) => SubscriptionState::Live { term },
            _ => SubscriptionState::CatchingUp { term },
        }
    }

    /// The store failed. Everything stays as it is, and is retried.
    async fn trouble(&mut self, error: Error) {
        if self.signals.has_lost() {
            // Whatever it was: what is to be done now is to stand by.
            return;
        }
        match self.machine.on_error(&error, self.shared.coordinator.is_exclusive()) {
            Reaction::Retry => {}
            Reaction::Reread => self.void_source(),
            Reaction::StartAgain => {
                self.journal.fenced(&error);
                self.release().await;
            }
            Reaction::StandBack => return self.stand_back(&error).await,
            Reaction::Halt => {
                self.journal.fenced(&error);
                self.journal.halted(&error.to_string());
                self.status_error(chain(&error).into());
                self.trouble = None;
                return self.release().await;
            }
        }
        let text: Arc<str> = chain(&error).into();
        // Told once when it begins, and not at every attempt.
        let (_, mut backoff) = self.trouble.take().unwrap_or_else(|| {
            self.journal.disconnected(&text);
            (text.clone(), Backoff::of_backend())
        });
        let delay = backoff.next_delay();
        self.trouble = Some((text, backoff));
        self.publish(false);
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = self.signals.changed() => {}
        }
    }

    /// The store has answered.
    pub(super) fn calm(&mut self) {
        if self.trouble.take().is_some() {
            self.journal.connected();
        }
    }

    /// What was read does not count any more.
    fn void_source(&mut self) {
        self.source = Source::None;
        self.storing = None;
        self.failure = None;
        self.behind_since = None;
    }

    async fn rest(&mut self) -> Result<(), Error> {
        // An unused slot keeps no subscriber waiting, and no page is kept for an absent one.
        self.source = Source::None;
        self.signals.changed().await;
        Ok(())
    }

    fn current(&self) -> Option<Record> {
        self.machine.current().cloned()
    }

    /// Starts again after a reset, with tables that its code is written for.
    fn begin_anew(&mut self, position: u64, parked: HashMap<Uuid, u64>) {
        self.journal.started(self.machine.term().unwrap_or_default(), position, true);
        self.begins_to_read(position);
        self.void_source();
        let setup_version = self.subscriber.version;
        self.machine.on_taken(Inherited { global_sequence: position, parked, setup_version, begun: false });
        // What was wrong before concerns what is there no more.
        self.status.send_modify(|status| status.last_error = None);
        // Before any caller learns that the reset is done: it would find the checkpoint where it was before.
        self.publish(false);
    }
}
