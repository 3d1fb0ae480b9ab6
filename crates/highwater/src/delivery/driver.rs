//! Carries out what the machine decides. One task a subscriber; everything it does, it does in here.
//!
//! It may be cut off at any await: by a crash, or by a shutdown whose deadline has passed. What was handled and is not in
//! the checkpoint then is delivered again; a transaction that was open leaves nothing behind.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use tokio::sync::{oneshot, watch};
use tracing::Instrument;
use uuid::Uuid;

use super::catch_up::CatchUp;
use super::handling::{Failure, call};
use super::journal::{Journal, chain};
use super::machine::{Machine, Now, Policy, Step, Wish};
use super::retry::{self, Backoff};
use super::status::{Rate, Status, SubscriptionState};
use super::tail::{Found, Seat, Tail};
use super::writer::{Outcome, Writer};
use crate::subscriber::{Decoder, Handler};
use crate::{
    Backend, CheckpointWrite, Closed, Closing, Error, EventTypes, Fence, NewLetter, ReadLimit, Record, Refused,
    ReliableDeliveryConfig, Request, Subscriber,
};

/// How long to wait before asking the tail for a seat again.
const TURNED_AWAY: Duration = Duration::from_millis(20);

/// What people want of a subscriber, as the bus tells it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Control {
    pub(crate) paused: bool,
    pub(crate) stop: bool,
    /// Counts up whenever it is to be resumed.
    pub(crate) resumed: u64,
    /// Open requests, the oldest first.
    pub(crate) requests: Vec<Request>,
}

/// What all subscribers of a bus share.
#[derive(Debug)]
pub(crate) struct Shared<B> {
    pub(crate) backend: B,
    pub(crate) tail: Arc<Tail>,
    pub(crate) writer: Arc<Writer>,
}

/// Where events come from.
#[derive(Debug)]
enum Source {
    /// Nowhere yet.
    None,
    CatchUp(CatchUp),
    /// Near the end: the next page decides.
    Near,
    Tail(Seat),
}

pub(crate) struct Driver<B: Backend> {
    pub(super) shared: Arc<Shared<B>>,
    pub(super) subscriber: Subscriber<B>,
    pub(super) config: ReliableDeliveryConfig,
    /// Where it starts when it has never been started.
    pub(super) start: u64,
    /// The names under which its events may be stored.
    stored_types: EventTypes,
    pub(super) machine: Machine,
    pub(super) fence: Option<Fence>,
    /// The nonce of a term that a reset has raised, or has not: the answer was lost.
    pub(super) perhaps_mine: Option<Uuid>,
    source: Source,
    /// Where the tail last had no seat for it.
    turned_away_at: Option<u64>,
    storing: Option<oneshot::Receiver<Outcome>>,
    /// Since when the checkpoint lags behind.
    behind_since: Option<Instant>,
    retry_at: Option<tokio::time::Instant>,
    /// The failure of the event in front.
    failure: Option<Failure>,
    pub(super) control: watch::Receiver<Control>,
    resumed: u64,
    pub(super) requests: VecDeque<Request>,
    status: watch::Sender<Status>,
    trouble: Option<(Arc<str>, Backoff)>,
    rate: Rate,
    pub(super) journal: Journal,
}

/// What keeps a step from being done, other than the handler.
pub(super) type Trouble = Error;

impl<B: Backend> Driver<B> {
    pub(crate) fn new(
        shared: Arc<Shared<B>>,
        subscriber: Subscriber<B>,
        config: ReliableDeliveryConfig,
        start: u64,
        mut control: watch::Receiver<Control>,
        status: watch::Sender<Status>,
    ) -> Self {
        // What it says now counts as well.
        control.mark_changed();
        let policy = Policy {
            on_failure: subscriber.options.on_failure,
            max_retries: config.max_retries,
            batch: config.checkpoint_mode.size(),
            transactional: matches!(subscriber.handler, Handler::Within(_)),
            parked_per_stream_max: config.parked_per_stream_max,
            parked_max: config.parked_max,
        };
        Self {
            stored_types: shared.backend.upcasters().stored_types(&subscriber.types),
            journal: Journal::new(&subscriber.id),
            machine: Machine::new(policy),
            shared,
            subscriber,
            config,
            start,
            fence: None,
            perhaps_mine: None,
            source: Source::None,
            turned_away_at: None,
            storing: None,
            behind_since: None,
            retry_at: None,
            failure: None,
            control,
            resumed: 0,
            requests: VecDeque::new(),
            status,
            trouble: None,
            rate: Rate::new(),
        }
    }

