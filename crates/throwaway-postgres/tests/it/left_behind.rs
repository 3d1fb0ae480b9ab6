//! What happens to a server whose owner is killed, and to the folder it leaves.

use std::fs;
use std::os::unix::fs::symlink;

use throwaway_postgres::{is_running, send_signal};

use crate::support::{Running, TempDir, eventually};

fn start_another(temp: &TempDir) {
    let output = temp.binary(&["true"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn the_server_dies_with_its_owner_and_the_next_start_removes_the_folder() {
    let temp = TempDir::new();
    let mut running = Running::start(&temp);
    send_signal(running.binary.id(), "KILL").unwrap();
    running.binary.wait().unwrap();
    eventually("the server is gone", || !is_running(running.server));
    assert!(running.folder.exists());

    start_another(&temp);
    assert!(temp.entries().is_empty(), "{:?}", temp.entries());
}

#[test]
fn a_folder_in_use_is_left_alone() {
    let temp = TempDir::new();
    let running = Running::start(&temp);
    start_another(&temp);
    assert_eq!(temp.entries(), [running.folder.as_path()]);
    assert!(is_running(running.server));
}

#[test]
fn what_only_looks_like_ours_is_left_alone() {
    let temp = TempDir::new();
    let elsewhere = TempDir::new();
    let precious = elsewhere.path().join("precious");
    fs::write(&precious, "").unwrap();
    // No process has this id: it is above the kernel's limit.
    symlink(elsewhere.path(), temp.path().join("highwater-pg-999999999-20000")).unwrap();
    fs::write(temp.path().join("highwater-pg-999999999-20001"), "").unwrap();
    fs::create_dir(temp.path().join("highwater-pg-999999999")).unwrap();

    start_another(&temp);
    assert_eq!(temp.entries().len(), 3, "{:?}", temp.entries());
    assert!(precious.exists());
}
