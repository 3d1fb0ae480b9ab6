//! Copying the data of a server while it runs, as PostgreSQL's manual describes it for backups.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use crate::cluster::DATA;
use crate::service::Service;
use crate::session::{Rows, Session};
use crate::{Error, ThrowawayPostgres};

/// For each statement; the first makes a checkpoint.
const BACKUP_MAX: Duration = Duration::from_secs(120);

/// What belongs to the running server and not to its data. Folders of these names are made, and left empty; what the
/// replica needs of the log it streams.
const LEFT_OUT: [&str; 8] = [
    "pg_wal",
    "pg_replslot",
    "pg_dynshmem",
    "pg_notify",
    "pg_stat_tmp",
    "postmaster.pid",
    "postmaster.opts",
    "pg_internal.init",
];

/// Fills the empty data folder of `service` with what it takes to follow `primary`, which has to run. The primary keeps
/// whatever comes after under the name `slot`.
pub(crate) fn copy(service: &Service, primary: &ThrowawayPostgres, slot: &str) -> Result<(), Error> {
    let failed = || Error::io(format!("copy the data of the server on port {}", primary.port()));
    let target = service.folder().join(DATA);
    let mut session = Session::open(primary.port(), BACKUP_MAX).map_err(failed())?;
    session.query(&format!("SELECT pg_create_physical_replication_slot('{slot}', true)")).map_err(failed())?;
    let version = only(session.query("SHOW server_version_num").map_err(failed())?);
    let version: u32 = version.and_then(|version| version.parse().ok()).unwrap_or(0);
    // Before 15 the functions had other names, and an older kind of backup had to be declined.
    let (start, stop) = match version >= 150_000 {
        true => ("pg_backup_start('replica', true)", "pg_backup_stop(false)"),
        false => ("pg_start_backup('replica', true, false)", "pg_stop_backup(false, false)"),
    };
    session.query(&format!("SELECT {start}")).map_err(failed())?;
    copy_folder(service, &primary.data_dir(), &target)?;
    // The label goes into the copy: it says where recovery has to begin.
    let label = only(session.query(&format!("SELECT labelfile FROM {stop}")).map_err(failed())?).unwrap_or_default();
    for (name, text) in [("backup_label", label.as_str()), ("standby.signal", "")] {
        let path = target.join(name);
        fs::write(&path, text).map_err(Error::io(format!("write {}", path.display())))?;
        service.hand_over(&path)?;
    }
    Ok(())
}

/// The first value of an answer that has one.
fn only(rows: Rows) -> Option<String> {
    rows.into_iter().flatten().next().flatten()
}

fn copy_folder(service: &Service, from: &Path, to: &Path) -> Result<(), Error> {
    let cannot_list = || Error::io(format!("list {}", from.display()));
    for entry in fs::read_dir(from).map_err(cannot_list())? {
        let entry = entry.map_err(cannot_list())?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let left_out = LEFT_OUT.iter().any(|name| entry.file_name() == *name);
        let is_folder = match entry.file_type() {
            Ok(kind) => kind.is_dir(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(cannot_list()(error)),
        };
        if is_folder {
            let made = fs::DirBuilder::new().mode(0o700).create(&target);
            made.map_err(Error::io(format!("create {}", target.display())))?;
            service.hand_over(&target)?;
            if !left_out {
                copy_folder(service, &source, &target)?;
            }
        } else if !left_out {
            match fs::copy(&source, &target) {
                Ok(_) => service.hand_over(&target)?,
                // Dropped meanwhile: the log says so too.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !source.exists() => {}
                Err(error) => return Err(Error::io(format!("copy {}", source.display()))(error)),
            }
        }
    }
    Ok(())
}