    /// Until it is stopped.
    pub(crate) async fn run(mut self) {
        let span = self.journal.span();
        async {
            while self.turn().await {}
            self.journal.stopped(self.machine.stored());
        }
        .instrument(span)
        .await;
    }

    async fn turn(&mut self) -> bool {
        self.hear();
        let now = self.now();
        let step = self.machine.step(now);
        self.publish(step == Step::End);
        let done = match step {
            Step::Take => self.take().await,
            Step::Read => self.read().await,
            Step::Handle { count } => self.handle(count).await,
            Step::Store => self.store().await,
            Step::AwaitStore => self.await_store().await,
            Step::Bury { park } => self.bury(park).await,
            Step::Park => self.park().await,
            Step::Sleep => self.sleep().await,
            Step::Serve => self.serve().await,
            Step::Rest => self.rest().await,
            Step::End => return false,
        };
        match done {
            Ok(()) => self.calm(),
            Err(trouble) => self.trouble(trouble).await,
        }
        true
    }

    /// Takes in what the bus says.
    fn hear(&mut self) {
        if !self.control.has_changed().unwrap_or(false) {
            return;
        }
        let control = self.control.borrow_and_update().clone();
        self.machine.on_wish(match control {
            Control { stop: true, .. } => Wish::Stop,
            Control { paused: true, .. } => Wish::Pause,
            _ => Wish::Run,
        });
        if control.resumed != self.resumed {
            self.resumed = control.resumed;
            if self.fence.is_none() && self.machine.halted().is_some() {
                // It was fenced. To resume it is to say that it, and no other, shall go on.
                self.machine.on_interrupted();
            }
            self.machine.on_resumed();
        }
        self.requests = control.requests.into();
    }

    fn now(&mut self) -> Now {
        if self.machine.handled() == self.machine.stored() {
            self.behind_since = None;
        }
        let since = self.behind_since;
        Now {
            overdue: since.is_some_and(|since| since.elapsed() >= self.config.checkpoint_mode.interval()),
            more: self.has_more(),
            asked: !self.requests.is_empty(),
        }
    }

    fn has_more(&mut self) -> bool {
        match &mut self.source {
            Source::CatchUp(reader) => reader.is_ready(),
            Source::Tail(seat) => matches!(seat.find(self.machine.handled()), Found::Page(_)),
            Source::None | Source::Near => false,
        }
    }

    /// Shows where it is.
    fn publish(&mut self, over: bool) {
        let (handled, stored) = (self.machine.handled(), self.machine.stored());
        let state = if over { SubscriptionState::Stopped } else { self.state() };
        let rate = self.rate.per_second(Instant::now());
        self.status.send_if_modified(|status| {
            let same = status.handled == handled && status.stored == stored && status.state == state;
            (status.state, status.handled, status.stored, status.rate) = (state, handled, stored, rate);
            !same
        });
    }

    fn state(&self) -> SubscriptionState {
        if self.machine.wish() == Wish::Pause {
            return SubscriptionState::Paused;
        }
        if let Some((error, _)) = &self.trouble {
            return SubscriptionState::Disconnected { error: error.clone() };
        }
        if let Some(reason) = self.machine.halted() {
            return SubscriptionState::Halted { reason: reason.clone() };
        }
        if self.machine.is_taking() {
            return SubscriptionState::Starting;
        }
        if let (true, Some(failure), Some(at)) = (self.machine.is_retrying(), &self.failure, self.retry_at) {
            let left = at.saturating_duration_since(tokio::time::Instant::now());
            return SubscriptionState::Retrying {
                global_sequence: self.current().map_or(0, |record| record.global_sequence),
                failures: self.machine.failures(),
                next_at: Utc::now() + left,
                error: failure.error.clone(),
            };
        }
        match self.source {
            Source::Tail(_) => SubscriptionState::Live,
            _ => SubscriptionState::CatchingUp,
        }
    }

