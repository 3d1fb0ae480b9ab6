//! How much of everything.

use std::time::Duration;

/// What a run does.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sizes {
    /// The scenarios, by their letters, in the order they are run in: A, B and C come last, and get the time that is left.
    pub(super) scenarios: String,
    /// How long all of it may take.
    pub(super) budget: Duration,
    /// Rounds of A to E, how long each contestant warms up in its turn, and how long it is measured then.
    pub(super) rounds: usize,
    pub(super) warm_up: f64,
    pub(super) seconds: f64,
    /// How long each pool size is tried.
    pub(super) sweep_seconds: f64,
    /// Streams of ten events that are there before anything is measured.
    pub(super) streams: usize,
    /// F: kills.
    pub(super) kills: usize,
    /// G: runs of Highwater, events that have to be acknowledged in each, and when to give up.
    pub(super) safety_runs: usize,
    pub(super) safety_events: usize,
    pub(super) safety_limit: f64,
    /// H: how large the log is, and how long each point takes.
    pub(super) logs: [usize; 3],
    pub(super) growth_seconds: f64,
}

/// Events of a stream that is there before.
pub(super) const EVENTS_PER_STREAM: usize = 10;

impl Sizes {
    pub(super) fn full() -> Self {
        Self {
            scenarios: "GFHDEABC".to_owned(),
            budget: Duration::from_secs(44 * 60),
            rounds: 5,
            warm_up: 1.0,
            seconds: 3.0,
            sweep_seconds: 1.0,
            streams: 10_000,
            kills: 5,
            safety_runs: 3,
            safety_events: 5_000,
            safety_limit: 60.0,
            logs: [1_000_000, 5_000_000, 20_000_000],
            growth_seconds: 10.0,
        }
    }

    /// In six minutes: A, D and G, with less of everything. The others, where they are asked for, just to see that they work.
    pub(super) fn quick() -> Self {
        Self {
            scenarios: "GDABC".to_owned(),
            budget: Duration::from_secs(5 * 60 + 30),
            rounds: 2,
            warm_up: 0.3,
            seconds: 0.7,
            sweep_seconds: 0.3,
            streams: 2_000,
            kills: 1,
            safety_runs: 1,
            safety_events: 500,
            safety_limit: 15.0,
            logs: [50_000, 100_000, 200_000],
            growth_seconds: 1.0,
        }
    }

    /// A turn, with its warm-up and what it takes to ask.
    pub(super) fn turn(&self) -> f64 {
        self.warm_up + self.seconds + 0.15
    }
}
