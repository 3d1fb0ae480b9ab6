//! An instance: what it believes, what it does, and what it has under way.

use super::{Action, BATCH, EVENTS, Handling, Leadership, LeadershipState, Locks, POISON, Transaction, What};

/// What an instance is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// It waits for the lock.
    Standby,
    /// It has got the lock; the term is next. Where the order is reversed: it has the term, and the lock is next.
    Locked,
    /// It processes.
    Leading,
    /// The event in front has failed for good; a dead letter is next.
    Spent,
    /// The checkpoint has passed the event in front, and its dead letter is next. Only where that is not one transaction.
    DeadLetterOwed,
    /// Something went wrong: it looks again whether its term still holds.
    Troubled,
    /// There is no such instance.
    Absent,
}

/// The lock, as the server sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lock {
    /// Not on any session of this instance.
    None,
    /// On its session.
    Held,
    /// On a session that it has given up or that belonged to a process that died.
    Stale,
}

/// An instance, with all that the server has of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Instance {
    /// What it is at.
    pub phase: Phase,
    /// The lock, as the server sees it.
    pub lock: Lock,
    /// Whether the row carries the term of its fence.
    pub term_holds: bool,
    /// Whether the row carries its nonce.
    pub nonce_holds: bool,
    /// The server has recovered since it was told where the checkpoint is.
    pub outlived: bool,
    /// `Machine::handled`.
    pub handled: u8,
    /// `Machine::stored`.
    pub stored: u8,
    /// A checkpoint that is on its way.
    pub storing: Option<u8>,
    /// Its transaction.
    pub transaction: Option<Transaction>,
    /// A checkpoint whose answer nobody waits for, and whether its term still holds.
    pub late_store: Option<(u8, bool)>,
    /// A transaction that nobody waits for any more.
    pub late_transaction: Option<Transaction>,
    /// A term that is being raised though nobody waits for it, and whether it has the present nonce.
    pub late_take_over: Option<bool>,
    /// The checkpoint as it was together with the lock. Only where that is believed.
    pub peeked: u8,
    /// It has seen no sign of life of the lock's holder, and is about to replace it.
    pub judged: bool,
}

impl Locks {
    /// What becomes of a lock whose holder does not have it any more, as far as others are concerned.
    pub(super) fn left_behind(self) -> Lock {
        match self {
            Self::Sessions => Lock::Stale,
            Self::Files => Lock::None,
        }
    }
}

impl Instance {
    /// One that waits.
    pub const STANDBY: Self = Self {
        phase: Phase::Standby,
        lock: Lock::None,
        term_holds: false,
        nonce_holds: false,
        outlived: false,
        handled: 0,
        stored: 0,
        storing: None,
        transaction: None,
        late_store: None,
        late_transaction: None,
        late_take_over: None,
        peeked: 0,
        judged: false,
    };
    /// One that is not there.
    pub const ABSENT: Self = Self { phase: Phase::Absent, ..Self::STANDBY };

    /// Whether it processes, rightly or not.
    #[must_use]
    pub fn believes_to_lead(&self) -> bool {
        matches!(self.phase, Phase::Leading | Phase::Spent | Phase::DeadLetterOwed | Phase::Troubled)
    }

    /// Whether it could forget what it has under way: there is room for one of a kind that nobody waits for.
    pub(super) fn can_forget(&self) -> bool {
        let store = self.storing.is_none() || self.late_store.is_none();
        store && (self.transaction.is_none() || self.late_transaction.is_none())
    }

    /// `Driver::lose`: what it has under way is nobody's any more. A transaction that was not to be committed is dropped.
    pub(super) fn lose(&mut self, locks: Locks) {
        self.transaction = self.transaction.filter(|transaction| transaction.committing);
        self.forget();
        if self.lock == Lock::Held {
            self.lock = locks.left_behind();
        }
    }

