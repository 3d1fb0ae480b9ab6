//! The server: the lock, the subscriber's row, and what goes wrong.

use super::{Action, EVENTS, Events, History, Instance, Leadership, LeadershipState, Lock, Locks, Phase};

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// `Closing::Advance`.
    Advance,
    /// `Closing::Bury`.
    Bury,
}

/// A fenced transaction. From its first statement it has the row locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transaction {
    /// How it ends.
    pub what: What,
    /// Where the checkpoint was when it began.
    pub from: u8,
    /// Events up to here were done before.
    pub done: u8,
    /// Where the checkpoint goes.
    pub to: u8,
    /// Whether its term still holds.
    pub term_holds: bool,
    /// The commit was sent.
    pub committing: bool,
}

/// What a recovery leaves: what was written before the last time that a writer waited for the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Durable {
    /// As in [`LeadershipState`].
    pub checkpoint: u8,
    /// As in [`History`].
    pub dead_letters: Events,
    /// As in [`History`].
    pub effects: Events,
    /// As in [`History`].
    pub twice: Events,
}

impl LeadershipState {
    /// What there is now of what a recovery takes back.
    pub(super) fn volatile(&self) -> Durable {
        let History { dead_letters, effects, twice, .. } = self.history;
        Durable { checkpoint: self.checkpoint, dead_letters, effects, twice }
    }

    pub(super) fn flush(&mut self) {
        self.durable = self.volatile();
    }

    /// Everything that was not flushed is gone, and so are all connections with what was under way on them.
    fn recover(&mut self) {
        let Durable { checkpoint, dead_letters, effects, twice } = self.durable;
        self.checkpoint = checkpoint;
        (self.history.dead_letters, self.history.effects, self.history.twice) = (dead_letters, effects, twice);
        self.instances.iter_mut().for_each(Instance::on_recovery);
    }

    /// Whether a transaction has the row locked.
    pub(super) fn is_locked(&self, model: &Leadership) -> bool {
        let open = |instance: &Instance| instance.transaction.or(instance.late_transaction).is_some();
        model.rules.begin_locks_the_checkpoint && self.instances.iter().any(open)
    }

    /// A write was refused. `Driver::trouble`: perhaps by itself, so it is looked at before it is believed.
    pub(super) fn fenced(&mut self, at: usize) {
        self.history.fenced_undisturbed |= self.faults == 0;
        self.instances[at].phase = Phase::Troubled;
    }

    /// The row gets a new term; nobody has one that holds any more.
    fn raise_term(&mut self) {
        for instance in &mut self.instances {
            (instance.term_holds, instance.nonce_holds) = (false, false);
            if let Some((_, holds)) = &mut instance.late_store {
                *holds = false;
            }
            for open in instance.transaction.iter_mut().chain(&mut instance.late_transaction) {
                open.term_holds = false;
            }
        }
    }

    fn move_to(&mut self, to: u8, term_holds: bool) {
        self.history.two_writers |= !term_holds;
        self.history.went_back |= to < self.checkpoint;
        self.checkpoint = to;
    }

    pub(super) fn fault(&mut self, fault: Action, locks: Locks) {
        match fault {
            Action::SessionEnds(at) => self.instances[at].lock = Lock::None,
            Action::GiveUpSession(at) => self.instances[at].lose(locks),
            Action::Judge(at) => self.instances[at].judged = true,
            Action::Kill(at) => {
                let instance = &mut self.instances[at];
                if locks == Locks::Files {
                    instance.transaction = instance.transaction.filter(|transaction| transaction.committing);
                }
                instance.forget();
                instance.nonce_holds = false;
                instance.late_take_over = instance.late_take_over.map(|_| false);
                if instance.lock == Lock::Held {
                    instance.lock = locks.left_behind();
                }
            }
            Action::LoseCommit(at) => {
                let instance = &mut self.instances[at];
                (instance.late_transaction, instance.phase) = (instance.transaction.take(), Phase::Troubled);
            }
            Action::Recover => self.recover(),
            Action::LoseTransaction(at) => self.instances[at].on_transaction_lost(),
            Action::LoseStore(at) => {
                let instance = &mut self.instances[at];
                instance.late_store = instance.storing.take().map(|to| (to, instance.term_holds));
            }
            Action::LoseTakeOver(at) => {
                let instance = &mut self.instances[at];
                instance.stop_leading();
                instance.late_take_over = Some(true);
            }
            _ => {}
        }
    }
}

