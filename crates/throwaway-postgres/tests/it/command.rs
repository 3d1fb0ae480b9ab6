//! The binary: a command with a server around it.

use std::process::Command;

use throwaway_postgres::{is_running, send_signal};

use crate::support::{Running, TempDir};

#[test]
fn the_command_finds_a_server_and_its_exit_code_is_passed_on() {
    let temp = TempDir::new();
    let script = r#"
        port=${HIGHWATER_TEST_POSTGRES_URL##*:}
        "$("$0" --bindir)/pg_isready" -q -h 127.0.0.1 -p "${port%/postgres}" && exit 42"#;
    let output =
        temp.binary(&["--durable", "sh", "-c", script, env!("CARGO_BIN_EXE_throwaway-postgres")]).output().unwrap();
    assert_eq!(output.status.code(), Some(42), "{output:?}");
    assert!(temp.entries().is_empty(), "{:?}", temp.entries());
}

#[test]
fn a_command_that_is_killed_or_missing_has_the_exit_code_of_the_shell() {
    let temp = TempDir::new();
    let killed = temp.binary(&["sh", "-c", "kill -KILL $$"]).output().unwrap();
    assert_eq!(killed.status.code(), Some(137), "{killed:?}");
    let missing = temp.binary(&["/no/such/command"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
    assert!(temp.entries().is_empty(), "{:?}", temp.entries());
}

fn interrupted(signal: &str) -> Option<i32> {
    let temp = TempDir::new();
    let mut running = Running::start(&temp);
    send_signal(running.binary.id(), signal).unwrap();
    let status = running.binary.wait().unwrap();
    assert!(!is_running(running.server));
    assert!(temp.entries().is_empty(), "{:?}", temp.entries());
    status.code()
}

#[test]
fn sigterm_ends_the_command_and_removes_the_server() {
    assert_eq!(interrupted("TERM"), Some(143));
}

#[test]
fn sigint_ends_the_command_and_removes_the_server() {
    assert_eq!(interrupted("INT"), Some(130));
}

#[test]
fn a_missing_server_is_one_sentence_that_says_what_to_install() {
    let output = Command::new(env!("CARGO_BIN_EXE_throwaway-postgres"))
        .arg("true")
        .env("HIGHWATER_POSTGRES_BIN", "/nowhere")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("HIGHWATER_POSTGRES_BIN is /nowhere"), "{message}");
    assert!(message.contains("apt-get install postgresql"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn an_unknown_option_starts_nothing() {
    let temp = TempDir::new();
    let output = temp.binary(&["--quick", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8(output.stderr).unwrap().contains("usage:"));
    assert!(temp.entries().is_empty());
}