    /// Everything inside is gone; what is under way continues by itself.
    pub(super) fn forget(&mut self) {
        self.late_store = self.storing.map(|to| (to, self.term_holds)).or(self.late_store);
        self.late_transaction = self.transaction.or(self.late_transaction);
        *self = Self {
            lock: self.lock,
            nonce_holds: self.nonce_holds,
            late_store: self.late_store,
            late_transaction: self.late_transaction,
            late_take_over: self.late_take_over,
            ..Self::STANDBY
        };
    }

    /// `Driver::release`.
    pub(super) fn stop_leading(&mut self) {
        self.forget();
        if self.lock == Lock::Held {
            self.lock = Lock::None;
        }
    }

    pub(super) fn send_commit(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.committing = true;
        }
    }

    /// Its open transaction is rolled back by the server: the one that nobody waits for, or its own.
    pub(super) fn end_transaction(&mut self) {
        if self.late_transaction.take_if(|transaction| !transaction.committing).is_none() && self.transaction.is_some()
        {
            self.on_transaction_lost();
        }
    }

    /// It was not committed, and that is known: what is remembered still counts. An event that failed is handled again.
    pub(super) fn on_transaction_lost(&mut self) {
        (self.transaction, self.phase) = (None, Phase::Leading);
    }

    /// Its connections are gone, and so is what was under way on them; what it remembers it remembers.
    pub(super) fn on_recovery(&mut self) {
        let unanswered = self.transaction.is_some_and(|transaction| transaction.committing);
        if unanswered {
            self.phase = Phase::Troubled;
        } else if self.transaction.is_some() {
            self.on_transaction_lost();
        }
        (self.storing, self.transaction) = (None, None);
        (self.late_store, self.late_transaction, self.late_take_over) = (None, None, None);
        self.lock = Lock::None;
        self.outlived = self.believes_to_lead();
    }

    /// Whether the server refuses its writes, because what it knows comes from another life.
    pub(super) fn is_from_before(&self, model: &Leadership) -> bool {
        self.outlived && model.rules.life_is_checked
    }

    pub(super) fn front(&self) -> Option<u8> {
        (self.handled < EVENTS).then_some(self.handled + 1)
    }

    /// `Driver::begin_leading`: resumes from where the checkpoint is.
    pub(super) fn on_taken(&mut self, position: u8) {
        (self.phase, self.handled, self.stored, self.peeked) = (Phase::Leading, position, position, 0);
        (self.term_holds, self.outlived) = (true, false);
    }
}

impl Leadership {
    /// What an instance may do by itself, other than fail.
    pub(super) fn own_actions(&self, state: &LeadershipState, at: usize, actions: &mut Vec<Action>) {
        let instance = &state.instances[at];
        let free = state.instances.iter().all(|other| other.lock == Lock::None);
        let lock_first = self.rules.lock_before_term;
        match instance.phase {
            Phase::Standby if !lock_first && !state.is_locked(self) => actions.push(Action::TakeOver(at)),
            Phase::Standby if lock_first && instance.judged => {
                actions.push(Action::Replace(at));
                actions.extend(free.then_some(Action::TryHold(at)));
            }
            Phase::Standby if lock_first && free => actions.push(Action::TryHold(at)),
            Phase::Locked if !lock_first && free => actions.push(Action::TryHold(at)),
            Phase::Locked if lock_first && instance.late_take_over.is_none() && !state.is_locked(self) => {
                actions.extend([Action::TakeOver(at), Action::StopWaiting(at)]);
            }
            Phase::Locked if lock_first && !state.is_locked(self) => actions.push(Action::TakeOver(at)),
            Phase::Leading | Phase::Spent => self.delivering(state, at, actions),
            Phase::DeadLetterOwed => actions.push(Action::WriteDeadLetter(at)),
            Phase::Troubled => actions.push(Action::LookAgain(at)),
            _ => {}
        }
        let leads = instance.phase == Phase::Locked && lock_first || instance.believes_to_lead();
        if leads && instance.lock != Lock::Held && instance.can_forget() {
            actions.push(Action::Lose(at));
        }
    }

