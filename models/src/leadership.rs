//! Leadership: instances that may be cut off, frozen or killed at any point, and one subscriber that they process for.
//!
//! The model has no clock. An instance that does nothing for a while is frozen; one that is told late is told in a later
//! step; a statement whose answer was lost takes effect later, or never. So it holds whatever the time-outs are, and rests
//! on the lock nowhere: sessions end at any time, and the instance that held one continues until it learns of that.
//!
//! Of terms it only matters whether one is the row's, because a term that was superseded never comes back. So a state says
//! who has the term that holds, and not which number that is; that keeps the states finite with any number of faults.

mod history;
mod instance;
mod progress;
mod server;

use stateright::{Model, Property};

pub use history::{Events, History};
pub use instance::{Instance, Lock, Phase};
pub use server::{Durable, Transaction, What};

use crate::rules::rules;

/// Instances in a state, used or not.
pub const INSTANCES_MAX: usize = 3;
/// Events in the log.
pub const EVENTS: u8 = 3;
/// The event that can never be handled.
pub const POISON: u8 = 2;
/// Events that may be handled before the checkpoint has to follow.
const BATCH: u8 = 2;

/// Nothing is written with a term after another one has taken over.
pub const ONE_EFFECTIVE_WRITER: &str = "there are never two effective writers";
/// The checkpoint never passes an event that was neither handled nor buried.
pub const NO_EVENT_LOST: &str = "no event is lost";
/// What a transaction carries is there once at most, and once when the checkpoint has passed it.
pub const EFFECTS_EXACTLY_ONCE: &str = "transactional effects are there exactly once";
/// The checkpoint never moves back.
pub const NEVER_BACK: &str = "the checkpoint never moves back";
/// A new leader resumes where the checkpoint is at that moment.
pub const RESUMES_WHERE_STORED: &str = "a new leader resumes where the checkpoint is";
/// Nobody is fenced before the first fault.
pub const UNDISTURBED: &str = "without faults nobody is fenced";
/// Whichever instance continues alone gets to the end, all others being frozen for ever.
pub const PROGRESS: &str = "any one instance gets to the end once faults stop";

rules! {
    /// What leadership and delivery rest on.
    pub struct Rules {
        /// `Fence`: every write names its term, and happens only if the row carries it.
        pub term_is_checked,
        /// `Coordinator::try_acquire`: first the lock, then the term.
        pub lock_before_term,
        /// `Coordinator::begin_term`: taking over is carried to its end, also when nobody waits for it any more.
        pub taking_runs_to_its_end,
        /// `Checkpoints::take_over`: the position comes with the term, and not from before.
        pub checkpoint_comes_with_the_term,
        /// `Checkpoints::store_checkpoints`: a write that arrives late changes nothing.
        pub never_moves_back,
        /// `Machine::on_storing`: only what was handled is stored.
        pub handle_before_checkpoint,
        /// `Closing::Bury`: the dead letter and the checkpoint are one transaction.
        pub bury_in_one_transaction,
        /// `Closing::Advance`: what a projection writes and the checkpoint are one transaction.
        pub effects_with_the_checkpoint,
        /// `Backend::begin`: locks the checkpoint, so it waits for the leader that is still committing.
        pub begin_locks_the_checkpoint,
        /// `Closing::Advance`: refused when the checkpoint is not where it was when the transaction began.
        pub advance_from_is_checked,
        /// `Driver::handle_within`: where `begin` finds the checkpoint counts, not what is remembered.
        pub begin_tells_what_is_true,
        /// `Driver::stand_back`: a fenced leader gives its lock back and begins anew.
        pub fenced_stands_back,
        /// `lead_session.sql`: the server ends a session on which nothing is heard, and its locks with it.
        pub silent_sessions_end,
        /// `take_over_for_good`: a transaction that a former leader has left open is ended.
        pub frozen_transactions_end,
        /// `Keeper::replace`: where locks are on files, the file of a holder that gives no sign of life is replaced.
        pub silent_holders_are_replaced,
        /// `Fence`: every write names the life of the server that its position comes from, and happens only in that one.
        pub life_is_checked,
        /// `Driver::continued`: where `begin` finds less than is believed to be stored, what is remembered is void.
        pub less_than_stored_interrupts,
    }
}