    /// The store did not do what it should. Everything stays as it is, and is tried again.
    async fn trouble(&mut self, error: Trouble) {
        match error {
            Error::Fenced { term: None, .. } => {
                // Nobody took over: somebody deleted the checkpoint. That means to start again.
                self.journal.fenced(&error);
                self.void();
                self.fence = None;
                return;
            }
            Error::Fenced { .. } => {
                self.journal.fenced(&error);
                self.machine.on_fenced(&error.to_string());
                self.journal.halted(&error.to_string());
                self.void_source();
                self.fence = None;
                return;
            }
            Error::Interrupted { .. } => {
                self.journal.interrupted();
                self.void();
                return;
            }
            _ => {}
        }
        let text: Arc<str> = chain(&error).into();
        self.journal.disconnected(&text);
        let (_, mut backoff) = self.trouble.take().unwrap_or_else(|| (text.clone(), Backoff::new()));
        let delay = backoff.next();
        self.trouble = Some((text, backoff));
        self.publish(false);
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = changed(&mut self.control) => {}
        }
    }

    fn calm(&mut self) {
        if self.trouble.take().is_some() {
            self.journal.connected();
        }
    }

    /// What was remembered does not count any more.
    fn void(&mut self) {
        self.machine.on_interrupted();
        self.void_source();
    }

    fn void_source(&mut self) {
        self.source = Source::None;
        self.storing = None;
        self.failure = None;
        self.behind_since = None;
    }

    /// The fence of the term that was taken.
    pub(super) fn fence(&self) -> Result<Fence, Trouble> {
        self.fence.clone().ok_or_else(|| Error::Interrupted { reason: "no term has been taken".to_owned() })
    }

    /// Gets the right to process. After an interruption it has that already, unless somebody else took over meanwhile.
    async fn take(&mut self) -> Result<(), Trouble> {
        let id = self.subscriber.id.clone();
        let backend = &self.shared.backend;
        let (term, incarnation, position, fresh) = match &self.fence {
            Some(fence) => {
                let subscriber_id = id.to_string();
                match backend.checkpoint(&id).await? {
                    None => return Err(Error::Fenced { subscriber_id, term: None }),
                    Some(found) if found.term != fence.term && self.perhaps_mine != Some(found.term.nonce) => {
                        return Err(Error::Fenced { subscriber_id, term: Some(found.term.number) });
                    }
                    Some(found) => (found.term, found.incarnation, found.global_sequence, false),
                }
            }
            None => {
                let taken = backend.take_over(&id, self.start).await?;
                (taken.term, taken.incarnation, taken.global_sequence, taken.fresh)
            }
        };
        // Loaded after the term was raised, so nobody else can park anything after this.
        let parked: HashMap<_, _> = backend.parked(&id).await?.into_iter().collect();
        self.fence = Some(Fence { subscriber_id: id, term, incarnation });
        self.machine.on_taken(position, parked);
        self.journal.started(term.number, position, fresh);
        Ok(())
    }

    fn limit(&self) -> ReadLimit {
        ReadLimit { events: self.config.catch_up_batch_size, bytes: self.config.catch_up_batch_bytes_max }
    }

    /// Waits for the next page. Whatever else happens first is for the next step to look at.
    async fn read(&mut self) -> Result<(), Trouble> {
        let position = self.machine.handled();
        let fence = self.fence()?;
        match &mut self.source {
            Source::None => {
                let reader = CatchUp::start(&self.shared.backend, position, self.stored_types.clone(), self.limit());
                self.source = Source::CatchUp(reader);
                self.journal.catching_up(position);
            }
            Source::Near => match self.shared.tail.join(position, fence.incarnation) {
                Some(seat) => {
                    self.source = Source::Tail(seat);
                    self.journal.live(position);
                }
                None => {
                    self.source = Source::None;
                    // Without having got on in between: the tail has not noticed yet that the server was replaced.
                    if self.turned_away_at.replace(position) == Some(position) {
                        tokio::time::sleep(TURNED_AWAY).await;
                    }
                }
            },
            Source::CatchUp(reader) => {
                let overdue = overdue(self.behind_since, &self.config);
                let read = tokio::select! {
                    read = reader.next() => read,
                    () = changed(&mut self.control) => return Ok(()),
                    outcome = arrived(&mut self.storing) => return self.stored(outcome),
                    () = overdue, if !self.machine.is_storing() => return Ok(()),
                };
                match read {
                    None => self.source = Source::Near,
                    Some(Ok(read)) => {
                        if read.page.incarnation != fence.incarnation {
                            return Err(Error::Interrupted { reason: "another life of the server".to_owned() });
                        }
                        self.take_in(Arc::new(read.page.records), read.page.complete_to);
                        if read.near {
                            self.source = Source::Near;
                        }
                    }
                    Some(Err(error)) => {
                        self.source = Source::None;
                        return Err(error);
                    }
                }
            }
            Source::Tail(seat) => match seat.find(position) {
                Found::Page(page) => {
                    let (records, complete_to) = (page.records.clone(), page.complete_to);
                    self.take_in(records, complete_to);
                }
                Found::Behind => self.source = Source::None,
                Found::Void => return Err(Error::Interrupted { reason: "another life of the server".to_owned() }),
                Found::Nothing => {
                    let overdue = overdue(self.behind_since, &self.config);
                    tokio::select! {
                        () = seat.changed() => {}
                        () = changed(&mut self.control) => {}
                        outcome = arrived(&mut self.storing) => return self.stored(outcome),
                        () = overdue, if !self.machine.is_storing() => {}
                    }
                }
            },
        }
        Ok(())
    }

    /// Hands a page to the machine, without what the subscriber does not want.
    fn take_in(&mut self, records: Arc<Vec<Record>>, complete_to: u64) {
        let wanted = |record: &Record| self.stored_types.contains(&record.event_type);
        let records = match &self.stored_types {
            EventTypes::All => records,
            EventTypes::Only(_) if records.iter().all(wanted) => records,
            EventTypes::Only(_) => Arc::new(records.iter().filter(|record| wanted(record)).cloned().collect()),
        };
        self.machine.on_page(records, complete_to);
        self.moved(0);
    }

    /// The position has moved: from now on the checkpoint lags behind.
    fn moved(&mut self, events: usize) {
        self.rate.add(events);
        if self.machine.handled() > self.machine.stored() {
            self.behind_since.get_or_insert_with(Instant::now);
        }
    }

    async fn handle(&mut self, count: usize) -> Result<(), Trouble> {
        let (records, range) = self.machine.front(count);
        match &self.subscriber.handler {
            Handler::Each(_) => {
                self.handle_each(&records[range]).await;
                // Others on this thread get their turn, the reader ahead among them.
                tokio::task::yield_now().await;
                Ok(())
            }
            Handler::Within(_) => self.handle_within(&records[range]).await,
        }
    }

    /// One by one, until one fails or something else is to be done.
    async fn handle_each(&mut self, records: &[Record]) {
        let Handler::Each(handler) = &self.subscriber.handler else { return };
        let decoder = Decoder { types: &self.subscriber.types, upcasters: self.shared.backend.upcasters() };
        let due = self.behind_since.unwrap_or_else(Instant::now) + self.config.checkpoint_mode.interval();
        let (mut done, mut failed) = (0, None);
        for record in records {
            if done > 0 && (self.control.has_changed().unwrap_or(true) || Instant::now() >= due) {
                break;
            }
            match call(handler.handle(record, decoder), self.config.handler_timeout).await {
                Ok(()) => done += 1,
                Err(failure) => {
                    failed = Some(failure);
                    break;
                }
            }
        }
        self.passed(records, done);
        self.machine.on_handled(done);
        self.moved(done);
        if let (Some(failure), Some(record)) = (failed, records.get(done)) {
            self.failed(failure, record);
        }
    }

    /// All of them in one transaction, with the checkpoint.
    async fn handle_within(&mut self, records: &[Record]) -> Result<(), Trouble> {
        let Handler::Within(handler) = &self.subscriber.handler else { return Ok(()) };
        let (fence, backend) = (self.fence()?, self.shared.backend.clone());
        let decoder = Decoder { types: &self.subscriber.types, upcasters: backend.upcasters() };
        let mut begun = backend.begin(&fence, None).await?;
        // After a lost answer some of these may be done: what the transaction found counts, not what we remember.
        let done = records.partition_point(|record| record.global_sequence <= begun.global_sequence);
        if done == records.len() {
            backend.rollback(begun.tx, false).await;
            self.machine.on_committed(records.len());
            return Ok(());
        }
        let handling = call(handler.handle(&mut begun.tx, &records[done..], decoder), self.config.handler_timeout);
        let failure = match handling.await {
            Ok(()) => {
                let to = self.machine.position_after(records.len());
                let event_id = records.last().map(|record| record.id);
                let closing = Closing::Advance { from: begun.global_sequence, to, event_id };
                match backend.commit(begun.tx, &fence, closing).await {
                    Ok(_) => {
                        self.passed(records, records.len());
                        self.machine.on_committed(records.len());
                        self.moved(records.len());
                        return Ok(());
                    }
                    Err(Error::Aborted { source }) => Failure::new(&Error::Aborted { source }.into()),
                    Err(error) => return Err(error),
                }
            }
            Err(failure) => {
                backend.rollback(begun.tx, failure.unsure).await;
                failure
            }
        };
        if let [record] = records {
            self.failed(failure, record);
        } else {
            self.journal.batch_failed(records.len(), &failure.error);
            self.machine.on_batch_failed(records.len());
        }
        Ok(())
    }

    /// Remembers the last event that was taken in.
    fn passed(&mut self, records: &[Record], done: usize) {
        if let Some(last) = records[..done].last() {
            let at = last.created_at;
            self.status.send_if_modified(|status| {
                status.last_event_at = Some(at);
                false
            });
        }
    }

    /// The event in front failed: again later, or never.
    fn failed(&mut self, failure: Failure, record: &Record) {
        let error = failure.error.clone();
        self.status.send_if_modified(|status| {
            status.last_error = Some(error.clone());
            false
        });
        if let Some(failures) = self.machine.on_failed(failure.permanent, &error) {
            let delay = retry::delay(&self.config, failures - 1, fastrand::f64());
            self.retry_at = Some(tokio::time::Instant::now() + delay);
            self.journal.retrying(record, failures, delay, &error);
        } else if let Some(reason) = self.machine.halted() {
            self.journal.halted(reason);
        }
        self.failure = Some(failure);
    }

    async fn sleep(&mut self) -> Result<(), Trouble> {
        let due = self.retry_at.unwrap_or_else(tokio::time::Instant::now);
        tokio::select! {
            () = tokio::time::sleep_until(due) => self.machine.on_due(),
            () = changed(&mut self.control) => {}
            outcome = arrived(&mut self.storing) => return self.stored(outcome),
        }
        Ok(())
    }

    async fn rest(&mut self) -> Result<(), Trouble> {
        // Nobody is kept waiting by a seat that is not used.
        if matches!(self.source, Source::Tail(_)) {
            self.source = Source::None;
        }
        changed(&mut self.control).await;
        Ok(())
    }

    /// Has the checkpoint stored: at once where everything waits for it, and else while the next events are handled.
    async fn store(&mut self) -> Result<(), Trouble> {
        let fence = self.fence()?;
        let (global_sequence, event_id) = self.machine.on_storing();
        let write = CheckpointWrite { fence, global_sequence, event_id };
        self.behind_since = Some(Instant::now());
        if self.config.checkpoint_mode.size() == 1 {
            let outcome = self.shared.writer.store_now(&self.shared.backend, write).await;
            return self.stored(outcome);
        }
        self.storing = Some(self.shared.writer.store(write));
        Ok(())
    }

    async fn await_store(&mut self) -> Result<(), Trouble> {
        let outcome = arrived(&mut self.storing).await;
        self.stored(outcome)
    }

    fn stored(&mut self, outcome: Outcome) -> Result<(), Trouble> {
        self.storing = None;
        self.machine.on_stored(matches!(outcome, Ok(None)));
        let subscriber_id = self.subscriber.id.to_string();
        match outcome {
            Ok(None) => Ok(()),
            Ok(Some(Refused::Missing)) => Err(Error::Fenced { subscriber_id, term: None }),
            Ok(Some(Refused::Superseded { term })) => Err(Error::Fenced { subscriber_id, term: Some(term) }),
            Ok(Some(Refused::Interrupted)) => {
                Err(Error::Interrupted { reason: "another life of the server".to_owned() })
            }
            Err(error) => Err(Error::Unavailable { action: "store the checkpoint", source: Box::new(error) }),
        }
    }

    /// Opens and closes a fenced transaction in which nothing else happens.
    pub(super) async fn fenced<'a>(&self, closing: impl FnOnce(u64) -> Closing<'a>) -> Result<Closed, Trouble> {
        let fence = self.fence()?;
        let begun = self.shared.backend.begin(&fence, None).await?;
        self.shared.backend.commit(begun.tx, &fence, closing(begun.global_sequence)).await
    }

    /// Writes a letter for the event in front, and moves the checkpoint past it.
    async fn bury(&mut self, park: bool) -> Result<(), Trouble> {
        let Some(record) = self.current() else { return Ok(()) };
        if park && !self.may_park() {
            return Ok(());
        }
        let error = self.failure.as_ref().map_or_else(|| "it failed".into(), |failure| failure.error.clone());
        let failures = self.machine.failures();
        let letter = letter(&record, Some(error.to_string()), failures.saturating_sub(1), park);
        match self.fenced(|from| Closing::Bury { letter: &letter, from }).await {
            Ok(closed) => {
                self.machine.on_buried(closed.parked_left);
                self.journal.dead_letter(&record, failures, &error);
                self.failure = None;
                Ok(())
            }
            Err(trouble) => {
                self.machine.on_bury_failed();
                Err(trouble)
            }
        }
    }

    async fn park(&mut self) -> Result<(), Trouble> {
        let Some(record) = self.current() else { return Ok(()) };
        if !self.may_park() {
            return Ok(());
        }
        let letter = letter(&record, None, 0, true);
        let closed = self.fenced(|from| Closing::Bury { letter: &letter, from }).await?;
        self.machine.on_buried(closed.parked_left);
        self.journal.parked(&record);
        Ok(())
    }

    fn may_park(&mut self) -> bool {
        let may = self.machine.may_park();
        if let Some(reason) = self.machine.halted().filter(|_| !may) {
            self.journal.halted(reason);
        }
        may
    }

    fn current(&self) -> Option<Record> {
        let (records, range) = self.machine.front(1);
        records[range].first().cloned()
    }

    /// Begins anew after a reset.
    pub(super) fn begin_anew(&mut self, fence: Fence, position: u64) {
        self.journal.started(fence.term.number, position, true);
        self.fence = Some(fence);
        self.void_source();
        self.machine.on_taken(position, HashMap::new());
    }
}

