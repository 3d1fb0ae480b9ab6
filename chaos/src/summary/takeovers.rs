//! How long it takes until another instance delivers.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cast::ROLES;
use crate::evidence::{Done, Effect, Evidence};

/// An instance that has delivered so long before a fault was delivering when it came: in microseconds.
const JUST_BEFORE: u64 = 1_000_000;

/// After so long it is not the fault that was waited for: in microseconds.
const WAIT_MAX: u64 = 60_000_000;

/// Times of takeovers, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Takeovers {
    /// How many.
    pub count: u64,
    /// Half of them took no longer.
    pub median: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Takeovers {
    fn new(mut times: Vec<u64>) -> Option<Self> {
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        let at = |part: f64| times[((last as f64 * part).ceil() as usize).min(last)] as f64 / 1e6;
        Some(Self { count: times.len() as u64, median: at(0.5), p99: at(0.99), max: at(1.0) })
    }
}

impl fmt::Display for Takeovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, median, p99, max } = self;
        write!(f, "{count}: median {median:.2} s, p99 {p99:.2} s, max {max:.2} s")
    }
}

/// For every fault that concerned an instance, and every subscriber that it was delivering to in the second before: from the
/// beginning of the fault to the first effect by another life. Where the same life continues by itself, no other took over.
pub(super) fn takeovers(evidence: &Evidence) -> BTreeMap<String, Takeovers> {
    let mut effects: Vec<Vec<&Effect>> = vec![Vec::new(); ROLES.len()];
    for effect in &evidence.effects {
        if let Some(of_role) = effects.get_mut(effect.role) {
            of_role.push(effect);
        }
    }
    let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for fault in evidence.faults.iter().filter(|fault| fault.failed.is_none()) {
        // Nobody takes over from one who is alone.
        let shared = ROLES.iter().zip(&effects).filter(|(role, _)| !role.alone);
        let found = shared.filter_map(|(_, of_role)| takeover(fault, of_role));
        times.entry(fault.kind.clone()).or_default().extend(found);
    }
    times.into_iter().filter_map(|(kind, times)| Some((kind, Takeovers::new(times)?))).collect()
}

fn takeover(fault: &Done, effects: &[&Effect]) -> Option<u64> {
    let instance = fault.instance?;
    let (from, until) = (fault.from, fault.from + WAIT_MAX);
    let begin = effects.partition_point(|effect| effect.at < from.saturating_sub(JUST_BEFORE));
    let middle = effects.partition_point(|effect| effect.at < from);
    let before = &effects[begin..middle];
    // The instance that delivered last was leading; it has to be the one that the fault concerns.
    let leader = before.last().map(|effect| effect.by).filter(|by| by.instance == instance)?;
    // What it hands over before it knows does not count; that it continues when all is over means that no other took over.
    let mut after = effects[middle..].iter().take_while(|effect| effect.at <= until);
    let next = after.find(|effect| effect.by != leader || effect.at > fault.to)?;
    (next.by != leader).then(|| next.at - from)
}