/// How the subscriber handles events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handling {
    /// One by one, with effects elsewhere; the checkpoint follows in batches.
    Each,
    /// In the transaction that moves the checkpoint.
    Within,
}

/// What locks are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locks {
    /// Sessions of a server, which ends them (PostgreSQL).
    Sessions,
    /// Files, which the kernel unlocks when a process ends, and which can be replaced (SQLite). A transaction belongs to its
    /// process: nobody can end it but that.
    Files,
}

/// How much there is.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// What locks are on.
    pub locks: Locks,
    /// Instances.
    pub instances: usize,
    /// Faults at most; `None`: any number of them.
    pub faults: Option<u8>,
    /// How events are handled.
    pub handling: Handling,
    /// Whether the server recovers at times, and takes back what did not wait for the disk: checkpoints, and transactions that
    /// said so.
    pub recoveries: bool,
}

/// The model.
#[derive(Debug, Clone, Copy)]
pub struct Leadership {
    /// What holds.
    pub rules: Rules,
    /// How much there is.
    pub size: Size,
    /// Whether histories that differ only in which of the instances is which are one. Not where people are to read them:
    /// instances change their places then.
    pub alike: bool,
}

/// Everything there is at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeadershipState {
    /// The subscriber's checkpoint.
    pub checkpoint: u8,
    /// The instances.
    pub instances: [Instance; INSTANCES_MAX],
    /// Faults so far. Without a limit: whether there was one.
    pub faults: u8,
    /// What has come of it all.
    pub history: History,
    /// What would be left of that after a recovery: the checkpoint, dead letters and effects.
    pub durable: Durable,
}

/// What may happen next, to or by an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// `Candidate::try_hold`: it gets the lock.
    TryHold(usize),
    /// `Checkpoints::take_over`: the term is raised, and answered.
    TakeOver(usize),
    /// It stops waiting for that, because it is to pause.
    StopWaiting(usize),
    /// It hands the event in front over.
    Handle(usize),
    /// `Backend::begin`, for so many events or for a dead letter.
    Begin(usize, u8),
    /// `Backend::commit` is sent.
    Commit(usize),
    /// The server commits, and the answer arrives.
    Committed(usize),
    /// A dead letter is written by itself. Only where that is not one transaction with the checkpoint.
    WriteDeadLetter(usize),
    /// `Writer::store`: a checkpoint is sent.
    Store(usize),
    /// It arrives, and so does the answer.
    Stored(usize),
    /// `Driver::begin_leading` after trouble: it looks whether its term still holds.
    LookAgain(usize),
    /// It learns that its session is gone.
    Lose(usize),
    /// `Driver::yield_leadership`: it gives leadership back.
    YieldLeadership(usize),
    /// A standby that waits to take over ends this one's open transaction.
    Evict(usize),
    /// `Folder::replace`: its own file takes the place of the one that the holder has locked. The holder may be another by
    /// now, which got the lock between the judgement and this step.
    Replace(usize),
    /// Fault: it has seen no sign of life of the holder, which is frozen or hangs.
    Judge(usize),
    /// Fault: the server ends its session, or notices that nobody is there any more.
    SessionEnds(usize),
    /// Fault: it cannot be sure of its session any more and gives it up, and the server does not know.
    GiveUpSession(usize),
    /// Fault: its process is killed and started again. The server does not know.
    Kill(usize),
    /// Fault: the answer to its commit is lost, and that may take effect later.
    LoseCommit(usize),
    /// Fault: the connection of its transaction is lost before the commit.
    LoseTransaction(usize),
    /// Fault: a checkpoint is not answered in time, and may arrive later.
    LoseStore(usize),
    /// Fault: taking over is not answered in time, and may take effect later.
    LoseTakeOver(usize),
    /// Fault: one of the server's processes is killed, and it recovers by itself. Nobody is told but by the loss of connections.
    Recover,
    /// The server's write-ahead log reaches the disk.
    Flush,
    /// A transaction that nobody waits for any more commits.
    LateCommit(usize),
    /// A transaction that nobody waits for any more is rolled back.
    LateRollback(usize),
    /// A checkpoint that nobody waits for any more arrives.
    LateStore(usize),
    /// A term is raised for whom nobody waits any more.
    LateTakeOver(usize),
}

