//! The clock of an instance.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};

use highwater_chaos::ground::Clock;

use crate::support::Folder;

/// Set for the process that goes by the clock.
const CHILD: &str = "HIGHWATER_TEST_CLOCK";

/// Far more than anything here takes, and far less than what the clock is moved by.
const TOLERANCE: i64 = 60;

fn wall() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs().try_into().unwrap()
}

/// Says what its clocks show, whenever it is asked.
fn child() {
    let start = Instant::now();
    for line in io::stdin().lines() {
        line.unwrap();
        println!("\nclocks {} {}", wall(), start.elapsed().as_secs());
    }
}

#[test]
fn a_wall_clock_moves_under_a_process_that_runs_and_the_monotonic_one_does_not() {
    if env::var_os(CHILD).is_some() {
        return child();
    }
    let folder = Folder::new("clock");
    let clock = Clock::new(folder.path(), 1).unwrap();
    let clock = clock.expect("libfaketime is not on this machine: `apt-get install libfaketime`");
    let name = "clock::a_wall_clock_moves_under_a_process_that_runs_and_the_monotonic_one_does_not";
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .envs(clock.environment())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut questions = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    for offset in [0, 3600, -86_400, 0] {
        clock.set(offset).unwrap();
        writeln!(questions, "?").unwrap();
        let answer = answers.find_map(|line| line.strip_prefix("clocks ").map(str::to_owned)).unwrap();
        let (shown, elapsed) = answer.split_once(' ').unwrap();
        let wrong_by = shown.parse::<i64>().unwrap() - wall();
        assert!((wrong_by - offset).abs() < TOLERANCE, "{wrong_by} instead of {offset}");
        assert!(elapsed.parse::<i64>().unwrap() < TOLERANCE, "{elapsed}");
    }
    drop(questions);
    assert!(child.wait().unwrap().success());
}
