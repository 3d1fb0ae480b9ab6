//! A primary and its synchronous replica, and everything that can happen to them.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use throwaway_postgres::{ThrowawayPostgres, is_running};

use super::disk::Disk;
use super::{Error, run, run_words};

/// A start after a crash replays the log first.
const READY_MAX: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(20);

/// Enough for a short life of a database, its log and a copy that is being made.
const DISK_MIB: u64 = 1_536;

/// How much of a server's log is of interest.
const TAIL_LINES: usize = 60;

/// Where links lead to, when they are networks.
const NETWORKS: &str = "10.77.0.0/16";

/// What is kept for a replica that is away has a limit, so that its absence does not fill the primary's disk.
/// And what need not wait for the disk waits as long as a server allows, so that a crash has something to take back.
const SETTINGS: [(&str, &str); 5] = [
    ("max_connections", "300"),
    ("wal_level", "replica"),
    ("max_wal_size", "128MB"),
    ("max_slot_wal_keep_size", "256MB"),
    ("wal_writer_delay", "10s"),
];

/// What is known about the replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replica {
    /// It has all that any client ever saw committed, and will have.
    Synchronous,
    /// Something has happened to the primary since that was certain.
    InDoubt,
    /// It was stopped while the primary continues. It has all that was acknowledged, and lacks what the primary shows to
    /// clients who did not wait for it long enough to be told.
    Lost,
    /// It is a former primary that was not made a replica yet, or was never wanted.
    Absent,
}

/// A server and its disk. Dropped in this order: the server's folder lies on the disk.
#[derive(Debug)]
struct Server {
    postgres: ThrowawayPostgres,
    disk: Disk,
}

/// One or two servers, one of which takes writes; all gone after drop.
#[derive(Debug)]
pub struct Cluster {
    /// In an order that never changes.
    servers: Vec<Server>,
    primary: usize,
    replica: Replica,
}

impl Cluster {
    /// Starts a primary and, if wanted, a synchronous replica, on disks below `root`, which other accounts can pass
    /// through.
    pub fn start(root: &Path, private: bool, replica: bool) -> Result<Self, Error> {
        let mut builder = ThrowawayPostgres::builder();
        for (name, value) in SETTINGS {
            builder = builder.setting(name, value);
        }
        if private {
            run_words("ip", "link set lo up")?;
            builder = builder.setting("listen_addresses", "*").trust(NETWORKS);
        }
        let disk = new_disk(&root.join("disk-1"), private)?;
        let postgres = builder.folder_in(disk.path()).start()?;
        let mut cluster = Self { servers: vec![Server { postgres, disk }], primary: 0, replica: Replica::Absent };
        if replica {
            let disk = new_disk(&root.join("disk-2"), private)?;
            let postgres = cluster.servers[0].postgres.synchronous_replica_in(disk.path())?;
            cluster.servers.push(Server { postgres, disk });
            cluster.replica = Replica::Synchronous;
        }
        Ok(cluster)
    }

