//! Replicas: following, waited for, promoted.

use std::fs;
use std::process::{Command, Stdio};

use throwaway_postgres::{ThrowawayPostgres, is_running};

use crate::support::{TempDir, answers, client, eventually};

fn create(postgres: &ThrowawayPostgres, database: &str) -> Result<(), String> {
    let output = client(postgres.bin_dir(), "createdb", postgres.port(), &[database]);
    if output.status.success() { Ok(()) } else { Err(String::from_utf8(output.stderr).unwrap()) }
}

fn has(postgres: &ThrowawayPostgres, database: &str) -> bool {
    client(postgres.bin_dir(), "pg_dump", postgres.port(), &[database]).status.success()
}

/// What PostgreSQL says about the state of a data folder.
fn state(postgres: &ThrowawayPostgres) -> String {
    let output =
        Command::new(postgres.bin_dir().join("pg_controldata")).arg("-D").arg(postgres.data_dir()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("Database cluster state:")).unwrap().trim().to_owned()
}

/// Whether a connection to this server waits for a replica; its process then says so in its title.
fn a_commit_waits(postgres: &ThrowawayPostgres) -> bool {
    let server = format!("/proc/{pid}/task/{pid}/children", pid = postgres.pid().unwrap());
    let children = fs::read_to_string(server).unwrap();
    let titles = children.split_whitespace().map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")));
    titles.flatten().any(|title| title.contains("CREATE DATABASE waiting for "))
}

#[test]
fn a_replica_follows_its_primary_and_refuses_writes() {
    let primary = ThrowawayPostgres::start().unwrap();
    create(&primary, "before").unwrap();
    let replica = primary.replica().unwrap();
    assert!(answers(replica.bin_dir(), replica.port()), "{}", replica.log());
    assert_ne!((replica.port(), replica.data_dir()), (primary.port(), primary.data_dir()));
    assert!(has(&replica, "before"), "{}", replica.log());

    create(&primary, "after").unwrap();
    eventually("the replica has what was created after it", || has(&replica, "after"));
    let refused = create(&replica, "own").unwrap_err();
    assert!(refused.contains("read-only transaction"), "{refused}");
    assert_eq!(state(&replica), "in archive recovery");

    let (pid, folder) = (replica.pid().unwrap(), replica.data_dir());
    drop(replica);
    assert!(!is_running(pid));
    assert!(!folder.exists());
    create(&primary, "alone").unwrap();
}

#[test]
fn primary_and_replica_survive_each_others_absence() {
    let mut primary = ThrowawayPostgres::start().unwrap();
    let mut replica = primary.replica().unwrap();
    primary.crash().unwrap();
    assert!(has(&replica, "postgres"), "{}", replica.log());
    primary.start_again().unwrap();
    create(&primary, "first").unwrap();
    eventually("the replica has found its primary again", || has(&replica, "first"));

    replica.stop().unwrap();
    create(&primary, "second").unwrap();
    replica.start_again().unwrap();
    eventually("the replica has what it missed", || has(&replica, "second"));
}

#[test]
fn a_promoted_replica_takes_writes_and_lacks_nothing_that_was_synchronous() {
    let mut primary = ThrowawayPostgres::start().unwrap();
    let mut replica = primary.synchronous_replica().unwrap();
    for database in ["one", "two", "three"] {
        create(&primary, database).unwrap();
    }
    primary.crash().unwrap();
    replica.promote().unwrap();
    assert_eq!(state(&replica), "in production");
    for database in ["one", "two", "three"] {
        assert!(has(&replica, database), "{}", replica.log());
    }
    create(&replica, "four").unwrap();

    // It is a server like any other now, also for its own replicas.
    replica.restart().unwrap();
    let mut second = replica.synchronous_replica().unwrap();
    create(&replica, "five").unwrap();
    replica.crash().unwrap();
    second.promote().unwrap();
    assert!(has(&second, "five"), "{}", second.log());
    create(&second, "six").unwrap();
}

#[test]
fn a_commit_waits_for_a_synchronous_replica_that_is_away() {
    let mut primary = ThrowawayPostgres::start().unwrap();
    let mut replica = primary.synchronous_replica().unwrap();
    let start_creating = |database: &str| {
        Command::new(primary.bin_dir().join("createdb"))
            .args(["-h", "127.0.0.1", "-U", "highwater", "-p", &primary.port().to_string(), database])
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap()
    };
    replica.stop().unwrap();
    let mut creating = start_creating("patient");
    eventually("the commit waits", || a_commit_waits(&primary));
    assert_eq!(creating.try_wait().unwrap(), None);
    replica.start_again().unwrap();
    assert!(creating.wait().unwrap().success());
    eventually("the replica has it", || has(&replica, "patient"));

    replica.crash().unwrap();
    let mut creating = start_creating("released");
    eventually("the commit waits", || a_commit_waits(&primary));
    primary.set("synchronous_standby_names", "").unwrap();
    assert!(creating.wait().unwrap().success());
}

#[test]
fn primary_and_replica_change_places_for_as_long_as_one_likes() {
    let temps = [TempDir::new(), TempDir::new()];
    let mut primary = ThrowawayPostgres::builder().folder_in(temps[0].path()).start().unwrap();
    let mut replica = primary.synchronous_replica_in(temps[1].path()).unwrap();
    for (temp, server) in temps.iter().zip([&primary, &replica]) {
        assert!(server.data_dir().starts_with(temp.path()), "{server:?}");
    }
    for database in ["one", "two", "three"] {
        create(&primary, database).unwrap();
        let before = (primary.port(), primary.data_dir());
        primary.crash().unwrap();
        replica.promote().unwrap();
        create(&replica, &format!("{database}_alone")).unwrap();
        primary.rejoin(&mut replica).unwrap();
        assert_eq!((primary.port(), primary.data_dir()), before);
        std::mem::swap(&mut primary, &mut replica);
    }
    // And again where it has been already, as after a replica was lost.
    replica.rejoin(&mut primary).unwrap();
    create(&primary, "four").unwrap();
    primary.crash().unwrap();
    replica.promote().unwrap();
    for database in ["one", "one_alone", "two", "two_alone", "three", "three_alone", "four"] {
        assert!(has(&replica, database), "{database} {}", replica.log());
    }
}

#[test]
fn a_replica_has_what_its_primary_committed_without_it_when_either_was_started_again() {
    let mut primary = ThrowawayPostgres::start().unwrap();
    let mut replica = primary.synchronous_replica().unwrap();
    primary.set("synchronous_commit", "local").unwrap();
    replica.stop().unwrap();
    create(&primary, "first").unwrap();
    primary.restart_replica(&mut replica).unwrap();
    primary.crash().unwrap();
    primary.start_again_with(&replica).unwrap();
    primary.crash().unwrap();
    replica.promote().unwrap();
    assert!(has(&replica, "first"), "{}", replica.log());
}

#[test]
fn a_server_that_is_no_replica_cannot_be_promoted() {
    let mut postgres = ThrowawayPostgres::start().unwrap();
    let refused = postgres.promote().unwrap_err().to_string();
    assert!(refused.starts_with("pg_ctl failed"), "{refused}");
    assert!(refused.contains("not in standby mode"), "{refused}");
}

#[test]
fn a_stopped_primary_has_no_replicas() {
    let mut postgres = ThrowawayPostgres::start().unwrap();
    postgres.stop().unwrap();
    let refused = postgres.replica().unwrap_err().to_string();
    assert!(
        refused.starts_with(&format!("cannot copy the data of the server on port {}", postgres.port())),
        "{refused}"
    );
    assert!(refused.contains("Connection refused"), "{refused}");
}
