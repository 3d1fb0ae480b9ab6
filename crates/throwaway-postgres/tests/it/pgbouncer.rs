//! The pooler in front of a server.

use std::fs;
use std::net::TcpListener;
use std::process::Output;

use throwaway_postgres::{PoolMode, ThrowawayPgBouncer, ThrowawayPostgres, is_running, send_signal};

use crate::support::{TempDir, answers, client, eventually};

/// More than there are connections to the server.
const CLIENTS: &str = "25";

fn through(postgres: &ThrowawayPostgres, pooler: &ThrowawayPgBouncer, program: &str, args: &[&str]) -> Output {
    client(postgres.bin_dir(), program, pooler.port(), args)
}

#[track_caller]
fn refusal(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_started_pooler_leads_to_its_server_and_is_gone_after_drop() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let pooler = ThrowawayPgBouncer::start(&postgres, PoolMode::Transaction).unwrap();
    assert_eq!(pooler.url(), format!("postgres://highwater@127.0.0.1:{}/postgres", pooler.port()));
    assert!(answers(postgres.bin_dir(), pooler.port()), "{}", pooler.log());
    let created = through(&postgres, &pooler, "createdb", &["pooled"]);
    assert!(created.status.success(), "{created:?} {}", pooler.log());
    let dumped = client(postgres.bin_dir(), "pg_dump", postgres.port(), &["pooled"]);
    assert!(dumped.status.success(), "{dumped:?}");

    let (pid, port) = (pooler.pid().unwrap(), pooler.port());
    let folder = std::env::temp_dir().join(format!("highwater-pg-{}-{port}", std::process::id()));
    assert!(is_running(pid) && folder.exists());
    drop(pooler);
    assert!(!is_running(pid) && !folder.exists());
    TcpListener::bind(("127.0.0.1", port)).unwrap();
}

#[test]
fn clients_share_connections_by_transaction() {
    let postgres = ThrowawayPostgres::builder().setting("max_connections", "24").start().unwrap();
    let temp = TempDir::new();
    let script = temp.path().join("script");
    fs::write(&script, "BEGIN; SELECT pg_sleep(0.01); COMMIT;\n").unwrap();
    let bench = ["--no-vacuum", "--client", CLIENTS, "--transactions", "4", "--file", script.to_str().unwrap()];

    let directly = client(postgres.bin_dir(), "pgbench", postgres.port(), &[&bench[..], &["postgres"]].concat());
    assert!(refusal(&directly).contains("connection"), "{directly:?}");
    let pooler = ThrowawayPgBouncer::start(&postgres, PoolMode::Transaction).unwrap();
    let pooled = through(&postgres, &pooler, "pgbench", &[&bench[..], &["postgres"]].concat());
    assert!(pooled.status.success(), "{pooled:?} {}", pooler.log());
    assert!(String::from_utf8(pooled.stdout).unwrap().contains("100/100"));
}

#[test]
fn a_pool_by_session_takes_what_a_pool_by_statement_refuses() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let session = ThrowawayPgBouncer::start(&postgres, PoolMode::Session).unwrap();
    let statement = ThrowawayPgBouncer::start(&postgres, PoolMode::Statement).unwrap();
    let dumped = through(&postgres, &session, "pg_dump", &["postgres"]);
    assert!(dumped.status.success(), "{dumped:?} {}", session.log());
    let refused = refusal(&through(&postgres, &statement, "pg_dump", &["postgres"]));
    assert!(refused.contains("not allowed in statement pooling mode"), "{refused}");
}

#[test]
fn everybody_connects_under_their_own_name() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let pooler = ThrowawayPgBouncer::start(&postgres, PoolMode::Transaction).unwrap();
    let created = through(&postgres, &pooler, "createuser", &["clerk"]);
    assert!(created.status.success(), "{created:?} {}", pooler.log());
    let refused = refusal(&through(&postgres, &pooler, "createdb", &["-U", "clerk", "own"]));
    assert!(refused.contains("permission denied to create database"), "{refused}");
    let stranger = through(&postgres, &pooler, "createdb", &["-U", "nobody", "own"]);
    assert!(refusal(&stranger).contains("FATAL"), "{stranger:?}");
}

#[test]
fn pooler_and_server_survive_each_others_absence() {
    let mut postgres = ThrowawayPostgres::start().unwrap();
    let mut pooler = ThrowawayPgBouncer::start(&postgres, PoolMode::Transaction).unwrap();
    let create = |postgres: &ThrowawayPostgres, pooler: &ThrowawayPgBouncer, database: &str| {
        let output = through(postgres, pooler, "createdb", &[database]);
        if output.status.success() { Ok(()) } else { Err(format!("{output:?} {}", pooler.log())) }
    };
    create(&postgres, &pooler, "first").unwrap();
    postgres.crash().unwrap();
    postgres.start_again().unwrap();
    eventually("the pooler has found its server again", || create(&postgres, &pooler, "second").is_ok());

    let (pid, port) = (pooler.pid().unwrap(), pooler.port());
    pooler.stop().unwrap();
    pooler.stop().unwrap();
    assert!(!is_running(pid));
    create(&postgres, &pooler, "third").unwrap_err();
    pooler.start_again().unwrap();
    pooler.start_again().unwrap();
    assert_eq!(pooler.port(), port);
    create(&postgres, &pooler, "third").unwrap();

    let pid = pooler.pid().unwrap();
    send_signal(pid, "KILL").unwrap();
    eventually("the pooler is gone", || !is_running(pid));
    pooler.start_again().unwrap();
    create(&postgres, &pooler, "fourth").unwrap();
}

#[test]
fn a_taken_port_is_an_error_which_quotes_the_log() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let mut pooler = ThrowawayPgBouncer::start(&postgres, PoolMode::Session).unwrap();
    pooler.stop().unwrap();
    let squatter = TcpListener::bind(("127.0.0.1", pooler.port())).unwrap();
    let error = pooler.start_again().unwrap_err().to_string();
    assert!(error.starts_with("pgbouncer ended while starting"), "{error}");
    assert!(error.contains("Address already in use"), "{error}");
    drop(squatter);
    pooler.start_again().unwrap();
}