    /// The port of each server, in an order that never changes. Any of them may be the primary's.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.servers.iter().map(|server| server.postgres.port()).collect()
    }

    /// Where the primary is now, on this machine and without faults in between.
    #[must_use]
    pub fn primary_url(&self) -> String {
        self.servers[self.primary].postgres.url()
    }

    /// Whether there is a replica that can be promoted.
    #[must_use]
    pub fn has_replica(&self) -> bool {
        self.replica == Replica::Synchronous
    }

    /// The end of every server's log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let mut text = String::new();
        for server in &self.servers {
            let log = server.postgres.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
            text += &format!("-- the server on port {}:\n{tail}\n", server.postgres.port());
        }
        text
    }

    /// Ends all connections to the primary, stops it in good order and starts it again.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.refuse_if_full()?;
        self.servers[self.primary].postgres.stop()?;
        self.start_again()
    }

    /// Stops the primary without any order.
    pub fn crash(&mut self) -> Result<(), Error> {
        Ok(self.servers[self.primary].postgres.crash()?)
    }

    /// Starts the primary if it does not run, waits until it accepts connections, and until the replica, if there is one,
    /// has what the primary has; a lost one is not waited for. Refused while the disk is full, like everything that starts a
    /// server: it would not start.
    pub fn start_again(&mut self) -> Result<(), Error> {
        self.refuse_if_full()?;
        if self.primary_runs() {
            return self.wait_until_ready();
        }
        // What was committed without the replica can be seen as soon as the primary is there again.
        self.doubt();
        if matches!(self.replica, Replica::Absent | Replica::Lost) {
            return Ok(self.servers[self.primary].postgres.start_again()?);
        }
        let (primary, replica) = self.both()?;
        primary.postgres.start_again_with(&replica.postgres)?;
        self.replica = Replica::Synchronous;
        Ok(())
    }

    /// Waits until the primary has recovered after one of its processes was killed.
    pub fn recover(&mut self) -> Result<(), Error> {
        // Who waited for the replica was disconnected: what it had committed can be seen now.
        self.doubt();
        self.repair()
    }

    /// Stops the replica. From here on commits wait; a client that is released from that has committed what no replica has.
    pub fn lose_replica(&mut self) -> Result<(), Error> {
        if self.replica != Replica::Synchronous {
            return Err(Error::NoReplica);
        }
        self.both()?.1.postgres.stop()?;
        self.replica = Replica::Lost;
        Ok(())
    }

    /// Crashes the primary and has the replica take its place, also one that was lost: what was committed without it is gone.
    /// Refused if that would lose what was acknowledged.
    pub fn promote(&mut self) -> Result<(), Error> {
        if !matches!(self.replica, Replica::Synchronous | Replica::Lost) {
            return Err(Error::NoReplica);
        }
        let (primary, replica) = self.both()?;
        primary.postgres.crash()?;
        // A lost one only now: it must find no primary that it could still get anything from.
        replica.postgres.start_again()?;
        replica.postgres.promote()?;
        self.primary = 1 - self.primary;
        self.replica = Replica::Absent;
        Ok(())
    }

    /// Makes a former primary the synchronous replica. Does nothing if there is one. It takes seconds, in which the primary
    /// continues.
    pub fn rejoin(&mut self) -> Result<(), Error> {
        if self.replica == Replica::Synchronous {
            return Ok(());
        }
        self.refuse_if_full()?;
        let (primary, replica) = self.both()?;
        replica.postgres.rejoin(&mut primary.postgres)?;
        self.replica = Replica::Synchronous;
        Ok(())
    }

    /// Leaves no room on the primary's disk. The primary may end of it.
    pub fn fill_disk(&mut self) -> Result<(), Error> {
        let free = self.servers[self.primary].disk.fill()?;
        tracing::debug!(free, "the disk is full");
        self.doubt();
        Ok(())
    }

    /// Undoes [`fill_disk`](Self::fill_disk); starts the primary if it has ended, and waits until it accepts connections.
    pub fn free_disk(&mut self) -> Result<(), Error> {
        self.servers[self.primary].disk.free()?;
        self.wait_until_ready()?;
        self.settle()
    }

    /// Makes the cluster whole again, whatever was done to it.
    pub fn repair(&mut self) -> Result<(), Error> {
        self.servers[self.primary].disk.free()?;
        if !self.primary_runs() || !self.replica_runs() {
            self.doubt();
        }
        self.wait_until_ready()?;
        if let Err(error) = self.settle() {
            tracing::warn!(error = %error, "a replica is made anew");
        }
        if self.servers.len() == 1 { Ok(()) } else { self.rejoin() }
    }

    fn primary_runs(&self) -> bool {
        self.servers[self.primary].postgres.pid().is_some_and(is_running)
    }

    fn replica_runs(&self) -> bool {
        self.servers.get(1 - self.primary).is_none_or(|server| server.postgres.pid().is_some_and(is_running))
    }

    fn refuse_if_full(&self) -> Result<(), Error> {
        if self.servers[self.primary].disk.is_full() { Err(Error::FullDisk) } else { Ok(()) }
    }

    fn doubt(&mut self) {
        if self.replica == Replica::Synchronous {
            self.replica = Replica::InDoubt;
        }
    }

    /// Ends the doubt about the replica, and the absence of a lost one.
    fn settle(&mut self) -> Result<(), Error> {
        if matches!(self.replica, Replica::InDoubt | Replica::Lost) {
            let (primary, replica) = self.both()?;
            primary.postgres.restart_replica(&mut replica.postgres)?;
            self.replica = Replica::Synchronous;
        }
        Ok(())
    }

    /// Waits until the primary accepts connections; it may be about to end, or to recover by itself.
    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + READY_MAX;
        let postgres = &mut self.servers[self.primary].postgres;
        let program = postgres.bin_dir().join("pg_isready");
        let port = postgres.port().to_string();
        loop {
            postgres.start_again()?;
            match run(Command::new(&program).args(["--host=127.0.0.1", "--port", &port])) {
                Err(Error::Program { .. }) if Instant::now() < deadline => thread::sleep(INTERVAL),
                Err(Error::Program { .. }) => {
                    return Err(Error::NotReady { seconds: READY_MAX.as_secs(), log: self.log_tail() });
                }
                other => return other.map(drop),
            }
        }
    }

    /// The primary, and the other one.
    fn both(&mut self) -> Result<(&mut Server, &mut Server), Error> {
        match (self.servers.as_mut_slice(), self.primary) {
            ([first, second], 0) => Ok((first, second)),
            ([first, second], _) => Ok((second, first)),
            _ => Err(Error::OneServer),
        }
    }
}

fn new_disk(path: &Path, private: bool) -> Result<Disk, Error> {
    if private { Disk::mount(path, DISK_MIB) } else { Disk::shared(path) }
}
