//! Replicas: made from a running server, following it, taking its place.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::builder::line;
use crate::cluster::{self, AUTO_CONF, DATA, USER};
use crate::copy::copy;
use crate::poll::poll;
use crate::service::Service;
use crate::session::Session;
use crate::{Error, ThrowawayPostgres};

const PROMOTE_MAX: Duration = Duration::from_secs(60);
const CHECKPOINT_MAX: Duration = Duration::from_secs(60);
const FORGET_MAX: Duration = Duration::from_secs(10);

/// What a replica logs.
const STREAMS: &str = "started streaming WAL from primary";

impl ThrowawayPostgres {
    /// Makes a replica of this server, which has to run: a second server with a port and a folder of its own, that
    /// streams every change from this one and answers queries which only read (a hot standby).
    ///
    /// It has the settings of this server, is called `replica_PORT` in `pg_stat_replication`, and streams when this
    /// returns. It lags behind by a moment, since nobody waits for it; see
    /// [`synchronous_replica`](Self::synchronous_replica). It can be stopped, crashed and started again like any other,
    /// and then resumes from where it was: this server keeps whatever its replicas have not had yet, dropped ones too.
    pub fn replica(&self) -> Result<Self, Error> {
        self.replica_in(&std::env::temp_dir())
    }

    /// Like [`replica`](Self::replica), with its folder below `parent`, which exists.
    pub fn replica_in(&self, parent: &Path) -> Result<Self, Error> {
        let replica = Self::create_with(parent, &self.bin_dir, |service| follow(service, self))?;
        replica.service.wait_until_logged(0, STREAMS)?;
        Ok(replica)
    }

    /// Like [`replica`](Self::replica), and no commit on this server returns from now on before a replica has written
    /// it to its disk: with this server crashed and the replica [promoted](Self::promote), nothing is missing.
    ///
    /// It sets `synchronous_standby_names` to `*`. With `synchronous_commit` set to `remote_apply`, commits also wait
    /// until the replica's readers see them. They wait for as long as there is no replica;
    /// `set("synchronous_standby_names", "")` releases them.
    pub fn synchronous_replica(&mut self) -> Result<Self, Error> {
        self.synchronous_replica_in(&std::env::temp_dir())
    }

    /// Like [`synchronous_replica`](Self::synchronous_replica), with its folder below `parent`, which exists.
    pub fn synchronous_replica_in(&mut self, parent: &Path) -> Result<Self, Error> {
        let replica = self.replica_in(parent)?;
        self.wait_for(&replica)?;
        Ok(replica)
    }

    /// Makes this server a [synchronous](Self::synchronous_replica) replica of `primary`, which has to run: a former
    /// primary, for instance, after its replica was promoted. Port and folder stay the same; the data is gone, and is that
    /// of `primary` when this returns.
    ///
    /// Commits on `primary` wait for no replica until this one streams.
    pub fn rejoin(&mut self, primary: &mut Self) -> Result<(), Error> {
        self.crash()?;
        primary.set("synchronous_standby_names", "")?;
        primary.forget(self)?;
        let data_dir = self.data_dir();
        fs::remove_dir_all(&data_dir).map_err(Error::io(format!("remove {}", data_dir.display())))?;
        cluster::make_data_dir(&self.service)?;
        follow(&self.service, primary)?;
        let logged = self.service.log_length();
        self.start_again()?;
        self.service.wait_until_logged(logged, STREAMS)?;
        primary.wait_for(self)
    }

    /// Stops a synchronous replica of this server, which has to run, and starts it again. When this returns the replica
    /// has everything that any client can have seen here, whatever has happened to this server before: after a crash, what
    /// was committed without the replica is there to be seen.
    pub fn restart_replica(&mut self, replica: &mut Self) -> Result<(), Error> {
        replica.stop()?;
        let logged = self.service.log_length();
        replica.start_again()?;
        self.service.wait_until_logged(logged, &is_synchronous(replica))
    }