impl Leadership {
    /// What happens on the server to what an instance has under way.
    pub(super) fn server_actions(&self, state: &LeadershipState, at: usize, actions: &mut Vec<Action>) {
        let instance = &state.instances[at];
        if instance.transaction.is_some_and(|transaction| transaction.committing) {
            actions.push(Action::Committed(at));
        }
        if instance.storing.is_some() && !state.is_locked(self) {
            actions.push(Action::Stored(at));
        }
        match instance.late_transaction {
            Some(late) if late.committing => actions.extend([Action::LateCommit(at), Action::LateRollback(at)]),
            Some(_) => actions.push(Action::LateRollback(at)),
            None => {}
        }
        if instance.late_store.is_some() && !state.is_locked(self) {
            actions.push(Action::LateStore(at));
        }
        if instance.late_take_over.is_some() && !state.is_locked(self) {
            actions.push(Action::LateTakeOver(at));
        }
        let is_taking = |other: &Instance| other.phase == Phase::Locked;
        let open = instance.transaction.is_some_and(|transaction| !transaction.committing);
        if open && self.ends_transactions() && state.instances.iter().any(is_taking) {
            actions.push(Action::Evict(at));
        }
    }

    pub(super) fn faults(&self, state: &LeadershipState, at: usize, actions: &mut Vec<Action>) {
        let instance = &state.instances[at];
        if instance.lock == Lock::Held || (instance.lock == Lock::Stale && self.rules.silent_sessions_end) {
            actions.push(Action::SessionEnds(at));
        }
        let held_by_another = || state.instances.iter().any(|other| other.lock == Lock::Held);
        let judges = self.size.locks == Locks::Files && self.rules.silent_holders_are_replaced;
        if judges && instance.phase == Phase::Standby && !instance.judged && held_by_another() {
            actions.push(Action::Judge(at));
        }
        let at_work = instance.phase != Phase::Standby && instance.can_forget();
        if at_work {
            actions.push(Action::Kill(at));
            if instance.lock == Lock::Held {
                actions.push(Action::GiveUpSession(at));
            }
        }
        match instance.transaction {
            Some(open) if !open.committing => actions.push(Action::LoseTransaction(at)),
            Some(_) if instance.late_transaction.is_none() => actions.push(Action::LoseCommit(at)),
            _ => {}
        }
        if instance.storing.is_some() && instance.late_store.is_none() {
            actions.push(Action::LoseStore(at));
        }
        if instance.phase == Phase::Locked && instance.late_take_over.is_none() {
            actions.push(Action::LoseTakeOver(at));
        }
    }

    /// Whether others can end a transaction that an instance has left open.
    pub(super) fn ends_transactions(&self) -> bool {
        self.size.locks == Locks::Sessions && self.rules.frozen_transactions_end
    }

    pub(super) fn replace(&self, state: &mut LeadershipState, at: usize) {
        for other in &mut state.instances {
            other.lock = Lock::None;
        }
        self.try_hold(state, at);
    }

    pub(super) fn try_hold(&self, state: &mut LeadershipState, at: usize) {
        let checkpoint = state.checkpoint;
        let instance = &mut state.instances[at];
        (instance.lock, instance.judged) = (Lock::Held, false);
        instance.phase = if self.rules.lock_before_term { Phase::Locked } else { Phase::Leading };
        if !self.rules.checkpoint_comes_with_the_term {
            instance.peeked = checkpoint;
        }
    }

    pub(super) fn take_over(&self, state: &mut LeadershipState, at: usize) {
        state.raise_term();
        let checkpoint = state.checkpoint;
        let instance = &mut state.instances[at];
        let position = if self.rules.checkpoint_comes_with_the_term { checkpoint } else { instance.peeked };
        instance.on_taken(position);
        instance.nonce_holds = true;
        if !self.rules.lock_before_term {
            instance.phase = Phase::Locked;
        }
        state.history.began_elsewhere |= position != checkpoint;
        self.wait_for_the_disk(state);
    }

