//! What several of the tests need.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set for the process in namespaces of its own.
const PRIVATE: &str = "HIGHWATER_TEST_PRIVATE";

const UNSHARE: [&str; 6] = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

fn unshare(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("unshare");
    command.args(UNSHARE).arg(program);
    command
}

/// Whether this process has namespaces of its own. If it could, and has not, the test named so runs in one that has, and
/// this returns `None`.
pub(crate) fn is_private(test: &str) -> Option<bool> {
    if env::var_os(PRIVATE).is_some() {
        return Some(true);
    }
    if !unshare("true").output().is_ok_and(|output| output.status.success()) {
        eprintln!("namespaces are not permitted here");
        return Some(false);
    }
    let status = unshare(env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]).env(PRIVATE, "1").status();
    assert!(status.unwrap().success());
    None
}

/// A folder of a test's own.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let private = if env::var_os(PRIVATE).is_some() { "private-" } else { "" };
        let path = env::temp_dir().join(format!("highwater-chaos-{private}{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        // A server has an account of its own, which has to get through.
        fs::set_permissions(&path, Permissions::from_mode(0o711)).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}