    /// Like [`start_again`](Self::start_again) for a server that does not run and has a synchronous replica, which does;
    /// and returns when the replica has everything that any client can have seen here.
    pub fn start_again_with(&mut self, replica: &Self) -> Result<(), Error> {
        let logged = self.service.log_length();
        self.start_again()?;
        self.service.wait_until_logged(logged, &is_synchronous(replica))
    }

    /// From now on commits here wait for a replica; returns when `replica`, which streams, is the one.
    fn wait_for(&mut self, replica: &Self) -> Result<(), Error> {
        let logged = self.service.log_length();
        self.set("synchronous_standby_names", "*")?;
        // The process that makes checkpoints also is who makes commits wait: with one made, it has read the setting. And a
        // checkpoint gives the replica something to confirm.
        self.run("CHECKPOINT", CHECKPOINT_MAX)?;
        self.service.wait_until_logged(logged, &is_synchronous(replica))
    }

    /// Keeps nothing any more for a replica that is gone.
    fn forget(&self, replica: &Self) -> Result<(), Error> {
        let name = name_of(replica.port());
        if !self.data_dir().join("pg_replslot").join(&name).exists() {
            return Ok(());
        }
        let sql = format!("SELECT pg_drop_replication_slot('{name}')");
        // The connection of the replica may not have ended yet.
        let dropped = poll(FORGET_MAX, || Ok(self.run(&sql, FORGET_MAX).ok()))?;
        dropped.map_or_else(|| self.run(&sql, FORGET_MAX), Ok)
    }

    fn run(&self, sql: &str, limit: Duration) -> Result<(), Error> {
        let done = Session::open(self.port(), limit).and_then(|mut session| session.query(sql));
        done.map(drop).map_err(|error| self.service.problem(format!("{sql} failed: {error}")))
    }

    /// Makes a replica an independent server: returns when it accepts writes and follows nobody any more.
    ///
    /// Its former primary is not told, and continues if it runs. Commits on the promoted server wait for no replica.
    pub fn promote(&mut self) -> Result<(), Error> {
        let seconds = PROMOTE_MAX.as_secs().to_string();
        let args = ["promote", "--silent", "--wait", "--timeout", &seconds, "-D", DATA];
        self.service.run(&self.bin_dir.join("pg_ctl"), &args, PROMOTE_MAX * 2)
    }
}

/// Copies the data of the primary while it runs, with what it takes to follow it.
fn follow(service: &Service, primary: &ThrowawayPostgres) -> Result<(), Error> {
    let name = name_of(service.port());
    copy(service, primary, &name)?;
    let address = format!("host=127.0.0.1 port={} user={USER} sslmode=disable gssencmode=disable", primary.port());
    let own = own_settings(&name) + &line("primary_conninfo", &address) + &line("primary_slot_name", &name);
    cluster::append(&service.folder().join(DATA).join(AUTO_CONF), &own)
}

/// What a primary logs when its commits begin to wait for this replica, which has caught up by then.
fn is_synchronous(replica: &ThrowawayPostgres) -> String {
    format!("standby \"{}\" is now a synchronous standby", name_of(replica.port()))
}

fn own_settings(name: &str) -> String {
    let settings = [
        // Also what the primary knows it by.
        ("cluster_name", name),
        // Instead of five seconds, after the primary was gone for a while.
        ("wal_retrieve_retry_interval", "100ms"),
        // Instead of ten seconds. A primary that begins to wait for a replica learns from what it says that it is there.
        ("wal_receiver_status_interval", "1s"),
        // The copy of the primary's would have a promoted server wait for replicas it does not have.
        ("synchronous_standby_names", ""),
    ];
    settings.iter().map(|(name, value)| line(name, value)).collect()
}

/// The name of a replica and of the slot by which the primary keeps what it still needs.
fn name_of(port: u16) -> String {
    format!("replica_{port}")
}
