//! From where progress is possible.
//!
//! "Can be reached from every reachable state" is not what the checker's `eventually` means. So it is an invariant here:
//! in each state that the checker reaches, and for each instance, one continuation without faults is carried out, in which
//! that instance does what it can and all others are frozen for ever. The server does its part: it ends sessions on which
//! nothing is heard and transactions that stand in the way. Without a server the instance replaces the lock itself; and
//! while one is frozen inside a transaction, no other makes progress, which is what it is. The continuation is one of many;
//! that it gets to the end shows that the end can be reached.

use super::{Action, EVENTS, Instance, Leadership, LeadershipState, Lock, Locks, Phase};

/// Steps in which an instance gets to the end from anywhere.
const STEPS_MAX: usize = 80;

impl Leadership {
    pub(super) fn any_one_gets_to_the_end(&self, state: &LeadershipState) -> bool {
        (0..self.size.instances).all(|at| self.gets_to_the_end(*state, at))
    }

    fn gets_to_the_end(&self, mut state: LeadershipState, alone: usize) -> bool {
        // An instance frozen inside a transaction keeps all from writing for as long as it is, where that is one process's.
        let open = |other: &Instance| other.transaction.or(other.late_transaction).is_some();
        let mut others = state.instances.iter().enumerate().filter(|(at, _)| *at != alone);
        if self.size.locks == Locks::Files && others.any(|(_, other)| open(other)) {
            return true;
        }
        for _ in 0..STEPS_MAX {
            if state.checkpoint == EVENTS {
                return true;
            }
            match self.next(&state, alone) {
                Some(action @ (Action::SessionEnds(_) | Action::Judge(_))) => state.fault(action, self.size.locks),
                Some(action) => self.apply(&mut state, action),
                None => return false,
            }
        }
        false
    }

    /// What happens next when only one instance does anything.
    fn next(&self, state: &LeadershipState, alone: usize) -> Option<Action> {
        let instance = &state.instances[alone];
        if instance.transaction.is_some_and(|transaction| transaction.committing) {
            return Some(Action::Committed(alone));
        }
        let others = state.instances.iter().enumerate();
        for (at, other) in others.clone() {
            let frozen = if at == alone { None } else { other.transaction };
            match other.late_transaction.or(frozen) {
                Some(open) if open.committing && other.late_transaction.is_some() => {
                    return Some(Action::LateCommit(at));
                }
                Some(open) if open.committing => return Some(Action::Committed(at)),
                Some(_) if self.ends_transactions() => return Some(Action::Evict(at)),
                // It belongs to this instance, and nobody waits for it: the driver takes it back.
                Some(_) if at == alone && other.late_transaction.is_some() => return Some(Action::LateRollback(at)),
                _ => {}
            }
        }
        let keeps_out = |(at, other): &(usize, &Instance)| match other.lock {
            Lock::None => false,
            Lock::Held => *at != alone,
            Lock::Stale => true,
        };
        let waits = match instance.phase {
            Phase::Standby => self.rules.lock_before_term,
            phase => phase == Phase::Locked && !self.rules.lock_before_term,
        };
        if let (true, Some((at, _))) = (waits, others.clone().find(keeps_out)) {
            if self.size.locks == Locks::Files {
                let next = if instance.judged { Action::Replace(alone) } else { Action::Judge(alone) };
                return self.rules.silent_holders_are_replaced.then_some(next);
            }
            return self.rules.silent_sessions_end.then_some(Action::SessionEnds(at));
        }
        let mut actions = Vec::new();
        self.own_actions(state, alone, &mut actions);
        if instance.storing.is_some() && !state.is_locked(self) {
            actions.push(Action::Stored(alone));
        }
        // It is told in the end that its session is gone, and it does not release the lock or stop waiting for no reason.
        let lose = actions.iter().copied().find(|action| matches!(action, Action::Lose(_)));
        actions.retain(|action| !matches!(action, Action::YieldLeadership(_) | Action::StopWaiting(_)));
        lose.or_else(|| actions.pop())
    }
}
