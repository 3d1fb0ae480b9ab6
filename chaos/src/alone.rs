//! A private network, mounts and processes: they end with the experiment, whatever becomes of it.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use highwater::BoxError;

/// Says that this process has them.
const MARK: &str = "HIGHWATER_CHAOS_ALONE";
/// Loopback is down at first. And libfaketime leaves shared memory behind that is named by process ids, which are small here
/// and come again in every run.
const SCRIPT: &str = r#"ip link set lo up && mount -t tmpfs tmpfs /dev/shm && exec "$0" "$@""#;

/// Starts this program again with a network, mounts and processes of its own, where that is permitted. Says whether it
/// has them; without, links are proxies and no disk can be filled.
pub(crate) fn ensure() -> Result<bool, BoxError> {
    if std::env::var_os(MARK).is_some() {
        return Ok(true);
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command
    };
    let permitted = unshare().args(["ip", "link", "set", "lo", "up"]).output();
    if !permitted.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "no namespaces here (they take root and iproute2): proxies stand in for the network, no disk is filled"
        );
        return Ok(false);
    }
    let program = std::env::current_exe()?;
    let error =
        unshare().env(MARK, "1").args(["sh", "-c", SCRIPT]).arg(program).args(std::env::args_os().skip(1)).exec();
    Err(format!("cannot start again in namespaces: {error}").into())
}
