//! What happens to a server whose owner is killed, and to the folder it leaves.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use throwaway_postgres::{PoolMode, ThrowawayPgBouncer, ThrowawayPostgres, is_running, send_signal};

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

/// Set for the process that the test below starts: itself, as an owner to be killed.
const OWNER: &str = "THROWAWAY_POSTGRES_TEST_OWNER";

#[test]
fn replica_and_pooler_die_with_their_owner_and_the_next_start_removes_their_folders() {
    if env::var_os(OWNER).is_some() {
        let primary = ThrowawayPostgres::start().unwrap();
        let replica = primary.replica().unwrap();
        let pooler = ThrowawayPgBouncer::start(&primary, PoolMode::Session).unwrap();
        let pids = [primary.pid(), replica.pid(), pooler.pid()].map(|pid| pid.unwrap().to_string());
        println!("\npids {}", pids.join(" "));
        // Ends with its standard input, that is, at the latest with the process that started this one.
        io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    let temp = TempDir::new();
    let name = "left_behind::replica_and_pooler_die_with_their_owner_and_the_next_start_removes_their_folders";
    let mut owner = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(OWNER, "1")
        .env("TMPDIR", temp.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let pids = lines.find_map(|line| line.strip_prefix("pids ").map(str::to_owned)).unwrap();
    let pids: Vec<u32> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.iter().all(|pid| is_running(*pid)));
    send_signal(owner.id(), "KILL").unwrap();
    owner.wait().unwrap();
    eventually("all three are gone", || !pids.iter().any(|pid| is_running(*pid)));
    assert_eq!(temp.entries().len(), 3, "{:?}", temp.entries());

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
