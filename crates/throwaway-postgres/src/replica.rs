//! Replicas: made from a running server, following it, taking its place.

use std::time::Duration;

use crate::builder::line;
use crate::cluster::{self, AUTO_CONF, DATA, USER};
use crate::service::Service;
use crate::{Error, ThrowawayPostgres};

const BACKUP_MAX: Duration = Duration::from_secs(120);
const PROMOTE_MAX: Duration = Duration::from_secs(60);

impl ThrowawayPostgres {
    /// Makes a replica of this server, which has to run: a second server with a port and a folder of its own, that
    /// streams every change from this one and answers queries which only read (a hot standby).
    ///
    /// It has the settings of this server, is called `replica_PORT` in `pg_stat_replication`, and streams when this
    /// returns. It lags behind by a moment, since nobody waits for it; see
    /// [`synchronous_replica`](Self::synchronous_replica). It can be stopped, crashed and started again like any other,
    /// and then goes on from where it was: this server keeps whatever its replicas have not had yet, dropped ones too.
    pub fn replica(&self) -> Result<Self, Error> {
        let replica = Self::create_with(&self.bin_dir, |service| {
            back_up(service, self)?;
            cluster::append(&service.folder().join(DATA).join(AUTO_CONF), &own_settings(&name_of(service.port())))
        })?;
        replica.service.wait_until_logged(0, "started streaming WAL from primary")?;
        Ok(replica)
    }

    /// Like [`replica`](Self::replica), and no commit on this server returns from now on before a replica has written
    /// it to its disk: with this server crashed and the replica [promoted](Self::promote), nothing is missing.
    ///
    /// It sets `synchronous_standby_names` to `*`. With `synchronous_commit` set to `remote_apply`, commits also wait
    /// until the replica's readers see them. They wait for as long as there is no replica;
    /// `set("synchronous_standby_names", "")` lets them go.
    pub fn synchronous_replica(&mut self) -> Result<Self, Error> {
        // Before the backup: it waits for a checkpoint, and the process that makes it has read the setting by then. That
        // process is who makes commits wait.
        self.set("synchronous_standby_names", "*")?;
        let logged = self.log().len();
        let replica = self.replica()?;
        let name = name_of(replica.port());
        self.service.wait_until_logged(logged, &format!("standby \"{name}\" is now a synchronous standby"))?;
        Ok(replica)
    }

    /// Makes a replica a server of its own: returns when it accepts writes and follows nobody any more.
    ///
    /// Its former primary is not told, and goes on if it runs. Commits on the promoted server wait for no replica.
    pub fn promote(&mut self) -> Result<(), Error> {
        let seconds = PROMOTE_MAX.as_secs().to_string();
        let args = ["promote", "--silent", "--wait", "--timeout", &seconds, "-D", DATA];
        self.service.run(&self.bin_dir.join("pg_ctl"), &args, PROMOTE_MAX * 2)
    }
}

/// Copies the data of the primary while it runs, with what it takes to follow it.
fn back_up(service: &Service, primary: &ThrowawayPostgres) -> Result<(), Error> {
    let port = primary.port();
    let address = format!("host=127.0.0.1 port={port} user={USER} sslmode=disable gssencmode=disable");
    let name = name_of(service.port());
    let slot = ["--create-slot", "--slot", &name];
    let copy = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "-D", DATA, "-d", &address];
    service.run(&primary.bin_dir.join("pg_basebackup"), &[slot.as_slice(), &copy].concat(), BACKUP_MAX)
}

fn own_settings(name: &str) -> String {
    let settings = [
        // Also what the primary knows it by.
        ("cluster_name", name),
        // Instead of five seconds, after the primary was gone for a while.
        ("wal_retrieve_retry_interval", "100ms"),
        // The copy of the primary's would have a promoted server wait for replicas it does not have.
        ("synchronous_standby_names", ""),
    ];
    settings.iter().map(|(name, value)| line(name, value)).collect()
}

/// The name of a replica and of the slot by which the primary keeps what it still needs.
fn name_of(port: u16) -> String {
    format!("replica_{port}")
}