fn letter(record: &Record, error_message: Option<String>, retry_count: u32, parks: bool) -> NewLetter {
    NewLetter {
        event_id: record.id,
        global_sequence: record.global_sequence,
        stream_id: record.stream_id,
        event_type: record.event_type.clone(),
        error_message,
        retry_count,
        parks,
    }
}

/// Waits until the bus says something. Never, once the bus is gone.
async fn changed(control: &mut watch::Receiver<Control>) {
    // Seen by the next step, so it must stay unseen here.
    match control.changed().await {
        Ok(()) => control.mark_changed(),
        Err(_) => std::future::pending().await,
    }
}

/// Waits for the checkpoint that is being stored. Never, when there is none.
async fn arrived(storing: &mut Option<oneshot::Receiver<Outcome>>) -> Outcome {
    match storing {
        Some(receiver) => receiver.await.unwrap_or_else(|_| Err(Arc::new(Error::ShutDown))),
        None => std::future::pending().await,
    }
}

/// Waits until the checkpoint has lagged behind for as long as it may. Never, when it does not.
fn overdue(since: Option<Instant>, config: &ReliableDeliveryConfig) -> impl Future<Output = ()> + use<> {
    let due = since.map(|since| since + config.checkpoint_mode.interval());
    async move {
        match due {
            Some(due) => tokio::time::sleep_until(due.into()).await,
            None => std::future::pending().await,
        }
    }
}