    /// `Driver::begin_leading`: something else is wanted first.
    pub(super) fn stop_waiting(&self, state: &mut LeadershipState, at: usize) {
        if self.rules.taking_runs_to_its_end {
            self.take_over(state, at);
        } else {
            state.instances[at].late_take_over = Some(true);
        }
        state.instances[at].stop_leading();
    }

    pub(super) fn late_take_over(&self, state: &mut LeadershipState, at: usize) {
        state.raise_term();
        let instance = &mut state.instances[at];
        instance.nonce_holds = instance.late_take_over.take() == Some(true);
        self.wait_for_the_disk(state);
    }

    pub(super) fn committed(&self, state: &mut LeadershipState, at: usize) {
        let Some(transaction) = state.instances[at].transaction.take() else { return };
        if !self.commit(state, transaction) {
            return state.fenced(at);
        }
        let instance = &mut state.instances[at];
        instance.handled = transaction.to;
        let with_checkpoint = transaction.what == What::Bury || self.rules.effects_with_the_checkpoint;
        instance.stored = if with_checkpoint { transaction.to } else { instance.stored };
        let dead_letter_owed = transaction.what == What::Bury && !self.rules.bury_in_one_transaction;
        instance.phase = if dead_letter_owed { Phase::DeadLetterOwed } else { Phase::Leading };
    }

    pub(super) fn late_commit(&self, state: &mut LeadershipState, at: usize) {
        if let Some(transaction) = state.instances[at].late_transaction.take() {
            self.commit(state, transaction);
        }
    }

    /// The last statement of a transaction and its commit. Says whether the fence held.
    fn commit(&self, state: &mut LeadershipState, transaction: Transaction) -> bool {
        let Transaction { what, from, done, to, term_holds, .. } = transaction;
        let superseded = self.rules.term_is_checked && !term_holds;
        if superseded || (self.rules.advance_from_is_checked && state.checkpoint != from) {
            return false;
        }
        if what == What::Bury {
            if self.rules.bury_in_one_transaction {
                state.history.dead_letters.insert(to);
            }
            state.move_to(to, term_holds);
            self.wait_for_the_disk(state);
            return true;
        }
        for event in done + 1..=to.min(EVENTS) {
            state.history.handled.insert(event);
            if !state.history.effects.insert(event) {
                state.history.twice.insert(event);
            }
        }
        if self.rules.effects_with_the_checkpoint {
            state.move_to(to, term_holds);
        }
        true
    }

    pub(super) fn write_dead_letter(&self, state: &mut LeadershipState, at: usize) {
        state.history.dead_letters.insert(state.instances[at].handled);
        state.instances[at].phase = Phase::Leading;
    }

    pub(super) fn stored(&self, state: &mut LeadershipState, at: usize) {
        let instance = &mut state.instances[at];
        let (Some(to), term_holds) = (instance.storing.take(), instance.term_holds) else { return };
        if self.rules.term_is_checked && !term_holds || instance.is_from_before(self) {
            return state.fenced(at);
        }
        instance.stored = instance.stored.max(to);
        self.store_checkpoint(state, to, term_holds);
    }

    pub(super) fn late_store(&self, state: &mut LeadershipState, at: usize) {
        if let Some((to, term_holds)) = state.instances[at].late_store.take()
            && (term_holds || !self.rules.term_is_checked)
        {
            self.store_checkpoint(state, to, term_holds);
        }
    }

    /// Terms and dead letters do; where nothing is taken back nobody asks.
    fn wait_for_the_disk(&self, state: &mut LeadershipState) {
        if self.size.recoveries {
            state.flush();
        }
    }

    /// `checkpoint_store_one.sql`, where the term is as it should be.
    fn store_checkpoint(&self, state: &mut LeadershipState, to: u8, term_holds: bool) {
        if to >= state.checkpoint || !self.rules.never_moves_back {
            state.move_to(to, term_holds);
        }
    }
}
