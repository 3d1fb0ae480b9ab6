//! What is done to the instances, the network and the database, and when: drawn from a seed, or read from a file.

mod draw;

use std::path::Path;
use std::{fmt, fs};

use clap::ValueEnum;
use highwater::BoxError;
use serde::{Deserialize, Serialize};

pub use self::draw::kinds;
use self::draw::{draw, goes_with};
use crate::broken::Flaw;
use crate::cast::ROLES;

/// Writers of an instance, unless the options say more or fewer.
pub const WRITERS: usize = 4;
/// How long each rests at most between two appends.
pub const REST_MILLIS: u64 = 400;

/// About how long it takes until a replica has become the primary, and the primary a replica: in milliseconds.
const PROMOTION: u64 = 4_000;

/// Where the events are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Store {
    /// A PostgreSQL primary with a synchronous replica.
    Postgres,
    /// A file.
    Sqlite,
}

/// What a connection of an instance is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// The session that leadership hangs on.
    Lead,
    /// The one that looks whether the primary is still one.
    Watch,
    /// The one that waits for another instance's end.
    Neighbour,
    /// `LISTEN`.
    Listen,
    /// Appending.
    Append,
    /// Reading in order.
    Read,
    /// The transactions of delivery.
    Deliver,
    /// Storing checkpoints.
    Checkpoint,
    /// Telling others that there is something new.
    Notify,
    /// What the application does: units of work.
    Application,
    /// Everything else.
    Pool,
}

impl Purpose {
    const ALL: [Self; 11] = [
        Self::Lead,
        Self::Watch,
        Self::Neighbour,
        Self::Listen,
        Self::Append,
        Self::Read,
        Self::Deliver,
        Self::Checkpoint,
        Self::Notify,
        Self::Application,
        Self::Pool,
    ];

    /// The end of the connection's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lead => " lead",
            Self::Watch => " watch",
            Self::Neighbour => " neighbour",
            Self::Listen => " listen",
            Self::Append => " append",
            Self::Read => " read",
            Self::Deliver => " deliver",
            Self::Checkpoint => " checkpoint",
            Self::Notify => " notify",
            Self::Application => " application",
            Self::Pool => "",
        }
    }
}

/// One fault. Times are milliseconds; instances are called by their numbers, from 1, and roles by their places in
/// [`ROLES`].
#[expect(missing_docs, reason = "what fields are stands above, once")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// SIGKILL; started again after a while.
    Kill { instance: u32, millis: u64 },
    /// SIGSTOP, and SIGCONT after a while.
    Freeze { instance: u32, millis: u64 },
    /// An orderly stop, and a start.
    Restart { instance: u32 },
    /// `pg_terminate_backend` of an instance's connections of one purpose; of all instances' with 0.
    Terminate { instance: u32, purpose: Purpose },
    /// A fast restart of the server.
    ServerRestart,
    /// An immediate stop of the server; started again after a while.
    ServerCrash { millis: u64 },
    /// For a while nobody waits for the disk who does not have to, and the WAL writer gets no time; then one backend of the
    /// primary gets a SIGKILL, as from a kernel that is out of memory, and the server recovers by itself.
    KillBackend { purpose: Purpose, millis: u64 },
    /// The primary is lost, and the replica takes its place.
    Promote,
    /// The replica is stopped, and commits wait for it. After a while the sessions that wait are ended, by a restart of the primary
    /// or one by one, again and again: what they committed can be seen then, and is on no replica. Writers retry for another
    /// while; then the primary is lost, and the replica takes its place without all that.
    LoseReplica { restart: bool, waits: u64, millis: u64 },
    /// Nothing comes through between an instance and the database, and nobody is told.
    Cut { instance: u32, millis: u64 },
    /// The same for what the database answers.
    LoseAnswers { instance: u32, millis: u64 },
    /// The same for what the instance asks.
    LoseRequests { instance: u32, millis: u64 },
    /// Everything takes so much longer, each way.
    Delay { instance: u32, by: u64, millis: u64 },
    /// So many kbit/s come through.
    Throttle { instance: u32, kbit: u64, millis: u64 },
    /// A role that may connect and nothing else tells all that locks are released for a session that does not exist, and
    /// that there are events beyond all numbers.
    ForgedHints { millis: u64 },
    /// No space is left on the database's disk.
    DiskFull { millis: u64 },
    /// An instance's clock is so many seconds off.
    Clock { instance: u32, seconds: i64, millis: u64 },
    /// An instance unsubscribes one of the roles, and subscribes it again.
    Leave { instance: u32, role: usize, millis: u64 },
    /// A role is paused everywhere.
    Pause { role: usize, millis: u64 },
    /// All dead letters are replayed; some are discarded.
    Replay,
    /// A role is rebuilt from the beginning.
    Rebuild { role: usize },
}

