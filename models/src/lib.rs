//! Highwater's two protocols as models that a checker explores to the end.
//!
//! [`log`]: which number a reader may pass. [`leadership`]: who may write, and what becomes of events meanwhile. Each has
//! `Rules`, named after what the code does; without one of them the checker finds a history that goes wrong. What is
//! modelled, what is not, and where each rule stands in the code is in the crate's README.

pub mod leadership;
pub mod log;
mod rules;

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// Threads that explore.
const THREADS: usize = 2;

/// What came of exploring a model to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explored {
    /// Different states that were reached.
    pub states: usize,
    /// Properties that a state violates, and things that should be possible and are not.
    pub failures: Vec<&'static str>,
}

/// Explores a model to its end, whatever is found on the way.
///
/// # Panics
/// When the checker stops before it has seen everything.
pub fn explore<M>(model: M) -> Explored
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let checker = model.checker().threads(THREADS).spawn_bfs().join();
    let mut failures = Vec::new();
    for property in checker.model().properties() {
        let found = checker.discovery(property.name).is_some();
        let wanted = property.expectation == Expectation::Sometimes;
        if found != wanted {
            failures.push(property.name);
        }
    }
    assert!(checker.is_done(), "the checker has not come to its end");
    Explored { states: checker.unique_state_count(), failures }
}

/// A history that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counterexample<S, A> {
    /// What happened.
    pub actions: Vec<A>,
    /// The first state that is wrong.
    pub end: S,
}

/// A history that violates a property, a short one; `None` when there is none.
pub fn counterexample<M>(model: M, property: &'static str) -> Option<Counterexample<M::State, M::Action>>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    // One thread goes by breadth alone: what it finds is short, and always the same.
    let found = HasDiscoveries::AnyOf([property].into());
    let checker = model.checker().finish_when(found).spawn_bfs().join();
    let path = checker.discovery(property)?;
    let holds = checker.model().property(property).condition;
    let mut actions = Vec::new();
    // What was found last counts for the checker, and that may continue after something has gone wrong.
    for (state, action) in path.into_vec() {
        if !holds(checker.model(), &state) {
            return Some(Counterexample { actions, end: state });
        }
        actions.extend(action);
    }
    None
}
