//! What a subscriber does next, and what follows from what came of it. Pure: no await, no clock, no store.
//!
//! The machine holds the page being worked on and the numbers that matter: `handled`, up to where everything was handled,
//! recorded as a dead letter or is of no interest, and `stored`, up to where that is in the checkpoint. [`Machine::step`]
//! says what to do; the `on_…` methods record what happened.

mod step;
mod tables;
mod term;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

pub(crate) use self::step::{Failed, Intent, Now, Policy, Reaction, Step};
use self::tables::Tables;
pub(crate) use self::tables::{Inherited, Verdict};
use super::batch_size::BatchSize;
use crate::{FailurePolicy, Fence, Record};

/// Events that are delivered before anything else is checked.
const CHUNK_MAX: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Taking,
    SettingUp {
        anew: bool,
    },
    Running,
    Retrying,
    Halted(Arc<str>),
    /// Another process has taken over, without coordination.
    Fenced(Arc<str>),
}

/// The page being worked on.
#[derive(Debug)]
struct Work {
    records: Arc<Vec<Record>>,
    next: usize,
    complete_to: u64,
}

#[derive(Debug)]
pub(crate) struct Machine {
    policy: Policy,
    phase: Phase,
    intent: Intent,
    tables: Tables,
    /// The term it leads with, as far as it knows: also while it checks whether that still holds.
    fence: Option<Fence>,
    /// It waits for another instance to stop leading.
    stands_by: bool,
    /// Another instance is to lead.
    yielding: bool,
    work: Option<Work>,
    handled: u64,
    last_event: Option<Uuid>,
    stored: u64,
    /// Events handled since `stored`, those in flight included.
    unsaved: usize,
    storing: Option<Storing>,
    /// Events in one transaction.
    batch_size: BatchSize,
    /// Events up to here are handled one by one: the batch they were in has failed.
    alone_to: u64,
    /// How often the event in front has failed.
    failures: u32,
    /// It will not be retried.
    spent: bool,
    parked: HashMap<Uuid, u64>,
}

#[derive(Debug, Clone, Copy)]
struct Storing {
    to: u64,
    events: usize,
}