impl Fault {
    /// What kind it is, in a word or two.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "kill",
            Self::Freeze { .. } => "freeze",
            Self::Restart { .. } => "restart",
            Self::Terminate { .. } => "terminate",
            Self::ServerRestart => "server-restart",
            Self::ServerCrash { .. } => "server-crash",
            Self::KillBackend { .. } => "kill-backend",
            Self::Promote => "promote",
            Self::LoseReplica { .. } => "lose-replica",
            Self::Cut { .. } => "cut",
            Self::LoseAnswers { .. } => "lose-answers",
            Self::LoseRequests { .. } => "lose-requests",
            Self::Delay { .. } => "delay",
            Self::Throttle { .. } => "throttle",
            Self::ForgedHints { .. } => "forged-hints",
            Self::DiskFull { .. } => "disk-full",
            Self::Clock { .. } => "clock",
            Self::Leave { .. } => "leave",
            Self::Pause { .. } => "pause",
            Self::Replay => "replay",
            Self::Rebuild { .. } => "rebuild",
        }
    }

    /// The instance it concerns.
    #[must_use]
    pub fn instance(&self) -> Option<u32> {
        match *self {
            Self::Kill { instance, .. }
            | Self::Freeze { instance, .. }
            | Self::Restart { instance }
            | Self::Cut { instance, .. }
            | Self::LoseAnswers { instance, .. }
            | Self::LoseRequests { instance, .. }
            | Self::Delay { instance, .. }
            | Self::Throttle { instance, .. }
            | Self::Clock { instance, .. }
            | Self::Leave { instance, .. } => Some(instance),
            Self::Terminate { instance, .. } => Some(instance).filter(|instance| *instance > 0),
            _ => None,
        }
    }

    /// Whether the database itself is concerned.
    #[must_use]
    pub fn is_the_servers(&self) -> bool {
        matches!(self, Self::ServerRestart) || self.is_a_crash()
    }

    /// Whether the server may have to recover, and take back what did not wait for the disk.
    #[must_use]
    pub fn is_a_crash(&self) -> bool {
        matches!(
            self,
            Self::ServerCrash { .. }
                | Self::KillBackend { .. }
                | Self::Promote
                | Self::LoseReplica { .. }
                | Self::DiskFull { .. }
        )
    }

    /// About how long it takes.
    fn millis(&self) -> u64 {
        match *self {
            Self::Kill { millis, .. }
            | Self::Freeze { millis, .. }
            | Self::ServerCrash { millis }
            | Self::KillBackend { millis, .. }
            | Self::Cut { millis, .. }
            | Self::LoseAnswers { millis, .. }
            | Self::LoseRequests { millis, .. }
            | Self::Delay { millis, .. }
            | Self::Throttle { millis, .. }
            | Self::ForgedHints { millis }
            | Self::DiskFull { millis }
            | Self::Clock { millis, .. }
            | Self::Leave { millis, .. }
            | Self::Pause { millis, .. } => millis,
            Self::Promote => PROMOTION,
            Self::LoseReplica { waits, millis, .. } => waits + millis + PROMOTION,
            Self::ServerRestart | Self::Restart { .. } | Self::Replay => 1_000,
            Self::Terminate { .. } | Self::Rebuild { .. } => 200,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill { instance, millis } => write!(f, "kill instance {instance}, start it again after {millis} ms"),
            Self::Freeze { instance, millis } => write!(f, "freeze instance {instance} for {millis} ms"),
            Self::Restart { instance } => write!(f, "stop instance {instance} in an orderly way, and start it again"),
            Self::Terminate { instance: 0, purpose } => write!(f, "terminate all instances' connections ({purpose:?})"),
            Self::Terminate { instance, purpose } => {
                write!(f, "terminate instance {instance}'s connections ({purpose:?})")
            }
            Self::ServerRestart => write!(f, "restart the server"),
            Self::ServerCrash { millis } => write!(f, "crash the server, start it again after {millis} ms"),
            Self::KillBackend { purpose, millis } => {
                write!(f, "wait for no disk for {millis} ms, then kill one backend of the primary ({purpose:?})")
            }
            Self::Promote => write!(f, "crash the primary, promote the replica, make the former primary a replica"),
            Self::LoseReplica { restart, waits, millis } => {
                let released = if *restart { "restart the primary" } else { "terminate the sessions that wait for it" };
                write!(
                    f,
                    "stop the replica, {released} after {waits} ms, promote the replica after another {millis} ms"
                )
            }
            Self::Cut { instance, millis } => write!(f, "cut instance {instance} off for {millis} ms"),
            Self::LoseAnswers { instance, millis } => {
                write!(f, "lose all answers to instance {instance} for {millis} ms")
            }
            Self::LoseRequests { instance, millis } => {
                write!(f, "lose all requests of instance {instance} for {millis} ms")
            }
            Self::Delay { instance, by, millis } => {
                write!(f, "delay instance {instance}'s network by {by} ms, for {millis} ms")
            }
            Self::Throttle { instance, kbit, millis } => {
                write!(f, "throttle instance {instance}'s network to {kbit} kbit/s, for {millis} ms")
            }
            Self::ForgedHints { millis } => write!(f, "send forged hints for {millis} ms"),
            Self::DiskFull { millis } => write!(f, "fill the database's disk for {millis} ms"),
            Self::Clock { instance, seconds, millis } => {
                write!(f, "move instance {instance}'s clock by {seconds} s, for {millis} ms")
            }
            Self::Leave { instance, role, millis } => {
                write!(f, "unsubscribe {} in instance {instance} for {millis} ms", ROLES[*role].id)
            }
            Self::Pause { role, millis } => write!(f, "pause {} for {millis} ms", ROLES[*role].id),
            Self::Replay => write!(f, "replay the dead letters, and discard one"),
            Self::Rebuild { role } => write!(f, "rebuild {}", ROLES[*role].id),
        }
    }
}