    /// `Machine::step`, for who has no trouble.
    fn delivering(&self, state: &LeadershipState, at: usize, actions: &mut Vec<Action>) {
        let instance = &state.instances[at];
        let unsaved = instance.handled - instance.stored.min(instance.handled);
        match (instance.transaction, instance.storing) {
            (Some(Transaction { committing: false, .. }), _) => return actions.push(Action::Commit(at)),
            (Some(_), _) => return,
            (None, None) if unsaved > 0 || !self.rules.handle_before_checkpoint => actions.push(Action::Store(at)),
            (None, None) if instance.phase == Phase::Leading => actions.push(Action::YieldLeadership(at)),
            _ => {}
        }
        let Some(front) = instance.front() else { return };
        let alone = instance.storing.is_none();
        if instance.phase == Phase::Spent {
            // A checkpoint in flight must not overtake, or be overtaken by, one that travels in a transaction.
            if alone && !state.is_locked(self) {
                actions.push(Action::Begin(at, 1));
            }
        } else if front == POISON || self.size.handling == Handling::Each {
            if unsaved < BATCH {
                actions.push(Action::Handle(at));
            }
        } else if alone && unsaved == 0 && !state.is_locked(self) {
            // A batch with an event in it that fails is rolled back, and leaves nothing behind.
            let counts = (1..=BATCH).take_while(|count| instance.handled + count <= EVENTS);
            let counts = counts.take_while(|count| instance.handled + count != POISON);
            actions.extend(counts.map(|count| Action::Begin(at, count)));
        }
    }

    /// `Driver::handle_each`, for one event.
    pub(super) fn handle(&self, state: &mut LeadershipState, at: usize) {
        let instance = &mut state.instances[at];
        match instance.front() {
            Some(POISON) => instance.phase = Phase::Spent,
            Some(event) => {
                instance.handled = event;
                state.history.handled.insert(event);
            }
            None => {}
        }
    }

    /// `Driver::handle_within` and `Driver::bury`, up to where the handler has done its part.
    pub(super) fn begin(&self, state: &mut LeadershipState, at: usize, count: u8) {
        let from = state.checkpoint;
        let instance = &mut state.instances[at];
        if self.rules.term_is_checked && !instance.term_holds || instance.is_from_before(self) {
            return state.fenced(at);
        }
        if from < instance.stored && self.rules.less_than_stored_interrupts {
            return state.fenced(at);
        }
        let to = instance.handled + count;
        let what = if instance.phase == Phase::Spent { What::Bury } else { What::Advance };
        if what == What::Advance && from >= to && self.rules.begin_tells_what_is_true {
            // `Machine::on_found`: all of them are done already.
            (instance.handled, instance.stored) = (to, from);
            return;
        }
        let done = if self.rules.begin_tells_what_is_true { from.max(instance.handled) } else { instance.handled };
        let term_holds = instance.term_holds;
        instance.transaction = Some(Transaction { what, from, done, to, term_holds, committing: false });
    }

    /// `Driver::store`.
    pub(super) fn store(&self, state: &mut LeadershipState, at: usize) {
        let instance = &mut state.instances[at];
        let ahead = if self.rules.handle_before_checkpoint { instance.handled } else { instance.handled + 1 };
        instance.storing = Some(ahead.min(EVENTS));
    }

    /// `Driver::begin_leading`, where there is a fence. Plain reading: a transaction that is being committed is not waited for.
    pub(super) fn look_again(&self, state: &mut LeadershipState, at: usize) {
        let checkpoint = state.checkpoint;
        let instance = &mut state.instances[at];
        if instance.term_holds || instance.nonce_holds {
            instance.on_taken(checkpoint);
        } else if self.rules.fenced_stands_back {
            instance.stop_leading();
        }
    }
}
