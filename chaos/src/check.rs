//! Whether a run has kept the promises of docs/guarantees.md: pure over what it left behind.
//!
//! Sound before sharp: what is reported is broken. Where evidence permits two readings, the one that breaks nothing counts.
//! The log comes first, because what is wrong there explains the rest.

mod appends;
mod dead_letters;
mod effects;
mod ending;
mod facts;
mod finding;
mod hints;
mod log;
mod rows;
mod saga;
mod spans;
mod taken_back;
mod terms;
#[cfg(test)]
mod tests;

pub(crate) use self::facts::rebuilds;

use self::facts::Facts;
use crate::evidence::{Evidence, Violation};

/// How long all subscribers have to catch up after the last fault, and how long a fault is held responsible for what
/// follows: in microseconds.
pub const RECOVERY: u64 = 15_000_000;

/// Every broken promise, in a stable order.
#[must_use]
pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let facts = Facts::new(evidence);
    let checks = [
        log::check,
        appends::check,
        terms::check,
        rows::check,
        effects::check,
        saga::check,
        dead_letters::check,
        hints::check,
        ending::check,
    ];
    checks.into_iter().flat_map(|check| check(&facts)).collect()
}