impl Model for Leadership {
    type State = LeadershipState;
    type Action = Action;

    fn init_states(&self) -> Vec<LeadershipState> {
        let mut instances = [Instance::ABSENT; INSTANCES_MAX];
        instances[..self.size.instances].fill(Instance::STANDBY);
        vec![LeadershipState {
            checkpoint: 0,
            instances,
            faults: 0,
            history: History::default(),
            durable: Durable::default(),
        }]
    }

    fn actions(&self, state: &LeadershipState, actions: &mut Vec<Action>) {
        if self.size.recoveries && state.durable != state.volatile() {
            actions.push(Action::Flush);
            if self.size.faults.is_none_or(|faults| state.faults < faults) {
                actions.push(Action::Recover);
            }
        }
        for at in 0..self.size.instances {
            // An instance at the same point as the one before would do the same.
            if at > 0 && state.instances[at - 1] == state.instances[at] {
                continue;
            }
            self.own_actions(state, at, actions);
            self.server_actions(state, at, actions);
            if self.size.faults.is_none_or(|faults| state.faults < faults) {
                self.faults(state, at, actions);
            }
        }
    }

    fn next_state(&self, state: &LeadershipState, action: Action) -> Option<LeadershipState> {
        let mut next = *state;
        self.apply(&mut next, action);
        if self.alike {
            next.instances.sort_unstable();
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ONE_EFFECTIVE_WRITER, |_, state: &LeadershipState| !state.history.two_writers),
            Property::always(NO_EVENT_LOST, Self::no_event_is_lost),
            Property::always(NEVER_BACK, |_, state: &LeadershipState| !state.history.went_back),
            Property::always(RESUMES_WHERE_STORED, |_, state: &LeadershipState| !state.history.began_elsewhere),
            Property::always(UNDISTURBED, |_, state: &LeadershipState| !state.history.fenced_undisturbed),
            Property::always(PROGRESS, Self::any_one_gets_to_the_end),
            Property::sometimes("two believe to lead", |_, state: &LeadershipState| {
                state.instances.iter().filter(|instance| instance.believes_to_lead()).count() > 1
            }),
            Property::sometimes("an instance leads whose term is superseded", |_, state: &LeadershipState| {
                state.instances.iter().any(|instance| instance.believes_to_lead() && !instance.term_holds)
            }),
            Property::sometimes("an instance takes its own late term for what it is", |_, state: &LeadershipState| {
                let late = |i: &Instance| i.phase == Phase::Troubled && i.nonce_holds && !i.term_holds;
                state.instances.iter().any(late)
            }),
        ];
        if self.size.locks == Locks::Files {
            properties.push(Property::sometimes(
                "a transaction that nobody can end is waited for",
                |_, state: &LeadershipState| {
                    let open = |instance: &Instance| instance.transaction.is_some();
                    let taking = |instance: &Instance| instance.phase == Phase::Locked;
                    state.instances.iter().any(open) && state.instances.iter().any(taking)
                },
            ));
        }
        if self.size.handling == Handling::Within {
            properties.push(Property::always(EFFECTS_EXACTLY_ONCE, Self::effects_are_there_once));
        }
        properties
    }
}

impl Leadership {
    /// Two instances, any number of faults.
    pub const SIZE: Size =
        Size { locks: Locks::Sessions, instances: 2, faults: None, handling: Handling::Each, recoveries: false };

