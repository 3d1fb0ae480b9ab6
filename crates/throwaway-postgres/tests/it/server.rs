//! The life of a server inside the process that owns it.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;

use throwaway_postgres::{Error, ThrowawayPostgres, is_running, send_signal};

use crate::support::{answers, client, eventually};

fn responds(postgres: &ThrowawayPostgres) -> bool {
    answers(postgres.bin_dir(), postgres.port())
}

#[test]
fn a_started_server_answers_and_is_gone_after_drop() {
    let postgres = ThrowawayPostgres::start().unwrap();
    assert!(responds(&postgres), "{}", postgres.log());
    assert_eq!(postgres.url(), format!("postgres://highwater@127.0.0.1:{}/postgres", postgres.port()));

    let (pid, data_dir, port) = (postgres.pid().unwrap(), postgres.data_dir(), postgres.port());
    assert!(is_running(pid));
    drop(postgres);
    assert!(!is_running(pid));
    assert!(!data_dir.parent().unwrap().exists());
    TcpListener::bind(("127.0.0.1", port)).unwrap();
}

#[test]
fn port_and_data_survive_a_crash() {
    let mut postgres = ThrowawayPostgres::builder().durable().start().unwrap();
    let (pid, port, data_dir) = (postgres.pid().unwrap(), postgres.port(), postgres.data_dir());
    let created = client(postgres.bin_dir(), "createdb", port, &["survivor"]);
    assert!(created.status.success(), "{created:?}");

    postgres.crash().unwrap();
    assert_eq!(postgres.pid(), None);
    assert!(!is_running(pid));
    assert!(!responds(&postgres));

    postgres.start_again().unwrap();
    assert_ne!(postgres.pid(), Some(pid));
    assert_eq!((postgres.port(), postgres.data_dir()), (port, data_dir));
    assert!(postgres.log().contains("not properly shut down"), "{}", postgres.log());
    let dropped = client(postgres.bin_dir(), "dropdb", port, &["survivor"]);
    assert!(dropped.status.success(), "{dropped:?}");
}

#[test]
fn stopping_and_starting_twice_is_the_same_as_once() {
    let mut postgres = ThrowawayPostgres::start().unwrap();
    let first = postgres.pid();
    postgres.start_again().unwrap();
    assert_eq!(postgres.pid(), first);

    postgres.stop().unwrap();
    postgres.stop().unwrap();
    postgres.crash().unwrap();
    assert!(!postgres.log().contains("not properly shut down"), "{}", postgres.log());

    postgres.restart().unwrap();
    assert!(responds(&postgres));
}

#[test]
fn a_server_that_was_killed_starts_again() {
    let mut postgres = ThrowawayPostgres::start().unwrap();
    let pid = postgres.pid().unwrap();
    send_signal(pid, "QUIT").unwrap();
    eventually("the server is gone", || !is_running(pid));

    postgres.start_again().unwrap();
    assert!(responds(&postgres));
}

#[test]
fn a_killed_backend_has_the_server_recover_and_no_other_process_is_killed() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let server = postgres.pid();
    let mut session = Command::new(postgres.bin_dir().join("psql"))
        .args(["-At", "-d", &postgres.url(), "-c", "SELECT pg_backend_pid()", "-c", "SELECT pg_sleep(600)"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    BufReader::new(session.stdout.take().unwrap()).read_line(&mut pid).unwrap();
    let pid: u32 = pid.trim().parse().unwrap();

    let refused = postgres.kill_backend(session.id()).unwrap_err().to_string();
    assert!(refused.contains("not a process of this server"), "{refused}");
    assert!(is_running(session.id()));

    postgres.kill_backend(pid).unwrap();
    assert!(!session.wait().unwrap().success());
    eventually("the server has recovered", || responds(&postgres));
    assert!(postgres.log().contains("was terminated by signal 9"), "{}", postgres.log());
    assert!(postgres.log().contains("automatic recovery in progress"), "{}", postgres.log());
    assert_eq!(postgres.pid(), server);
    assert!(postgres.kill_backend(pid).is_err());
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let start = || ThrowawayPostgres::start().unwrap();
    let mut postgres = thread::spawn(start).join().unwrap();
    assert!(responds(&postgres), "{}", postgres.log());
    // By the time it has stopped, it would have logged any earlier request to.
    postgres.stop().unwrap();
    assert!(!postgres.log().contains("immediate shutdown request"), "{}", postgres.log());
}

#[test]
fn parallel_starts_get_different_ports() {
    let starters: Vec<_> = (0..4).map(|_| thread::spawn(ThrowawayPostgres::start)).collect();
    let servers: Vec<_> = starters.into_iter().map(|starter| starter.join().unwrap().unwrap()).collect();
    let ports: HashSet<u16> = servers.iter().map(ThrowawayPostgres::port).collect();
    assert_eq!(ports.len(), servers.len());
    assert!(servers.iter().all(responds));
}

#[test]
fn a_taken_port_is_an_error_which_quotes_the_log_and_can_be_retried() {
    let mut postgres = ThrowawayPostgres::start().unwrap();
    postgres.stop().unwrap();
    let squatter = TcpListener::bind(("127.0.0.1", postgres.port())).unwrap();
    let error = postgres.start_again().unwrap_err();
    assert!(matches!(error, Error::Server { .. }));
    assert!(error.to_string().contains("Address already in use"), "{error}");

    drop(squatter);
    postgres.start_again().unwrap();
    assert!(responds(&postgres));
}

#[test]
fn settings_reach_the_server() {
    let postgres = ThrowawayPostgres::builder().setting("log_line_prefix", r"it's \ quoted ").start().unwrap();
    assert!(postgres.log().contains(r"it's \ quoted LOG:"), "{}", postgres.log());

    let refused = ThrowawayPostgres::builder().setting("no_such_setting", "1").start().unwrap_err();
    assert!(refused.to_string().contains("unrecognized configuration parameter"), "{refused}");
}

#[test]
fn a_setting_is_changed_while_the_server_runs_or_not_at_all() {
    let mut postgres = ThrowawayPostgres::builder().setting("log_line_prefix", "first ").start().unwrap();
    postgres.set("log_line_prefix", "second ").unwrap();
    postgres.set("log_connections", "on").unwrap();
    assert!(responds(&postgres));
    assert!(postgres.log().contains("second LOG:  connection received"), "{}", postgres.log());

    for (name, value, reason) in [
        ("work_mem", "much", "invalid value for parameter \"work_mem\""),
        ("max_connections", "7", "without restarting the server"),
        ("no_such_setting", "1", "unrecognized configuration parameter"),
    ] {
        let refused = postgres.set(name, value).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("postgres refused to set {name} to '{value}'")), "{refused}");
        assert!(refused.contains(reason), "{refused}");
    }
    postgres.set("log_connections", "off").unwrap();

    postgres.stop().unwrap();
    postgres.set("log_line_prefix", "third ").unwrap();
    postgres.start_again().unwrap();
    assert!(postgres.log().contains("third LOG:"), "{}", postgres.log());
}
