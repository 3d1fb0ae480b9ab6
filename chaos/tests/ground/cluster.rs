//! Two servers, and what is done to them.

use std::process::{Command, Output};

use highwater_chaos::ground::{Cluster, Error};
use throwaway_postgres::bin_dir;

use crate::support::{Folder, is_private};

fn psql(cluster: &Cluster, sql: &str) -> Output {
    let mut command = Command::new(bin_dir().unwrap().join("psql"));
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--dbname", &cluster.primary_url()]);
    command.args(["--command", sql]).output().unwrap()
}

#[track_caller]
fn ask(cluster: &Cluster, sql: &str) -> String {
    let output = psql(cluster, sql);
    assert!(output.status.success(), "{output:?} {}", cluster.log_tail());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[track_caller]
fn note(cluster: &Cluster) {
    ask(cluster, "INSERT INTO noted VALUES (DEFAULT)");
}

/// What `fill_disk` leaves no room for.
fn write_much(cluster: &Cluster) -> Output {
    psql(cluster, "CREATE TABLE much AS SELECT repeat('x', 1000) FROM generate_series(1, 200000)")
}

/// What a primary without room for its log ends of, or starts anew.
fn log_much(cluster: &Cluster) -> Output {
    psql(cluster, "SELECT count(pg_logical_emit_message(false, '', repeat('x', 1000000))) FROM generate_series(1, 400)")
}

#[track_caller]
fn is_whole(cluster: &Cluster) {
    assert!(cluster.has_replica());
    let replicas = "SELECT state, sync_state FROM pg_stat_replication";
    assert_eq!(ask(cluster, replicas), "streaming|sync", "{}", cluster.log_tail());
}

#[test]
fn a_cluster_loses_nothing_whatever_is_done_to_it() {
    let Some(private) = is_private("cluster::a_cluster_loses_nothing_whatever_is_done_to_it") else {
        return;
    };
    let folder = Folder::new("cluster");
    let mut cluster = Cluster::start(folder.path(), private, true).unwrap();
    let ports = cluster.ports();
    is_whole(&cluster);
    ask(&cluster, "CREATE TABLE noted (id serial)");
    note(&cluster);
    cluster.restart().unwrap();
    note(&cluster);
    cluster.crash().unwrap();
    cluster.start_again().unwrap();
    is_whole(&cluster);
    note(&cluster);

    let before = cluster.primary_url();
    cluster.promote().unwrap();
    assert_ne!(cluster.primary_url(), before);
    assert!(matches!(cluster.promote(), Err(Error::NoReplica)));
    note(&cluster);
    cluster.rejoin().unwrap();
    is_whole(&cluster);
    note(&cluster);

    if private {
        cluster.fill_disk().unwrap();
        assert!(!write_much(&cluster).status.success());
        assert!(matches!(cluster.promote(), Err(Error::NoReplica)));
        cluster.free_disk().unwrap();
        is_whole(&cluster);
        ask(&cluster, "DROP TABLE IF EXISTS much");
        cluster.fill_disk().unwrap();
        let ended = String::from_utf8(log_much(&cluster).stderr).unwrap();
        // This session's own, or that of another process that had to write to the log first.
        let panicked = ended.contains("PANIC") || ended.contains("crash of another server process");
        assert!(panicked && ended.contains("server closed the connection"), "{ended}");
        assert!(matches!(cluster.restart(), Err(Error::FullDisk)));
    } else {
        assert!(matches!(cluster.fill_disk(), Err(Error::SharedDisk)));
    }
    cluster.crash().unwrap();
    cluster.repair().unwrap();
    cluster.promote().unwrap();
    cluster.crash().unwrap();
    cluster.repair().unwrap();
    cluster.repair().unwrap();
    is_whole(&cluster);
    assert_eq!(cluster.primary_url(), before);
    assert_eq!(ask(&cluster, "SELECT count(*) FROM noted"), "5");
    assert_eq!(cluster.ports(), ports);
}

#[test]
fn a_lost_replica_has_what_was_acknowledged_and_nothing_else_when_it_is_promoted() {
    let folder = Folder::new("lost");
    let mut cluster = Cluster::start(folder.path(), false, true).unwrap();
    ask(&cluster, "CREATE TABLE noted (id serial)");
    note(&cluster);
    let before = cluster.primary_url();
    cluster.lose_replica().unwrap();
    assert!(!cluster.has_replica());
    assert!(matches!(cluster.lose_replica(), Err(Error::NoReplica)));
    // What does not wait for the replica stands for who is told nothing.
    ask(&cluster, "SET synchronous_commit = local; INSERT INTO noted VALUES (DEFAULT)");
    cluster.restart().unwrap();
    assert_eq!(ask(&cluster, "SELECT count(*) FROM noted"), "2");
    cluster.promote().unwrap();
    assert_ne!(cluster.primary_url(), before);
    assert_eq!(ask(&cluster, "SELECT count(*) FROM noted"), "1");
    cluster.repair().unwrap();
    is_whole(&cluster);

    // One that is not promoted gets what it lacks.
    cluster.lose_replica().unwrap();
    ask(&cluster, "SET synchronous_commit = local; INSERT INTO noted VALUES (DEFAULT)");
    cluster.repair().unwrap();
    is_whole(&cluster);
    cluster.promote().unwrap();
    assert_eq!(ask(&cluster, "SELECT count(*) FROM noted"), "2");
}

#[test]
fn a_single_server_is_never_promoted() {
    let folder = Folder::new("single");
    let mut cluster = Cluster::start(folder.path(), false, false).unwrap();
    assert_eq!(cluster.ports().len(), 1);
    assert!(matches!(cluster.promote(), Err(Error::NoReplica)));
    cluster.crash().unwrap();
    cluster.repair().unwrap();
    assert_eq!(ask(&cluster, "SELECT 1"), "1");
}
