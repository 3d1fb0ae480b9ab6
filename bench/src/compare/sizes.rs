//! How much of everything.

use super::entrants::Field;
use super::{appends, growth, live};

/// What a run does.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sizes {
    /// The scenarios, by their letters.
    pub(super) scenarios: String,
    /// Rounds of A, B and C, and how long each contestant has in one.
    pub(super) rounds: usize,
    pub(super) seconds: f64,
    /// D: streams of ten events, rounds, and how long one may take.
    pub(super) streams: usize,
    pub(super) catch_ups: usize,
    pub(super) catch_up_limit: f64,
    /// E: rounds, and how long each rate is kept up.
    pub(super) live_rounds: usize,
    pub(super) live_seconds: f64,
    /// F: kills.
    pub(super) kills: usize,
    /// G: runs of Highwater and of everybody else, and how long each takes.
    pub(super) safety_runs: usize,
    pub(super) safety_runs_others: usize,
    pub(super) safety_seconds: f64,
    /// H: how large the logs are, and rounds.
    pub(super) logs: [usize; 3],
    pub(super) growth_rounds: usize,
}

/// Events of a stream in D.
pub(super) const EVENTS_PER_STREAM: usize = 10;

impl Sizes {
    pub(super) fn full() -> Self {
        Self {
            scenarios: "GABCDEFH".to_owned(),
            rounds: 5,
            seconds: 0.7,
            streams: 20_000,
            catch_ups: 5,
            catch_up_limit: 30.0,
            live_rounds: 2,
            live_seconds: 3.0,
            kills: 5,
            safety_runs: 10,
            safety_runs_others: 2,
            safety_seconds: 4.0,
            logs: [100_000, 1_000_000, 5_000_000],
            growth_rounds: 4,
        }
    }

    /// In five minutes: A, D and G, with less in D. The others, where they are asked for, just to see that they work.
    pub(super) fn quick() -> Self {
        Self {
            scenarios: "GAD".to_owned(),
            rounds: 2,
            seconds: 0.4,
            streams: 5_000,
            catch_ups: 3,
            catch_up_limit: 8.0,
            safety_runs: 2,
            safety_runs_others: 1,
            safety_seconds: 3.0,
            live_rounds: 1,
            kills: 1,
            logs: [100_000, 200_000, 300_000],
            growth_rounds: 1,
            ..Self::full()
        }
    }

    /// How many steps it will be told of.
    pub(super) fn steps(&self, field: &Field) -> usize {
        let entrants = field.entrants.len();
        let appending = field.entrants.iter().filter(|entrant| !entrant.is_raw_at_its_best()).count();
        let following = field.entrants.iter().filter(|entrant| entrant.about.no_follower.is_none());
        let (following, filled) = (following.clone().count(), following.filter(|entrant| !entrant.is_best()).count());
        let ours = field.entrants.iter().filter(|entrant| entrant.is_ours()).count() + 1;
        let alone = field.entrants.iter().filter(|entrant| !entrant.is_best()).count();
        let steps = |letter| match letter {
            'A' => appends::ONE.len() * appending * self.rounds,
            'B' => appends::MANY.len() * appending * self.rounds,
            'C' => appending * self.rounds,
            'D' => filled + following * (self.catch_ups + 1),
            'E' => live::RATES.len() * entrants * self.live_rounds,
            'F' => alone * self.kills,
            'G' => ours * self.safety_runs + (entrants + 1 - ours) * self.safety_runs_others,
            _ => self.logs.len() * (self.growth_rounds + 2) + growth::PROCESSES.len() * (self.growth_rounds + 1),
        };
        self.scenarios.chars().map(steps).sum()
    }
}
