//! What faults are done to: the servers, their disks, the ways to them, and the clocks of those who ask them.
//!
//! *Private* means: in network, mount and process namespaces of the experiment's own, which take everything that is made
//! here with them when they end. `unshare --net --mount --pid --fork --kill-child --mount-proc` makes them, where that is
//! permitted. Elsewhere proxies stand in for networks, and disks cannot be full. The program that makes the namespaces
//! mounts a tmpfs on `/dev/shm` as well: [`Clock`]s and killed servers leave things there, under names that are taken again
//! by the next run.
//!
//! Everything blocks, for moments or for seconds; nothing here may be called from an asynchronous task directly.

use std::io;
use std::process::Command;

mod clock;
mod cluster;
mod disk;
mod link;
mod proxy;
mod wire;

pub use clock::Clock;
pub use cluster::Cluster;
pub use disk::Disk;
pub use link::{Condition, Link};

/// Why a fault could not be done or undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A server did not do as it was told.
    #[error(transparent)]
    Postgres(#[from] throwaway_postgres::Error),
    /// The operating system refused something.
    #[error("cannot {action}")]
    Io {
        /// What was being done.
        action: String,
        /// The refusal.
        source: io::Error,
    },
    /// A program failed.
    #[error("`{command}` failed: {output}")]
    Program {
        /// Its command line.
        command: String,
        /// What it said.
        output: String,
    },
    /// The primary runs and lets nobody in.
    #[error("the primary was not ready after {seconds} s; the end of its log:\n{log}")]
    NotReady {
        /// How long it was waited for.
        seconds: u64,
        /// The end of its log.
        log: String,
    },
    /// There is no replica of which it is certain that it has everything that was acknowledged.
    #[error("no synchronous replica: a promotion would lose what was acknowledged; `repair` the cluster first")]
    NoReplica,
    /// The cluster was started without a second server.
    #[error("this cluster has one server only: start it with a replica")]
    OneServer,
    /// The disk is that of the machine.
    #[error("a disk can be filled only where it is the experiment's own: run it in a mount namespace, as root")]
    SharedDisk,
    /// Nothing can be written on the primary's disk, not even what it takes to start.
    #[error("the primary's disk is full: free it first")]
    FullDisk,
    /// Only a proxy can delay.
    #[error("this link has no proxy, and only a proxy can delay: make it `proxied`")]
    NotProxied,
    /// There is no network for that number.
    #[error("there is no network for link {0}: numbers go up to 255")]
    NoNetwork(u32),
}

impl Error {
    /// For `map_err`: adds what was being done.
    fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}

/// Runs a program to its end, and returns what it said.
fn run(command: &mut Command) -> Result<String, Error> {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let text = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let output = command.output().map_err(Error::io(format!("run `{text}`")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stderr, output.stdout].concat();
    Err(Error::Program { command: text, output: String::from_utf8_lossy(&said).trim().to_owned() })
}

/// Runs `program` with arguments that have no spaces in them.
fn run_words(program: &str, args: &str) -> Result<(), Error> {
    run(Command::new(program).args(args.split(' '))).map(drop)
}
