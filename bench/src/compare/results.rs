//! What a comparison found: what is written to `bench/results`, and what table, page and baseline are made from.

use std::collections::BTreeMap;

use driver::About;
use serde::{Deserialize, Serialize};

pub(crate) use crate::report::Goal;
use crate::rounds::{median, quantile};

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// When it began, as `2026-11-15T17:00:00Z`.
    pub(crate) date: String,
    /// What of the project was measured: a commit, with `+` if there was more in the folder.
    pub(crate) commit: String,
    /// Short, and with less data: see `sizes`.
    pub(crate) quick: bool,
    /// How long it took, in seconds, without builds.
    pub(crate) seconds: f64,
    /// Whether it came to its end.
    #[serde(default)]
    pub(crate) complete: bool,
    pub(crate) machine: Machine,
    /// All contestants, also those that could not be measured.
    pub(crate) contestants: Vec<Contestant>,
    /// In the order they are shown in: G first.
    pub(crate) scenarios: Vec<Scenario>,
    /// What the last line says, by name.
    pub(crate) ratios: Vec<Ratio>,
}

/// What it ran on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_gigabytes: f64,
    pub(crate) kernel: String,
    /// `PostgreSQL 15.18 …`
    pub(crate) postgres: String,
    /// Settings of the server that are not its defaults, and those that matter.
    pub(crate) settings: BTreeMap<String, String>,
    /// How long the disk takes for a commit: the median of so many in microseconds, before the run and after it.
    pub(crate) commit_micros: (f64, f64),
}

/// Who was compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Contestant {
    /// `highwater`, `highwater-execute`, `raw-tokio-postgres`, `other-store` …: what rows refer to.
    pub(crate) id: String,
    pub(crate) kind: Kind,
    /// Nothing if it could not even be built.
    pub(crate) about: Option<About>,
    /// Why it was not measured.
    pub(crate) not_measured: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Highwater,
    Raw,
    Peer,
}

/// One of A to H.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scenario {
    /// A letter.
    pub(crate) id: String,
    pub(crate) title: String,
    /// What was done in this run: sizes, times, rounds.
    pub(crate) sizes: String,
    /// All rows of one case stand together.
    pub(crate) rows: Vec<Row>,
}

/// A contestant in a case of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// `32 callers`, `p50 at 100 events/s`, `lost` …
    pub(crate) case: String,
    /// Its id.
    pub(crate) contestant: String,
    /// `events/s`, `ms`, `events`, `bytes/event`, …
    pub(crate) unit: String,
    pub(crate) higher_is_better: bool,
    /// One a round, in the order of the rounds, which are the same for all rows of a case. Empty: not measured.
    pub(crate) samples: Vec<f64>,
    /// Why there are none, or what else there is to know.
    pub(crate) note: Option<String>,
    /// For plots of latencies: how many microseconds so large a part of them took at most, from 0 to 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) distribution: Vec<(f64, f64)>,
    /// For growth curves: the number along the bottom (events in the log, processes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<f64>,
    /// What it took.
    #[serde(default)]
    pub(crate) calls: Calls,
}

/// What all rounds of a row took besides time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Calls {
    /// How often the store was asked to append.
    pub(crate) attempts: u64,
    /// Appends that failed.
    pub(crate) failed: u64,
    /// What the first of them said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
    /// Connections that were opened after the first turn.
    pub(crate) reconnects: u64,
}

/// A figure on the last line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) name: String,
    /// Nothing if one side was not measured.
    pub(crate) value: Option<f64>,
    pub(crate) lowest: Option<f64>,
    pub(crate) highest: Option<f64>,
    /// Whom it is against.
    pub(crate) against: String,
    pub(crate) goal: Option<Goal>,
    /// How far apart two equals were in a round at most, as a part of 1.
    #[serde(default)]
    pub(crate) noise: Option<f64>,
}

impl Row {
    pub(crate) fn median(&self) -> Option<f64> {
        (!self.samples.is_empty()).then(|| median(&self.samples))
    }

    /// The lowest and the highest.
    pub(crate) fn spread(&self) -> Option<(f64, f64)> {
        (!self.samples.is_empty()).then(|| (quantile(&self.samples, 0.0), quantile(&self.samples, 1.0)))
    }
}