    /// The model without a rule, and what is violated then; `None` when there is no such rule.
    #[must_use]
    pub fn without(rule: &str) -> Option<(Self, &'static str)> {
        let rules = Rules::default().without(rule)?;
        let within = Size { handling: Handling::Within, ..Self::SIZE };
        let (size, property) = match rule {
            "term_is_checked" => (Self::SIZE, ONE_EFFECTIVE_WRITER),
            "lock_before_term" | "taking_runs_to_its_end" => (Self::SIZE, UNDISTURBED),
            "checkpoint_comes_with_the_term" => (Self::SIZE, RESUMES_WHERE_STORED),
            "never_moves_back" => (Self::SIZE, NEVER_BACK),
            "fenced_stands_back" | "silent_sessions_end" | "frozen_transactions_end" => (Self::SIZE, PROGRESS),
            "silent_holders_are_replaced" => (Size { locks: Locks::Files, ..Self::SIZE }, PROGRESS),
            "effects_with_the_checkpoint" | "begin_tells_what_is_true" => (within, EFFECTS_EXACTLY_ONCE),
            // Each of the two does what the other is there for, so it takes both to be gone.
            "life_is_checked" | "less_than_stored_interrupts" => {
                let rules = Rules { life_is_checked: false, less_than_stored_interrupts: false, ..rules };
                let size = Size { recoveries: true, ..within };
                return Some((Self { rules, size, alike: true }, EFFECTS_EXACTLY_ONCE));
            }
            "begin_locks_the_checkpoint" | "advance_from_is_checked" => {
                let rules = Rules { begin_locks_the_checkpoint: false, advance_from_is_checked: false, ..rules };
                return Some((Self { rules, size: within, alike: true }, EFFECTS_EXACTLY_ONCE));
            }
            _ => (Self::SIZE, NO_EVENT_LOST),
        };
        Some((Self { rules, size, alike: true }, property))
    }

    fn no_event_is_lost(&self, state: &LeadershipState) -> bool {
        let done = state.history.handled.or(state.history.dead_letters);
        (1..=state.checkpoint).all(|event| done.contains(event))
    }

    fn effects_are_there_once(&self, state: &LeadershipState) -> bool {
        let History { effects, twice, .. } = state.history;
        let passed = (1..=state.checkpoint).filter(|event| *event != POISON);
        twice == Events::default() && passed.into_iter().all(|event| effects.contains(event))
    }

    /// Everything that may happen, in one place.
    fn apply(&self, state: &mut LeadershipState, action: Action) {
        match action {
            Action::TryHold(at) => self.try_hold(state, at),
            Action::TakeOver(at) => self.take_over(state, at),
            Action::StopWaiting(at) => self.stop_waiting(state, at),
            Action::Handle(at) => self.handle(state, at),
            Action::Begin(at, count) => self.begin(state, at, count),
            Action::Commit(at) => state.instances[at].send_commit(),
            Action::Committed(at) => self.committed(state, at),
            Action::WriteDeadLetter(at) => self.write_dead_letter(state, at),
            Action::Store(at) => self.store(state, at),
            Action::Stored(at) => self.stored(state, at),
            Action::LookAgain(at) => self.look_again(state, at),
            Action::Lose(at) => state.instances[at].lose(self.size.locks),
            Action::Replace(at) => self.replace(state, at),
            Action::YieldLeadership(at) => state.instances[at].stop_leading(),
            Action::Evict(at) | Action::LateRollback(at) => state.instances[at].end_transaction(),
            Action::LateCommit(at) => self.late_commit(state, at),
            Action::LateStore(at) => self.late_store(state, at),
            Action::LateTakeOver(at) => self.late_take_over(state, at),
            Action::Flush => state.flush(),
            fault => {
                state.faults = state.faults.saturating_add(1).min(self.size.faults.unwrap_or(1));
                state.fault(fault, self.size.locks);
            }
        }
    }
}
