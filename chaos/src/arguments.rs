//! What can be asked for.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use highwater::BoxError;
use highwater_chaos::broken::Flaw;
use highwater_chaos::run::Setting;
use highwater_chaos::schedule::{REST_MILLIS, Schedule, Store, WRITERS, kinds};

/// Runs instances of an application, does to them, their network and their database what a seed says, and proves from what
/// is left that every promise was held.
#[derive(Debug, Clone, Parser)]
#[command(name = "chaos", version)]
pub(crate) struct Arguments {
    /// What faults and writers are drawn from; by chance unless given.
    #[arg(long)]
    seed: Option<u64>,
    /// How long faults continue; with --shrink, how long to try.
    #[arg(long, default_value_t = 2.0)]
    pub(crate) minutes: f64,
    /// How long to continue with further runs, each of so many minutes and with the next seed.
    #[arg(long, conflicts_with_all = ["replay", "shrink"])]
    pub(crate) hours: Option<f64>,
    /// Where the events are.
    #[arg(long, value_enum, default_value = "postgres")]
    pub(crate) backend: Store,
    /// Only these kinds of faults, separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Repeats a schedule: the file that a run has written.
    #[arg(long, value_name = "FILE", conflicts_with = "shrink")]
    pub(crate) replay: Option<PathBuf>,
    /// Looks for a shorter schedule that breaks one of the promises that this one breaks.
    #[arg(long, value_name = "FILE")]
    pub(crate) shrink: Option<PathBuf>,
    /// Runs an engine that breaks a promise, to see that it is noticed.
    #[arg(long, value_enum)]
    broken: Option<Flaw>,
    /// Without a replica: starts sooner, and is never promoted.
    #[arg(long)]
    single: bool,
    /// Writers of each instance.
    #[arg(long, default_value_t = WRITERS)]
    writers: usize,
    /// How long each writer rests between two appends at most, in milliseconds.
    #[arg(long, default_value_t = REST_MILLIS)]
    rest: u64,
    /// Where reports and schedules are written.
    #[arg(long, default_value = "chaos/results")]
    pub(crate) out: PathBuf,
    /// Says only what came of it.
    #[arg(long, short)]
    quiet: bool,
    #[command(subcommand)]
    pub(crate) mode: Option<Mode>,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Mode {
    /// One instance: what the experiment starts.
    #[command(hide = true)]
    Instance,
    /// Adds runs up: the summaries in these folders.
    Figures {
        /// Folders of runs, or with such folders in them.
        #[arg(required = true)]
        folders: Vec<PathBuf>,
    },
}

impl Arguments {
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| fastrand::u64(1..1_000_000))
    }

    /// What a seed says, with what else was asked for.
    pub(crate) fn draw(&self, seed: u64) -> Schedule {
        let drawn = Schedule::draw(seed, self.backend, self.minutes, &self.only);
        let (replica, writers, rest_millis) = (!self.single, self.writers, self.rest);
        Schedule { replica, writers, rest_millis, flaw: self.broken, ..drawn }
    }

    /// A folder for a run, which is empty. What has shown a broken promise is never removed.
    pub(crate) fn folder(&self, schedule: &Schedule, purpose: &str) -> Result<PathBuf, BoxError> {
        let name = format!("{:?}-{}{purpose}", schedule.store, schedule.seed).to_lowercase();
        let named = |n: u32| if n == 1 { name.clone() } else { format!("{name}-{n}") };
        let mut names = (1..).map(named).filter(|name| !self.out.join(name).join("evidence.json").exists());
        let folder = std::path::absolute(self.out.join(names.next().unwrap_or_default()))?;
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| format!("cannot remove {}: {error}", folder.display()))?;
        }
        fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(folder)
    }

    pub(crate) fn setting(&self, schedule: Schedule, folder: PathBuf, private: bool) -> Result<Setting, BoxError> {
        if let Some(unknown) = self.only.iter().find(|only| !kinds(self.backend).iter().any(|(kind, _)| kind == only)) {
            let known: Vec<&str> = kinds(self.backend).iter().map(|(kind, _)| *kind).collect();
            return Err(format!("{unknown:?} is no kind of fault here; there are {}", known.join(", ")).into());
        }
        if self.writers == 0 || !(0.0..=100_000.0).contains(&self.minutes) {
            return Err("it takes at least one writer, and a time that is not negative".into());
        }
        let replayed = self.replay.is_some() || self.shrink.is_some();
        let limit = if replayed { Duration::MAX / 4 } else { Duration::from_secs_f64(self.minutes * 60.0) };
        Ok(Setting { schedule, limit, folder, program: std::env::current_exe()?, private, quiet: self.quiet })
    }
}