impl Machine {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            batch_size: BatchSize::new(policy.batch, policy.batch_time),
            policy,
            phase: Phase::Taking,
            intent: Intent::Run,
            tables: Tables::Ready,
            fence: None,
            stands_by: false,
            yielding: false,
            work: None,
            handled: 0,
            last_event: None,
            stored: 0,
            unsaved: 0,
            storing: None,
            alone_to: 0,
            failures: 0,
            spent: false,
            parked: HashMap::new(),
        }
    }

    /// By which its own terms are known.
    pub(crate) const fn nonce(&self) -> Uuid {
        self.policy.nonce
    }

    pub(crate) fn step(&self, now: Now) -> Step {
        match self.phase {
            Phase::Taking if self.intent == Intent::Stop => Step::End,
            Phase::Taking if self.intent == Intent::Pause => Step::Rest,
            Phase::Taking if self.fence.is_none() => Step::Lead,
            Phase::Taking => Step::Reread,
            _ if self.intent != Intent::Run => {
                self.settle(if self.intent == Intent::Stop { Step::End } else { Step::Rest })
            }
            Phase::SettingUp { anew } => Step::SetUp { anew },
            // Without a term nothing can be done: another instance has it.
            Phase::Fenced(_) => Step::Rest,
            Phase::Halted(_) if now.asked && !self.is_outdated() => self.settle(Step::Serve),
            Phase::Halted(_) => self.settle(Step::Rest),
            Phase::Retrying if now.asked => self.settle(Step::Serve),
            Phase::Retrying if self.storing.is_none() && self.unsaved > 0 => Step::Store,
            Phase::Retrying => Step::Sleep,
            // Not with an event that failed: the other would count its attempts from zero.
            Phase::Running if self.yielding && self.failures == 0 => self.settle(Step::Yield),
            Phase::Running => self.run(now),
        }
    }

    /// Everything that was done is stored before `then`.
    fn settle(&self, then: Step) -> Step {
        if self.storing.is_some() {
            Step::AwaitStore
        } else if self.handled > self.stored {
            Step::Store
        } else {
            then
        }
    }

    fn run(&self, now: Now) -> Step {
        let Some(record) = self.current() else { return self.between_pages(now) };
        // A checkpoint in flight must not overtake, or be overtaken by, one that travels in a transaction.
        let alone = |step| if self.storing.is_some() { Step::AwaitStore } else { step };
        if self.failures > 0 && self.spent {
            return alone(match self.policy.on_failure {
                FailurePolicy::DeadLetter => Step::Bury { park: false },
                FailurePolicy::ParkStream => Step::Bury { park: true },
                // It was halted when the retries were used up, and counts from zero when it is resumed.
                FailurePolicy::Halt => Step::Rest,
            });
        }
        if now.asked && self.failures == 0 {
            return self.settle(Step::Serve);
        }
        if self.parked.contains_key(&record.stream_id) {
            return alone(Step::Park);
        }
        if self.policy.transactional {
            return alone(Step::Handle { count: self.count(self.batch_size.events()) });
        }
        if self.unsaved >= self.policy.batch {
            return if self.storing.is_some() { Step::AwaitStore } else { Step::Store };
        }
        if self.storing.is_none() && self.unsaved > 0 && (now.overdue || self.unsaved >= self.policy.batch.div_ceil(2))
        {
            return Step::Store;
        }
        Step::Handle { count: self.count((self.policy.batch - self.unsaved).min(self.until_store())) }
    }

    /// Events until the next checkpoint is begun: at half a batch, so that it is stored while the other half is handled.
    fn until_store(&self) -> usize {
        let half = self.policy.batch.div_ceil(2);
        if self.storing.is_none() && self.unsaved < half { half - self.unsaved } else { CHUNK_MAX }
    }

    fn between_pages(&self, now: Now) -> Step {
        if now.asked {
            return self.settle(Step::Serve);
        }
        let owed = self.unsaved > 0 && (!now.more || self.unsaved >= self.policy.batch);
        let owed = owed || (now.overdue && self.handled > self.stored);
        if owed && self.storing.is_none() { Step::Store } else { Step::Read }
    }

    /// How many events to deliver at once: those of streams that are not parked, from the front.
    fn count(&self, max: usize) -> usize {
        let Some(work) = &self.work else { return 0 };
        let front = &work.records[work.next..];
        if front.first().is_some_and(|record| record.global_sequence <= self.alone_to) {
            return 1;
        }
        let max = if self.policy.transactional { max } else { max.min(CHUNK_MAX) };
        if self.parked.is_empty() {
            return front.len().min(max);
        }
        front.iter().take(max).take_while(|record| !self.parked.contains_key(&record.stream_id)).count()
    }

    /// The event in front.
    pub(crate) fn current(&self) -> Option<&Record> {
        let work = self.work.as_ref()?;
        work.records.get(work.next)
    }

    /// The page being worked on, and where in it the next `count` events are.
    pub(crate) fn front(&self, count: usize) -> (Arc<Vec<Record>>, Range<usize>) {
        match &self.work {
            Some(work) => (work.records.clone(), work.next..(work.next + count).min(work.records.len())),
            None => (Arc::default(), 0..0),
        }
    }

    /// Where the checkpoint goes once the next `count` events are handled.
    pub(crate) fn position_after(&self, count: usize) -> u64 {
        let Some(work) = &self.work else { return self.handled };
        if work.next + count >= work.records.len() {
            return work.complete_to;
        }
        work.records[..work.next + count].last().map_or(self.handled, |record| record.global_sequence)
    }

    /// A page that continues where [`handled`](Self::handled) is.
    pub(crate) fn on_page(&mut self, records: Arc<Vec<Record>>, complete_to: u64) {
        let next = records.partition_point(|record| record.global_sequence <= self.handled);
        if next == records.len() {
            self.work = None;
            self.handled = self.handled.max(complete_to);
        } else {
            self.work = Some(Work { records, next, complete_to });
        }
    }

    /// The next `count` events were handled, one by one.
    pub(crate) fn on_handled(&mut self, count: usize) {
        if count > 0 {
            self.pass(count);
            self.unsaved += count;
        }
    }

    /// The next `count` events are done, and the checkpoint with them.
    pub(crate) fn on_committed(&mut self, count: usize) {
        self.pass(count);
        self.stored = self.handled;
        self.unsaved = 0;
    }

    /// A transaction of so many events took so long, whether it was committed or not.
    pub(crate) fn on_took(&mut self, count: usize, took: Duration) {
        self.batch_size.took(count, took);
    }

    /// The next `count` events turned out to be done already, with the checkpoint `at` a position. That need not be as far
    /// as the page goes: the rest of the way is still to be stored.
    pub(crate) fn on_found(&mut self, count: usize, at: u64) {
        self.pass(count);
        (self.stored, self.unsaved) = (at, 0);
    }

    /// Moves on past events. The end of a page takes the position along to where the page is complete.
    fn pass(&mut self, count: usize) {
        let Some(work) = &mut self.work else { return };
        let end = (work.next + count).min(work.records.len());
        if let Some(last) = work.records[..end].last() {
            (self.handled, self.last_event) = (last.global_sequence, Some(last.id));
        }
        work.next = end;
        if end == work.records.len() {
            self.handled = work.complete_to.max(self.handled);
            self.work = None;
        }
        (self.failures, self.spent) = (0, false);
    }

    /// The next `count` events failed together, and were rolled back. Which of them is to blame is found out one by one.
    pub(crate) fn on_failed(&mut self, count: usize, permanent: bool, error: &str) -> Failed {
        if count > 1 {
            let (records, range) = self.front(count);
            self.alone_to = records[range].last().map_or(self.alone_to, |record| record.global_sequence);
            return Failed::Together;
        }
        self.failures = self.failures.saturating_add(1);
        self.spent = permanent || self.failures > self.policy.max_retries;
        if !self.spent {
            self.phase = Phase::Retrying;
            return Failed::Retry { failures: self.failures };
        }
        match self.policy.on_failure {
            FailurePolicy::Halt => {
                let event = self.current().map_or(0, |record| record.global_sequence);
                self.halt(&format!("event {event} failed {} times, the last time with: {error}", self.failures));
            }
            FailurePolicy::DeadLetter | FailurePolicy::ParkStream => {}
        }
        Failed::Spent
    }

    /// The event in front is due again.
    pub(crate) fn on_due(&mut self) {
        if self.phase == Phase::Retrying {
            self.phase = Phase::Running;
        }
    }

    /// The dead letter could not be written, so the event has to be handled after all: the cause may have passed.
    pub(crate) fn on_bury_failed(&mut self) {
        self.spent = false;
        self.phase = Phase::Retrying;
    }

    /// The event in front became a dead letter, and the checkpoint has moved up to it: where the page is complete beyond it,
    /// the rest of the way is still to be stored. `parked`: so many dead letters of its stream are waiting now.
    pub(crate) fn on_buried(&mut self, parked: u64) {
        let Some((stream_id, at)) = self.current().map(|record| (record.stream_id, record.global_sequence)) else {
            return;
        };
        self.on_parked_left(stream_id, parked);
        self.on_found(1, at);
    }

    /// So many dead letters of a stream are waiting now; none unparks it.
    pub(crate) fn on_parked_left(&mut self, stream_id: Uuid, left: u64) {
        match left {
            0 => self.parked.remove(&stream_id),
            _ => self.parked.insert(stream_id, left),
        };
    }

    /// Which streams are parked, as the store has it: dead letters may have been deleted by hand.
    pub(crate) fn on_parked(&mut self, parked: HashMap<Uuid, u64>) {
        self.parked = parked;
    }

    /// Whether the event in front belongs to a parked stream.
    pub(crate) fn is_parked(&self) -> bool {
        self.current().is_some_and(|record| self.parked.contains_key(&record.stream_id))
    }

    /// Why the event in front may not be parked, if it may not.
    pub(crate) fn parking_limit(&self) -> Option<String> {
        let front = self.current()?;
        let in_stream = self.parked.get(&front.stream_id).copied().unwrap_or(0);
        let in_all: u64 = self.parked.values().sum();
        if in_stream >= self.policy.parked_per_stream_max {
            Some(format!("parked_per_stream_max: {in_stream} events of stream {} are parked", front.stream()))
        } else if in_all >= self.policy.parked_max {
            Some(format!("parked_max: {in_all} events are parked"))
        } else {
            None
        }
    }

    /// Whether one more event may be parked. If not, the subscriber is halted.
    pub(crate) fn may_park(&mut self) -> bool {
        let Some(limit) = self.parking_limit() else { return true };
        self.halt(&format!("no more events may be parked ({limit}); replay or discard them, then resume"));
        false
    }

    /// A checkpoint is on its way. Says which.
    pub(crate) fn on_storing(&mut self) -> (u64, Option<Uuid>) {
        self.storing = Some(Storing { to: self.handled, events: self.unsaved });
        (self.handled, self.last_event)
    }

    /// It has arrived, or not.
    pub(crate) fn on_stored(&mut self, arrived: bool) {
        let Some(storing) = self.storing.take() else { return };
        if arrived {
            self.stored = self.stored.max(storing.to);
            self.unsaved -= storing.events.min(self.unsaved);
        }
    }

    /// Stops in front of the next event.
    fn halt(&mut self, reason: &str) {
        self.phase = Phase::Halted(reason.into());
    }

    /// Another instance is to lead as soon as work in hand is done, or no longer is.
    pub(crate) fn on_asked_to_yield(&mut self, yielding: bool) {
        self.yielding = yielding;
    }

    pub(crate) fn on_intent(&mut self, intent: Intent) {
        self.intent = intent;
    }

    /// Resumes after it was halted, with the event that it was halted in front of. Where tables or a newer leader halted it, what
    /// is stored is read first: the tables may be others by now, and to resume a fenced subscriber is to have it lead again.
    pub(crate) fn on_resumed(&mut self) {
        if self.unfit().is_some() || matches!(self.phase, Phase::Fenced(_)) {
            self.on_interrupted();
        } else if matches!(self.phase, Phase::Halted(_)) {
            self.phase = Phase::Running;
            (self.failures, self.spent) = (0, false);
        }
    }

    /// Up to where everything was handled or is of no interest.
    pub(crate) fn handled(&self) -> u64 {
        self.handled
    }

    /// Events handled that the checkpoint does not cover yet.
    pub(crate) fn unsaved(&self) -> usize {
        self.unsaved
    }

    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    pub(crate) fn halted(&self) -> Option<&Arc<str>> {
        match &self.phase {
            Phase::Halted(reason) | Phase::Fenced(reason) => Some(reason),
            _ => None,
        }
    }

    /// Whether it would refuse to release: it is failing, it is paused, or its tables are not there yet.
    pub(crate) fn stays(&self) -> bool {
        self.intent != Intent::Run
            || self.failures > 0
            || self.halted().is_some()
            || matches!(self.phase, Phase::SettingUp { .. })
    }

    pub(crate) fn is_retrying(&self) -> bool {
        self.phase == Phase::Retrying
    }

    pub(crate) fn intent(&self) -> Intent {
        self.intent
    }

    pub(crate) fn is_storing(&self) -> bool {
        self.storing.is_some()
    }
}

#[cfg(test)]
mod tests;