/// Faults that begin at the same time, after a rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// How long nothing is done before.
    pub rest_millis: u64,
    /// One, or two at once.
    pub faults: Vec<Fault>,
}

/// Everything that is done in a run, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// What it was drawn from; writers draw from it as well.
    pub seed: u64,
    /// Where the events are.
    pub store: Store,
    /// How many instances run.
    pub instances: u32,
    /// Whether PostgreSQL has a replica.
    pub replica: bool,
    /// Writers of each instance.
    pub writers: usize,
    /// How long each rests between two appends, at most.
    pub rest_millis: u64,
    /// What is wrong with the engine, if it is a broken one.
    pub flaw: Option<Flaw>,
    /// What is done.
    pub steps: Vec<Step>,
}

impl Schedule {
    /// Draws one that takes about so long. `only`: the kinds to draw from; all, when there are none.
    #[must_use]
    pub fn draw(seed: u64, store: Store, minutes: f64, only: &[String]) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let instances = random.u32(3..=5);
        let (mut steps, mut left) = (Vec::new(), (minutes * 60_000.0) as i64);
        while left > 0 {
            let mut faults = vec![draw(&mut random, store, instances, only)];
            let forged = matches!(faults[0], Fault::ForgedHints { .. });
            if random.u32(0..4) == 0 || forged {
                // Forged hints are to keep others from taking over, so there must be something to take over.
                let kill = ["kill".to_owned()];
                let second = draw(&mut random, store, instances, if forged { &kill } else { only });
                if goes_with(&faults[0], &second) {
                    faults.push(second);
                }
            }
            let rest_millis = random.u64(300..2_500);
            let longest = faults.iter().map(Fault::millis).max().unwrap_or_default();
            left -= (rest_millis + longest) as i64;
            steps.push(Step { rest_millis, faults });
        }
        Self { seed, store, instances, replica: true, writers: WRITERS, rest_millis: REST_MILLIS, flaw: None, steps }
    }

    /// Reads one that was saved.
    ///
    /// # Errors
    /// When the file cannot be read, or is none.
    pub fn load(file: &Path) -> Result<Self, BoxError> {
        let text = fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let schedule: Self = serde_json::from_slice(&text)
            .map_err(|error| format!("{} is not a schedule that a run has written: {error}", file.display()))?;
        let is_known = |fault: &Fault| match *fault {
            Fault::Leave { role, .. } | Fault::Pause { role, .. } | Fault::Rebuild { role } => role < ROLES.len(),
            _ => fault.instance().is_none_or(|instance| (1..=schedule.instances).contains(&instance)),
        };
        match schedule.steps.iter().flat_map(|step| &step.faults).find(|fault| !is_known(fault)) {
            Some(fault) => Err(format!("{}: no such instance or role: {fault:?}", file.display()).into()),
            None => Ok(schedule),
        }
    }

    /// Saves it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, file: &Path) -> Result<(), BoxError> {
        let written = fs::write(file, serde_json::to_vec_pretty(self)?);
        Ok(written.map_err(|error| format!("cannot write {}: {error}", file.display()))?)
    }

    /// How many faults there are.
    #[must_use]
    pub fn faults(&self) -> usize {
        self.steps.iter().map(|step| step.faults.len()).sum()
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            write!(f, "after {} ms: ", step.rest_millis)?;
            let faults: Vec<String> = step.faults.iter().map(ToString::to_string).collect();
            writeln!(f, "{}", faults.join("; at the same time: "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
